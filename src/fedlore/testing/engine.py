"""What every engine must do: the laws of all algorithms, and the sums that two of them live on."""

from collections.abc import Iterator, Sequence

import torch

from ..algorithms import Algorithm, Scaffnew, Scaffold
from ..core.tree import Payload
from ..core.wire import Task
from ..engine import Recipe, Run, federate
from ..engine.loop import recall
from .algorithm import ALGORITHM_LAWS
from .clients import EXAMPLES, small_federation, small_recipe
from .laws import MakeEngine, Postbox, Simulation, check_laws, expect

LOST = {(2, "site-0"), (3, "site-0"), (3, "site-1"), (3, "site-2"), (5, "site-2")}


def check_engine(engine: MakeEngine, *, algorithms: Sequence[Algorithm] = EXAMPLES) -> None:
    """Every law for an engine of one's own: made from clients and a recipe, with `memories`."""
    check_laws(ALGORITHM_LAWS, *((algorithm, engine) for algorithm in algorithms))
    check_laws(ENGINE_LAWS, (engine,))


def the_common_control_stays_the_mean_of_the_clients_controls(engine: MakeEngine) -> None:
    """SCAFFOLD's sum holds whatever gets lost on the way."""
    for sample in (1.0, 0.5):
        recipe = small_recipe(Scaffold())
        transport = engine(small_federation(), recipe)
        run = federate(Postbox(transport, lose=_is_lost), recipe, 5, sample=sample)
        own = [m["control"] for m in _memories(transport, recipe, run)]
        for name, common in run.state["control"].items():
            mean = torch.stack([c[name] for c in own]).mean(0)
            torch.testing.assert_close(common, mean, rtol=0.0, atol=1e-13)
            expect(common.abs().max() > 1e-3, f"the control of '{name}' never moved")


def the_shifts_of_scaffnew_still_sum_to_zero(engine: MakeEngine) -> None:
    """Scaffnew's sum holds, because a round with a gap is void."""
    recipe = small_recipe(Scaffnew(chance=0.3))
    transport = engine(small_federation(), recipe)
    run = federate(Postbox(transport, lose=_is_lost), recipe, 5)
    merged = [row["merged"] for row in run.rows]
    expect(merged == [3, 0, 0, 3, 0], f"rounds with a gap are void, these were merged: {merged}")
    sent = recipe.algorithm.send(run.state)
    algorithm = recipe.algorithm
    assert isinstance(algorithm, Scaffnew)
    own = [algorithm.shift(sent, m) for m in _memories(transport, recipe, run)]
    for name in sent["model"]:
        shifts = torch.stack([s[name] for s in own])
        expect(shifts.sum(0).abs().max() < 1e-13, f"the shifts of '{name}' do not sum to zero")
        expect(shifts.abs().max() > 1e-3, f"the shifts of '{name}' never moved")


ENGINE_LAWS = (
    the_common_control_stays_the_mean_of_the_clients_controls,
    the_shifts_of_scaffnew_still_sum_to_zero,
)


def _is_lost(task: Task, name: str) -> bool:
    return task.kind == "train" and (task.round, name) in LOST


def _memories(transport: Simulation, recipe: Recipe, run: Run) -> Iterator[Payload]:
    sent = recipe.algorithm.send(run.state)
    for name in transport.clients():
        settled = transport.memories[name].settle(run.accepted.get(name, 0))
        yield recall(recipe, sent, settled)
