"""The members of a mixture as nodes: each masked, then softmaxed, then weighed."""

import math
from typing import Any

import numpy as np
import torch

from ...core.one_shot import OneShot
from ...core.rng import stream
from ...core.scaler import Inputs, Scaler
from ...errors import FedloreError
from ...kernel.graph.knowledge import KnowledgeNodes, Part
from ...kernel.graph.ops import DOUBLE, INT64, SINGLE, Value
from ...models.ensemble import Ensemble, OneShotMember, OneShotNumber
from ...models.own.gaussian import Waves
from ...models.own.members import SMOOTH, Body, ClassMember, OrderMember
from ...models.own.trees import Trees
from .bells import heard_nodes, normal_cells, place_nodes, sight_nodes
from .builder import Builder


def mixed_parts(
    build: Builder, x: str, logits: str, known: KnowledgeNodes, ensemble: Ensemble
) -> list[Part]:
    """The network, from its logits, and every member on rows x, float32, in double precision."""
    sharp = build.guard(
        build.op("Mul", logits, build.constant(ensemble.inverse_temperature)), SINGLE
    )
    weights = np.array([ensemble.network, *ensemble.weights])
    total = weights.sum()
    weights = weights / total if total > 0 else np.full(len(weights), 1.0 / len(weights))
    said = [build.cast(sharp, DOUBLE)]
    for place, member in enumerate(ensemble.members):
        name = f"ensemble.{place}"
        if isinstance(member, OrderMember):
            found = _order(build, x, known, member, name)
        elif isinstance(member, ClassMember):
            found = _classes(build, x, known, member, name)
        elif isinstance(member, OneShotMember):
            found = _one_shot(build, x, known, member, name)
        else:
            raise FedloreError(
                f"a member of the class {type(member).__name__} cannot be put into a graph"
            )
        said.append(build.guard(found, DOUBLE))
    if len(said) == 1:
        return [Part(said[0])]
    shares = [build.constant(float(weight), DOUBLE) for weight in weights]
    return [*map(Part, said, shares)]


def scale_nodes(build: Builder, x: str, scaler: Scaler | None, name: str) -> Value:
    """Rows as the scaler gives them, in single precision."""
    if scaler is None:
        return x
    wide = build.cast(x, DOUBLE)
    shift = build.weight(f"{name}.shift", scaler.shift.cpu().numpy().astype(DOUBLE))
    spread = build.weight(f"{name}.spread", scaler.spread.cpu().numpy().astype(DOUBLE))
    return build.cast(build.op("Div", build.op("Sub", wide, shift), spread), SINGLE)


def _order(build: Builder, x: str, known: KnowledgeNodes, member: OrderMember, name: str) -> Value:
    k = member.classes
    flat = build.op("Flatten", x, axis=1)
    heard, start = sight_nodes(build, known.prior, known.allowed, k)
    inputs = build.op("Concat", flat, heard, axis=1) if member.hears else flat
    place = body_nodes(build, inputs, member.body, name)  # (n, 1)
    if member.over:
        place = build.op("Add", place, start)
    return normal_cells(build, place, build.constant([member.width], DOUBLE), k)


def _classes(
    build: Builder, x: str, known: KnowledgeNodes, member: ClassMember, name: str
) -> Value:
    inputs = build.op("Flatten", x, axis=1)
    expert = [build.cast(t, SINGLE) for t in (known.prior, known.allowed) if t is not None]
    if member.hears and expert:
        inputs = build.op("Concat", inputs, *expert, axis=1)
    found = body_nodes(build, inputs, member.body, name)  # (n, k)
    if member.votes:
        k = member.body.outputs
        kept = build.op("Mul", found, build.constant(1.0 - SMOOTH, DOUBLE))
        found = build.op("Log", build.op("Add", kept, build.constant(SMOOTH / k, DOUBLE)))
    return build.op("Mul", found, build.constant(member.inverse_temperature, DOUBLE))


def _one_shot(
    build: Builder, x: str, known: KnowledgeNodes, member: OneShotMember, name: str
) -> Value:
    place, variance = one_shot_nodes(build, x, known, member, name)
    return normal_cells(build, place, build.op("Sqrt", variance), member.one_shot_model.classes)


def one_shot_nodes(
    build: Builder, x: str, known: KnowledgeNodes, member: OneShotMember | OneShotNumber, name: str
) -> tuple[str, str]:
    """Place and variance of the one-shot model, (n, 1) double each."""
    seen, k = member.one_shot_model, member.one_shot_model.classes
    x = scale_nodes(build, x, member.scaler, name)
    flat = build.cast(build.op("Flatten", x, axis=1), DOUBLE)
    middle, expert = place_nodes(build, known.prior, known.allowed, k, DOUBLE)
    start = {"middle": middle, "expert": expert}.get(seen.one_shot.start)
    if start is None:
        start = build.fill((k - 1) / 2, 1, DOUBLE)
    columns = member.one_shot_model.home.middle.numel()
    if seen.one_shot.hears:
        heard = heard_nodes(build, middle, expert, k, DOUBLE)[1:]
        flat = build.op("Concat", flat, *heard, axis=1)
    features = _basis(build, flat, seen.one_shot, columns)
    tensors = {**seen.found.bundle(), "middle": seen.home.middle, "level": seen.home.level}

    def own(part: str, *shape: int) -> Value:
        values = tensors[part].double().cpu().numpy()
        return build.weight(f"{name}.{part}", values.reshape(shape))

    phi = build.op("Sub", features, own("middle", columns))
    mean = build.op("Add", build.op("MatMul", phi, own("mean", columns, 1)), own("level", 1))
    across = build.op("MatMul", phi, own("covariance", columns, columns))
    spread = build.total(build.op("Mul", across, phi))
    once = build.constant(1.0 + 1.0 / seen.home.rows, DOUBLE)
    variance = build.op("Add", build.op("Mul", own("noise", 1), once), spread)
    return build.op("Add", start, mean), variance


