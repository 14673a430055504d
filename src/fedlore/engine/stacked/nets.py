"""Which server models have hand-written layers, read off the modules they are made of."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from ...core.lipschitz import Lipschitz
from ...core.nets import Deaf, Hearing
from ...core.ordinal import Ordered
from .layers import Bound, ConvPool, Dense, Flat, Hear, Last, Layer
from .lipschitz import LINE, LipschitzLayers
from .ordinal import SHIFT, WIDTH, OrdinalHead


@dataclass(frozen=True)
class Layers:
    """A model as hand-written layers; `images` when the first takes maps, not rows."""

    layers: tuple[Layer, ...]
    images: bool
    joined: bool  # the first layer hears the expert: what it says is appended to the features


def layers_of(model: nn.Module, x: Tensor) -> Layers | str:
    """The model as layers for rows like x, (n, *features), or what stands in the way."""
    try:
        if type(model) is Ordered:
            found, images, heard = *_ordinal_layers(model, x), False
        elif type(model) is Lipschitz:
            found, images, heard = [_lipschitz(model)], False, False
        else:
            parts, heard = _parts(model)
            found, images, _ = _layers(parts, x)
            _check_end(found)
    except _Unknown as error:
        return str(error)
    used = [name for layer in found for name in layer.names]
    if sorted(used) != sorted(name for name, _ in model.named_parameters()):
        return "its layers share parameters or have others of their own"
    joined = heard and found[0].kind is Hear
    return Layers(tuple(found[1:] if joined else found), images, joined)


def layers_by_hand(model: nn.Module, x: Tensor) -> Layers | None:
    """The model as layers where it has hand-written ones."""
    found = layers_of(model, x)
    return found if isinstance(found, Layers) else None


class _Unknown(Exception):
    """A module without a hand-written twin."""


def _parts(model: nn.Module) -> tuple[list[tuple[str, nn.Module | None]], bool]:
    """The modules in the order they are called, None where the expert is heard."""
    _check_hooks(model)
    if type(model) is Deaf:
        return list(_walk("body", model.body)), False
    if type(model) is Hearing:
        trunk, head = _walk("trunk", model.trunk), _walk("head", model.head)
        return [*trunk, ("", None), *head], True
    raise _Unknown(f"{type(model).__name__} is not built of plain layers")


def _ordinal_layers(model: Ordered, x: Tensor) -> tuple[list[Layer], bool]:
    """A model for ordered classes: its trunk, and all the rest as one layer."""
    _check_hooks(model)
    trunk, images, flat = _layers(list(_walk("trunk", model.trunk)), x, head=False)
    if not flat:
        raise _Unknown("its trunk does not end in rows")
    dense, _, _ = _layers(list(_walk("head", model.head)), x.flatten(1))
    _check_end(dense)
    line = None
    if model.line is not None:
        _check_hooks(model.line)
        if getattr(model.line, "bias", None) is not None:
            raise _Unknown("its linear part has a bias of its own")
        line = "line.weight"
    used = [name for d in dense for name in d.names] + ([] if line is None else [line])
    about: dict[str, object] = {"dense": tuple(dense), "line": line, "classes": model.classes}
    settings = about | {"options": model.options}
    return [*trunk, Layer(OrdinalHead, (*used, SHIFT, WIDTH), settings)], images


def _lipschitz(model: Lipschitz) -> Layer:
    """All of a network that keeps shapes, as one layer."""
    _check_hooks(model)
    trunk = [(f"trunk.{i}.weight", f"trunk.{i}.bias") for i in range(len(model.trunk))]
    names = (*(name for pair in trunk for name in pair), LINE, SHIFT, WIDTH)
    about = {"trunk": trunk, "classes": model.classes, "options": model.options}
    return Layer(LipschitzLayers, names, about)


def _check_end(found: list[Layer]) -> None:
    if not found or found[-1].kind is not Last:
        raise _Unknown("it does not end in a linear layer")


def _walk(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module | None]]:
    _check_hooks(module)
    if type(module) is nn.Sequential:
        for part, inner in module._modules.items():  # named_children leaves out repetitions
            assert inner is not None
            yield from _walk(f"{name}.{part}", inner)
    else:
        yield name, module


def _check_hooks(module: nn.Module) -> None:
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
        raise _Unknown(f"{type(module).__name__} has hooks")


def _layers(
    parts: list[tuple[str, nn.Module | None]], x: Tensor, *, head: bool = True
) -> tuple[list[Layer], bool, bool]:
    """The layers, whether the first takes maps, and whether the last gives rows.

    With `head` a linear layer at the end gives logits, class by class.
    """
    found: list[Layer] = []
    flat, images = x.ndim == 2, False
    todo = [(name, m) for name, m in parts if type(m) is not nn.Identity]
    while todo:
        name, module = todo.pop(0)
        following = [type(m) for _, m in todo[:2]]
        if module is None:
            if not flat:
                raise _Unknown("its trunk does not end in rows")
            found.append(Layer(Hear))
        elif type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
            if images and not flat:
                found.append(Layer(Flat))
            flat = True
        elif type(module).__name__ == "_AsImage":
            continue
        elif type(module) is nn.Linear and flat:
            relu = following[:1] == [nn.ReLU]
            found.append(_linear(name, module, relu, last=head and not todo))
            del todo[: int(relu)]
        elif type(module) is nn.Conv2d and not flat and set(following) == {nn.ReLU, nn.MaxPool2d}:
            pool = next(m for _, m in todo[:2] if type(m) is nn.MaxPool2d)
            found.append(_conv_pool(name, module, pool))
            images = True
            del todo[:2]
        else:
            raise _Unknown(f"there is no hand-written {type(module).__name__} at this place")
    return found, images, flat


def _linear(name: str, module: nn.Linear, relu: bool, last: bool) -> Layer:
    return _with_bias(Last, name, module) if last else _with_bias(Dense, name, module, relu=relu)


def _conv_pool(name: str, conv: nn.Conv2d, pool: nn.MaxPool2d) -> Layer:
    square = conv.kernel_size[0] == conv.kernel_size[1] and conv.padding[0] == conv.padding[-1]
    plain = conv.stride == (1, 1) and conv.dilation == (1, 1) and conv.groups == 1
    if not square or not plain or isinstance(conv.padding, str) or conv.padding_mode != "zeros":
        raise _Unknown("its convolution is not a plain square one")
    halves = {pool.kernel_size, pool.stride} <= {2, (2, 2)} and pool.padding in (0, (0, 0))
    if not halves or pool.dilation not in (1, (1, 1)) or pool.ceil_mode or pool.return_indices:
        raise _Unknown("its maximum is not over 2×2 pixels")
    return _with_bias(ConvPool, name, conv, padding=int(conv.padding[0]))


def _with_bias(
    kind: Callable[..., Bound], name: str, module: nn.Linear | nn.Conv2d, **settings: object
) -> Layer:
    """A layer with its weight, and its bias where it has one."""
    weight, bias = f"{name}.weight", None if module.bias is None else f"{name}.bias"
    names = (weight,) if bias is None else (weight, bias)
    return Layer(kind, names, {"weight": weight, "bias": bias, **settings})
