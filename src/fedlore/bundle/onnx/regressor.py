"""One site's model of a number as one ONNX graph: raw columns in, number, interval and set out."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...answers import Bins
from ...core.lipschitz import Lipschitz
from ...core.ordinal import reads_between
from ...errors import FedloreError
from ...kernel.schema import Schema
from ...knowledge.numbers.numbers import Numbers
from ...personal.beside import NumberBeside
from ...personal.foreseen import ForeseenNumber
from ...personal.own.members import NumberMember
from ...personal.regressor import PersonalRegressor
from ...personal.tasks.regression import LEVEL
from .builder import DOUBLE, INT64, SINGLE, Builder
from .decoding import (
    BinNodes,
    SpreadNodes,
    between_nodes,
    cut_nodes,
    expected_nodes,
    hard_nodes,
    mean_nodes,
    own_bins,
    quantile_nodes,
    softmax_nodes,
    spread_nodes,
)
from .finishing import GraphOutput, describe_graph, finish_graph
from .holes import encode_nodes, hide_nodes, refuse_nodes
from .mixtures import KnownNodes, body_nodes, foresee_nodes, guard_nodes, scale_nodes
from .networks import network
from .numbers import ToldNodes, tell_nodes
from .sets import SetNodes, nearest_nodes
from .shapes import shape_nodes
from .trusting import lean_nodes
from .unapplied import give_unapplied


def regressor_to_onnx(
    personal: PersonalRegressor, schema: Schema, *, metadata: Mapping[str, str] | None = None
) -> Any:
    """The model as an `onnx.ModelProto`, checked.

    Input `rows`, float64 (n, d), as for classes. Outputs, all float64: `number` (n,); `interval`
    (n, 2), the ends of the central 90 %; `lower` and `upper` (n, s), the intervals of S(x), NaN
    where there are fewer than s; `refused` (n,) bool, where number and interval are NaN; and where
    values may be missing `unapplied` (n, d) int64, as for classes.
    """
    build, bins, known = Builder(), personal.bins, personal.knowledge
    x = build.cast("rows", SINGLE)
    if any(feature.may_miss or feature.other for feature in schema.features):
        build.width = len(schema.features)
    seen = hide_nodes(build, x, schema)
    told = tell_nodes(build, seen, known, bins)
    unusable = refuse_nodes(build, x, 2, schema)
    told = replace(told, refused=build.either(unusable, told.refused))
    cut = cut_nodes(build, told, bins)
    prior = None if told.said is None else own_bins(build, told, cut, known.spread)
    allowed = None if told.sets is None else cut.touched
    laid = None if told.said is None else build.cast(between_nodes(build, told, bins), SINGLE)
    between = KnownNodes(laid, allowed, told.refused)
    heard = KnownNodes(None if prior is None else build.cast(prior, SINGLE), allowed, told.refused)
    if reads_between(personal.inner.model):
        heard = between
    scaler = personal.inner.scaler
    raw = hide_nodes(build, x, schema)
    x = encode_nodes(build, x, None if scaler is None else scaler.inputs)
    logits = _logits(build, x, raw, personal, heard, told, cut)
    learned = softmax_nodes(build, logits, cut)
    trust = lean_nodes(build, raw, known, personal.reliance)
    reliance: str | float = (
        known.trust_at_prediction if trust is None else build.cast(trust, DOUBLE)
    )
    if personal.beside is not None:
        own = personal.beside.expert if trust is None else reliance
        number = _mixture(build, x, personal.beside, learned, between, told, cut, own)
        found = spread_nodes(build, hard_nodes(build, number, personal.beside.width, cut), cut)
    elif known.spread is None or prior is None:
        found = spread_nodes(build, learned, cut, told.said, reliance)
        number = _middle(build, found, known)
    else:
        if not isinstance(reliance, str):
            reliance = build.constant(reliance, DOUBLE)
        share = build.op("Mul", build.total(prior), reliance)
        kept = build.op("Mul", learned, build.op("Sub", build.constant(1.0, DOUBLE), share))
        his = build.op("Mul", prior, reliance)
        found = spread_nodes(build, build.op("Add", kept, his), cut)
        number = _middle(build, found, known)
    ends = [quantile_nodes(build, found, level) for level in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)]
    ends = [build.op("Min", ends[0], number), build.op("Max", ends[1], number)]
    _give_out(build, number, ends, told, cut)
    about = describe_graph(schema, bins=bins) | dict(metadata or {})
    results: list[GraphOutput] = [
        ("number", "DOUBLE", ["n"]),
        ("interval", "DOUBLE", ["n", 2]),
        ("lower", "DOUBLE", ["n", cut.sets.count]),
        ("upper", "DOUBLE", ["n", cut.sets.count]),
        ("refused", "BOOL", ["n"]),
        *give_unapplied(build, seen, (known.range, known.prediction)),
    ]
    return finish_graph(build, (len(schema.features),), results, about)


def _middle(build: Builder, found: SpreadNodes, known: Numbers) -> str:
    """The number that is given out, as `Distribution.middle`, (n, 1)."""
    if known.shapes is None:
        return mean_nodes(build, found)
    return quantile_nodes(build, found, 0.5)


def _give_out(build: Builder, number: str, ends: list[str], told: ToldNodes, cut: BinNodes) -> None:
    """What was found, moved to the nearest number of the very set that is given out beside it."""
    sets = SetNodes(
        build.op("Identity", cut.sets.lower, name="lower"),
        build.op("Identity", cut.sets.upper, name="upper"),
        count=cut.sets.count,
    )
    none = build.op("Not", build.any(build.op("Not", build.op("IsNaN", sets.lower))))
    refused = none if told.refused is None else build.op("Or", told.refused, none)
    nothing, axis = build.constant(math.nan, DOUBLE), build.constant([1], INT64)
    shown = [
        build.op(
            "Where", refused, nothing, nearest_nodes(build, sets, guard_nodes(build, v, DOUBLE))
        )
        for v in (number, *ends)
    ]
    build.op("Squeeze", shown[0], axis, name="number")
    build.op("Concat", *shown[1:], axis=1, name="interval")
    build.op("Squeeze", refused, axis, name="refused")


def _logits(
    build: Builder,
    x: str,
    raw: str,
    personal: PersonalRegressor,
    heard: KnownNodes,
    told: ToldNodes,
    cut: BinNodes,
) -> str:
    inputs = x
    if personal.hears:
        inputs = build.op("Concat", x, build.cast(_heard(build, told, cut), SINGLE), axis=1)
    inner, about = personal.inner, personal.knowledge
    inputs = scale_nodes(build, inputs, inner.scaler, "scaler")
    if isinstance(inner.model, Lipschitz):
        spread = None if inner.scaler is None else inner.scaler.inputs
        inputs = shape_nodes(
            build, inputs, raw, inner.model, heard, about.shapes, about.orders, spread
        )
    logits = network(
        build,
        inner.model,
        inputs,
        name="model",
        rank=2,
        prior=heard.prior,
        allowed=heard.allowed,
    )
    return guard_nodes(build, logits, SINGLE)


def _heard(build: Builder, told: ToldNodes, cut: BinNodes) -> str:
    """The four columns of `Told.heard`, (n, 4) double."""
    centre, half = (build.constant(v, DOUBLE) for v in cut.bins.middle)

    def scaled(value: str) -> str:
        return build.op("Div", build.op("Sub", value, centre), half)

    low, high = (scaled(end) for end in _ends(build, cut))
    zero, one = build.constant(0.0, DOUBLE), build.constant(1.0, DOUBLE)
    if told.said is None:
        nothing = build.op("Mul", low, zero)
        return build.op("Concat", nothing, nothing, low, high, axis=1)
    silent = build.op("IsNaN", told.said)
    place = build.op("Where", silent, zero, scaled(told.said))
    return build.op("Concat", place, build.op("Where", silent, zero, one), low, high, axis=1)


def _ends(build: Builder, cut: BinNodes) -> tuple[str, str]:
    """The least and the greatest number of each set, (n, 1)."""
    none = build.op("IsNaN", cut.sets.lower)
    low = build.op("Where", none, build.constant(cut.bins.upper, DOUBLE), cut.sets.lower)
    high = build.op("Where", none, build.constant(cut.bins.lower, DOUBLE), cut.sets.upper)
    return (
        build.op("ReduceMin", low, axes=[1], keepdims=1),
        build.op("ReduceMax", high, axes=[1], keepdims=1),
    )


def _mixture(
    build: Builder,
    x: str,
    beside: NumberBeside,
    learned: str,
    known: KnownNodes,
    told: ToldNodes,
    cut: BinNodes,
    expert: float | str,  # his weight, of all rows or of each (n, 1)
) -> str:
    """The number of a mixture, (n, 1), in the set."""
    low, high = _ends(build, cut)
    half = build.constant(0.5, DOUBLE)
    middle = build.op("Mul", build.op("Add", low, high), half)
    wide = build.op("Mul", build.op("Sub", high, low), half)
    start = middle
    if told.said is not None:
        start = build.op("Where", build.op("IsNaN", told.said), middle, told.said)
    sight = build.cast(build.op("Concat", start, middle, wide, axis=1), SINGLE)

    def within(value: str) -> str:
        far = build.op("Abs", value)
        fine = build.op("LessOrEqual", far, build.constant(np.finfo(np.float64).max, DOUBLE))
        return nearest_nodes(build, cut.sets, build.op("Where", fine, value, start))

    parts = [within(expected_nodes(build, spread_nodes(build, learned, cut)))]
    for place, member in enumerate(beside.members):
        name = f"beside.{place}"
        if isinstance(member, NumberMember):
            inputs = build.op("Flatten", x, axis=1)
            inputs = build.op("Concat", inputs, sight, axis=1) if member.hears else inputs
            value = body_nodes(build, inputs, member.body, name)
            parts.append(within(build.op("Add", value, start) if member.over else value))
        elif isinstance(member, ForeseenNumber):
            at, _ = foresee_nodes(build, x, known, member, name)
            parts.append(within(_number_at(build, at, cut.bins)))
        else:
            raise FedloreError(
                f"a member of the class {type(member).__name__} cannot be put into a graph"
            )
    weights = np.array([beside.network, *beside.weights])
    total = weights.sum()
    weights = weights / total if total > 0 else np.full(len(weights), 1.0 / len(weights))
    mixed = build.op("Concat", *parts, axis=1)
    mixed = build.op("MatMul", mixed, build.constant(weights[:, None], DOUBLE))
    if told.said is not None and expert:
        silent = build.op("IsNaN", told.said)
        zero = build.constant(0.0, DOUBLE)
        own = expert if isinstance(expert, str) else build.constant(expert, DOUBLE)
        share = build.op("Where", silent, zero, own)
        rest = build.op("Mul", build.op("Sub", build.constant(1.0, DOUBLE), share), mixed)
        his = build.op("Mul", share, build.op("Where", silent, zero, told.said))
        mixed = build.op("Add", rest, his)
    return within(mixed)


def _number_at(build: Builder, place: str, bins: Bins) -> str:
    """The number at a place on the scale of the bins, as `Bins.numbers`."""
    zero = build.constant(0.0, DOUBLE)
    at = build.op("Add", place, build.constant(0.5, DOUBLE))
    at = build.op("Where", build.op("IsNaN", at), zero, at)
    at = build.op("Min", build.op("Max", at, zero), build.constant(float(bins.k), DOUBLE))
    first = build.op("Min", build.cast(at, INT64), build.constant(bins.k - 1, INT64))
    edges = np.array(bins.edges)
    low = build.op("Gather", build.constant(edges[:-1], DOUBLE), first, axis=0)
    span = build.op("Gather", build.constant(np.diff(edges), DOUBLE), first, axis=0)
    part = build.op("Sub", at, build.cast(first, DOUBLE))
    return build.op("Add", low, build.op("Mul", part, span))
