"""Torch modules as nodes: what `fedlore.core` makes, shapes included, and the usual layers."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from ...core import nets
from ...core.lipschitz import SHARP, SLACK, Lipschitz, columns_of_features
from ...core.nets import Deaf, Hearing
from ...core.ordinal import Ordered
from ...core.scaler import Scaler
from ...errors import FedloreError
from ...kernel.cells import single
from ...kernel.graph.formulas import Formulas
from ...kernel.graph.knowledge import KnowledgeNodes
from ...kernel.graph.ops import BOOL, DOUBLE, INT64, SINGLE, Value
from ...knowledge.shapes.shape import Orders, SiteShapes, ears_for
from .bells import heard_nodes, logistic_cells, place_nodes
from .builder import Builder

_PLAIN = {  # layers without weights or settings
    nn.ReLU: "Relu",
    nn.Tanh: "Tanh",
    nn.Sigmoid: "Sigmoid",
    nn.Identity: "Identity",
    nn.Dropout: "Identity",  # a trained model is used, not trained
}


def network(
    build: Builder,
    module: nn.Module,
    x: Value,
    *,
    name: str,
    rank: int,
    prior: Value | None = None,
    allowed: Value | None = None,
) -> Value:
    """The result of a module on x, float32 of this rank; weights keep their names below `name`."""
    return _Walk(build, prior, allowed).run(module, x, name, rank)[0]


class _Walk:
    """One pass through a module; every step gives a value and its rank."""

    def __init__(self, build: Builder, prior: Value | None, allowed: Value | None) -> None:
        self.build, self.prior, self.allowed = build, prior, allowed

    def run(self, module: nn.Module, x: Value, name: str, rank: int) -> tuple[Value, int]:
        build = self.build
        if type(module) in _PLAIN:
            return build.op(_PLAIN[type(module)], x), rank
        step = _STEPS.get(type(module))
        if step is None:
            raise FedloreError(
                f"the network cannot be put into a graph: layer '{name}' is a "
                f"{type(module).__name__}"
            )
        return step(self, module, x, name, rank)

    def deaf(self, module: Deaf, x: Value, name: str, rank: int) -> tuple[Value, int]:
        return self.run(module.body, x, f"{name}.body", rank)

    def hearing(self, module: Hearing, x: Value, name: str, rank: int) -> tuple[Value, int]:
        build = self.build
        seen, rank = self.run(module.trunk, x, f"{name}.trunk", rank)
        expert, open_ = (
            build.fill(blank, module.classes, like=seen)
            if said is None
            else build.cast(said, SINGLE)
            for said, blank in ((self.prior, 0.0), (self.allowed, 1.0))
        )
        heard = build.concat(seen, expert, open_)
        return self.run(module.head, heard, f"{name}.head", rank)

    def ordered(self, module: Ordered, x: Value, name: str, rank: int) -> tuple[Value, int]:
        build, options, k = self.build, module.options, module.classes
        seen, rank = self.run(module.trunk, x, f"{name}.trunk", rank)
        start = build.constant((k - 1) / 2)
        if module.hears:
            middle, expert = place_nodes(build, self.prior, self.allowed, k, SINGLE)
            heard = heard_nodes(middle, expert, k)
            if options.start != "none":
                start = start + k / 4 * heard[0 if options.start == "middle" else 1]
            if options.hears:
                seen = build.concat(seen, *heard)
        head, _ = self.run(module.head, seen, f"{name}.head", rank)
        moved = build.columns(head, [0])
        moved = moved + self.weight(f"{name}.own.shift", module.own.shift)
        if module.line is not None:
            line, _ = self.run(module.line, seen, f"{name}.line", rank)
            moved = moved + build.columns(line, [0])
        place = start + options.unit(k) * moved
        own = build.op("Exp", self.weight(f"{name}.own.width", module.own.width))
        width = options.width * own
        made = logistic_cells(build, build.cast(place, DOUBLE), build.cast(width, DOUBLE), k)
        return build.cast(made, SINGLE), 2

    def lipschitz(self, module: Lipschitz, x: Value, name: str, rank: int) -> tuple[Value, int]:
        return lipschitz_nodes(self.build, module, x, name), 2

    def sequential(
        self, module: nn.Sequential, x: Value, name: str, rank: int
    ) -> tuple[Value, int]:
        for place, layer in module.named_children():
            x, rank = self.run(layer, x, f"{name}.{place}", rank)
        return x, rank

    def linear(self, module: nn.Linear, x: Value, name: str, rank: int) -> tuple[Value, int]:
        build = self.build
        weight = self.weight(f"{name}.weight", module.weight)
        if rank != 2:
            raise FedloreError(f"layer '{name}' needs rows of numbers: put a Flatten before it")
        inputs = [x, weight]
        if module.bias is not None:
            inputs.append(self.weight(f"{name}.bias", module.bias))
        return build.op("Gemm", *inputs, transB=1), rank

    def flatten(self, module: nn.Flatten, x: Value, name: str, rank: int) -> tuple[Value, int]:
        if (module.start_dim, module.end_dim) != (1, -1):
            raise FedloreError(f"layer '{name}' flattens only some axes, a graph flattens all")
        return self.build.op("Flatten", x, axis=1), 2

    def as_image(self, module: nn.Module, x: Value, name: str, rank: int) -> tuple[Value, int]:
        if rank == 4:
            return x, 4
        return self.build.op("Unsqueeze", x, self.build.constant([1], INT64)), 4

    def conv(self, module: nn.Conv2d, x: Value, name: str, rank: int) -> tuple[Value, int]:
        if isinstance(module.padding, str) or module.padding_mode != "zeros":
            raise FedloreError(f"layer '{name}' must be padded by numbers, with zeros")
        inputs = [x, self.weight(f"{name}.weight", module.weight)]
        if module.bias is not None:
            inputs.append(self.weight(f"{name}.bias", module.bias))
        made = self.build.op(
            "Conv",
            *inputs,
            kernel_shape=list(module.kernel_size),
            strides=list(module.stride),
            pads=[*module.padding, *module.padding],
            dilations=list(module.dilation),
            group=module.groups,
        )
        return made, rank

    def pool(self, module: nn.MaxPool2d, x: Value, name: str, rank: int) -> tuple[Value, int]:
        if module.dilation != 1 or module.ceil_mode or module.return_indices:
            raise FedloreError(f"layer '{name}' must be a plain max-pooling")
        kernel, stride, pad = map(_pair, (module.kernel_size, module.stride, module.padding))
        made = self.build.op("MaxPool", x, kernel_shape=kernel, strides=stride, pads=[*pad, *pad])
        return made, rank

    def layer_norm(self, module: nn.LayerNorm, x: Value, name: str, rank: int) -> tuple[Value, int]:
        shape = tuple(module.normalized_shape)
        weight = np.ones(shape, SINGLE) if module.weight is None else _array(module.weight)
        bias = np.zeros(shape, SINGLE) if module.bias is None else _array(module.bias)
        build = self.build
        scale = build.weight(f"{name}.weight", weight)
        shift = build.weight(f"{name}.bias", bias)
        made = build.op("LayerNormalization", x, scale, shift, axis=-len(shape), epsilon=module.eps)
        return made, rank

    def group_norm(self, module: nn.GroupNorm, x: Value, name: str, rank: int) -> tuple[Value, int]:
        build, groups = self.build, module.num_groups
        apart = build.op("Reshape", x, build.constant([0, groups, -1], INT64))
        plain = build.op(
            "InstanceNormalization",
            apart,
            build.constant(np.ones(groups)),
            build.constant(np.zeros(groups)),
            epsilon=module.eps,
        )
        made = build.op("Reshape", plain, build.op("Shape", x))
        wide = build.constant([1, -1, *[1] * (rank - 2)], INT64)
        for kind, part, values in (("Mul", "weight", module.weight), ("Add", "bias", module.bias)):
            if values is not None:
                known = self.weight(f"{name}.{part}", values)
                made = build.op(kind, made, build.op("Reshape", known, wide))
        return made, rank

    def mean_pool(self, module: nn.AvgPool2d, x: Value, name: str, rank: int) -> tuple[Value, int]:
        if module.ceil_mode or module.divisor_override or not module.count_include_pad:
            raise FedloreError(f"layer '{name}' must be a plain average-pooling")
        kernel, stride, pad = map(_pair, (module.kernel_size, module.stride, module.padding))
        made = self.build.op(
            "AveragePool",
            x,
            kernel_shape=kernel,
            strides=stride,
            pads=[*pad, *pad],
            count_include_pad=1,
        )
        return made, rank

    def leaky(self, module: nn.LeakyReLU, x: Value, name: str, rank: int) -> tuple[Value, int]:
        return self.build.op("LeakyRelu", x, alpha=module.negative_slope), rank

    def silu(self, module: nn.SiLU, x: Value, name: str, rank: int) -> tuple[Value, int]:
        return x * self.build.op("Sigmoid", x), rank

    def gelu(self, module: nn.GELU, x: Value, name: str, rank: int) -> tuple[Value, int]:
        build = self.build
        if module.approximate == "none":
            inner = build.op("Erf", x * math.sqrt(0.5))
        else:
            cube = (x * x) * (x * 0.044715)
            inner = build.op("Tanh", (x + cube) * math.sqrt(2 / math.pi))
        return (x * 0.5) * (inner + 1.0), rank

    def weight(self, name: str, values: Tensor) -> Value:
        return self.build.weight(name, _array(values))


def _array(values: Tensor) -> np.ndarray:
    array = values.detach().cpu().numpy()
    if array.dtype != SINGLE:
        kind = "double precision" if array.dtype == DOUBLE else str(array.dtype)
        raise FedloreError(f"a graph takes networks in single precision, got {kind}")
    return array


def _pair(size: int | Sequence[int]) -> list[int]:
    return [size, size] if isinstance(size, int) else list(size)


#: By the very type: a subclass may do anything.
_STEPS: dict[type[nn.Module], Callable[..., tuple[Value, int]]] = {
    Deaf: _Walk.deaf,
    Hearing: _Walk.hearing,
    Ordered: _Walk.ordered,
    Lipschitz: _Walk.lipschitz,
    nn.Sequential: _Walk.sequential,
    nn.Linear: _Walk.linear,
    nn.Flatten: _Walk.flatten,
    nets._AsImage: _Walk.as_image,
    nn.Conv2d: _Walk.conv,
    nn.MaxPool2d: _Walk.pool,
    nn.AvgPool2d: _Walk.mean_pool,
    nn.LayerNorm: _Walk.layer_norm,
    nn.GroupNorm: _Walk.group_norm,
    nn.LeakyReLU: _Walk.leaky,
    nn.SiLU: _Walk.silu,
    nn.GELU: _Walk.gelu,
}


def shape_nodes(
    build: Builder,
    x: Value,  # scaled
    formulas: Formulas,  # of rows as knowledge sees them
    model: Lipschitz,
    known: KnowledgeNodes,
    shapes: SiteShapes | None,
    orders: Orders | None,
    scaler: Scaler | None,
) -> Value:
    """Rows with what is told of them behind, as `core.lipschitz.lay_shapes`."""
    about, k = model.options, model.classes
    ears = [0.0, 0.0]
    if shapes is not None and orders is not None:
        ears = ears_for(torch.zeros(1, 0), orders)[0].tolist()
    blank = build.fill(0.0, 1)
    heard = [blank, blank]
    if about.hears or about.start != "none":
        places = place_nodes(build, known.prior, known.allowed, k, SINGLE)
        heard = [
            blank if ear != ear else (place - (k - 1) / 2) / (k / 4)
            for place, ear in zip(places, ears, strict=True)
        ]
    start = blank if about.start == "none" else heard[0 if about.start == "middle" else 1]
    heard = heard if about.hears else [blank, blank]
    whole = build.concat(x, *heard)
    told = _cut_nodes(build, whole, formulas, model, shapes, ears, scaler)
    return build.concat(whole, start, *told)


def _cut_nodes(
    build: Builder,
    x: Value,  # scaled, with what is heard
    formulas: Formulas,
    model: Lipschitz,
    shapes: SiteShapes | None,
    ears: list[float],
    scaler: Scaler | None,
) -> list[Value]:
    """The part of every input that raises the answer, that lowers it, that is free: (n, wide) each,
    as `core.lipschitz._cut`."""
    wide, features = model.options.wide, model.options.features
    blank = build.fill(0.0, wide)
    signed = np.zeros((1, wide), np.bool_)
    signed[0, features:] = np.nan_to_num(ears, nan=0.0) > 0
    up = build.where(build.constant(signed, BOOL), x, blank)
    down, free = blank, x - up
    if shapes is None:
        return [up, down, free]
    d = len(shapes.schema.features)
    places = columns_of_features(d, None if scaler is None else scaler.inputs)
    for one in shapes.directed or ():
        column = shapes.schema.column(one.feature)
        here = np.zeros((1, wide), np.bool_)
        here[0, places[column]] = True
        mask = build.constant(here, BOOL)
        if one.where:
            mask = mask & (formulas.value(shapes.place(one).formula.tree) > 0.0)
        before, behind, between = x, blank, blank
        if one.turns:
            raw = torch.zeros(2, d)
            raw[:, column] = torch.tensor([single(one.turns[0]), single(one.turns[-1])])
            ends = (raw if scaler is None else scaler(raw)).float()[:, places[column]]
            (start, end), (below, above) = ends.tolist(), ends.clamp(max=0.0).tolist()
            before = build.smaller(x, start) - below
            behind = build.larger(x, end) - max(end, 0.0)
            kept = build.smaller(build.larger(x, start), end)
            between = kept - float(np.float32(max(start, 0.0)) + np.float32(above))
        rising, falling = (before, behind) if one.pieces[0].sign > 0 else (behind, before)
        up = build.where(mask, rising, up)
        down = build.where(mask, falling, down)
        free = build.where(mask, between, free)
    return [up, down, free]


def lipschitz_nodes(build: Builder, module: Lipschitz, x: Value, name: str) -> Value:
    """Logits of rows with what is told of them behind, (n, k), as `Lipschitz.forward`."""
    about, k = module.options, module.classes

    def part(first: int, count: int) -> Value:
        return build.columns(x, np.arange(first, first + count))

    wide = about.wide
    inputs, start = part(0, wide), part(wide, 1)
    up, down, free = (part(i * wide + 1, wide) for i in (1, 2, 3))
    c = build.weight(f"{name}.line.weight", _single(module.line.weight))
    own = np.arange(wide)[None] < about.features

    def clamped(sign: float) -> Value:
        turned = (c * sign) / about.slope
        above = build.op("Softplus", SHARP * (turned - 1.0)) / SHARP
        return (about.slope * sign) * (above + build.constant(own))

    line = build.total(clamped(1.0) * up + clamped(-1.0) * down + c * free)
    h = build.where(build.constant(own, BOOL), inputs, free)
    for place, layer in enumerate(module.trunk):
        assert isinstance(layer, nn.Linear)
        weight = build.weight(f"{name}.trunk.{place}.weight", _single(layer.weight))
        tamed = _tamed(build, weight, place)
        bias = build.weight(f"{name}.trunk.{place}.bias", _single(layer.bias))
        seen = h if place == 0 else _sorted(build, h, layer.in_features)
        h = build.op("Gemm", seen, tamed, bias, transB=1)
    shift = build.weight(f"{name}.own.shift", _single(module.own.shift))
    moved = (h * (about.slope * (1.0 - SLACK)) + line) + shift
    place_ = (k - 1) / 2 + module.unit * (start + moved)
    factor = build.op("Exp", build.weight(f"{name}.own.width", _single(module.own.width)))
    spread = about.width * factor
    made = logistic_cells(build, build.cast(place_, DOUBLE), build.cast(spread, DOUBLE), k)
    return build.cast(made, SINGLE)


def _tamed(build: Builder, weight: Value, place: int) -> Value:
    """Weights whose rows are no larger than 1, as `core.lipschitz.tame`."""
    size = abs(weight)
    norm = build.op("ReduceMax", size, axes=[1], keepdims=1) if place == 0 else build.total(size)
    return weight / build.larger(norm, 1.0)


def _sorted(build: Builder, h: Value, width: int) -> Value:
    """Larger halves, then smaller ones, as `core.lipschitz.Sorted`."""
    half = width // 2

    def some(first: int, last: int) -> Value:
        return build.columns(h, np.arange(first, last))

    a, b = some(0, half), some(half, 2 * half)
    rest = [some(2 * half, width)] if width % 2 else []
    return build.concat(build.larger(a, b), build.smaller(a, b), *rest)


def _single(values: torch.Tensor) -> np.ndarray:
    return values.detach().cpu().numpy().astype(SINGLE)
