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
    Part,
    add_expert,
    choose_class,
    inside_range,
    mask_range,
    median_class,
    mix_parts,
    squeeze,
)
from ...kernel.graph.ops import DOUBLE, SINGLE
from ...knowledge import Knowledge, Schema
from ...knowledge.files import describe, pack_knowledge
from ...models.classifier import Personal
from ...models.regressor import PersonalRegressor
from .. import Bundle
from .builder import Builder, GraphOutput, describe_graph, finish_graph, save_graph
from .members import encode_nodes, logits_nodes, mixed_parts
from .regressor import regressor_to_onnx
from .sources import class_nodes, give_unapplied, see_rows, trust_rows


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
    rows, unusable = see_rows(build, features, len(row) + 1)
    known = class_nodes(rows, personal.knowledge, unusable)
    inputs = encode_nodes(build, personal.scaler)
    logits = logits_nodes(rows, inputs, personal, personal.knowledge, known)
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
    if personal.knowledge.timeline is not None:
        found["fedlore.as_of"] = personal.knowledge.timeline.day.isoformat()
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
    if bundle.timeline is not None:
        metadata["fedlore.as_of"] = bundle.timeline.day.isoformat()
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
