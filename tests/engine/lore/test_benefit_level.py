"""The level on a benefit page: each row judged by what other rows taught, with honest intervals."""

from types import SimpleNamespace

import pytest
import torch

from fedlore.answers import Bins, Measured
from fedlore.core.examples import Examples
from fedlore.core.rng import stream
from fedlore.engine.lore.report import (
    StackMember,
    choose_own,
    compare,
    gain_of,
    judge_unseen,
    list_parts,
    measure_line,
)
from fedlore.engine.lore.stacking import MIXTURE, ClassStack, NumberStack, choose_members
from fedlore.engine.lore.start import CORRECTED
from fedlore.engine.lore.temperature import NETWORK
from fedlore.knowledge.models import Knowledge
from fedlore.models.benefit import BenefitLine, say_gain
from fedlore.models.own.baseline import Own, OwnModel

ROWS, CLASSES = 60, 4


def stack_of(y, own=()):
    """A stack of classes, or of a number, over members that are made by hand."""
    number = y.is_floating_point()
    found = object.__new__(NumberStack if number else ClassStack)
    found.y, found.knowledge = y, Knowledge()
    found.site = SimpleNamespace(common=SimpleNamespace(ordered=True), metric="")
    found.heard = None if number else Examples(torch.zeros(len(y), 1), y)
    found.measured = (
        Measured(torch.zeros(len(y), 1), y, cut=Bins(-9.0, 9.0, 10)) if number else None
    )
    found._own = Own(tuple(own), torch.zeros(len(y))) if own else None
    return found


def drawn(name, number=False):
    draw = stream("benefit", name)
    if number:
        return torch.randn(ROWS, generator=draw, dtype=torch.float64)
    return torch.randn(ROWS, CLASSES, generator=draw, dtype=torch.float64).log_softmax(1)


def own_model(name, held):
    return OwnModel(SimpleNamespace(name=name), held, 0.0)


def judge(members, stack):
    return judge_unseen(members, stack.blend, own=stack.own_losses, rows=ROWS)


@pytest.mark.parametrize("number", [False, True])
def test_the_label_of_a_row_has_no_say_in_what_is_judged_of_it(number):
    """Neither choice of models nor weights nor temperature: other labels, the same answer."""
    y = drawn("y", True) if number else (drawn("y", True).abs() * 2).long().clamp(max=3)
    own = [own_model(f"ridge, {mode}", drawn(mode, number)) for mode in ("hearing", "alone")]
    members = [StackMember("network", drawn("network", number), shared=True)]
    members.append(StackMember("ridge, hearing", own[0].held, shared=False))
    said = judge(members, stack_of(y, own))
    part = list_parts(ROWS)[0]
    other = y.clone()
    other[part] = other[part] + 5.0 if number else (other[part] + 1) % CLASSES
    again = judge(members, stack_of(other, own))
    assert torch.equal(again[part], said[part]) and not torch.equal(again[~part], said[~part])


def test_a_page_shows_the_level_of_rows_that_had_no_say():
    members = [StackMember(name, drawn(name, True), shared=True) for name in (NETWORK, "one")]
    stack = stack_of(drawn("y", True))
    line = choose_members(members, stack).report.lines[-1]
    assert line == measure_line(MIXTURE, stack.errors(judge(members, stack)), "rmse")
    everyone = torch.ones(ROWS, dtype=torch.bool)
    flattered = measure_line(MIXTURE, stack.errors(stack.blend(members, everyone)), "rmse")
    assert flattered.value < line.value


def test_how_an_own_learner_hears_the_expert_is_chosen_by_the_rows_that_are_given():
    y = torch.zeros(ROWS, dtype=torch.long)
    sure, lost = (torch.full((ROWS, CLASSES), -3.0).double() for _ in range(2))
    first = torch.arange(ROWS) < ROWS // 2
    sure[first, 0], lost[~first, 0] = -0.1, -0.1
    stack = stack_of(y, [own_model("ridge", sure), own_model("ridge, over the expert", lost)])
    for rows, name in ((first, "ridge"), (~first, "ridge, over the expert")):
        (one,) = choose_own([StackMember("ridge", sure, shared=False)], stack.own_losses, rows)
        assert one.name == name


