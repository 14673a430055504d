"""One site's model of a number as one ONNX graph: raw columns in, number, interval and set out."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...answers import Bins
from ...core.lipschitz import Lipschitz
from ...core.ordinal import reads_between
from ...errors import FedloreError
from ...kernel.graph.knowledge import KnowledgeNodes
from ...kernel.graph.numbers import NumberNodes, SetNodes, nearest, number_outputs
from ...kernel.graph.ops import DOUBLE, INT64, SINGLE, Value
from ...kernel.graph.sources import hide_levels, refuse_rows
from ...kernel.schema import Schema
from ...knowledge.models import Knowledge
from ...models.ensemble import NumberEnsemble, OneShotNumber
from ...models.own.members import NumberMember
from ...models.regressor import PersonalRegressor
from ...models.tasks import LEVEL
from .bins import (
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
from .builder import Builder, GraphOutput, describe_graph, finish_graph
from .members import body_nodes, encode_nodes, one_shot_nodes, scale_nodes
from .networks import network, shape_nodes
from .sources import Rows, give_unapplied, number_nodes, trust_rows


def regressor_to_onnx(
    personal: PersonalRegressor, schema: Schema, *, metadata: Mapping[str, str] | None = None
) -> Any:
    """The model as an `onnx.ModelProto`, checked.

    Input `rows`, float64 (n, d), as for classes. Outputs, all float64: `number` (n,); `interval`
    (n, 2), the ends of the central 90 %; `lower` and `upper` (n, s), the intervals of S(x), NaN
    where there are fewer than s; `refused` (n,) bool, where number and interval are NaN; and where
    values may be missing `unapplied` (n, d) int64, as for classes.
    """
    build, bins, about = Builder(), personal.bins, personal.knowledge
    single = build.cast(build.rows, SINGLE)
    holes = any(feature.may_miss or feature.other for feature in schema.features)
    seen = hide_levels(build, single, schema.features)
    rows = Rows(build, seen, 2, len(schema.features) if holes else 0)
    unusable = refuse_rows(build, single, schema.features)
    known = number_nodes(rows, about, (bins.lower, bins.upper), unusable)
    cut = cut_nodes(build, known, bins)
    prior = None if known.point is None else own_bins(build, known, cut, about.spread)
    allowed = None if known.sets is None else cut.touched
    laid = None if known.point is None else build.cast(between_nodes(build, known, bins), SINGLE)
    between = KnowledgeNodes(laid, allowed, known.refused)
    heard = between
    if not reads_between(personal.inner.model):
        heard = between._replace(prior=None if prior is None else build.cast(prior, SINGLE))
    scaler = personal.inner.scaler
    x = encode_nodes(build, single, None if scaler is None else scaler.inputs)
    logits = _logits(x, rows, personal, heard, known, cut)
    learned = softmax_nodes(build, logits, cut)
    trust = trust_rows(rows, about, personal.reliance)
    reliance: str | float = (
        about.trust_at_prediction if trust is None else build.cast(trust, DOUBLE)
    )
    if personal.ensemble is not None:
        own = personal.ensemble.expert if trust is None else reliance
        number = _mixture(build, x, personal.ensemble, learned, between, known, cut, own)
        found = spread_nodes(build, hard_nodes(build, number, personal.ensemble.width, cut), cut)
    elif about.spread is None or prior is None:
        found = spread_nodes(build, learned, cut, known.point, reliance)
        number = _middle(build, found, about)
    else:
        if not isinstance(reliance, str):
            reliance = build.constant(reliance, DOUBLE)
        share = build.op("Mul", build.total(prior), reliance)
        kept = build.op("Mul", learned, build.op("Sub", build.constant(1.0, DOUBLE), share))
        his = build.op("Mul", prior, reliance)
        found = spread_nodes(build, build.op("Add", kept, his), cut)
        number = _middle(build, found, about)
    ends = [quantile_nodes(build, found, level) for level in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)]
    sets = SetNodes(*(build.op("Identity", end) for end in (cut.sets.lower, cut.sets.upper)))
    shown, interval, refused = number_outputs(build, sets, known.refused, [number, *ends])
    results = [
        GraphOutput("number", shown, "DOUBLE"),
        GraphOutput("interval", interval, "DOUBLE", (2,)),
        GraphOutput("lower", sets.lower, "DOUBLE", (cut.sets.width,)),
        GraphOutput("upper", sets.upper, "DOUBLE", (cut.sets.width,)),
        GraphOutput("refused", refused, "BOOL"),
        *give_unapplied(rows, (about.range, about.prediction)),
    ]
    words = describe_graph(schema, bins=bins) | dict(metadata or {})
    return finish_graph(build, (len(schema.features),), results, words)


def _middle(build: Builder, found: SpreadNodes, known: Knowledge) -> Value:
    """The number that is given out, as `Distribution.middle`, (n, 1)."""
    if known.shapes is None:
        return mean_nodes(build, found)
    return quantile_nodes(build, found, 0.5)


def _logits(
    x: str,
    rows: Rows,
    personal: PersonalRegressor,
    heard: KnowledgeNodes,
    known: NumberNodes,
    cut: BinNodes,
) -> Value:
    build, inputs = rows.build, x
    if personal.hears:
        inputs = build.op("Concat", x, build.cast(_heard(build, known, cut), SINGLE), axis=1)
    inner, about = personal.inner, personal.knowledge
    inputs = scale_nodes(build, inputs, inner.scaler, "scaler")
    if isinstance(inner.model, Lipschitz):
        spread = None if inner.scaler is None else inner.scaler.inputs
        formulas = rows.view.formulas
        inputs = shape_nodes(
            build, inputs, formulas, inner.model, heard, about.shapes, about.orders, spread
        )
    said = {"prior": heard.prior, "allowed": heard.allowed}
    return build.guard(network(build, inner.model, inputs, name="model", rank=2, **said), SINGLE)


def _heard(build: Builder, known: NumberNodes, cut: BinNodes) -> Value:
    """The four columns of `Told.heard`, (n, 4) double."""
    centre, half = (build.constant(v, DOUBLE) for v in cut.bins.middle)

    def scaled(value: str) -> Value:
        return build.op("Div", build.op("Sub", value, centre), half)

    low, high = (scaled(end) for end in _ends(build, cut))
    zero, one = build.constant(0.0, DOUBLE), build.constant(1.0, DOUBLE)
    if known.point is None:
        nothing = build.op("Mul", low, zero)
        return build.op("Concat", nothing, nothing, low, high, axis=1)
    silent = build.op("IsNaN", known.point)
    place = build.op("Where", silent, zero, scaled(known.point))
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
    ensemble: NumberEnsemble,
    learned: str,
    heard: KnowledgeNodes,
    known: NumberNodes,
    cut: BinNodes,
    expert: float | str,  # his weight, of all rows or of each (n, 1)
) -> Value:
    """The number of a mixture, (n, 1), in the set."""
    low, high = _ends(build, cut)
    half = build.constant(0.5, DOUBLE)
    middle = build.op("Mul", build.op("Add", low, high), half)
    wide = build.op("Mul", build.op("Sub", high, low), half)
    start = middle
    if known.point is not None:
        start = build.op("Where", build.op("IsNaN", known.point), middle, known.point)
    sight = build.cast(build.op("Concat", start, middle, wide, axis=1), SINGLE)

    def within(value: str) -> Value:
        odd = build.op("Or", build.op("IsNaN", value), build.op("IsInf", value))
        return nearest(build, cut.sets, build.op("Where", odd, start, value))

    parts = [within(expected_nodes(build, spread_nodes(build, learned, cut)))]
    for place, member in enumerate(ensemble.members):
        name = f"ensemble.{place}"
        if isinstance(member, NumberMember):
            inputs = build.op("Flatten", x, axis=1)
            inputs = build.op("Concat", inputs, sight, axis=1) if member.hears else inputs
            value = body_nodes(build, inputs, member.body, name)
            parts.append(within(build.op("Add", value, start) if member.over else value))
        elif isinstance(member, OneShotNumber):
            at, _ = one_shot_nodes(build, x, heard, member, name)
            parts.append(within(_number_at(build, at, cut.bins)))
        else:
            raise FedloreError(
                f"a member of the class {type(member).__name__} cannot be put into a graph"
            )
    weights = np.array([ensemble.network, *ensemble.weights])
    total = weights.sum()
    weights = weights / total if total > 0 else np.full(len(weights), 1.0 / len(weights))
    mixed = build.op("Concat", *parts, axis=1)
    mixed = build.op("MatMul", mixed, build.constant(weights[:, None], DOUBLE))
    if known.point is not None and expert:
        silent = build.op("IsNaN", known.point)
        zero = build.constant(0.0, DOUBLE)
        own = expert if isinstance(expert, str) else build.constant(expert, DOUBLE)
        share = build.op("Where", silent, zero, own)
        rest = build.op("Mul", build.op("Sub", build.constant(1.0, DOUBLE), share), mixed)
        his = build.op("Mul", share, build.op("Where", silent, zero, known.point))
        mixed = build.op("Add", rest, his)
    return within(mixed)


def _number_at(build: Builder, place: str, bins: Bins) -> Value:
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
