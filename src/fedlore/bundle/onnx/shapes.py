"""A network that keeps shapes as nodes: what it is told of a row, and its clamped linear part."""

import numpy as np
import torch
from torch import nn

from ...core.inputs import Inputs
from ...core.lipschitz import SHARP, SLACK, Lipschitz, columns_of_features
from ...kernel.graph.formulas import Formulas
from ...kernel.graph.knowledge import KnowledgeNodes
from ...kernel.graph.ops import BOOL, DOUBLE, INT64, SINGLE, Value
from ...knowledge.shapes.shape import SiteShapes
from ...knowledge.shapes.verdicts import Orders, ears_for
from .builder import Builder
from .cells import logistic_cells, normal_cells, place_nodes


def shape_nodes(
    build: Builder,
    x: str,  # scaled
    formulas: Formulas,  # of rows as knowledge sees them
    model: Lipschitz,
    known: KnowledgeNodes,
    shapes: SiteShapes | None,
    orders: Orders | None,
    inputs: Inputs | None,
) -> Value:
    """Rows with what is told of them behind, as `core.lipschitz.lay_shapes`."""
    about, k = model.options, model.classes
    ears = [0.0, 0.0]
    if shapes is not None and orders is not None:
        ears = ears_for(torch.zeros(1, 0), orders)[0].tolist()
    blank = build.fill(0.0, 1)
    heard = [blank, blank]
    if about.hears or about.start != "none":
        centre, unit = build.constant((k - 1) / 2), build.constant(k / 4)
        places = place_nodes(build, known.prior, known.allowed, k, SINGLE)
        heard = [
            blank if ear != ear else build.op("Div", build.op("Sub", place, centre), unit)
            for place, ear in zip(places, ears, strict=True)
        ]
    start = blank if about.start == "none" else heard[0 if about.start == "middle" else 1]
    signs = _sign_nodes(build, formulas, model, shapes, ears, inputs)
    heard = heard if about.hears else [blank, blank]
    return build.op("Concat", x, *heard, start, signs, axis=1)


def _sign_nodes(
    build: Builder,
    formulas: Formulas,
    model: Lipschitz,
    shapes: SiteShapes | None,
    ears: list[float],
    inputs: Inputs | None,
) -> Value:
    """The sign of every input of every row, (n, wide)."""
    wide = model.options.wide
    base = np.zeros((1, wide), SINGLE)
    base[0, model.options.features :] = np.nan_to_num(ears, nan=0.0)
    rows = build.op("Shape", "rows", start=0, end=1)
    shape = build.op("Concat", rows, build.constant([wide], INT64), axis=0)
    found = build.op("Expand", build.constant(base), shape)
    if shapes is None:
        return found
    places = columns_of_features(len(shapes.schema.features), inputs)
    for one in shapes:
        here = np.zeros((1, wide), np.bool_)
        here[0, places[shapes.schema.column(one.feature)]] = True
        mask = build.constant(here, BOOL)
        if one.where:
            region = shapes.place(one).formula
            inside = build.op("Greater", formulas.value(region.tree), build.constant(0.0))
            mask = build.op("And", mask, inside)
        found = build.op("Where", mask, build.constant(float(one.sign)), found)
    return found


def lipschitz_nodes(build: Builder, module: Lipschitz, x: str, name: str) -> Value:
    """Logits of rows with what is told of them behind, (n, k), as `Lipschitz.forward`."""
    about, k = module.options, module.classes

    def part(first: int, count: int) -> Value:
        places = np.arange(first, first + count)
        return build.op("Gather", x, build.constant(places, INT64), axis=1)

    wide = about.wide
    inputs, start, signs = part(0, wide), part(wide, 1), part(wide + 1, wide)
    c = build.weight(f"{name}.line.weight", _array(module.line.weight))
    slope, zero, one = (build.constant(v) for v in (about.slope, 0.0, 1.0))
    own = np.arange(wide)[None] < about.features
    turned = build.op("Div", build.op("Mul", signs, c), slope)
    sharp = build.constant(SHARP)
    above = build.op("Softplus", build.op("Mul", sharp, build.op("Sub", turned, one)))
    above = build.op("Div", above, sharp)
    above = build.op("Add", build.constant(own), above)
    clamped = build.op("Mul", signs, build.op("Mul", slope, above))
    free = build.op("Equal", signs, zero)
    coefficient = build.op("Where", free, c, clamped)
    line = build.total(build.op("Mul", coefficient, inputs))
    h = build.op("Where", build.op("Or", free, build.constant(own, BOOL)), inputs, zero)
    for place, layer in enumerate(module.trunk):
        assert isinstance(layer, nn.Linear)
        weight = build.weight(f"{name}.trunk.{place}.weight", _array(layer.weight))
        tamed = _tamed(build, weight, place)
        bias = build.weight(f"{name}.trunk.{place}.bias", _array(layer.bias))
        seen = h if place == 0 else _sorted(build, h, layer.in_features)
        h = build.op("Gemm", seen, tamed, bias, transB=1)
    bent = build.op("Mul", h, build.constant(about.slope * (1.0 - SLACK)))
    shift = build.weight(f"{name}.own.shift", _array(module.own.shift))
    moved = build.op("Add", build.op("Add", bent, line), shift)
    far = build.op("Mul", build.constant(module.unit), build.op("Add", start, moved))
    place_ = build.op("Add", build.constant((k - 1) / 2), far)
    factor = build.op("Exp", build.weight(f"{name}.own.width", _array(module.own.width)))
    spread = build.op("Mul", build.constant(about.width), factor)
    cells = logistic_cells if about.bell == "logistic" else normal_cells
    made = cells(build, build.cast(place_, DOUBLE), build.cast(spread, DOUBLE), k)
    return build.cast(made, SINGLE)


def _tamed(build: Builder, weight: str, place: int) -> Value:
    """Weights whose rows are no larger than 1, as `core.lipschitz.tame`."""
    size = build.op("Abs", weight)
    norm = build.op("ReduceMax", size, axes=[1], keepdims=1) if place == 0 else build.total(size)
    return build.op("Div", weight, build.op("Max", norm, build.constant(1.0)))


def _sorted(build: Builder, h: str, width: int) -> Value:
    """Larger halves, then smaller ones, as `core.lipschitz.Sorted`."""
    half = width // 2

    def some(first: int, last: int) -> Value:
        return build.op("Gather", h, build.constant(np.arange(first, last), INT64), axis=1)

    a, b = some(0, half), some(half, 2 * half)
    parts = [build.op("Max", a, b), build.op("Min", a, b)]
    return build.op("Concat", *parts, *([some(2 * half, width)] if width % 2 else []), axis=1)


def _array(values: torch.Tensor) -> np.ndarray:
    return values.detach().cpu().numpy().astype(SINGLE)
