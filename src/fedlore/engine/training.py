"""One federated training in this process, with settings that are all decided."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import nn

from ..algorithms import Algorithm, FedAvg, Plan
from ..core.aggregate import Aggregate, aggregate_of
from ..core.history import Row
from ..core.nets import server
from ..core.scaler import Scaler, leave_unscaled
from ..personal.client import Member, P, knowledge_within
from ..personal.tasks import TaskKind, task_for
from ..privacy.filters import Placement, filter_context, guard_transport
from ..privacy.settings import Privacy, filters_of, privacy_lines
from .choice import brought_home, engine_for, fit_inputs, inputs_of_all, scaler_of
from .fitted import Fitted
from .loop import Recipe, Run, Weights, federate


@dataclass(frozen=True)
class Training:
    """How a federation is trained: what `fit` says about each of these."""

    algorithm: Algorithm = field(default_factory=FedAvg)
    plan: Plan = field(default_factory=Plan)
    rounds: int = 10
    sample: float = 1.0
    weights: Weights = "equal"
    aggregate: Aggregate | str = "mean"
    scale: bool | Scaler = True
    seed: int = 0
    evaluate: int = 0
    on_round: Callable[[Run], None] | None = None
    engine: str = "auto"
    workers: int | None = None
    device: str | None = None
    privacy: Privacy | None = None
    ledgers: str | Path | None = None

    def quiet(self) -> "Training":
        """The same without scores and reports, for trials."""
        return replace(self, evaluate=0, on_round=None)


def train(
    members: Sequence[Member[P]],
    model: nn.Module,
    training: Training,
    *,
    task: TaskKind[P] | None = None,
) -> Fitted[P]:
    """Train `model` over the clients as `training` says; the model passed in is not changed."""
    task = (task or task_for(members)).suit(model)
    clients = [task.enter(member) for member in members]
    clients = fit_inputs(clients, server(model))
    inputs = inputs_of_all(clients)
    plain = None if inputs is None else leave_unscaled(inputs).widen(task.told)
    for client in clients[:1]:
        task.check(model, client.encode(plain))
    privacy, rounds, sample = training.privacy, training.rounds, training.sample
    recipe = Recipe(
        server(model),
        training.algorithm,
        training.plan,
        training.seed,
        weights=training.weights,
        aggregate=aggregate_of(training.aggregate),
        records=None if privacy is None else privacy.records(rounds),
    )
    around = filter_context(
        recipe.algorithm,
        sites=len(clients),
        rounds=rounds,
        weights=recipe.weights,
        aggregate=recipe.aggregate,
        sample=sample,
    )
    folder = None if training.ledgers is None else Path(training.ledgers)
    filters = filters_of(privacy, around, Placement(folder=folder, run=f"seed {training.seed}"))
    if isinstance(training.scale, Scaler):
        recipe = replace(recipe, scaler=training.scale)
    elif training.scale and clients:
        recipe = replace(recipe, scaler=scaler_of(clients, filters))
    elif plain is not None:
        recipe = replace(recipe, scaler=plain)
    clients = [client.encode(recipe.scaler) for client in clients]
    chosen = engine_for(
        clients,
        recipe,
        engine=training.engine,
        workers=training.workers,
        device=training.device,
    )
    with chosen as (transport, there):
        run = federate(
            guard_transport(transport, filters) if filters else transport,
            there,
            rounds,
            sample=sample,
            evaluate=training.evaluate,
            on_round=training.on_round,
        )
        kept = transport.memories.items()
        memories = {name: m.settle(run.accepted.get(name, 0)) for name, m in kept}
    run, memories = brought_home(run, memories, recipe.model)
    spent = privacy_lines(filters, rounds=rounds, sample=sample)
    told: list[Row] = [{"round": run.round, "privacy": line} for line in spent]
    run = replace(run, rows=[*run.rows, *told])
    known = {m.id: knowledge_within(m) for m in members}
    return Fitted(task, recipe, run, known, memories, tuple(spent))
