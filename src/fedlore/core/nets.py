"""Server models: logits out, no softmax, no buffers, called as model(x, prior, allowed)."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from ..errors import ConfigError, FedloreError
from .rng import stream

__all__ = ["lenet5", "logistic", "mlp", "server", "small_cnn"]


class Deaf(nn.Module):
    """A plain module as a server model that ignores the expert."""

    hears = False

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(
        self, x: Tensor, prior: Tensor | None = None, allowed: Tensor | None = None
    ) -> Tensor:
        logits: Tensor = self.body(x)
        return logits


class Hearing(nn.Module):
    """A server model whose head also gets the rows `prior` and `allowed` as inputs.

    No prior means zeros, no range means ones.
    """

    hears = True

    def __init__(self, trunk: nn.Module, head: nn.Module, classes: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = head
        self.classes = classes

    def forward(
        self, x: Tensor, prior: Tensor | None = None, allowed: Tensor | None = None
    ) -> Tensor:
        seen = self.trunk(x)  # (n, h)
        expert = seen.new_zeros(len(seen), self.classes) if prior is None else prior.to(seen.dtype)
        open_ = seen.new_ones(len(seen), self.classes) if allowed is None else allowed
        logits: Tensor = self.head(torch.cat([seen, expert, open_.to(seen.dtype)], 1))
        return logits


def server(model: nn.Module) -> nn.Module:
    """Any module as a server model; models with buffers (BatchNorm) are refused."""
    buffers = [name for name, _ in model.named_buffers()]
    if buffers:
        raise FedloreError(
            f"a server model must have no buffers, they would not be averaged: found '{buffers[0]}'"
            " (use GroupNorm or LayerNorm in place of BatchNorm)"
        )
    return model if hasattr(model, "hears") else Deaf(model)


def mlp(
    features: int,
    classes: int,
    *,
    hidden: int | Sequence[int] = (128, 128),
    hears: bool = False,
    seed: int = 0,
) -> nn.Module:
    """A multi-layer perceptron with ReLU; the paper's Covtype model is 54-128-128-7."""
    sizes = tuple(hidden) if isinstance(hidden, Iterable) else (hidden,)
    for size in sizes:
        if type(size) is bool or not hasattr(size, "__index__") or size < 1:
            raise ConfigError(f"hidden must hold whole numbers of at least 1, got {size!r}")
    widths = [int(size) for size in sizes]
    return initialise(_with_head(nn.Flatten(), features, widths, classes, hears), seed)


def logistic(features: int, classes: int, *, seed: int = 0) -> nn.Module:
    """Multinomial logistic regression."""
    return mlp(features, classes, hidden=(), seed=seed)


def lenet5(classes: int = 10, *, hears: bool = False, seed: int = 0) -> nn.Module:
    """LeNet-5 (LeCun et al. 1998) for 28×28 images, (n, 1, 28, 28) or (n, 28, 28), with ReLU."""
    trunk = nn.Sequential(
        _AsImage(),
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
    )
    return initialise(_with_head(trunk, 400, (120, 84), classes, hears), seed)


def small_cnn(
    classes: int = 10, *, side: int = 14, hears: bool = False, seed: int = 0
) -> nn.Module:
    """One convolution and one layer: a low-resolution expert for side×side images."""
    trunk = nn.Sequential(
        _AsImage(), nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    )
    return initialise(_with_head(trunk, 8 * (side // 2) ** 2, (32,), classes, hears), seed)


class _AsImage(nn.Module):
    """(n, h, w) or (n, 1, h, w) -> (n, 1, h, w)."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.ndim == 4 else x.unsqueeze(1)


def _with_head(
    trunk: nn.Module, width: int, hidden: Sequence[int], classes: int, hears: bool
) -> nn.Module:
    head = perceptron(width + 2 * classes * hears, hidden, classes)
    return Hearing(trunk, head, classes) if hears else Deaf(nn.Sequential(trunk, head))


def perceptron(width: int, hidden: Sequence[int], outputs: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    widths = [width, *hidden]
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))


def initialise(model: nn.Module, seed: int) -> nn.Module:
    """The model with torch's usual uniform start, drawn from an address of its own."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            bound = 1 / math.sqrt(module.weight[0].numel())
            with torch.no_grad():
                for part, values in module.named_parameters():
                    values.uniform_(-bound, bound, generator=stream("init", seed, f"{name}.{part}"))
    return model
