"""Networks as plain values: what layers there are and how they nest, never code."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from ..checker.forms import LAYERS
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


#: The classes of layers whose values, given back to them, make them again.
CLASSES: dict[str, type[nn.Module]] = {
    "sequential": nn.Sequential,
    "deaf": Deaf,
    "hearing": Hearing,
    "ordered": Ordered,
    "lipschitz": Lipschitz,
    "linear": nn.Linear,
    "conv2d": nn.Conv2d,
    "max_pool2d": nn.MaxPool2d,
    "avg_pool2d": nn.AvgPool2d,
    "flatten": nn.Flatten,
    "as_image": _AsImage,
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "identity": nn.Identity,
    "dropout": nn.Dropout,
    "layer_norm": nn.LayerNorm,
    "group_norm": nn.GroupNorm,
}
_OPTIONS: dict[str, type] = {"ordered": Ordinal, "lipschitz": Shaping}


def describe_network(module: nn.Module) -> dict[str, object]:
    """A network as values for JSON; one that could not be made again from them is refused."""
    description = _describe(server(module))
    again = _build(description)
    if _shapes(again) != _shapes(module) or str(again) != str(module):
        raise FedloreError(
            "this network cannot be stored in a bundle: rebuilt from its layers it is different "
            "(build it from nn.Sequential, or with nets.mlp, logistic, lenet5 or small_cnn)"
        )
    return description


def build_network(description: Mapping[str, object], weights: Params) -> nn.Module:
    """The network of such values, with weights that must fit it to the last shape."""
    model = _build(description)
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


def check_room(description: Mapping[str, object], shape: Sequence[int]) -> None:
    """Refuse a network that blows one row up beyond all measure, without computing it."""
    model = _build(description)
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
    name = next((name for name, kind in CLASSES.items() if type(module) is kind), None)
    if name is None:
        raise FedloreError(
            f"a bundle cannot hold a layer of the class {type(module).__name__}: it would need "
            f"your code to load (known: {', '.join(CLASSES)})"
        )
    if name == "sequential":
        return {"layer": name, "parts": [_describe(part) for part in module.children()]}
    description = {key: _plain(getattr(module, key)) for key in LAYERS[name] if key != "bias"}
    bias = {"bias": module.bias is not None} if "bias" in LAYERS[name] else {}
    return {"layer": name, **description, **bias}


def _plain(value: Any) -> Any:
    if isinstance(value, nn.Module):
        return _describe(value)
    if isinstance(value, Ordinal | Shaping):
        return asdict(value)
    return list(value) if isinstance(value, tuple | list) else value


def _build(description: Mapping[str, object]) -> nn.Module:
    budget = [MOST_LAYERS]
    try:
        with torch.device("meta"):
            return server(_make(description, _DEEPEST, budget))
    except FedloreError:
        raise
    except (TypeError, ValueError, KeyError, RuntimeError, AttributeError, OverflowError) as error:
        raise FedloreError(f"the bundle's network cannot be built: {error}") from None


def _make(description: Mapping[str, Any], depth: int, budget: list[int]) -> nn.Module:
    budget[0] -= 1
    if depth < 0 or budget[0] < 0:
        raise FedloreError(
            f"a bundle's network may have {MOST_LAYERS} layers, {_DEEPEST} inside each other"
        )
    values = dict(description)
    name = values.pop("layer")
    if name not in CLASSES:
        raise FedloreError(unknown("layer", str(name), CLASSES))
    for key in values:
        if key not in LAYERS[name]:
            raise FedloreError(unknown(f"setting of a {name}", key, LAYERS[name]))
    if name == "sequential":
        return nn.Sequential(*(_make(part, depth - 1, budget) for part in values["parts"]))
    ready: dict[str, Any] = {}
    for key, value in values.items():
        if key == "options":
            ready[key] = build(_OPTIONS[name], value, "options")
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
    return CLASSES[name](**ready)
