"""What is read of a bundle: members, knowledge, weights, header, signature; nothing in it is free.

What fedlore refuses to open is refused here too: another key, a number that must be positive.
"""

import json
import math
import re
import struct
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..config import build
from ..errors import ConfigError, KnowledgeError
from ..kernel.document import Target, read_document
from ..kernel.graph.ops import LARGEST
from ..kernel.knowledge import HEARD, HEARD_OF_ORDER, HEARD_PLACES, Known
from ..kernel.movement import prediction_bends, prediction_moves
from ..kernel.schema import list_features
from ..kernel.signature import holds, meaning_in
from .certificate import digest, manifest
from .forms import FORMAT, LAYERS, EnsembleValues, Header, member_fault, odd_keys

Array = Any  # of numpy
MANIFEST = "manifest.sha256"
MOST = 1 << 30  # bytes
NEAR = 1e-9  # by which weights may miss a sum of 1
_MEMBER = re.compile(
    r"bundle\.json|holdings\.json|signature\.json|card\.md|knowledge\.toml"
    r"|(weights|ensemble)\.safetensors|table-[0-9]+(-[A-Za-z0-9_-]+(\.tsv|\.xls[xm])?)?\.csv"
)
_OUTPUT = re.compile("probabilities|class|allowed|refused|unapplied|number|interval|lower|upper")
_HASH = re.compile("[0-9a-f]{64}")
_KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I32": "<i4", "I16": "<i2"}


def read_members(path: Path) -> dict[str, bytes]:
    """The members of a folder or a zip, once they are what the manifest says."""
    try:
        if path.is_dir():
            found = {place.name: place.read_bytes() for place in path.iterdir() if place.is_file()}
        else:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
                if sum(entry.file_size for entry in entries) > MOST:
                    raise KnowledgeError("the bundle is too large")
                if len({entry.filename for entry in entries}) < len(entries):
                    raise KnowledgeError("the bundle holds a member twice")
                found = {entry.filename: archive.read(entry) for entry in entries}
    except (OSError, zipfile.BadZipFile) as error:
        raise KnowledgeError(f"cannot read the bundle: {error}") from None
    listed = found.pop(MANIFEST, None)
    if listed is None:
        raise KnowledgeError(f"the bundle has no {MANIFEST}")
    if listed != manifest({name: digest(data) for name, data in found.items()}):
        raise KnowledgeError("a member of the bundle does not match its manifest")
    odd = sorted(name for name in found if not _MEMBER.fullmatch(name))
    if odd:
        raise KnowledgeError(f"the bundle has a member {odd[0]!r} that the checker does not know")
    return found


def hash_faults(graph: Any, files: Any) -> list[str]:
    """What of the files that the checker does not see is stated as anything but a hash."""
    tables = {"graph": ({} if graph is None else graph, _OUTPUT), "files": (files, _MEMBER)}
    return [
        f"'{what}' must be hashes by name"
        for what, (table, names) in tables.items()
        if not all(names.fullmatch(n) and _HASH.fullmatch(h) for n, h in table.items())
    ]


def read_json(data: bytes, what: str) -> Any:
    """Strict JSON: a key that is there twice is refused, for readers differ in which they take."""

    def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise KnowledgeError(f"{what} has a key twice")
        return found

    def number(text: str) -> float:
        raise KnowledgeError(f"{what} holds {text}, which is not a number")

    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise KnowledgeError(f"{what} is not a text file: are the two files in order?") from None
    return json.loads(text, object_pairs_hook=once, parse_constant=number)


def knowledge_texts(members: Mapping[str, bytes]) -> dict[str, str]:
    """The members that the knowledge is made of, as text."""
    return {n: d.decode("utf-8") for n, d in members.items() if n.endswith((".toml", ".csv"))}


def read_target(texts: Mapping[str, str]) -> dict[str, Any] | None:
    """The number that the knowledge is about; a file that it does not name is refused."""
    document = tomllib.loads(texts["knowledge.toml"])
    sources = [
        s for side in ("predict", "range") for s in document.get(side, {}).get("sources", ())
    ]
    odd = sorted({*texts} - {"knowledge.toml", *(s.get("table") for s in sources)})
    if odd:
        raise KnowledgeError(f"the knowledge has '{odd[0]}', which nothing in it asks for")
    target = document.get("target")
    if target is None:
        return None
    found = {"name": target.get("name", "y"), "unit": target.get("unit", "")}
    found |= {key: float(target[key]) for key in ("lower", "upper")}
    if not -math.inf < found["lower"] < found["upper"] < math.inf:
        raise KnowledgeError("the target must have lower < upper")
    return found


