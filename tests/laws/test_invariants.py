"""The sums that SCAFFOLD and Scaffnew live on hold whatever gets lost on the way."""

import pytest
import torch

from fedlore import federate
from fedlore.algorithms import Scaffnew, Scaffold
from fedlore.engine.loop import recall

from ..engine.federation import federation
from .lists import ENGINES, names, recipe_for
from .test_algorithms import Post

each_engine = pytest.mark.parametrize("engine", ENGINES, ids=names(ENGINES))
LOST = {(2, "site-0"), (3, "site-0"), (3, "site-1"), (3, "site-2"), (5, "site-2")}


def lost(task, name) -> bool:
    return task.kind == "train" and (task.round, name) in LOST


def memories(transport, recipe, run):
    sent = recipe.algorithm.send(run.state)
    for name in transport.clients():
        settled = transport.memories[name].settle(run.accepted.get(name, 0))
        yield recall(recipe, sent, settled)


@pytest.mark.parametrize("sample", [1.0, 0.5])
@each_engine
def test_the_common_control_stays_the_mean_of_the_clients_controls(engine, sample):
    recipe = recipe_for(Scaffold())
    transport = engine(federation(), recipe)
    run = federate(Post(transport, lose=lost), recipe, 5, sample=sample)
    own = [m["control"] for m in memories(transport, recipe, run)]
    for name, common in run.state["control"].items():
        mean = torch.stack([c[name] for c in own]).mean(0)
        torch.testing.assert_close(common, mean, rtol=0, atol=1e-13)
        assert common.abs().max() > 1e-3


@each_engine
def test_the_shifts_of_scaffnew_still_sum_to_zero(engine):
    recipe = recipe_for(Scaffnew(chance=0.3))
    transport = engine(federation(), recipe)
    run = federate(Post(transport, lose=lost), recipe, 5)
    assert [row["merged"] for row in run.rows] == [3, 0, 0, 3, 0]  # a round with a gap is void
    sent = recipe.algorithm.send(run.state)
    own = [recipe.algorithm.shift(sent, m) for m in memories(transport, recipe, run)]
    for name in sent["model"]:
        shifts = torch.stack([s[name] for s in own])
        assert shifts.sum(0).abs().max() < 1e-13 and shifts.abs().max() > 1e-3
