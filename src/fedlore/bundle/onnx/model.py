"""One site's model as one ONNX graph: raw columns in, probabilities, class and range out."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from ...core.lipschitz import Lipschitz
from ...errors import FedloreError, KnowledgeError
from ...knowledge import Knowledge, Schema
from ...knowledge.files import describe, pack_knowledge
from ...personal.classifier import Personal
from .builder import BOOL, DOUBLE, INT64, SINGLE, Builder
from .finishing import GraphOutput, describe_graph, finish_graph, save_graph
from .holes import encode_nodes, hide_nodes, refuse_nodes
from .mixtures import KnownNodes, Part, guard_nodes, mixed_parts, scale_nodes, weigh_parts
from .networks import network
from .shapes import shape_nodes
from .sources import add_range, add_source
from .tables import Said
from .trusting import lean_nodes
from .unapplied import give_unapplied


def to_onnx(
    personal: Personal,
    schema: Schema | None = None,
    *,
    shape: Sequence[int] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Any:
    """The model as an `onnx.ModelProto`, checked.

    Input `rows`, float64 (n, d), in raw units and the order of the schema; they are rounded to
    single precision first, as rows of a file are. Without a schema the knowledge's own is taken,
    or the `shape` of one row. Outputs: `probabilities` (n, k) float32, exactly 0 outside the
    range; `class` (n,) int64; `allowed` (n, k) bool; `refused` (n,) bool, the rows on which
    `Personal` raises an error: there all probabilities are 0, nothing is allowed and the class
    is -1. Where values may be missing also `unapplied` (n, d) int64: for each one that is, how
    many rules were not applied.
    """
    if not isinstance(personal, Personal):
        raise FedloreError(
            f"a {type(personal).__name__} cannot be put into a graph: only classifiers can"
        )
    schema = schema or personal.knowledge.schema
    if shape is None and schema is None:
        raise FedloreError("a graph needs a schema, or the shape of one row")
    row = tuple(shape or (len(schema.features),)) if schema else tuple(shape or ())
    build = Builder()
    single = build.cast("rows", SINGLE)
    known = _add_knowledge(build, single, len(row) + 1, personal.knowledge, schema)
    seen = encode_nodes(build, single, personal.scaler.inputs if personal.scaler else None)
    hidden = hide_nodes(build, single, schema)
    logits = _logits(build, seen, hidden, len(row) + 1, personal, known)
    k = _classes(personal, schema)
    dtype: Any = SINGLE
    parts = [Part(logits)]
    if personal.beside is not None:
        parts, dtype = mixed_parts(build, seen, logits, known, personal.beside), DOUBLE
    trust = lean_nodes(build, hidden, personal.knowledge, personal.reliance)
    one: float | str = personal.reliance if trust is None else trust
    refused = _outputs(build, parts, known, one, k, dtype)
    if personal.knowledge.shapes is None:
        _decide(build, known.prior, refused)
    else:
        _median(build, k, refused)
    results: list[GraphOutput] = [
        ("probabilities", "FLOAT", ["n", k]),
        ("class", "INT64", ["n"]),
        ("allowed", "BOOL", ["n", k]),
        ("refused", "BOOL", ["n"]),
        *give_unapplied(
            build,
            hide_nodes(build, single, schema),
            (personal.knowledge.range, personal.knowledge.prediction),
        ),
    ]
    return finish_graph(build, row, results, _metadata(personal, schema, metadata or {}))


def write_onnx(
    personal: Personal,
    path: str | Path,
    schema: Schema | None = None,
    *,
    shape: Sequence[int] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write the model of `to_onnx` to a file, whole or not at all."""
    save_graph(to_onnx(personal, schema, shape=shape, metadata=metadata), path)


def _add_knowledge(
    build: Builder, x: str, rank: int, knowledge: Knowledge, schema: Schema | None
) -> KnownNodes:
    unusable = refuse_nodes(build, x, rank, schema)
    if schema is not None and any(f.may_miss or f.other for f in schema.features):
        build.width = len(schema.features)
        x = hide_nodes(build, x, schema)
    prior = (
        None if knowledge.prediction is None else add_source(build, x, rank, knowledge.prediction)
    )
    allowed = None if knowledge.range is None else add_range(build, x, rank, knowledge.range)
    refused = build.either(
        unusable, *[part.refused for part in (prior, allowed) if part is not None]
    )
    rows = None if prior is None else prior.rows
    if prior is not None and allowed is not None:
        rows, conflict = _inside(build, prior, allowed, knowledge.conflict)
        refused = build.either(refused, conflict)
    return KnownNodes(rows, None if allowed is None else allowed.rows, refused)


def _inside(build: Builder, prior: Said, allowed: Said, policy: str) -> tuple[str, str | None]:
    """The prediction with nothing left outside the range: silenced, restricted or refused."""
    outside = build.op(
        "And",
        build.op("Greater", prior.rows, build.constant(0.0)),
        build.op("Not", allowed.rows),
    )
    conflict = build.any(outside)
    zero = build.constant(0.0)
    if policy != "restrict":
        rows = build.op("Where", conflict, zero, prior.rows)
        return rows, conflict if policy == "error" else None
    inside = build.op("Where", allowed.rows, prior.rows, zero)
    left = build.total(inside)
    some = build.op("Greater", left, zero)
    inside = build.op("Div", inside, build.op("Where", some, left, build.constant(1.0)))
    return build.op("Where", conflict, inside, prior.rows), None


