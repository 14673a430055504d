"""What is read of a bundle and a certificate: members, hashes, weights, header, signature."""

import hashlib
import json
import math
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import KnowledgeError
from ..kernel.knowledge import Known
from ..kernel.signature import holds, meaning_in

Array = np.ndarray
MANIFEST = "manifest.sha256"
LARGEST = 1 << 30
NEAR = 1e-9  # by which weights may miss a sum of 1
_MEMBER = re.compile(
    r"bundle\.json|holdings\.json|signature\.json|card\.md|knowledge\.toml"
    r"|(weights|ensemble)\.safetensors"
    r"|[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.csv"
)
_KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I32": "<i4", "I16": "<i2"}


def read_members(path: Path) -> dict[str, bytes]:
    """The members of a folder or a zip, once they are what the manifest says."""
    try:
        if path.is_dir():
            found = {place.name: place.read_bytes() for place in path.iterdir() if place.is_file()}
        else:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
                if sum(entry.file_size for entry in entries) > LARGEST:
                    raise KnowledgeError("the bundle is too large")
                if len({entry.filename for entry in entries}) < len(entries):
                    raise KnowledgeError("a member of the bundle stands there twice")
                found = {entry.filename: archive.read(entry) for entry in entries}
    except (OSError, zipfile.BadZipFile) as error:
        raise KnowledgeError(f"cannot read the bundle: {error}") from None
    said = found.pop(MANIFEST, None)
    if said is None:
        raise KnowledgeError(f"the bundle has no {MANIFEST}")
    if said != manifest(found):
        raise KnowledgeError("a member of the bundle is not what its manifest says")
    odd = sorted(name for name in found if not _MEMBER.fullmatch(name))
    if odd:
        raise KnowledgeError(f"the bundle has a member {odd[0]!r} that the checker does not know")
    return found


def manifest(members: Mapping[str, bytes]) -> bytes:
    """A line with its hash for every member; the hash of these lines is the bundle's own."""
    return "".join(f"{digest(members[name])}  {name}\n" for name in sorted(members)).encode()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def knowledge_texts(members: Mapping[str, bytes]) -> dict[str, str]:
    """The members that the knowledge is made of, as text."""
    return {
        name: data.decode("utf-8")
        for name, data in members.items()
        if name == "knowledge.toml" or name.endswith(".csv")
    }


def read_weights(data: bytes) -> dict[str, Array]:
    """The tensors of a safetensors file."""
    try:
        (size,) = struct.unpack("<Q", data[:8])
        head = json.loads(data[8 : 8 + size])
        tensors = {}
        for name, about in head.items():
            if name == "__metadata__":
                continue
            begin, end = about["data_offsets"]
            flat = np.frombuffer(data[8 + size + begin : 8 + size + end], _KINDS[about["dtype"]])
            tensors[name] = flat.reshape(about["shape"])
        return tensors
    except (KeyError, ValueError, struct.error, TypeError) as error:
        raise KnowledgeError(f"the weights cannot be read: {error}") from None


def faults(weights: Mapping[str, Array], declared: Mapping[str, Any]) -> list[str]:
    """What is wrong with weights: names, shapes, bytes, or numbers that are not finite."""
    found = []
    for name in sorted({*weights, *declared}):
        if name not in weights or name not in declared:
            found.append(
                f"'{name}' is not in {'the file' if name in declared else 'the certificate'}"
            )
            continue
        values, said = weights[name], declared[name]
        if list(values.shape) != list(said["shape"]):
            found.append(f"'{name}' has shape {list(values.shape)}, declared is {said['shape']}")
        elif not np.isfinite(values).all():
            found.append(f"'{name}' is not finite")
        elif digest(np.ascontiguousarray(values).tobytes()) != said["sha256"]:
            found.append(f"'{name}' has other values than certified")
    return found


def mixture_faults(ensemble: Mapping[str, Any], tensors: Mapping[str, Array]) -> list[str]:
    """What is wrong with a mixture: weights that are none, or numbers that are not finite."""
    weights = [ensemble["network"], ensemble["expert"], *(m["weight"] for m in ensemble["members"])]
    if any(type(w) not in (int, float) or not 0.0 <= w <= 1.0 for w in weights):
        return ["a weight does not lie in [0, 1]"]
    if abs(math.fsum(weights) - 1.0) > NEAR:
        return [f"the weights sum to {math.fsum(weights):g}, not to 1"]
    return [
        f"'{name}' is not finite"
        for name, values in sorted(tensors.items())
        # a threshold may be infinite
        if (np.isnan(values) if name.endswith(".threshold") else ~np.isfinite(values)).any()
    ][:1]


def pick_tensors(tensors: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """The tensors of one member, by their own names."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


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
