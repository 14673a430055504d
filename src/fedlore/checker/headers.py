"""bundle.json and the certificate, word by word: what they say beside the knowledge must agree."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import KnowledgeError
from ..kernel.knowledge import Known
from ..kernel.signature import holds, meaning_in

CLAIMS = (
    *("inside-range", "finite-weights", "never-empty", "prediction-agrees", "prediction-inside"),
    "monotone",
)
SIGNED = ("signer", "date", "meaning", "key", "signature")
_STATUSES = ("proved", "refuted", "unknown")
_FORMAT = 4  # of bundles
#: Layers that answer each row by itself.
_LAYERS = set(
    "linear conv2d max_pool2d avg_pool2d flatten as_image relu leaky_relu tanh sigmoid gelu silu "
    "identity dropout layer_norm group_norm sequential deaf hearing ordered lipschitz".split()
)
_DEEPEST = 50


def read_json(data: bytes, what: str) -> Any:
    """JSON in which no key stands twice: of two, readers take one each."""

    def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise KnowledgeError(f"a key stands twice in {what}")
        return found

    def number(text: str) -> float:
        raise KnowledgeError(f"{what} holds {text}, which is no number")

    return json.loads(data.decode("utf-8"), object_pairs_hook=once, parse_constant=number)


def certificate_faults(said: Mapping[str, Any]) -> list[str]:
    """What is wrong with the claims of a certificate as such."""
    names = [claim["claim"] for claim in said["claims"]]
    if len(set(names)) < len(names) or not set(names) <= set(CLAIMS):
        return [f"it claims {', '.join(map(str, names))}"]
    statuses = {claim["status"] for claim in said["claims"] if claim["needed"]}
    all_ = {claim["status"] for claim in said["claims"]}
    if not all_ <= set(_STATUSES) or said["numbers"] != "float32":
        return ["it speaks in words of its own"]
    verdict = next((word for word in ("refuted", "unknown") if word in statuses), "proved")
    return [] if said["verdict"] == verdict else [f"its verdict is '{said['verdict']}'"]


def header_faults(header: Mapping[str, Any], known: Known) -> list[str]:
    """What bundle.json says otherwise than the knowledge, or what is not understood in it."""
    wrong, schema = [], header["schema"]
    number = known.line is not None
    task = "regression" if number else "classification"
    if header.get("format") != _FORMAT or header.get("task") != task:
        wrong.append("it is of another format or task")
    wrong += name_faults([] if number else schema["classes"], schema["features"], known)
    if known.line is not None:
        ends = (header["bins"][0], header["bins"][-1])
        if ends != (known.number.lower, known.number.upper):
            wrong.append(f"its bins reach from {ends[0]:g} to {ends[1]:g}, the bounds otherwise")
    trust, conflict = float(header["rely"]), header["conflict"]
    withheld = bool(known.directions) and trust == 0.0  # what moves another way
    if conflict != known.conflict or not (withheld or trust == known.trust):
        wrong.append(f"it relies by {trust:g} with policy {conflict}, the knowledge otherwise")
    return wrong + _model_faults(header) + _input_faults(header, known)


def _model_faults(header: Mapping[str, Any]) -> list[str]:
    """What is not understood of a network, and what is wrong with its scaling."""
    wrong = []
    odd = sorted(set(_layers(header["model"])) - _LAYERS)
    if odd:
        wrong.append(f"its network has a layer of kind '{odd[0]}'")
    scaling = header.get("scaling") or {"shift": [], "spread": [1.0]}
    shift, spread = (np.array(scaling[key], np.float64) for key in ("shift", "spread"))
    if not np.isfinite(shift).all() or not (np.isfinite(spread) & (spread > 0)).all():
        wrong.append("its scaling is not of finite numbers, spread above 0")
    return wrong


def _input_faults(header: Mapping[str, Any], known: Known) -> list[str]:
    """What is wrong with how features reach the network, beside what the knowledge says of them."""
    inputs = header.get("inputs")
    if inputs is None:
        holes = any(column.may_miss or column.other for column in known.columns)
        return ["its network knows nothing of missing values"] if holes else []
    if len(inputs) != len(known.columns):
        return [f"it has inputs for {len(inputs)} features"]
    for one, column in zip(inputs, known.columns, strict=True):
        count = len(column.levels) + column.other
        levels = len(column.levels) if count > 1 else 0
        fits = (one["levels"], one["other"]) == (levels, column.other and count > 1)
        fill = 0.0 if one["fill"] is None else one["fill"]
        if not fits or one["missing"] < column.may_miss or not np.isfinite(fill):
            return [f"'{column.name}' reaches the network otherwise than the knowledge says"]
    return []


def _layers(layer: Mapping[str, Any], depth: int = _DEEPEST) -> Iterator[str]:
    """The kinds of a network's layers, those inside others included."""
    if not depth:
        raise KnowledgeError(f"the network is nested more than {_DEEPEST} deep")
    yield str(layer["layer"])
    for part in (
        *layer.get("parts", ()),
        *(layer.get(k) for k in ("body", "trunk", "head", "line")),
    ):
        if part is not None:
            yield from _layers(part, depth - 1)


def name_faults(classes: Any, features: Any, known: Known) -> list[str]:
    """What columns and classes are called otherwise than the knowledge calls them."""
    wrong = []
    try:
        told = [(f["name"], f["unit"], f["low"], f["high"], list(f["levels"])) for f in features]
    except (KeyError, TypeError):
        return ["it does not name its features and classes"]
    if known.line is None and classes != list(known.classes):
        wrong.append(f"its classes are {classes}, those of the knowledge {list(known.classes)}")
    for place, column in enumerate(known.columns):
        low, high = (end if np.isfinite(end) else None for end in (column.low, column.high))
        own = (column.name, column.unit, low, high, list(column.levels))
        if place >= len(told) or told[place] != own:
            wrong.append(f"its feature {place + 1} is not '{column.name}' of the knowledge")
    if len(told) > len(known.columns):
        wrong.append(f"it names {len(told)} features, the knowledge {len(known.columns)}")
    return wrong


def signature_faults(said: Any, texts: Mapping[str, bytes], key: str | None = None) -> list[str]:
    """What is wrong with a signature under the knowledge in `texts`; `key`: the one expected."""
    if not isinstance(said, dict) or set(said) != {*SIGNED, "examples", "features"}:
        return ["it is no signature"]
    if not all(isinstance(said[word], str) for word in SIGNED):
        return ["it is no signature"]
    if key is not None and said["key"] != key.lower():
        return [f"it was made with the key {said['key']}, not with the one expected"]
    if not holds(said):
        return ["it does not hold"]
    if meaning_in(texts, said["examples"], said["features"]) != said["meaning"]:
        return [f"the rules or examples are not those that {said['signer']} signed"]
    return []