@pytest.mark.parametrize("tails", ["normal", "Laplace"])
def test_nine_of_ten_intervals_of_an_rmse_hold(tails):
    """Squared errors of 60 rows; the usual two standard errors hold 86 % of Laplace's."""
    draw = stream("benefit", tails)
    missed = torch.randn(400, ROWS, generator=draw, dtype=torch.float64)
    if tails == "Laplace":
        missed = missed * (-2.0 * torch.rand(missed.shape, generator=draw).double().log()).sqrt()
    lines = [measure_line("one", each.square(), "rmse") for each in missed]
    truth = 1.0 if tails == "normal" else 2.0**0.5
    held = [line.low <= truth <= line.high for line in lines]
    assert sum(held) / len(held) >= 0.9
    assert all(line.low < line.value < line.high for line in lines)


def test_an_rmse_without_an_error_is_a_point():
    line = measure_line("one", torch.zeros(5, dtype=torch.float64), "rmse")
    assert (line.low, line.value, line.high) == (0.0, 0.0, 0.0)


def test_a_gain_is_paired_by_row_and_of_roots_in_the_unit_of_the_number():
    before, after = torch.tensor([4.0, 9.0, 5.0]), torch.tensor([1.0, 4.0, 4.0])
    wide = 1.96 * (((3 - 3) ** 2 + (5 - 3) ** 2 + (1 - 3) ** 2) / 3) ** 0.5 / 3**0.5
    line = gain_of(before, after, "accuracy")
    assert (line.name, line.value) == ("gain", 3.0)
    assert (line.low, line.high) == (pytest.approx(3 - wide, 1e-3), pytest.approx(3 + wide, 1e-3))
    roots = gain_of(before, after, "rmse")
    assert roots.value == pytest.approx(6.0**0.5 - 3.0**0.5)
    assert roots.high - roots.low == pytest.approx((line.high - line.low) / (6.0**0.5 + 3.0**0.5))
    assert gain_of(torch.zeros(3), torch.zeros(3), "rmse").value == 0.0
    worse = gain_of(after, before, "accuracy")
    assert (worse.value, worse.low, worse.high) == (-3.0, -line.high, -line.low)


@pytest.mark.parametrize(
    ("value", "low", "high", "said"),
    [
        (0.05, 0.01, 0.09, "Taking part pays"),
        (0.05, -0.01, 0.11, "Taking part probably pays"),
        (-0.05, -0.11, 0.01, "Taking part may not pay"),
        (0.0, -0.01, 0.01, "Taking part may not pay"),
        (0.0, 0.0, 0.0, "Taking part changes nothing"),
        (-0.05, -0.09, -0.01, "Taking part does not pay"),
    ],
)
@pytest.mark.parametrize("measure", ["accuracy", "rmse"])
def test_that_it_pays_is_said_where_the_whole_interval_says_so(measure, value, low, high, said):
    gain = BenefitLine("gain", value, low, high)
    assert say_gain(gain, "local best", 40, measure).startswith(said)


def test_a_site_s_page_has_a_line_for_each_and_the_gain_over_the_baseline():
    errors = {
        "majority": torch.tensor([1.0, 1.0, 1.0, 0.0]),
        "local best": torch.tensor([1.0, 0.0, 1.0, 0.0]),
        "mixture": torch.tensor([0.0, 0.0, 1.0, 0.0]),
    }
    found = compare(errors, "local best", weights={"a": 1.0}, costs={}, measure="accuracy")
    assert [(one.name, one.value) for one in found.lines] == [
        ("majority", 0.25), ("local best", 0.5), ("mixture", 0.75)]  # fmt: skip
    assert found.rows == 4 and found.gain.value == 0.25 and found.weights == {"a": 1.0}
    assert all(one.low < one.value < one.high for one in found.lines)


def test_rows_choose_the_way_of_a_ridge_and_keep_every_way_of_trees():
    ways = [
        StackMember(f"{kind}{how}", torch.zeros(4), shared=False)
        for kind in ("ridge", "extra trees")
        for how in ("", ", correcting the expert")
    ]
    losses = [(one, torch.full((4,), float(-place))) for place, one in enumerate(ways)]
    correcting = StackMember(CORRECTED, torch.zeros(4), shared=False)
    members = [ways[0], ways[2], ways[3], correcting]
    found = choose_own(members, losses, torch.ones(4, dtype=torch.bool))
    assert found == [ways[1], ways[2], ways[3], correcting]