def read_weights(data: bytes) -> dict[str, Array]:
    """The tensors of a safetensors file."""
    try:
        (size,) = struct.unpack("<Q", data[:8])
        head = read_json(data[8 : 8 + size], "the weights")
        head.pop("__metadata__", None)
        tensors, body, place = {}, data[8 + size :], 0
        for name, about in sorted(head.items(), key=lambda one: one[1]["data_offsets"]):
            begin, end = about["data_offsets"]
            if begin != place or min(about["shape"], default=0) < 0:
                raise ValueError(f"'{name}' does not lie behind the tensor before it")
            flat = np.frombuffer(body[begin:end], _KINDS[about["dtype"]])
            tensors[name], place = flat.reshape(about["shape"]), end
        if place != len(body):
            raise ValueError("there are bytes behind the last tensor")
        return tensors
    except (KeyError, ValueError, struct.error, TypeError) as error:
        raise KnowledgeError(f"the weights cannot be read: {error}") from None


def weight_faults(weights: Mapping[str, Array]) -> list[str]:
    """The weights of a network that are not finite, or not in single precision."""
    return [
        f"'{name}' is not finite, or not in single precision"
        for name, values in weights.items()
        if values.dtype != np.float32 or not np.isfinite(values).all()
    ]


def confusion_faults(rows: Any, known: Known, signature: Any) -> list[str]:
    """What is wrong with an expert's confusion matrix, whose rows are distributions."""
    if rows is None:
        return []
    if known.line is not None:
        return ["an expert on a number has no confusion of classes"]
    k = known.k
    numbers = all(type(v) in (int, float) for row in rows for v in row)
    if not numbers or [len(row) for row in rows] != [k] * k or not known.predict.sources:
        return [f"the expert's confusion must be {k} rows of {k} numbers"]
    table = np.array(rows, np.float64)
    if not (table >= 0).all() or not (np.abs(table.sum(1) - 1) <= 1e-6).all():
        return ["the rows of the expert's confusion must be distributions"]
    return [] if signature is None else ["the signature does not cover the expert's confusion"]


def signature_faults(signature: Any, texts: Mapping[str, str], key: str | None = None) -> list[str]:
    """What is wrong with a signature under the knowledge in `texts`; `key`: the one expected."""
    words = {"signer", "date", "meaning", "key", "signature"}
    if not isinstance(signature, dict) or set(signature) != {*words, "examples", "features"}:
        return ["it is not a signature"]
    if not all(isinstance(signature[word], str) for word in words):
        return ["it is not a signature"]
    if key is not None and signature["key"] != key.lower():
        return [f"it was made with the key {signature['key']}, not with the one expected"]
    if not holds(signature):
        return ["it does not hold"]
    members = {name: text.encode() for name, text in texts.items()}
    if meaning_in(members, signature["examples"], signature["features"]) != signature["meaning"]:
        return [f"the rules or examples are not those that {signature['signer']} signed"]
    return []


_OPTIONS = {
    "ordered": {"start", "linear", "width", "reach", "hears", "between"},
    "lipschitz": {"features", "hears", "start", "slope", "width"},
}
_STARTS = ("none", "middle", "expert")
_DEEPEST = 50
#: Layers that look at more of a row than how many inputs it has.
_SHAPED = set("as_image conv2d max_pool2d avg_pool2d layer_norm group_norm".split())


def header_faults(
    header: Mapping[str, Any], known: Known, texts: Mapping[str, str], weights: Mapping[str, Array]
) -> list[str]:
    """Where bundle.json contradicts knowledge and weights, or is not understood."""
    try:
        form = build(Header, header)
    except ConfigError as error:
        return [f"bundle.json: {error}"]
    document, number = read_document(texts["knowledge.toml"]), known.line is not None
    label = document.target.name if document.target else document.label
    cut = _cut_alike(form.bins, document.target)
    names = document.target.names if document.target and cut else list(document.classes)
    trust = 0.0 if form.rely == 0.0 and _withheld(known) else known.trust
    faults = {
        "its format or task differs": (form.format, form.task)
        != (FORMAT, "regression" if number else "classification"),
        "its policies differ from the knowledge file": (form.conflict, form.outside)
        != (document.conflict, document.outside),
        "its bins differ from the knowledge file": not cut,
        "its label differs from the knowledge file": form.schema["label"] != label,
        f"its trust is {form.rely:g}, not that of the knowledge file": (form.trust, form.rely)
        != (document.trusts.value, trust),
        "its features differ from the knowledge file": form.schema["features"]
        != list_features(known.columns),
        "its classes differ from the knowledge file": form.schema["classes"] != names,
        "its schema has an unknown key": form.schema.keys() != {"features", "classes", "label"},
        "the shape of its rows does not fit the features": math.prod(form.shape)
        != len(known.columns)
        or min(form.shape) < 1,
        "its scaling must be finite, its spread above 0, one for each input": not _scales(
            form, _row_shape(form, known)
        ),
        "its members predict other classes": any(
            one.get("classes", known.k) != known.k or (one.get("kind") == "number") != number
            for one in (form.ensemble or {}).get("members", ())
            if one.get("kind") != "one_shot"
        ),
        "its members were trained on other sources": _other_sources(form.ensemble or {}, known),
        "its network has other classes, or hears the expert in another way": (
            form.model.get("classes", len(form.schema["classes"])) != len(form.schema["classes"])
            or (not number and form.hears != _hears(form.model))
        ),
        "its network takes rows of another width": next(_widths(form.model), None)
        not in (None, math.prod(_row_shape(form, known))),
        "its network has an unknown layer, or a number that must be positive and is not": any(
            _odd_layers(form.model)
        ),
    }
    wrong = [words for words, odd in faults.items() if odd] + _input_faults(form, known)
    wanted = {} if wrong else dict(network_shapes(form.model))
    fits = all(one in (None, weights[n].shape) for n, one in wanted.items() if n in weights)
    if not wrong and (wanted.keys() != weights.keys() or not fits):
        return ["the weights do not fit its network"]
    return wrong


