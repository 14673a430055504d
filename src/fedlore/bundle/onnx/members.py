"""The members of an ensemble as nodes: each masked, then softmaxed, then weighed."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...core.lipschitz import Lipschitz
from ...core.one_shot import STEEPNESS, OneShot
from ...core.scaler import Scaler
from ...errors import FedloreError
from ...kernel.graph.knowledge import KnowledgeNodes, Part
from ...kernel.graph.ops import DOUBLE, INT64, LARGEST, SINGLE, Value
from ...knowledge.models import Knowledge
from ...models.classifier import Personal
from ...models.ensemble import Ensemble, OneShotMember
from ...models.own.bent import Bent
from ...models.own.gaussian import Waves
from ...models.own.linear import Linear
from ...models.own.members import SMOOTH, Body, ClassMember, OrderMember
from ...models.own.trees import Trees
from .bells import bend_nodes, heard_nodes, normal_cells, place_nodes, sight_nodes
from .builder import Builder
from .networks import network, shape_nodes
from .sources import Rows

_More = Callable[[Value, Callable[[str], Value]], list[Value]]  # further columns, of z and weights


def mixed_parts(
    build: Builder, x: Value, logits: Value, known: KnowledgeNodes, ensemble: Ensemble
) -> list[Part]:
    """The network, from its logits, and every member on rows x, float32, in double precision."""
    sharp = build.guard(logits * ensemble.inverse_temperature, SINGLE)
    said = [build.cast(sharp, DOUBLE)]
    for place, member in enumerate(ensemble.members):
        make = _MEMBERS.get(type(member))
        if make is None:
            raise unknown_member(member)
        found = make(build, x, known, member, f"ensemble.{place}")
        said.append(build.guard(found, DOUBLE))
    if len(said) == 1:
        return [Part(said[0])]
    return [*map(Part, said, (build.constant(w, DOUBLE) for w in shares_of(ensemble)))]


def unknown_member(member: object) -> FedloreError:
    """What is said of a member that has no nodes."""
    return FedloreError(f"a member of the class {type(member).__name__} cannot be put into a graph")


def shares_of(ensemble: Any) -> list[float]:
    """The weights of network and members, which sum to 1; a network that is not heard has none."""
    weights = np.array([ensemble.network, *ensemble.weights])
    if not weights.sum() > 0:
        weights = np.array([float(not ensemble.once), *(1.0 for _ in ensemble.weights)])
    return [float(weight) for weight in weights / weights.sum()]


def scale_nodes(build: Builder, x: Value, scaler: Scaler | None, name: str) -> Value:
    """Rows as the scaler gives them, in single precision."""
    if scaler is None:
        return x
    shift = build.weight(f"{name}.shift", scaler.shift.cpu().numpy().astype(DOUBLE))
    spread = build.weight(f"{name}.spread", scaler.spread.cpu().numpy().astype(DOUBLE))
    return build.cast((build.cast(x, DOUBLE) - shift) / spread, SINGLE)


def logits_nodes(
    rows: Rows, inputs: Value, inner: Personal, about: Knowledge, heard: KnowledgeNodes
) -> Value:
    """What the network says, finite whatever its weights are, (n, k)."""
    build, x = rows.build, scale_nodes(rows.build, inputs, inner.scaler, "scaler")
    if isinstance(inner.model, Lipschitz):
        shapes = about.shapes, about.orders, inner.scaler
        x = shape_nodes(build, x, rows.formulas, inner.model, heard, *shapes)
    said = {"prior": heard.prior, "allowed": heard.allowed}
    logits = network(build, inner.model, x, name="model", rank=rows.rank, **said)
    return build.guard(logits, SINGLE)


def _order(
    build: Builder, x: Value, known: KnowledgeNodes, member: OrderMember, name: str
) -> Value:
    k, inputs = member.classes, build.op("Flatten", x, axis=1)
    heard, start = sight_nodes(build, known.prior, known.allowed, k, known.stated)
    inputs = build.concat(inputs, heard) if member.hears else inputs
    place = body_nodes(build, inputs, member.body, name)  # (n, 1)
    place = place + start if member.over else place
    return normal_cells(build, place, build.constant([member.width], DOUBLE), k)


def _classes(
    build: Builder, x: Value, known: KnowledgeNodes, member: ClassMember, name: str
) -> Value:
    inputs = build.op("Flatten", x, axis=1)
    expert = [build.cast(t, SINGLE) for t in (known.prior, known.allowed) if t is not None]
    if member.hears and expert:
        inputs = build.concat(inputs, *expert)
    found = body_nodes(build, inputs, member.body, name)  # (n, k)
    if member.votes:
        found = build.op("Log", found * (1.0 - SMOOTH) + SMOOTH / member.body.outputs)
    return found * member.inverse_temperature


def _one_shot(
    build: Builder, x: Value, known: KnowledgeNodes, member: OneShotMember, name: str
) -> Value:
    place, variance = one_shot_nodes(build, x, known, member, name)
    return normal_cells(build, place, build.op("Sqrt", variance), member.one_shot_model.classes)


_MEMBERS: dict[type, Callable[..., Value]] = {
    OrderMember: _order,
    ClassMember: _classes,
    OneShotMember: _one_shot,
}


def one_shot_nodes(
    build: Builder, x: Value, known: KnowledgeNodes, member: OneShotMember, name: str
) -> tuple[Value, Value]:
    """Place and variance of the one-shot model, (n, 1) double each."""
    seen, k = member.one_shot_model, member.one_shot_model.classes
    x = scale_nodes(build, x, member.scaler, name)
    flat = build.cast(build.op("Flatten", x, axis=1), DOUBLE)
    middle, expert = place_nodes(build, known.prior, known.allowed, k, DOUBLE, known.stated)
    start = {"middle": middle, "expert": expert}.get(seen.one_shot.start)
    if start is None:
        start = build.fill((k - 1) / 2, 1, DOUBLE)
    columns = seen.home.middle.numel()
    if seen.one_shot.hears:
        flat = build.concat(flat, *heard_nodes(middle, expert, k)[1:])
    tensors = {**seen.found.bundle(), "middle": seen.home.middle, "level": seen.home.level}

    def own(part: str, *shape: int) -> Value:
        values = tensors[part].double().cpu().numpy()
        return build.weight(f"{name}.{part}", values.reshape(shape))

    phi = _basis(build, flat, seen.one_shot, columns) - own("middle", columns)
    mean = build.op("MatMul", phi, own("mean", columns, 1)) + own("level", 1)
    across = build.op("MatMul", phi, own("covariance", columns, columns))
    noise, place, link = own("noise", 1), start + mean, seen.one_shot.link
    spread = build.total(across * phi) + noise / float(seen.home.rows)
    if link is not None:
        place, slope = bend_nodes(
            build, place, link, (middle, expert), known.allowed, k, DOUBLE, known.stated
        )
        spread = slope * slope * spread
    return place, noise + spread


def _basis(build: Builder, x: Value, one_shot: OneShot, features: int) -> Value:
    """The features of `core.exact.Basis`, (n, d) double -> (n, f)."""
    basis = one_shot.basis
    parts = [x]
    if basis.terms != "linear":
        parts.append((x * x - 1.0) / math.sqrt(2.0))
    d = next(n for n in range(1, features + 1) if sum(basis.counts(n)) == features)
    if basis.terms == "quadratic" and d > 1:
        bounded = build.op("Tanh", x) if basis.curves else x
        parts.append(_pairs(build, bounded, *torch.triu_indices(d, d, 1).tolist()))
    for at in basis.places:
        parts.append(build.op("Tanh", (x - at) * STEEPNESS))
    return parts[0] if len(parts) == 1 else build.concat(*parts)


def body_nodes(build: Builder, inputs: Value, body: Body, name: str) -> Value:
    """(n, i) float32 -> (n, o) double."""
    return _BODIES[type(body)](build, inputs, body, name)


def _terms(build: Builder, inputs: Value, body: Any, name: str, more: _More | None = None) -> Value:
    """A weight for each column and for what `more` makes of the columns."""

    def own(part: str) -> Value:
        return build.weight(f"{name}.{part}", getattr(body, part).double().cpu().numpy())

    z = (build.cast(inputs, DOUBLE) - own("mean")) / own("scale")
    if more is not None:
        z = build.concat(z, *more(z, own))
    return build.op("MatMul", z, own("weight")) + own("constant")


def _linear(build: Builder, inputs: Value, body: Linear, name: str) -> Value:
    first, second = torch.triu_indices(len(body.mean), len(body.mean)).tolist()
    squares = (lambda z, _: [_pairs(build, z, first, second)]) if body.quadratic else None
    return _terms(build, inputs, body, name, squares)


def _bent(build: Builder, inputs: Value, body: Bent, name: str) -> Value:
    return _terms(build, _kept(build, inputs, body), body, name)


def _kept(build: Builder, inputs: Value, body: Bent | Waves) -> Value:
    """Columns of the inputs, each kept between two ends."""
    low, high = (build.constant(t.cpu().numpy()[None]) for t in (body.low, body.high))
    return build.between(build.columns(inputs, body.column.tolist()), low, high)


def _waves(build: Builder, inputs: Value, body: Waves, name: str) -> Value:
    def sines(z: Value, own: Callable[[str], Value]) -> list[Value]:
        angle = build.op("MatMul", z, own("frequency"))
        return [build.op("Sin", angle), build.op("Sin", angle + math.pi / 2)]

    return _terms(build, _kept(build, inputs, body), body, name, sines)


def _pairs(build: Builder, z: Value, first: list[int], second: list[int]) -> Value:
    """Products of columns, (n, p)."""
    return build.columns(z, first) * build.columns(z, second)


def _trees(build: Builder, x: Value, body: Trees, name: str) -> Value:
    """All trees at once, level by level; a row that has reached its leaf stays there."""
    feature, child, roots = (t.cpu().numpy() for t in (body.feature, body.child, body.roots))
    leaf = feature < 0
    nodes = np.arange(len(feature))
    # nothing is above the largest number, so that a leaf leads to itself
    limit = np.where(leaf, LARGEST, body.threshold.cpu().numpy().clip(max=LARGEST)).astype(SINGLE)
    x = build.where(x > LARGEST, LARGEST, x)
    below = np.where(leaf, nodes, child).astype(INT64)
    column = np.where(leaf, 0, feature).astype(INT64)
    names: dict[str, Any] = {"threshold": limit, "child": below, "feature": column}
    tables = {part: build.weight(f"{name}.{part}", values) for part, values in names.items()}
    above = build.columns(x, column[roots]) > build.constant(limit[roots])  # (n, t)
    node = build.cast(above, INT64) + build.constant(below[roots], INT64)
    for _ in range(body.depth - 1):
        which = build.op("Gather", tables["feature"], node, axis=0)
        seen = build.op("GatherElements", x, which, axis=1)
        above = seen > build.op("Gather", tables["threshold"], node, axis=0)
        node = build.cast(above, INT64) + build.op("Gather", tables["child"], node, axis=0)
    values = body.values.cpu().numpy()
    row = np.where(leaf, child, 0).astype(INT64)
    base, scale = (t.double().cpu().numpy() for t in (body.base, body.scale))
    if values.shape[1] == 1:
        ends = build.weight(f"{name}.values", values[row, 0])
        found = build.cast(build.op("Gather", ends, node, axis=0), DOUBLE)  # (n, t)
        to = np.zeros((len(roots), len(base)))
        to[np.arange(len(roots)), body.output.long().cpu().numpy()] = 1.0
        total = build.op("MatMul", found, build.constant(to, DOUBLE))
    else:
        at = build.op("Gather", build.weight(f"{name}.leaf", row), node, axis=0)
        ends = build.weight(f"{name}.values", values)
        found = build.cast(build.op("Gather", ends, at, axis=0), DOUBLE)  # (n, t, o)
        total = build.op("ReduceSum", found, build.constant([1], INT64), keepdims=0)
    return total * build.constant(scale, DOUBLE) + build.constant(base, DOUBLE)


def encode_nodes(build: Builder, scaler: Scaler | None) -> Value:
    """Rows as network and members take them, before any scaling, as `core.inputs` has it."""
    x = build.cast(build.rows, SINGLE)
    if scaler is None or scaler.inputs is None:
        return x
    parts = []
    for column, one in enumerate(scaler.inputs.features):
        value = build.columns(x, [column])  # (n, 1)
        hole = build.isnan(value)
        if one.missing and not math.isnan(one.fill):
            value = build.where(hole, float(one.fill), value)
        if one.levels:
            places = build.constant(np.arange(one.levels + one.other)[None])
            value = build.cast(build.equal(value, places), SINGLE)
        parts += [value, build.cast(hole, SINGLE)] if one.missing else [value]
    return build.concat(*parts)


_BODIES: dict[type, Callable[..., Value]] = {
    Linear: _linear,
    Bent: _bent,
    Trees: _trees,
    Waves: _waves,
}
