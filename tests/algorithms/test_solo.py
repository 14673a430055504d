"""One client's work: the same steps by either method, and pulls of any strength."""

import pytest
import torch

from fedlore import Plan
from fedlore.algorithms import FlatParams, Solo, inverse, reach
from fedlore.core import tree
from fedlore.core.nets import mlp
from fedlore.engine import ready

from ..engine.federation import CLASSES, FEATURES, federation

MODEL = mlp(FEATURES, CLASSES, hidden=(5,)).double()
START = {name: p.detach() for name, p in MODEL.named_parameters()}


def work(**changes) -> Solo:
    lesson = ready(federation()[1], MODEL, None).lesson
    plan = Plan(**({"epochs": 2, "batch": 8, "lr": 0.05} | changes))
    return Solo(FlatParams(MODEL), lesson, plan, client="site-1", seed=5, round=2)


def moved(a, b) -> float:
    return max(float((t - b[name]).abs().max()) for name, t in a.items())


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_walking_one_point_is_descending(momentum):
    straight = work(momentum=momentum).descend(START)
    walked = work(momentum=momentum).walk(
        {"p": START}, lambda points, gradient: {"p": gradient(points["p"])}
    )["p"]
    assert moved(straight, walked) < 1e-12 and moved(straight, START) > 0.01


def test_a_gradient_may_be_taken_anywhere_without_moving_the_points():
    def slopes(points, gradient):
        away = gradient(points["p"])
        gradient({name: torch.full_like(t, 7.0) for name, t in points["p"].items()})
        return {"p": away}

    assert moved(work().walk({"p": START}, slopes)["p"], work().descend(START)) < 1e-12


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_any_pull_is_stable_and_none_is_plain(momentum):
    free = work(momentum=momentum).descend(START)
    ends = [
        work(momentum=momentum).descend(START, anchor=START, pull=pull)
        for pull in (0.0, 1.0, 100.0, 1e4, 1e12)
    ]
    assert moved(ends[0], free) == 0.0
    away = [moved(end, START) for end in ends]
    assert away == sorted(away, reverse=True) and away[-1] < 1e-11


def test_a_small_pull_is_the_explicit_one():
    pull, lr = 1e-3, 1e-3
    plan = {"epochs": 1, "batch": None, "steps": 3, "lr": lr, "momentum": 0.0}
    anchor = {name: t + 1.0 for name, t in START.items()}
    pulled = work(**plan).descend(START, anchor=anchor, pull=pull)
    push = {name: torch.full_like(t, -pull) for name, t in START.items()}  # pull·(start - anchor)
    shifted = work(**plan).descend(START, shift=push)
    assert moved(pulled, shifted) < 1e-8 < 1e-7 < moved(pulled, work(**plan).descend(START))


def test_reach_is_the_way_under_a_constant_gradient():
    # velocities 1, 1.5, 1.75 at momentum ½
    assert reach(3, 0.1, 0.5) == pytest.approx(0.425)
    assert reach(3, 0.1, 0.0) == pytest.approx(0.3)


def test_the_inverse_of_zero_is_zero():
    assert inverse(0.0) == 0.0 and inverse(4.0) == 0.25
    assert inverse(torch.tensor([0.0, 4.0])).tolist() == [0.0, 0.25]


def test_steps_taken_are_counted():
    one = work(batch=None, epochs=3)
    one.descend(START)
    assert one.taken == 3
    one.descend(START, steps=7)
    assert one.taken == 7


def test_a_clipped_step_is_no_longer_than_its_limit():
    plan = {"steps": 1, "momentum": 0.0, "decay": 0.0, "lr": 1.0}
    free = work(**plan).descend(START)
    short = work(**plan, clip=0.01).descend(START)
    way = {name: t - START[name] for name, t in free.items()}
    cut = {name: t - START[name] for name, t in short.items()}
    assert tree.norm(cut) == pytest.approx(0.01) and tree.norm(way) > 0.1
    assert moved(tree.scale(way, 0.01 / tree.norm(way)), cut) < 1e-12  # the same direction
    assert moved(work(**plan, clip=1e6).descend(START), free) == 0.0