def _cut_alike(bins: Sequence[float] | None, target: Target | None) -> bool:
    """Whether edges are those of the number in the knowledge file, and increase."""
    if target is None or bins is None:
        return target is None and bins is None
    if len(bins) != target.k + 1 or len(bins) < 3 or tuple(bins) != target.cuts:
        return False
    return (bins[0], bins[-1]) == target.bounds and all(a < b for a, b in pairwise(bins))


def _withheld(known: Known) -> bool:
    """Whether the expert may be withheld because of a shape: he is not proved to move as it says.

    Of formulas fedlore proves all that is proved here, and more by their slopes.
    """
    speaks = bool(known.predict.sources or known.soft)
    proofs = [prediction_moves(known, shape) for shape in known.directions if speaks]
    proofs += [prediction_bends(known, bend) for bend in known.bends if speaks]
    return any(found.status != "proved" for found in proofs)


def _row_shape(form: Header, known: Known) -> tuple[int, ...]:
    """The shape of a row as the network takes it."""
    expert_inputs = HEARD if form.hears and known.line is not None else 0
    if form.inputs is not None:
        return (_width(form, known) + expert_inputs,)
    return (*form.shape[:-1], form.shape[-1] + expert_inputs)


def _width(form: Header, known: Known) -> int:
    """How many numbers the network and its members have of a row, without the expert's."""
    return len(known.columns) if form.inputs is None else sum(one.width for one in form.inputs)


def _hears(network: Mapping[str, Any]) -> bool:
    """Whether a network of classes takes what the expert says."""
    options = network.get("options", {})
    if network["layer"] == "ordered":
        return bool(options["hears"]) or options["start"] != "none"
    return bool(network["layer"] == "hearing")


def _other_sources(ensemble: Mapping[str, Any], known: Known) -> bool:
    """Whether members that take the expert's classes as inputs were trained with other ones."""
    own = ["prediction"] * bool(known.predict.sources or known.soft)
    own += ["range"] * bool(known.range.sources)
    members = ensemble.get("members", ())
    hears = any(one.get("kind") == "classes" and one.get("hears") for one in members)
    return hears and ensemble.get("heard") != own


def _scales(form: Header, shape: Sequence[int]) -> bool:
    """Whether each input, and what the expert says behind them, has a shift and a spread."""
    scaling = form.scaling
    if scaling is None:
        return form.inputs is None
    shift, spread = (np.array(scaling.get(key)) for key in ("shift", "spread"))
    if {shift.dtype.kind, spread.dtype.kind} - {*"if"}:
        return False  # numpy reads a text as a number, too
    fine = (np.abs(shift) <= LARGEST).all() and ((spread > 0) & (spread <= LARGEST)).all()
    fits = shift.shape == spread.shape == shape
    return scaling.keys() == {"shift", "spread"} and fits and bool(fine)


def _odd_layers(layer: Mapping[str, Any], depth: int = _DEEPEST) -> Iterator[str]:
    """The kinds of invalid layers, at any depth."""
    kind, options = layer["layer"], layer.get("options", {})
    known = depth > 0 and kind in LAYERS and layer.keys() - {"layer"} == {*LAYERS[kind]}
    odd = not known or options.keys() != _OPTIONS.get(kind, set()) or odd_keys({**layer, **options})
    if odd or options.get("start", "none") not in _STARTS:
        yield str(kind)
        return
    inner = [layer[key] for key in ("body", "trunk", "head") if key in layer]
    inner += [] if layer.get("line") is None else [layer["line"]]
    for part in [*inner, *layer.get("parts", ())]:
        yield from _odd_layers(part, depth - 1)


