"""Networks as plain values: what layers there are and how they nest, never code."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
WIDEST = 1 << 26  # numbers that one layer may give for one row


@dataclass(frozen=True)
class LayerValues:
    """A kind of layer and the attributes that, given back to its class, make it again."""

    kind: type[nn.Module]
    said: tuple[str, ...] = ()
    bias: bool = False  # whether the class can do without one


#: Layers that hold others.
NESTED = ("sequential", "deaf", "hearing", "ordered", "lipschitz")
#: All that a bundle may hold beside those.
LAYERS: dict[str, LayerValues] = {
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

    def measured(layer: nn.Module, args: object, found: torch.Tensor) -> None:
        if found.numel() > WIDEST:
            raise FedloreError(
                f"a layer of a bundle's network may give {WIDEST} numbers for a row, a "
                f"{type(layer).__name__} gives {found.numel()}"
            )

    for layer in model.modules():
        layer.register_forward_hook(measured)
    model(torch.zeros(1, *shape, device="meta"), None, None)


def _shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(t.shape) for name, t in model.state_dict().items()}


def _describe(module: nn.Module) -> dict[str, object]:
    if type(module) is nn.Sequential:
        return {"layer": "sequential", "parts": [_describe(part) for part in module]}
    if type(module) is Deaf:
        return {"layer": "deaf", "body": _describe(module.body)}
    if type(module) is Hearing:
        parts = {"trunk": _describe(module.trunk), "head": _describe(module.head)}
        return {"layer": "hearing", **parts, "classes": module.classes}
    if type(module) is Ordered:
        parts = {"trunk": _describe(module.trunk), "head": _describe(module.head)}
        line = None if module.line is None else _describe(module.line)
        about = {"classes": module.classes, "options": asdict(module.options)}
        return {"layer": "ordered", **parts, "line": line, **about}
    if type(module) is Lipschitz:
        about = {"classes": module.classes, "options": asdict(module.options)}
        return {"layer": "lipschitz", "hidden": list(module.hidden), **about}
    for name, layer in LAYERS.items():
        if type(module) is layer.kind:
            said = {key: getattr(module, key) for key in layer.said}
            said = {
                k: list(v) if isinstance(v, Sequence) and not isinstance(v, str) else v
                for k, v in said.items()
            }
            return {
                "layer": name,
                **said,
                **({"bias": module.bias is not None} if layer.bias else {}),
            }
    raise FedloreError(
        f"a bundle cannot hold a layer of the class {type(module).__name__}: it would need your "
        f"code to load (known: {', '.join((*NESTED, *LAYERS))})"
    )


def _build(said: Mapping[str, object]) -> nn.Module:
    budget = [MOST_LAYERS]
    try:
        with torch.device("meta"):
            return server(_make(said, _DEEPEST, budget))
    except FedloreError:
        raise
    except (TypeError, ValueError, KeyError, RuntimeError, AttributeError) as error:
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
    if name == "deaf":
        return Deaf(_make(values["body"], depth - 1, budget))
    if name == "hearing":
        trunk, head = (_make(values[part], depth - 1, budget) for part in ("trunk", "head"))
        return Hearing(trunk, head, int(values["classes"]))
    if name == "ordered":
        trunk, head = (_make(values[part], depth - 1, budget) for part in ("trunk", "head"))
        line = None if values["line"] is None else _make(values["line"], depth - 1, budget)
        if line is not None and not isinstance(line, nn.Linear):
            raise FedloreError(f"the line of an ordinal head must be linear, got {type(line)}")
        options = build(Ordinal, values["options"], "options")
        return Ordered(trunk, head, int(values["classes"]), options, line=line)
    if name == "lipschitz":
        budget[0] -= len(values["hidden"])
        shaping = build(Shaping, values["options"], "options")
        return Lipschitz([int(n) for n in values["hidden"]], int(values["classes"]), shaping)
    if name not in LAYERS:
        raise FedloreError(unknown("layer", str(name), [*NESTED, *LAYERS]))
    layer = LAYERS[name]
    for key in values:
        if key not in (*layer.said, "bias"):
            raise FedloreError(unknown(f"setting of a {name}", key, [*layer.said, "bias"]))
    ready = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return layer.kind(**ready)
