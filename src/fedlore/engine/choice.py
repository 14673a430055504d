"""Which engine runs a federation in this process."""

import copy
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import nn

from ..core.inputs import Inputs
from ..core.scaler import Scaler
from ..core.tree import Payload
from ..core.wire import Reply, Task
from ..errors import ConfigError, unknown
from ..personal.client import Client, NumberClient
from ..privacy.filters import Filter, guard_transport
from .local import Local
from .loop import Recipe, Run, scale_together
from .stacked import Stacked
from .stacked.bench import Batch, Bench

Engine = Literal["auto", "local", "stacked"]

_log = logging.getLogger("fedlore")


@contextmanager
def engine_for(
    clients: Sequence[Client],
    recipe: Recipe,
    *,
    engine: str = "auto",
    workers: int | None = None,
    device: str | None = None,
) -> Iterator[tuple[Local | Stacked, Recipe]]:
    """The engine, and the recipe with its model on the engine's device.

    `auto` trains in stacks wherever the model bears it, and says in one line why it does not.
    Without `workers` there is one process for each core, where a round is long enough to pay.
    """
    if engine not in get_args(Engine):
        raise ConfigError(unknown("engine", engine, get_args(Engine)))
    if workers is not None and workers < 1:
        raise ConfigError(f"workers must be at least 1, got {workers}")
    if device is not None:
        recipe = replace(recipe, model=_move(recipe.model, device))
    if recipe.records is not None:
        if engine != "local":
            _log.warning("clients are trained one by one: record level differential privacy")
        engine = "local"
    if engine == "auto" and clients:
        reason = why_not_stacked(recipe.model, clients[0])
        if reason is not None:
            _log.warning("clients are trained one by one: %s", reason)
            engine = "local"
    if engine == "local" or not clients:
        yield Local(clients, recipe), recipe
        return
    with Stacked(clients, recipe, workers=workers) as stacked:
        yield stacked, recipe


@torch.no_grad()
def why_not_stacked(model: nn.Module, client: Client) -> str | None:
    """What keeps a model from being trained for many clients at once, None if nothing does."""
    like = next(model.parameters())
    row = client.data[:1].to(like.device)
    x = row.x.to(like.dtype)
    bench = Bench(model, x, 2)
    if bench.by_hand:
        return None
    two = x.expand(2, *x.shape)  # (2, 1, *features)
    try:
        logits = model(x, row.prior, row.allowed)
        told = None
        if getattr(model, "hears", True):
            told = two.new_zeros(2, 1, 2 * logits.shape[1])
        target = two.new_zeros(2, logits.shape[1], 1)
        bench.load(dict(model.named_parameters()), 2)
        bench.program(2, 1).gradient(Batch(two, target, told), 0.0, 0.0)
    except Exception as error:  # whatever a user's own model may raise
        return f"{type(model).__name__} cannot be mapped over clients ({_line(error)})"
    return None


def scaler_of(clients: Sequence[Client], filters: Sequence[Filter] = ()) -> Scaler:
    """A common scaler from the clients' sums; nothing else is made ready for it."""
    with torch.no_grad():
        return scale_together(guard_transport(_Sums(clients), filters), inputs_of_all(clients))


@torch.no_grad()
def fit_inputs(clients: Sequence[Client], model: nn.Module) -> list[Client]:
    """The clients, their levels as one number each where the network was made for that."""
    inputs = inputs_of_all(clients)
    if inputs is None:
        return list(clients)
    one = next(model.parameters())
    row = clients[0].data[:1].to(one.device)
    x = inputs.encode(row.x).to(one.dtype)
    try:
        model(x, row.prior, row.allowed)
        return list(clients)
    except RuntimeError:
        if any(feature.missing for feature in inputs.features):
            raise ConfigError(
                f"the model cannot be called on rows of {x.shape[1]} inputs, which a row becomes "
                "with its levels and what may be missing: count_inputs(schema) says how many"
            ) from None
    return [replace(client, numeric=True) for client in clients]


def inputs_of_all(clients: Sequence[Client | NumberClient]) -> Inputs | None:
    """How the rows of these clients reach a network, which must be the same everywhere."""
    found = [client.inputs for client in clients]
    if len({None if one is None else one.alike() for one in found}) > 1:
        raise ConfigError(
            "the clients' features differ in levels, or in what stands for a missing value: a "
            "network takes them in one way only"
        )
    return found[0] if found else None


def brought_home(
    run: Run, memories: dict[str, Payload], like: nn.Module
) -> tuple[Run, dict[str, Payload]]:
    """The results on the device of the model that was given."""
    where = next(like.parameters()).device

    def home(payload: Payload) -> Payload:
        return {k: {n: t.to(where) for n, t in b.items()} for k, b in payload.items()}

    return replace(run, state=home(run.state)), {n: home(m) for n, m in memories.items()}


class _Sums:
    """A transport that can only be asked for sums of features."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self._clients = {c.id: c for c in clients}

    def clients(self) -> Sequence[str]:
        return list(self._clients)

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        for name in to:
            yield Reply(name, task.round, {"moments": self._clients[name].sums()})


def _move(model: nn.Module, device: str) -> nn.Module:
    try:
        return copy.deepcopy(model).to(device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device '{device}' cannot be used: {_line(error)}") from None


def _line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:120] or type(error).__name__
