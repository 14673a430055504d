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
from ...core.scaler import Inputs
from ...errors import FedloreError
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
    x: str,
    *,
    name: str,
    rank: int,
    prior: str | None = None,
    allowed: str | None = None,
) -> Value:
    """The result of a module on x, float32 of this rank; weights keep their names below `name`."""
    return _Walk(build, prior, allowed).run(module, x, name, rank)[0]


class _Walk:
    """One pass through a module; every step gives a value and its rank."""

    def __init__(self, build: Builder, prior: str | None, allowed: str | None) -> None:
        self.build, self.prior, self.allowed = build, prior, allowed

    def run(self, module: nn.Module, x: str, name: str, rank: int) -> tuple[str, int]:
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

    def deaf(self, module: Deaf, x: str, name: str, rank: int) -> tuple[str, int]:
        return self.run(module.body, x, f"{name}.body", rank)

    def hearing(self, module: Hearing, x: str, name: str, rank: int) -> tuple[str, int]:
        build = self.build
        seen, rank = self.run(module.trunk, x, f"{name}.trunk", rank)
        rows = build.op("Shape", seen, start=0, end=1)
        shape = build.op("Concat", rows, build.constant([module.classes], INT64), axis=0)

        def filled(value: float) -> Value:
            return build.op("Expand", build.constant([[value]]), shape)

        expert = filled(0.0) if self.prior is None else build.cast(self.prior, SINGLE)
        open_ = filled(1.0) if self.allowed is None else build.cast(self.allowed, SINGLE)
        heard = build.op("Concat", seen, expert, open_, axis=1)
        return self.run(module.head, heard, f"{name}.head", rank)

    def ordered(self, module: Ordered, x: str, name: str, rank: int) -> tuple[str, int]:
        build, options, k = self.build, module.options, module.classes
        seen, rank = self.run(module.trunk, x, f"{name}.trunk", rank)
        start = build.constant((k - 1) / 2)
        if module.hears:
            middle, expert = place_nodes(build, self.prior, self.allowed, k, SINGLE)
            heard = heard_nodes(build, middle, expert, k, SINGLE)
            if options.start != "none":
                far = build.op(
                    "Mul", build.constant(k / 4), heard[0 if options.start == "middle" else 1]
                )
                start = build.op("Add", start, far)
            if options.hears:
                seen = build.op("Concat", seen, *heard, axis=1)
        first = build.constant([0], INT64)
        head, _ = self.run(module.head, seen, f"{name}.head", rank)
        moved = build.op("Gather", head, first, axis=1)
        moved = build.op("Add", moved, self.weight(f"{name}.own.shift", module.own.shift))
        if module.line is not None:
            line, _ = self.run(module.line, seen, f"{name}.line", rank)
            moved = build.op("Add", moved, build.op("Gather", line, first, axis=1))
        place = build.op("Add", start, build.op("Mul", build.constant(options.unit(k)), moved))
        own = build.op("Exp", self.weight(f"{name}.own.width", module.own.width))
        width = build.op("Mul", build.constant(options.width), own)
        made = logistic_cells(build, build.cast(place, DOUBLE), build.cast(width, DOUBLE), k)
        return build.cast(made, SINGLE), 2

    def lipschitz(self, module: Lipschitz, x: str, name: str, rank: int) -> tuple[str, int]:
        return lipschitz_nodes(self.build, module, x, name), 2

    def sequential(self, module: nn.Sequential, x: str, name: str, rank: int) -> tuple[str, int]:
        for place, layer in module.named_children():
            x, rank = self.run(layer, x, f"{name}.{place}", rank)
        return x, rank

    def linear(self, module: nn.Linear, x: str, name: str, rank: int) -> tuple[str, int]:
        build = self.build
        weight = self.weight(f"{name}.weight", module.weight)
        if rank != 2:
            raise FedloreError(f"layer '{name}' needs rows of numbers: put a Flatten before it")
        inputs = [x, weight]
        if module.bias is not None:
            inputs.append(self.weight(f"{name}.bias", module.bias))
        return build.op("Gemm", *inputs, transB=1), rank

    def flatten(self, module: nn.Flatten, x: str, name: str, rank: int) -> tuple[str, int]:
        if (module.start_dim, module.end_dim) != (1, -1):
            raise FedloreError(f"layer '{name}' flattens only some axes, a graph flattens all")
        return self.build.op("Flatten", x, axis=1), 2

    def as_image(self, module: nn.Module, x: str, name: str, rank: int) -> tuple[str, int]:
        if rank == 4:
            return x, 4
        return self.build.op("Unsqueeze", x, self.build.constant([1], INT64)), 4

    def conv(self, module: nn.Conv2d, x: str, name: str, rank: int) -> tuple[str, int]:
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

    def pool(self, module: nn.MaxPool2d, x: str, name: str, rank: int) -> tuple[str, int]:
        if module.dilation != 1 or module.ceil_mode or module.return_indices:
            raise FedloreError(f"layer '{name}' must be a plain max-pooling")
        kernel, stride, pad = map(_pair, (module.kernel_size, module.stride, module.padding))
        made = self.build.op("MaxPool", x, kernel_shape=kernel, strides=stride, pads=[*pad, *pad])
        return made, rank

    def layer_norm(self, module: nn.LayerNorm, x: str, name: str, rank: int) -> tuple[str, int]:
        shape = tuple(module.normalized_shape)
        weight = np.ones(shape, SINGLE) if module.weight is None else _array(module.weight)
        bias = np.zeros(shape, SINGLE) if module.bias is None else _array(module.bias)
        build = self.build
        scale = build.weight(f"{name}.weight", weight)
        shift = build.weight(f"{name}.bias", bias)
        made = build.op("LayerNormalization", x, scale, shift, axis=-len(shape), epsilon=module.eps)
        return made, rank

    def group_norm(self, module: nn.GroupNorm, x: str, name: str, rank: int) -> tuple[str, int]:
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

    def mean_pool(self, module: nn.AvgPool2d, x: str, name: str, rank: int) -> tuple[str, int]:
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

    def leaky(self, module: nn.LeakyReLU, x: str, name: str, rank: int) -> tuple[str, int]:
        return self.build.op("LeakyRelu", x, alpha=module.negative_slope), rank

    def silu(self, module: nn.SiLU, x: str, name: str, rank: int) -> tuple[str, int]:
        return self.build.op("Mul", x, self.build.op("Sigmoid", x)), rank

    def gelu(self, module: nn.GELU, x: str, name: str, rank: int) -> tuple[str, int]:
        build, half = self.build, self.build.constant(0.5)
        if module.approximate == "none":
            inner = build.op("Erf", build.op("Mul", x, build.constant(math.sqrt(0.5))))
        else:
            cube = build.op(
                "Mul", build.op("Mul", x, x), build.op("Mul", x, build.constant(0.044715))
            )
            sum_ = build.op("Add", x, cube)
            inner = build.op("Tanh", build.op("Mul", sum_, build.constant(math.sqrt(2 / math.pi))))
        whole = build.op("Add", inner, build.constant(1.0))
        return build.op("Mul", build.op("Mul", x, half), whole), rank

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
_STEPS: dict[type[nn.Module], Callable[..., tuple[str, int]]] = {
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
    c = build.weight(f"{name}.line.weight", _single(module.line.weight))
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
        weight = build.weight(f"{name}.trunk.{place}.weight", _single(layer.weight))
        tamed = _tamed(build, weight, place)
        bias = build.weight(f"{name}.trunk.{place}.bias", _single(layer.bias))
        seen = h if place == 0 else _sorted(build, h, layer.in_features)
        h = build.op("Gemm", seen, tamed, bias, transB=1)
    bent = build.op("Mul", h, build.constant(about.slope * (1.0 - SLACK)))
    shift = build.weight(f"{name}.own.shift", _single(module.own.shift))
    moved = build.op("Add", build.op("Add", bent, line), shift)
    far = build.op("Mul", build.constant(module.unit), build.op("Add", start, moved))
    place_ = build.op("Add", build.constant((k - 1) / 2), far)
    factor = build.op("Exp", build.weight(f"{name}.own.width", _single(module.own.width)))
    spread = build.op("Mul", build.constant(about.width), factor)
    made = logistic_cells(build, build.cast(place_, DOUBLE), build.cast(spread, DOUBLE), k)
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


def _single(values: torch.Tensor) -> np.ndarray:
    return values.detach().cpu().numpy().astype(SINGLE)
