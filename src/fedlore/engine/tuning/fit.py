"""`fit` with private λ and the recipe: engine.fit, and what may be chosen before it."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Unpack, overload

from torch import nn

from ...errors import ConfigError
from ...knowledge.numbers.bins import Bins
from .. import Client, Fitted, FittedNumbers, NumberClient
from .. import fit as federated
from ..fit import Settings
from .candidates import Trials
from .lore import ModelMaker, lore
from .trust import Tuning, trusting, tune

Auto = Literal["own", "auto"]


@overload
def fit(
    clients: Sequence[Client],
    model: nn.Module | ModelMaker,
    *,
    task: Literal["classification"] = ...,
    trust: Auto | Tuning = ...,
    recipe: Literal["lore"] | Trials | None = ...,
    **settings: Unpack[Settings],
) -> Fitted: ...


@overload
def fit(
    clients: Sequence[NumberClient],
    model: nn.Module,
    *,
    task: Literal["regression"],
    bins: Bins,
    ordinal: float = ...,
    **settings: Unpack[Settings],
) -> FittedNumbers: ...


def fit(
    clients: Sequence[Any],
    model: nn.Module | Callable[[bool], nn.Module],
    *,
    trust: Auto | Tuning = "own",
    recipe: Literal["lore"] | Trials | None = None,
    **settings: Any,
) -> Fitted | FittedNumbers:
    """Train `model` over the clients, each seeing it through its own knowledge.

    With `scale` (on by default) the features are standardised by sums that the clients add up
    first. The model passed in is not changed. For task = regression the clients are
    `NumberClient`s and the model has one output per bin.

    With trust = "auto" every client first chooses its own λ for training and for prediction, on
    rows of its own that it holds out of trial trainings (`Tuning` says how, and the cost).
    With recipe = "lore" the federation chooses its common recipe by short trials (`Trials`), and
    λ and last local steps stay private; `model` may then be a function hears -> model, so that
    networks that hear the expert can be tried too.
    """
    if trust == "own" and recipe is None:
        plain: Fitted | FittedNumbers = federated(clients, _module(model), **settings)
        return plain
    if settings.get("task", "classification") != "classification":
        raise ConfigError("trust = auto and recipe = lore are for task = classification")
    settings.pop("task", None)
    if recipe is not None:
        if trust != "own":
            raise ConfigError("recipe = lore chooses λ itself: leave trust at 'own'")
        if not isinstance(recipe, Trials) and recipe != "lore":
            raise ConfigError(f"recipe must be lore or Trials, got {recipe!r}")
        trials = recipe if isinstance(recipe, Trials) else Trials()
        if isinstance(model, nn.Module):
            # one network was given: only candidates that hear as it does can be tried
            trials = trials.limited(bool(getattr(model, "hears", False)))
        maker = model if not isinstance(model, nn.Module) else lambda _: _module(model)
        return lore(clients, maker, trials=trials, **settings).fitted
    if not isinstance(trust, Tuning) and trust != "auto":
        raise ConfigError(f"trust must be own, auto or a Tuning, got {trust!r}")
    tuning = trust if isinstance(trust, Tuning) else Tuning()
    network = _module(model)
    quiet = {**settings, "evaluate": 0, "on_round": None}
    chosen = tune(
        clients,
        lambda some: federated(some, network, **quiet),
        tuning=tuning,
        seed=settings.get("seed", 0),
    )
    return federated(trusting(clients, chosen), network, **settings)


def _module(model: nn.Module | Callable[[bool], nn.Module]) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise ConfigError("only recipe = lore takes a function that makes models")
    return model