def _logits(
    build: Builder, x: str, raw: str, rank: int, personal: Personal, known: KnownNodes
) -> str:
    """What the network says, finite whatever its weights are, (n, k)."""
    x = scale_nodes(build, x, personal.scaler, "scaler")
    if isinstance(personal.model, Lipschitz):
        inputs = None if personal.scaler is None else personal.scaler.inputs
        about = personal.knowledge
        x = shape_nodes(build, x, raw, personal.model, known, about.shapes, about.orders, inputs)
    logits = network(
        build,
        personal.model,
        x,
        name="model",
        rank=rank,
        prior=known.prior,
        allowed=known.allowed,
    )
    return guard_nodes(build, logits, SINGLE)


def _outputs(
    build: Builder, parts: Sequence[Part], known: KnownNodes, trust: float | str, k: int, dtype: Any
) -> str:
    """(1-λ)·Σ w_j softmax_j within the range + λ·g_p, and all outside set to 0 at the end."""
    zero = build.constant(0.0)
    rows = build.op("Shape", "rows", start=0, end=1)  # not of logits: no range hangs on them
    wide = build.op("Concat", rows, build.constant([k], INT64), axis=0)
    mask = known.allowed
    if mask is None:
        mask = build.op("Expand", build.constant([[True]], BOOL), wide)
    refused = known.refused
    if refused is None:
        one = build.op("Concat", rows, build.constant([1], INT64), axis=0)
        refused = build.op("Expand", build.constant([[False]], BOOL), one)
    allowed = build.op("And", mask, build.op("Not", refused), name="allowed")
    mixed = weigh_parts(build, parts, allowed, dtype)
    if known.prior is not None:
        said = known.prior if dtype is SINGLE else build.cast(known.prior, dtype)
        own = build.constant(trust, dtype) if isinstance(trust, float) else trust
        if isinstance(trust, str) and dtype is not SINGLE:
            own = build.cast(trust, dtype)
        told = build.op("Mul", said, own)
        share = build.op("Min", build.total(told), build.constant(1.0, dtype))
        kept = build.op("Mul", mixed, build.op("Sub", build.constant(1.0, dtype), share))
        mixed = build.op("Add", kept, told)
    mixed = mixed if dtype is SINGLE else build.cast(mixed, SINGLE)
    build.op("Where", allowed, mixed, zero, name="probabilities")
    build.op("Squeeze", refused, build.constant([1], INT64), name="refused")
    return refused


def _decide(build: Builder, prior: str | None, refused: str) -> None:
    """The most probable class; at an exact tie the expert's, else the lowest; -1 if refused."""
    chosen = build.op("ArgMax", "probabilities", axis=1, keepdims=1)
    if prior is not None:
        top = build.op("ReduceMax", "probabilities", axes=[1], keepdims=1)
        spoken = build.op("Greater", prior, build.constant(0.0))
        tied = build.op("And", build.op("Equal", "probabilities", top), spoken)
        theirs = build.op("ArgMax", build.cast(tied, SINGLE), axis=1, keepdims=1)
        chosen = build.op("Where", build.any(tied), theirs, chosen)
    chosen = build.op("Where", refused, build.constant(-1, INT64), chosen)
    build.op("Squeeze", chosen, build.constant([1], INT64), name="class")


def _median(build: Builder, k: int, refused: str) -> None:
    """The first class with half of the probability below or at it, as `metrics.find_median`."""
    share = build.cast("probabilities", DOUBLE)
    below = build.op("CumSum", share, build.constant(1, INT64))
    half = build.op("Mul", build.total(share), build.constant(0.5, DOUBLE))
    some = build.op("Greater", share, build.constant(0.0, DOUBLE))
    reached = build.op("And", build.op("GreaterOrEqual", below, half), some)
    chosen = build.op("ArgMax", build.cast(reached, SINGLE), axis=1, keepdims=1)
    chosen = build.op("Where", refused, build.constant(-1, INT64), chosen)
    build.op("Squeeze", chosen, build.constant([1], INT64), name="class")


def _classes(personal: Personal, schema: Schema | None) -> int:
    if schema is not None:
        return len(schema.classes)
    if isinstance(personal.model, Lipschitz):
        return personal.model.classes
    layers = [m for m in personal.model.modules() if isinstance(m, nn.Linear)]
    if not layers:
        raise FedloreError("a graph needs a schema, or a network that ends with a Linear layer")
    return layers[-1].out_features


def _metadata(personal: Personal, schema: Schema | None, more: Mapping[str, str]) -> dict[str, str]:
    """What the graph is, as text: schema, class names, and the knowledge files it was made from."""
    found = describe_graph(schema)
    try:
        found["fedlore.knowledge"] = personal.knowledge.fingerprint
    except KnowledgeError:  # it has no names, or cannot be written down
        return found | dict(more)
    if "fedlore.knowledge.files" not in more:
        found["fedlore.knowledge.files"] = json.dumps(knowledge_files(personal.knowledge))
    return found | dict(more)


def knowledge_files(knowledge: Knowledge) -> dict[str, str]:
    """The text files that knowledge is written to, by name; ONNX files are part of the graph."""
    members = pack_knowledge(describe(knowledge))
    texts = {name: data for name, data in members.items() if name.endswith((".toml", ".csv"))}
    return {name: texts[name].decode() for name in sorted(texts)}
