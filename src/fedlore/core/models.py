"""The kinds of network that a federation can name: fedlore's own, and those of other packages.

A kind is a dataclass of its settings with a `make`. Engines, bundles and graphs read what they
need from the module that it makes. A package brings one with an entry point in `fedlore.models`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from ..errors import ConfigError, FedloreError
from .lipschitz import Lipschitz, Shaping, lipschitz_mlp
from .nets import mlp, server
from .ordinal import Start
from .plugins import make_named
from .rng import key

_GROUP = "fedlore.models"


class ModelKind(Protocol):
    """One kind of server model; the same settings and seed make the same weights anywhere."""

    def make(self, features: int, classes: int, *, hears: bool, seed: int) -> nn.Module:
        """A fresh network from rows (n, features) to logits (n, classes)."""


@dataclass(frozen=True)
class Mlp:
    """A multi-layer perceptron."""

    hidden: tuple[int, ...] = (64, 64)

    def __post_init__(self) -> None:
        for width in self.hidden:
            if width < 1:
                raise ConfigError(f"hidden must hold widths of at least 1, got {width}")

    def make(self, features: int, classes: int, *, hears: bool, seed: int) -> nn.Module:
        return mlp(features, classes, hidden=self.hidden, hears=hears, seed=seed)


@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression."""

    def make(self, features: int, classes: int, *, hears: bool, seed: int) -> nn.Module:
        return mlp(features, classes, hidden=(), hears=hears, seed=seed)


@dataclass(frozen=True)
class ShapedNet:
    """A perceptron for ordered answers that keeps each site's shapes, see `Lipschitz`."""

    hidden: tuple[int, ...] = (32,)
    slope: float = 0.1

    def __post_init__(self) -> None:
        Mlp(self.hidden)  # the same rule
        Shaping(1, slope=self.slope)

    def make(self, features: int, classes: int, *, hears: bool, seed: int) -> nn.Module:
        start: Start = "middle" if hears else "none"
        options = Shaping(features, hears, start, self.slope)
        return lipschitz_mlp(classes, options, hidden=self.hidden, seed=seed)


MODELS: dict[str, type[ModelKind]] = {"mlp": Mlp, "logistic": Logistic}


def make_kind(name: str, settings: Mapping[str, Any]) -> ModelKind:
    """A kind of model by its name, with its settings.

    >>> make_kind("mlp", {"hidden": [8]})
    Mlp(hidden=(8,))
    >>> make_kind("mpl", {})
    Traceback (most recent call last):
    fedlore.errors.ConfigError: unknown model kind 'mpl'; did you mean 'mlp'?
    """
    found = make_named("model kind", name, settings, MODELS, _GROUP)
    if not callable(getattr(found, "make", None)):
        raise ConfigError(f"model kind '{name}' has no make(features, classes, *, hears, seed)")
    return found


def make_network(
    name: str, kind: ModelKind, features: int, classes: int, *, hears: bool, seed: int
) -> nn.Module:
    """The network of a kind as a server model, with weights that follow from the seed alone."""
    # a module of another package draws its weights from torch's own generator: it is lent one
    # with an address, so that all sites start alike and nobody else's numbers change
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(key("init", seed, name))
        made = kind.make(features, classes, hears=hears, seed=seed)
    if not isinstance(made, nn.Module):
        raise FedloreError(f"model kind '{name}' must make a torch module, got {made!r}")
    model = server(made)
    if hears and not (getattr(model, "hears", False) or isinstance(model, Lipschitz)):
        raise ConfigError(f"model kind '{name}' cannot hear the expert: hears must be false")
    return model
