"""Train a federation in this process with one call."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from torch import nn

from ..algorithms import Algorithm, FedAvg, Plan
from ..answers import Bins
from ..core.aggregate import Aggregate
from ..core.scaler import Scaler
from ..errors import ConfigError
from ..models.classifier import TaskName
from ..models.client import Member, P
from ..models.tasks import TaskKind, task_for
from ..privacy.settings import Privacy
from .loop import Run, Weights
from .lore import SearchSpace, train_lore
from .lore.space import ModelMaker
from .training import Fitted, Training, train
from .tuning.trust import Tuning, tune, with_trust


def fit(
    clients: Sequence[Member[P]],
    model: nn.Module | ModelMaker | None = None,
    *,
    task: TaskName | TaskKind[P] | None = None,
    bins: Bins | None = None,
    ordinal: float = 0.0,
    hears: bool = False,
    trust: Literal["own", "auto"] | Tuning = "own",
    recipe: Literal["lore"] | SearchSpace | None = None,
    metric: str = "",
    ordered: bool | None = None,
    algorithm: Algorithm | None = None,
    plan: Plan | None = None,
    rounds: int = 10,
    sample: float = 1.0,
    weights: Weights = "equal",
    aggregate: Aggregate | str = "mean",
    scale: bool | Scaler = True,
    seed: int = 0,
    evaluate: int = 0,
    on_round: Callable[[Run], None] | None = None,
    engine: str = "auto",
    workers: int | None = None,
    device: str | None = None,
    privacy: Privacy | None = None,
    ledgers: str | Path | None = None,
) -> Fitted[P]:
    """Train `model` over the clients, each seeing it through its own knowledge.

    The model passed in is not changed. What is learned:

    - `task`: classification for `Client`s, regression for `NumberClient`s; the clients tell, so
      that it need not be named. A task may also be given as an object, such as `Regression`.
    - `bins`, `ordinal`, `hears` belong to regression. The model has one output per bin; `ordinal`
      > 0 makes the loss aim at neighbouring bins too; with `hears` the model has `HEARD` more
      inputs than there are features, for what the expert says of the row.

    How far the expert is followed:

    - `trust` = "auto": every client first chooses its own λ for training and for prediction, on
      rows of its own that it holds out of trial trainings (`Tuning` says how, and the cost).
    - `recipe` = "lore": the federation chooses its common recipe by votes on short trials (a
      `SearchSpace` says of what), and each client's model is a mixture of all that it has, weighed
      in private: `Fitted.benefit` tells what it brought. It needs no `model`; given one, networks
      like it are tried, and a function hears -> model gives both those that hear the expert and
      those that do not. `ordered` says whether classes rise, where no schema does, and `metric`
      (accuracy, balanced, macro_f1, log_loss; rmse, mae) what decides trials and own models.

    How it is trained:

    - `algorithm` (FedAvg) and `plan` say what a client does in a round; there are `rounds` of
      them, each with a share `sample` of the clients. `weights` counts clients equally or by
      size, and `aggregate` is how uploads become one: a mean, or a robust one.
    - `scale`: features are standardised by sums that the clients add up first, or by a scaler
      that is known (differential privacy allows no other, see `scaler_of_scope`).
    - `seed` decides every draw. With `evaluate` = e the clients score the model on their test
      rows after every e-th round and the last; `on_round` is called after each.
    - `engine` trains many clients at once where the model bears it ("auto"), always or not at
      all ("stacked", "local"); `workers` are its processes, and `device` is where it computes.
    - `privacy` says what the server may see of single clients: see `fedlore.privacy`. What it
      spends of a budget is kept in the folder `ledgers`, or forgotten after this call.
    """
    if ordered is not None and recipe is None:
        raise ConfigError("ordered belongs to recipe = lore: elsewhere the model says it")
    asked = task_for(clients, task, bins=bins, ordinal=ordinal, hears=hears)
    training = Training(
        algorithm=algorithm or FedAvg(),
        plan=plan or Plan(),
        rounds=rounds,
        sample=sample,
        weights=weights,
        aggregate=aggregate,
        scale=scale,
        seed=seed,
        evaluate=evaluate,
        on_round=on_round,
        engine=engine,
        workers=workers,
        device=device,
        privacy=privacy,
        ledgers=ledgers,
    )
    if recipe is not None:
        if trust != "own":
            raise ConfigError("recipe = lore weighs the expert itself: leave trust at 'own'")
        search_space = None if recipe == "lore" else recipe
        if not isinstance(search_space, SearchSpace | None):
            raise ConfigError(f"recipe must be lore or a SearchSpace, got {recipe!r}")
        return train_lore(
            clients,
            training,
            model=model,
            search_space=search_space,
            bins=bins,
            ordered=ordered,
            metric=metric,
        )
    if metric:
        raise ConfigError(f"metric = '{metric}' decides what recipe = lore chooses: name both")
    network = _network(model)
    if trust != "own":
        tuning = None if trust == "auto" else trust
        if not isinstance(tuning, Tuning | None):
            raise ConfigError(f"trust must be own, auto or a Tuning, got {trust!r}")
        chosen = tune(
            clients,
            lambda some: train(some, network, training.quiet(), task=asked),
            tuning=tuning,
            seed=training.seed,
        )
        clients = with_trust(clients, chosen)
    return train(clients, network, training, task=asked)


def _network(model: nn.Module | ModelMaker | None) -> nn.Module:
    if model is None:
        raise ConfigError("fit needs a model: only recipe = lore makes one itself")
    if not isinstance(model, nn.Module):
        raise ConfigError("only recipe = lore takes a function that makes models")
    return model
