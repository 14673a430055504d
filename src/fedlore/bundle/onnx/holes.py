"""Rows with holes as nodes: which are refused, what knowledge sees of them, where a value lacks."""

import math
from typing import Any

import numpy as np

from ...core.inputs import Inputs
from ...kernel.schema import Schema
from ...knowledge.missing import list_columns
from .builder import BOOL, INT64, SINGLE, Builder


def refuse_nodes(build: Builder, x: str, rank: int, schema: Schema | None) -> str:
    """Rows with what is no value, (n, 1) bool, as `knowledge.door.check_values` refuses them."""
    flat = x if rank == 2 else build.op("Flatten", x, axis=1)
    hole, endless = build.op("IsNaN", flat), build.op("IsInf", flat)
    features = () if schema is None or rank != 2 else schema.features
    if any(feature.may_miss for feature in features):
        needed = build.constant([[not feature.may_miss for feature in features]], BOOL)
        wrong = build.op("And", hole, needed)
    else:
        wrong = hole
    refused: str | None = build.any(build.op("Or", wrong, endless))
    for column, feature in enumerate(features):
        if feature.levels:
            value = build.op("Gather", x, build.constant([column], INT64), axis=1)  # (n, 1)
            places = np.arange(len(feature.levels) + feature.other)[None]
            level = build.any(build.op("Equal", value, build.constant(places)))
            fine = build.op("Or", level, build.op("IsNaN", value))
            refused = build.either(refused, build.op("Not", fine))
    assert refused is not None
    return refused


def hide_nodes(build: Builder, x: str, schema: Schema | None) -> str:
    """Rows as knowledge sees them: a level that nobody named is as good as missing."""
    if schema is None or not any(feature.other for feature in schema.features):
        return x
    named = [[len(f.levels) if f.other else math.inf for f in schema.features]]
    other = build.op("GreaterOrEqual", x, build.constant(named))
    return build.op("Where", other, build.constant(math.nan), x)


def lacking_nodes(build: Builder, x: str, model: Any) -> str | None:
    """Rows in which a value that a model looks at is missing, (n, 1) bool; None where none can."""
    columns = list_columns(model, build.width) if build.width else ()
    if not columns:
        return None
    seen = build.op("Gather", x, build.constant(list(columns), INT64), axis=1)
    return build.any(build.op("IsNaN", seen))


def silence_lacking(
    build: Builder, rows: str, refused: str | None, lacking: str
) -> tuple[str, str | None]:
    """A prediction of whole rows only: silent, and nothing refused, where a value is missing."""
    rows = build.op("Where", lacking, build.constant(0.0, SINGLE), rows)
    if refused is not None:
        refused = build.op("And", refused, build.op("Not", lacking))
    return rows, refused


def encode_nodes(build: Builder, x: str, inputs: Inputs | None) -> str:
    """Rows as network and members take them, before any scaling, as `core.inputs` has it."""
    if inputs is None:
        return x
    parts = []
    for column, one in enumerate(inputs.features):
        value = build.op("Gather", x, build.constant([column], INT64), axis=1)  # (n, 1)
        hole = build.op("IsNaN", value)
        if one.missing and not math.isnan(one.fill):
            value = build.op("Where", hole, build.constant(one.fill), value)
        if one.levels:
            places = np.arange(one.levels + one.other)[None]
            value = build.cast(build.op("Equal", value, build.constant(places)), SINGLE)
        parts += [value, build.cast(hole, SINGLE)] if one.missing else [value]
    return build.op("Concat", *parts, axis=1)
