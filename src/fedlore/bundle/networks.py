"""Networks as plain values: what layers there are and how they nest, never code."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import torch
from torch import nn

from ..config import build
from ..core.lipschitz import Lipschitz, Shaping
from ..core.nets import Deaf, Hearing, _AsImage, server
from ..core.ordinal import Ordered, Ordinal
from ..core.tree import Params
from ..errors import FedloreError, unknown

MOST_LAYERS = 1_000
_DEEPEST = 20
_PARTS = ("body", "trunk", "head", "line")  # layers inside others; only a line may be missing
WIDEST = 1 << 26  # numbers that one layer may give for one row


@dataclass(frozen=True)
class LayerValues:
    """A kind of layer and the attributes that, given back to its class, make it again."""

    kind: type[nn.Module]
    said: tuple[str, ...] = ()  # plain values, layers, or `options`
    bias: bool = False  # whether the class can do without one
    options: type | None = None  # of such values


#: All that a bundle may hold, beside a `sequential` of them.
LAYERS: dict[str, LayerValues] = {
    "deaf": LayerValues(Deaf, ("body",)),
    "hearing": LayerValues(Hearing, ("trunk", "head", "classes")),
    "ordered": LayerValues(
        Ordered, ("trunk", "head", "line", "classes", "options"), options=Ordinal
    ),
    "lipschitz": LayerValues(Lipschitz, ("hidden", "classes", "options"), options=Shaping),
    "linear": LayerValues(nn.Linear, ("in_features", "out_features"), bias=True),
    "conv2d": LayerValues(
        nn.Conv2d,
        ("in_channels", "out_channels", "kernel_size")
        + ("stride", "padding", "dilation", "groups", "padding_mode"),
        bias=True,
    ),
    "max_pool2d": LayerValues(nn.MaxPool2d, ("kernel_size", "stride", "padding")),
    "avg_pool2d": LayerValues(
        nn.AvgPool2d,
        ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"),
    ),
    "flatten": LayerValues(nn.Flatten, ("start_dim", "end_dim")),
    "as_image": LayerValues(_AsImage),
    "relu": LayerValues(nn.ReLU),
    "leaky_relu": LayerValues(nn.LeakyReLU, ("negative_slope",)),
    "tanh": LayerValues(nn.Tanh),
    "sigmoid": LayerValues(nn.Sigmoid),
    "gelu": LayerValues(nn.GELU, ("approximate",)),
    "silu": LayerValues(nn.SiLU),
    "identity": LayerValues(nn.Identity),
    "dropout": LayerValues(nn.Dropout, ("p",)),
    "layer_norm": LayerValues(nn.LayerNorm, ("normalized_shape", "eps")),
    "group_norm": LayerValues(nn.GroupNorm, ("num_groups", "num_channels", "eps")),
}


def describe_network(module: nn.Module) -> dict[str, object]:
    """A network as values for JSON; one that could not be made again from them is refused."""
    said = _describe(server(module))
    again = _build(said)
    if _shapes(again) != _shapes(module) or str(again) != str(module):
        raise FedloreError(
            "this network cannot be stored in a bundle: made again from its layers it is another "
            "(build it from nn.Sequential, or with nets.mlp, logistic, lenet5 or small_cnn)"
        )
    return said


def build_network(said: Mapping[str, object], weights: Params) -> nn.Module:
    """The network of such values, with weights that must fit it to the last shape."""
    model = _build(said)
    wanted = _shapes(model)
    found = {name: tuple(t.shape) for name, t in weights.items()}
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            raise FedloreError(
                f"the weights are not those of this network: '{name}' should have shape "
                f"{wanted.get(name, 'none')}, it has {found.get(name, 'none')}"
            )
    kinds = {t.dtype for t in weights.values()}
    if len(kinds) > 1 or not all(kind.is_floating_point for kind in kinds):
        names = ", ".join(sorted(str(k).removeprefix("torch.") for k in kinds))
        raise FedloreError(f"the weights must be of one floating type, got {names}")
    for name, values in weights.items():
        if not values.isfinite().all():
            raise FedloreError(f"weights must be finite: '{name}' is not")
    # assigned, not copied: the network has no memory, and no random start, before this line
    model.load_state_dict(weights, assign=True)
    return model.eval()


def check_room(said: Mapping[str, object], shape: Sequence[int]) -> None:
    """Refuse a network that blows one row up beyond all measure, without computing it."""
    model = _build(said)
    if len(shape) == 1 and not any(_can_widen(layer) for layer in model.modules()):
        return  # torch would import its compiler to try a row without computing it: a second

    def measured(layer: nn.Module, args: object, found: torch.Tensor) -> None:
        if found.numel() > WIDEST:
            raise FedloreError(
                f"a layer of a bundle's network may give {WIDEST} numbers for a row, a "
                f"{type(layer).__name__} gives {found.numel()}"
            )

    for layer in model.modules():
        layer.register_forward_hook(measured)
    model(torch.zeros(1, *shape, device="meta"), None, None)


def _can_widen(layer: nn.Module) -> bool:
    """Whether it may give a flat row more numbers than stand in the file as inputs or weights."""
    if isinstance(layer, nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d | _AsImage):
        return True
    return getattr(layer, "classes", 0) > WIDEST


def _shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(t.shape) for name, t in model.state_dict().items()}


def _describe(module: nn.Module) -> dict[str, object]:
    if type(module) is nn.Sequential:
        return {"layer": "sequential", "parts": [_describe(part) for part in module]}
    for name, layer in LAYERS.items():
        if type(module) is layer.kind:
            said = {key: _plain(getattr(module, key)) for key in layer.said}
            bias = {"bias": module.bias is not None} if layer.bias else {}
            return {"layer": name, **said, **bias}
    raise FedloreError(
        f"a bundle cannot hold a layer of the class {type(module).__name__}: it would need your "
        f"code to load (known: {', '.join(('sequential', *LAYERS))})"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, nn.Module):
        return _describe(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _build(said: Mapping[str, object]) -> nn.Module:
    budget = [MOST_LAYERS]
    try:
        with torch.device("meta"):
            return server(_make(said, _DEEPEST, budget))
    except FedloreError:
        raise
    except (TypeError, ValueError, KeyError, RuntimeError, AttributeError, OverflowError) as error:
        raise FedloreError(f"the bundle's network cannot be built: {error}") from None


def _make(said: Mapping[str, Any], depth: int, budget: list[int]) -> nn.Module:
    budget[0] -= 1
    if depth < 0 or budget[0] < 0:
        raise FedloreError(
            f"a bundle's network may have {MOST_LAYERS} layers, {_DEEPEST} inside each other"
        )
    values = dict(said)
    name = values.pop("layer")
    if name == "sequential":
        return nn.Sequential(*(_make(part, depth - 1, budget) for part in values["parts"]))
    if name not in LAYERS:
        raise FedloreError(unknown("layer", str(name), ["sequential", *LAYERS]))
    layer = LAYERS[name]
    for key in values:
        if key not in (*layer.said, "bias"):
            raise FedloreError(unknown(f"setting of a {name}", key, [*layer.said, "bias"]))
    ready: dict[str, Any] = {}
    for key, value in values.items():
        if key == "options" and layer.options is not None:
            ready[key] = build(layer.options, value, "options")
        elif key in _PARTS and (value is not None or key != "line"):
            ready[key] = _make(value, depth - 1, budget)
        elif key == "hidden":
            budget[0] -= len(value)
            ready[key] = [int(width) for width in value]
        else:
            value = int(value) if key == "classes" else value
            ready[key] = tuple(value) if isinstance(value, list) else value
    if not isinstance(ready.get("line"), nn.Linear | None):
        raise FedloreError(f"the line of an ordinal head must be linear, got {ready['line']}")
    return layer.kind(**ready)