def _widths(layer: Mapping[str, Any]) -> Iterator[int | None]:
    """How many inputs layers take, the first one first; None: images, or of any number."""
    kind = layer["layer"]
    if kind == "linear":
        yield layer["in_features"]
    elif kind == "lipschitz":
        yield layer["options"]["features"]
    elif kind in _SHAPED:
        yield None
    inner = [layer[key] for key in ("body", "trunk") if key in layer]
    for part in [*inner, *layer.get("parts", ())]:
        yield from _widths(part)


def network_shapes(layer: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors of a network, by name, with their shapes; None: of any shape."""
    kind = layer["layer"]
    if kind == "linear":
        yield f"{name}weight", (layer["out_features"], layer["in_features"])
        yield from [(f"{name}bias", (layer["out_features"],))] * layer["bias"]
    elif kind in ("conv2d", "layer_norm", "group_norm"):
        yield f"{name}weight", None
        yield from [(f"{name}bias", None)] * layer.get("bias", True)
    if kind == "lipschitz":
        wide = layer["options"]["features"] + HEARD_PLACES
        widths = [wide, *layer["hidden"], 1]
        for place, (before, after) in enumerate(pairwise(widths)):
            yield f"{name}trunk.{place}.weight", (after, before)
            yield f"{name}trunk.{place}.bias", (after,)
        yield f"{name}line.weight", (1, wide)
    if kind in ("ordered", "lipschitz"):
        yield from ((f"{name}own.{one}", (1,)) for one in ("shift", "width"))
    for place, part in enumerate(layer.get("parts", ())):
        yield from network_shapes(part, f"{name}{place}.")
    for key in ("body", "trunk", "head", "line"):
        if layer.get(key):
            yield from network_shapes(layer[key], f"{name}{key}.")


def _input_faults(form: Header, known: Known) -> list[str]:
    """Where the network's inputs contradict the features of the knowledge."""
    if form.inputs is None:
        holes = any(column.may_miss or column.other for column in known.columns)
        return ["its network knows nothing of missing values"] if holes else []
    if len(form.inputs) != len(known.columns):
        return [f"it has inputs for {len(form.inputs)} features"]
    for one, column in zip(form.inputs, known.columns, strict=True):
        count = len(column.levels) + column.other
        levels = len(column.levels) if count > 1 else 0
        fits = (one.levels, one.other) == (levels, column.other and count > 1)
        if not fits or one.missing < column.may_miss:
            return [f"'{column.name}' is fed to the network in another way than the knowledge says"]
    return []


def ensemble_faults(header: Header, tensors: Mapping[str, Array], known: Known) -> list[str]:
    """What is wrong with an ensemble: its weights, widths, or numbers that are not finite."""
    try:
        form = build(EnsembleValues, header.ensemble or {})
        form.calibration(number=known.line is not None)
    except ConfigError as error:
        return [f"the ensemble: {error}"]
    members = form.members
    weights = [form.network, form.expert, *(m["weight"] for m in members)]
    if any(type(w) not in (int, float) or not 0.0 <= w <= 1.0 for w in weights):
        return ["a weight does not lie in [0, 1]"]
    if abs(math.fsum(weights) - 1.0) > NEAR:
        return [f"the weights sum to {math.fsum(weights):g}, not to 1"]
    shared = [one for one in members if one.get("kind") == "one_shot"]
    if any(map(_odd_one_shot, shared)):
        return ["the one-shot model has an unknown form"]
    odd = [n for n, v in tensors.items() if n.endswith((".spread", ".noise")) and not (v > 0).all()]
    wrong = [f"'{name}' is not above 0" for name in odd] + [
        f"'{name}' is not finite"
        for name, values in sorted(tensors.items())
        if not name.startswith("own.") and not np.isfinite(values).all()
    ]
    for place, one in enumerate(one for one in members if one not in shared):
        values = {key: value for key, value in one.items() if key not in ("weight", "corrects")}
        heard = len(form.heard) * known.k if one.get("kind") == "classes" else HEARD_OF_ORDER
        mine = pick_tensors(tensors, f"own.{place}.")
        fault = member_fault(place, values, mine, _width(header, known), heard)
        wrong += [fault] if fault else []
    return wrong[:1]


_ONE_SHOT = {"kind", "weight", "name", "basis", "start", "hears", "link", "rows", "scaled"}


def _odd_one_shot(one: Mapping[str, Any]) -> bool:
    """Whether a one-shot model has unknown keys, or an invalid switch, number, name or link."""
    link = {"around": "middle", "share": 1} if one.get("link") is None else one["link"]
    return (
        one.keys() != _ONE_SHOT
        or any(one[key] is None for key in _ONE_SHOT - {"link"})
        or link.keys() != {"around", "share"}
        or bool(odd_keys(one) or odd_keys(link))
    )


def pick_tensors(tensors: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """The tensors of one member, by their own names."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
