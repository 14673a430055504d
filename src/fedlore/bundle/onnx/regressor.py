"""One site's model of a number as one ONNX graph: raw columns in, number, interval and set out."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...answers import Bins
from ...core.ordinal import reads_between
from ...kernel.graph.knowledge import KnowledgeNodes
from ...kernel.graph.numbers import NumberNodes, SetNodes, nearest, number_outputs
from ...kernel.graph.ops import DOUBLE, INT64, SINGLE, Value
from ...kernel.schema import Schema
from ...knowledge.models import Knowledge
from ...models.ensemble import CorrectedMember, Ensemble, OneShotMember
from ...models.own.members import NumberMember
from ...models.regressor import LEVEL, PersonalRegressor
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
from .members import (
    body_nodes,
    encode_nodes,
    logits_nodes,
    one_shot_nodes,
    shares_of,
    unknown_member,
)
from .sources import give_unapplied, number_nodes, see_rows, trust_rows


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
    rows, unusable = see_rows(build, schema.features)
    known = number_nodes(rows, about, (bins.lower, bins.upper), unusable)
    cut = cut_nodes(build, known, bins)
    prior = None if known.point is None else own_bins(build, known, cut, about.spread)
    allowed = None if known.sets is None else cut.touched
    laid = None if known.point is None else build.cast(between_nodes(build, known, bins), SINGLE)
    between = KnowledgeNodes(laid, allowed, known.refused)
    heard = between
    if not reads_between(personal.inner.model):
        heard = between._replace(prior=None if prior is None else build.cast(prior, SINGLE))
    x = encode_nodes(build, personal.inner.scaler)
    inputs = x
    if personal.hears:
        inputs = build.concat(x, build.cast(_heard(build, known, cut), SINGLE))
    logits = logits_nodes(rows, inputs, personal.inner, about, heard)
    learned = softmax_nodes(build, logits, cut)
    trust = trust_rows(rows, about, personal.reliance)
    reliance = about.trust_at_prediction if trust is None else build.cast(trust, DOUBLE)
    if personal.ensemble is not None:
        own = personal.ensemble.expert if trust is None else reliance
        number = _ensemble(build, x, personal.ensemble, learned, between, known, cut, own)
        found = spread_nodes(build, hard_nodes(build, number, personal.ensemble.width, cut), cut)
    elif about.spread is None or prior is None:
        found = spread_nodes(build, learned, cut, known.point, reliance)
        number = _middle(build, found, about)
    else:
        kept = learned * (1.0 - build.total(prior) * reliance)
        found = spread_nodes(build, kept + prior * reliance, cut)
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


def _heard(build: Builder, known: NumberNodes, cut: BinNodes) -> Value:
    """The four columns of `Told.heard`, (n, 4) double."""
    centre, half = cut.bins.middle
    low, high = ((end - centre) / half for end in _ends(build, cut))
    if known.point is None:
        nothing = low * 0.0
        return build.concat(nothing, nothing, low, high)
    silent = build.isnan(known.point)
    place = build.where(silent, 0.0, (known.point - centre) / half)
    spoken = build.where(silent, 0.0, build.constant(1.0, DOUBLE))
    return build.concat(place, spoken, low, high)


def _ends(build: Builder, cut: BinNodes) -> tuple[Value, Value]:
    """The least and the greatest number of each set, (n, 1)."""
    none = build.isnan(cut.sets.lower)
    low = build.where(none, cut.bins.upper, cut.sets.lower)
    high = build.where(none, cut.bins.lower, cut.sets.upper)
    return (
        build.op("ReduceMin", low, axes=[1], keepdims=1),
        build.op("ReduceMax", high, axes=[1], keepdims=1),
    )


def _ensemble(
    build: Builder,
    x: Value,
    ensemble: Ensemble,
    learned: Value,
    heard: KnowledgeNodes,
    known: NumberNodes,
    cut: BinNodes,
    expert: Any,  # his weight, of all rows or of each (n, 1)
) -> Value:
    """The number of an ensemble, (n, 1), in the set."""
    low, high = _ends(build, cut)
    start = middle = (low + high) * 0.5
    if known.point is not None:
        start = build.where(build.isnan(known.point), middle, known.point)
    sight = build.cast(build.concat(start, middle, (high - low) * 0.5), SINGLE)

    def within(value: Value) -> Value:
        odd = build.isnan(value) | build.op("IsInf", value)
        return nearest(build, cut.sets, build.where(odd, start, value))

    once = ensemble.once  # members are mixed as they are
    parts = [within(expected_nodes(build, spread_nodes(build, learned, cut)))]
    shared: list[Value] = []  # the number of the one-shot model, which others may correct

    def own_number(member: NumberMember, name: str) -> Value:
        inputs = build.op("Flatten", x, axis=1)
        inputs = build.concat(inputs, sight) if member.hears else inputs
        value = body_nodes(build, inputs, member.body, name)
        return value + start if member.over else value

    def one_shot(member: OneShotMember, name: str) -> Value:
        at, _ = one_shot_nodes(build, x, heard, member, name)
        shared.append(within(_number_at(build, at, cut.bins)))
        return shared[0]

    kinds: dict[type, Callable[[Any, str], Value]] = {
        NumberMember: lambda member, name: (
            own_number(member, name) if once else within(own_number(member, name))
        ),
        OneShotMember: one_shot,
        CorrectedMember: lambda member, name: within(shared[0] + own_number(member.own, name)),
    }
    for place, member in enumerate(ensemble.members):
        if type(member) not in kinds:
            raise unknown_member(member)
        parts.append(kinds[type(member)](member, f"ensemble.{place}"))
    weights = np.array(shares_of(ensemble))[:, None]
    mixed = build.op("MatMul", build.concat(*parts), build.constant(weights, DOUBLE))
    if known.point is not None and expert:
        silent = build.isnan(known.point)
        share = build.where(silent, 0.0, build.like(expert, known.point))
        mixed = (1.0 - share) * mixed + share * build.where(silent, 0.0, known.point)
    return within(mixed)


def _number_at(build: Builder, place: Value, bins: Bins) -> Value:
    """The number at a place on the scale of the bins, as `Bins.numbers`."""
    at = place + 0.5
    at = build.between(build.where(build.isnan(at), 0.0, at), 0.0, float(bins.k))
    first = build.smaller(build.cast(at, INT64), bins.k - 1)
    edges = np.array(bins.edges)
    low = build.op("Gather", build.constant(edges[:-1], DOUBLE), first, axis=0)
    span = build.op("Gather", build.constant(np.diff(edges), DOUBLE), first, axis=0)
    return low + (at - build.cast(first, DOUBLE)) * span