def _basis(build: Builder, x: str, one_shot: OneShot, features: int) -> Value:
    """The features of `core.exact.Basis`, (n, d) double -> (n, f)."""
    basis = one_shot.basis
    one = build.constant(1.0, DOUBLE)
    parts = [x]
    if basis.terms != "linear":
        above = build.op("Sub", build.op("Mul", x, x), one)
        parts.append(build.op("Div", above, build.constant(math.sqrt(2.0), DOUBLE)))
    d = _columns(features - basis.random, basis.terms)
    if basis.terms == "quadratic" and d > 1:
        parts.append(_pairs(build, x, *torch.triu_indices(d, d, 1).tolist()))
    if basis.random:
        draw = stream("random features", basis.seed)
        ways = torch.randn(d, basis.random, generator=draw, dtype=torch.float64) / basis.reach
        turn = 2.0 * math.pi * torch.rand(basis.random, generator=draw, dtype=torch.float64)
        # the sine of a quarter more: runtimes have no cosine in double precision
        turn = turn + math.pi / 2
        angle = build.op("MatMul", x, build.constant(ways.numpy(), DOUBLE))
        angle = build.op("Add", angle, build.constant(turn.numpy(), DOUBLE))
        wave = build.op("Sin", angle)
        parts.append(build.op("Mul", wave, build.constant(math.sqrt(2.0), DOUBLE)))
    return parts[0] if len(parts) == 1 else build.op("Concat", *parts, axis=1)


def _columns(terms: int, kind: str) -> int:
    """How many columns make so many terms."""
    if kind == "linear":
        return terms
    return terms // 2 if kind == "squares" else (math.isqrt(9 + 8 * terms) - 3) // 2


def body_nodes(build: Builder, inputs: str, body: Body, name: str) -> Value:
    """(n, i) float32 -> (n, o) double."""
    if isinstance(body, Trees):
        return _trees(build, inputs, body, name)

    def own(part: str) -> Value:
        values = getattr(body, part).double().cpu().numpy()
        return build.weight(f"{name}.{part}", values)

    wide = build.op("Sub", build.cast(inputs, DOUBLE), own("mean"))
    z = build.op("Div", wide, own("scale"))
    if isinstance(body, Waves):
        angle = build.op("MatMul", z, own("frequency"))
        turned = build.op("Add", angle, build.constant(math.pi / 2, DOUBLE))
        z = build.op("Concat", z, build.op("Sin", angle), build.op("Sin", turned), axis=1)
    elif body.quadratic:
        i = len(body.mean)
        z = build.op("Concat", z, _pairs(build, z, *torch.triu_indices(i, i).tolist()), axis=1)
    return build.op("Add", build.op("MatMul", z, own("weight")), own("constant"))


def _pairs(build: Builder, z: str, first: list[int], second: list[int]) -> Value:
    """Products of columns, (n, p)."""
    a, b = (build.op("Gather", z, build.constant(i, INT64), axis=1) for i in (first, second))
    return build.op("Mul", a, b)


def _trees(build: Builder, x: str, body: Trees, name: str) -> Value:
    """All trees at once, level by level; a row that has reached its leaf stays there."""
    feature, child, roots = (t.cpu().numpy() for t in (body.feature, body.child, body.roots))
    leaf = feature < 0
    nodes = np.arange(len(feature))
    # nothing is above infinity, so that a leaf leads to itself
    limit = np.where(leaf, np.float32(np.inf), body.threshold.cpu().numpy()).astype(SINGLE)
    below = np.where(leaf, nodes, child).astype(INT64)
    column = np.where(leaf, 0, feature).astype(INT64)
    names: dict[str, Any] = {"threshold": limit, "child": below, "feature": column}
    tables = {part: build.weight(f"{name}.{part}", values) for part, values in names.items()}
    seen = build.op("Gather", x, build.constant(column[roots], INT64), axis=1)  # (n, t)
    above = build.op("Greater", seen, build.constant(limit[roots]))
    node = build.op("Add", build.cast(above, INT64), build.constant(below[roots], INT64))
    for _ in range(body.depth - 1):
        which = build.op("Gather", tables["feature"], node, axis=0)
        seen = build.op("GatherElements", x, which, axis=1)
        above = build.op("Greater", seen, build.op("Gather", tables["threshold"], node, axis=0))
        below_ = build.op("Gather", tables["child"], node, axis=0)
        node = build.op("Add", build.cast(above, INT64), below_)
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
    grown = build.op("Mul", total, build.constant(scale, DOUBLE))
    return build.op("Add", grown, build.constant(base, DOUBLE))


def encode_nodes(build: Builder, x: str, inputs: Inputs | None) -> Value:
    """Rows as network and members take them, before any scaling, as `core.inputs` has it."""
    if inputs is None:
        return x
    parts = []
    for column, one in enumerate(inputs.features):
        value = build.columns(x, [column])  # (n, 1)
        hole = build.op("IsNaN", value)
        if one.missing and not math.isnan(one.fill):
            value = build.op("Where", hole, build.constant(one.fill), value)
        if one.levels:
            places = np.arange(one.levels + one.other)[None]
            value = build.cast(build.op("Equal", value, build.constant(places)), SINGLE)
        parts += [value, build.cast(hole, SINGLE)] if one.missing else [value]
    return build.op("Concat", *parts, axis=1)
