"""One site's model as one ONNX graph: raw columns in, probabilities, class and range out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from ...core.lipschitz import Lipschitz
from ...errors import FedloreError, KnowledgeError
from ...kernel.graph.knowledge import (
    KnowledgeNodes,
    Part,
    add_expert,
    choose_class,
    inside_range,
    join_sides,
    mask_range,
    median_class,
    mix_parts,
    squeeze,
)
from ...kernel.graph.ops import DOUBLE, SINGLE, Value
from ...kernel.graph.sources import hide_levels, refuse_rows
from ...knowledge import Knowledge, Schema
from ...knowledge.files import describe, pack_knowledge
from ...models.classifier import Personal
from ...models.regressor import PersonalRegressor
from .. import Bundle
from .builder import Builder, GraphOutput, describe_graph, finish_graph, save_graph
from .members import encode_nodes, mixed_parts, scale_nodes
from .networks import network, shape_nodes
from .regressor import regressor_to_onnx
from .sources import Rows, add_range, add_source, give_unapplied, trust_rows


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
    build, features = Builder(), () if schema is None else schema.features
    single = build.cast(build.rows, SINGLE)
    flat = single if len(row) == 1 else build.op("Flatten", single, axis=1)
    unusable = refuse_rows(build, flat, features if len(row) == 1 else ())
    holes = any(feature.may_miss or feature.other for feature in features)
    seen = hide_levels(build, single, features)
    rows = Rows(build, seen, len(row) + 1, len(features) if holes else 0)
    known = _knowledge(rows, personal.knowledge, unusable)
    inputs = encode_nodes(build, single, personal.scaler.inputs if personal.scaler else None)
    logits = _logits(inputs, rows, personal, known)
    k = _classes(personal, schema)
    trust = trust_rows(rows, personal.knowledge, personal.reliance)
    dtype: Any = SINGLE
    parts = [Part(logits)]
    if personal.ensemble is not None:
        parts, dtype = mixed_parts(build, inputs, logits, known, personal.ensemble), DOUBLE
    allowed = mask_range(build, known, k)
    mixed = mix_parts(build, parts, allowed, dtype)
    if known.prior is not None:
        prior, own = known.prior, trust
        if own is None:
            own = build.constant(personal.reliance, dtype)
        elif dtype is not SINGLE:
            own = build.cast(own, dtype)
        prior = prior if dtype is SINGLE else build.cast(prior, dtype)
        mixed = add_expert(build, mixed, prior, own, dtype)
    p = inside_range(build, mixed, allowed, dtype)
    if personal.knowledge.shapes is None:
        chosen = choose_class(build, p, known.prior, known.refused)
    else:
        chosen = median_class(build, p, known.refused)
    results = [
        GraphOutput("probabilities", p, "FLOAT", (k,)),
        GraphOutput("class", chosen, "INT64"),
        GraphOutput("allowed", allowed, "BOOL", (k,)),
        GraphOutput("refused", squeeze(build, known.refused), "BOOL"),
        *give_unapplied(rows, (personal.knowledge.range, personal.knowledge.prediction)),
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


def _knowledge(rows: Rows, knowledge: Knowledge, unusable: Value) -> KnowledgeNodes:
    prior = None if knowledge.prediction is None else add_source(rows, knowledge.prediction)
    allowed = None if knowledge.range is None else add_range(rows, knowledge.range)
    return join_sides(rows.build, prior, allowed, knowledge.conflict, unusable)


def _logits(inputs: str, rows: Rows, personal: Personal, known: KnowledgeNodes) -> Value:
    """What the network says, finite whatever its weights are, (n, k)."""
    build, about = rows.build, personal.knowledge
    x = scale_nodes(build, inputs, personal.scaler, "scaler")
    if isinstance(personal.model, Lipschitz):
        spread = None if personal.scaler is None else personal.scaler.inputs
        formulas = rows.view.formulas
        x = shape_nodes(
            build, x, formulas, personal.model, known, about.shapes, about.orders, spread
        )
    heard = {"prior": known.prior, "allowed": known.allowed}
    logits = network(build, personal.model, x, name="model", rank=rows.rank, **heard)
    return build.guard(logits, SINGLE)


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
    found = describe_graph(schema) | dict(more)
    if "fedlore.knowledge.files" in more:  # of a bundle, which has a hash of its own
        return found
    try:
        found["fedlore.knowledge"] = personal.knowledge.fingerprint
    except KnowledgeError:  # it has no names, or cannot be written down
        return found
    return found | {"fedlore.knowledge.files": json.dumps(knowledge_files(personal.knowledge))}


def knowledge_files(knowledge: Knowledge) -> dict[str, str]:
    """The text files that knowledge is written to, by name; ONNX files are part of the graph."""
    members = pack_knowledge(describe(knowledge))
    texts = {name: data for name, data in members.items() if name.endswith((".toml", ".csv"))}
    return {name: texts[name].decode() for name in sorted(texts)}


def bundle_to_onnx(bundle: Bundle) -> Any:
    """The model of a bundle as an `onnx.ModelProto`, with the bundle's own files of knowledge."""
    personal = bundle.personal
    files = {"knowledge.toml": bundle.knowledge_text}
    files |= {n: d.decode() for n, d in bundle.tables.items() if n.endswith(".csv")}
    metadata = {
        "fedlore.bundle": bundle.fingerprint,
        "fedlore.client": bundle.client,
        "fedlore.knowledge.files": json.dumps(files),
    }
    if bundle.holdings:  # 1 - p, or the distance in halves of the interval: the cut says which hold
        metadata["fedlore.holdings"] = json.dumps([asdict(one) for one in bundle.holdings])
    if isinstance(personal, PersonalRegressor):
        return regressor_to_onnx(personal, bundle.schema, metadata=metadata)
    return to_onnx(
        personal,
        bundle.schema,
        shape=bundle.shape or None,
        metadata=metadata,
    )


def write_bundle_onnx(bundle: Bundle, path: str | Path) -> None:
    """Write the graph of a bundle, whole or not at all."""
    save_graph(bundle_to_onnx(bundle), path)
