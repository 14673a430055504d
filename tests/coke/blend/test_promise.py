"""Plans that distrust themselves: what is promised, what is refused, and what the checker says."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedlore import Knowledge
from fedlore.core.one_shot import posterior, predict_new
from fedlore.core.rng import stream
from fedlore.errors import FedloreError, KnowledgeError
from fedlore.models.doubt import (
    INFLATION,
    Doubt,
    doubt_classes,
    doubt_numbers,
    member_probabilities,
)
from fedlore_coke.blend import check, order_for, plan
from fedlore_coke.blend.check import _ask
from fedlore_coke.blend.graders import (
    ERRING,
    FALL,
    BlendTarget,
    class_chances,
    grader_for,
    number_chances,
)
from fedlore_coke.blend.judge import find_answered
from fedlore_coke.blend.words import as_json, plan_summary

from .doubters import CSR, STEPS, foreseen, many_trees, numbers
from .test_planner import grid, shares_of
from .world import GRADES, ladder, offer, three, wild

TARGETS = ("grade>=Q14", "grade<=Q13", "grade>=Q12, grade<=Q15", "grade>=Q10")


def some_rows(count=50):
    return torch.rand(count, 2, generator=stream("some rows")) * torch.tensor([20.0, 1.2])


def narrow(x):
    """R-KM over eight classes: four of them, higher for low ash."""
    first = (4 - x[:, :1] // 5).clamp(0, 4)
    at = torch.arange(8)
    return (at >= first) & (at < first + 4)


def refusing(x):
    """The same, but of ash above 14 this expert knows nothing at all."""
    return narrow(x) & (x[:, :1] <= 14)


def test_ignorance_grows_away_from_the_rows():
    model = foreseen()
    near, far = torch.tensor([[12.0, 1.1]]), torch.tensor([[35.0, 0.2]])
    doubts = [doubt_classes(model, model.annotate(x)) for x in (near, far)]
    assert doubts[0].noise == doubts[1].noise
    assert float(doubts[1].ignorance) > 5 * float(doubts[0].ignorance)


def test_what_is_expected_averages_over_the_ignorance():
    """P of a normal place and normal noise is P of one normal: averaged on a fine grid."""
    doubt = Doubt(*(torch.tensor([v], dtype=torch.float64) for v in (3.2, 0.6, 0.9)))
    at = torch.linspace(-6, 6, 401, dtype=torch.float64)
    weight = torch.exp(-0.5 * at.square())
    each = torch.cat([doubt.shift_probs(float(z), None, 8) for z in at]).exp()
    mean = (weight / weight.sum()) @ each
    assert torch.allclose(doubt.log_probs(None, 8).exp()[0], mean, atol=1e-6)


@pytest.mark.parametrize("promise", ["expected", "safe"])
@pytest.mark.parametrize("known", [None, Knowledge(range=narrow)], ids=["free", "range"])
@pytest.mark.parametrize("make", [foreseen, lambda k=None: many_trees()], ids=["one_shot", "trees"])
def test_the_checker_promises_the_same(make, known, promise):
    model = make(knowledge=known) if make is foreseen else make()
    for text in TARGETS:
        order = order_for(model, STEPS, three(), text, promise=promise)
        x = some_rows(12)
        chance, _ = order.grader.look(x, (order.target,))
        again = [_ask(order, x[i : i + 1])[0] for i in range(len(x))]
        assert chance[:, 0] == pytest.approx(again, abs=1e-7)


def test_safe_never_promises_more_and_bounds_the_fall():
    model = foreseen(knowledge=Knowledge(range=narrow))
    x = some_rows()
    safe, expected = (grader_for(model, STEPS, promise=p) for p in ("safe", "expected"))
    targets = [safe.target(text) for text in TARGETS]
    sure, likely = safe.look(x, targets)[0], expected.look(x, targets)[0]
    assert (sure <= likely).all() and (sure < likely - 0.01).any()
    doubt = doubt_classes(model, model.annotate(x))
    for by in (-ERRING, ERRING):
        true = doubt.shift_probs(by, model.annotate(x).allowed, 8).exp() @ safe._inside(targets)
        assert (true.numpy() >= sure - FALL - 1e-9).all()
    assert (sure[:, 3] == 1.0).all()  # what holds for all classes cannot go wrong


@pytest.mark.whole_forests
def test_members_that_differ_are_believed_less():
    model = many_trees()
    known = model.annotate(some_rows())
    voices, weights = member_probabilities(model, known)
    assert weights.tolist() == pytest.approx([0.9, 0.1])
    grader = grader_for(model, STEPS)
    inside = grader._inside([grader.target("grade>=Q14")])
    unordered = class_chances(model, known, inside, ordered=False)
    each = (voices @ inside).squeeze(2)
    assert (unordered.low <= unordered.expected).all()
    apart = (each[0] - each[1]).abs() > 0.2
    assert apart.any() and (unordered.low < unordered.expected - 0.1).squeeze(1)[apart].all()


def test_a_network_alone_cannot_tell():
    assert doubt_classes(ladder(), ladder().annotate(some_rows())) is None
    order = order_for(ladder(), GRADES, three(), "grade>=good", confidence=0.5)
    found = plan(order, compare=False)
    assert found.blend.risk.low is None
    assert any("cannot tell its own uncertainty" in line for line in plan_summary(found))
    raw = replace(order, grader=replace(order.grader, promise="expected"))
    assert plan(raw, compare=False).blend.cost == found.blend.cost


def test_a_plan_tells_noise_from_ignorance():
    coals = offer(3, 3)
    plans = {
        promise: plan(
            order_for(
                foreseen(count=14),
                STEPS,
                coals,
                "grade>=Q14",
                confidence=0.8,
                promise=promise,
                lots=0.5,
            ),
            compare=False,
        )
        for promise in ("expected", "safe")
    }
    safe, expected = plans["safe"].blend, plans["expected"].blend
    assert safe.cost > expected.cost
    assert expected.risk.expected == pytest.approx(0.8, abs=0.02)
    risk = safe.risk
    assert risk.noise + risk.ignorance == pytest.approx(1.0 - risk.expected)
    assert risk.noise > 0 and risk.ignorance >= 0
    assert safe.chance == pytest.approx(min(risk.expected, risk.low + FALL), abs=1e-6)
    said = " ".join(plan_summary(plans["safe"]))
    assert "test noise and" in said and "P is promised as safe" in said
    told = as_json(plans["expected"])
    assert told["promise"] == "expected" and told["blend"]["risk"]["low"] < 0.8


def test_trees_are_flat_and_still_planned():
    coals = offer(1)
    order = order_for(many_trees(), STEPS, coals, "grade>=Q14", confidence=0.6)
    points = grid()
    seen = order.judge(points)
    best = float((points @ coals.price)[seen.good(order.goal)].min())
    found = plan(order, compare=False)
    assert found.blend.cost <= 1.01 * best
    assert not check(order, shares_of(found, coals))


def test_a_number_is_promised_with_the_spread_of_its_members():
    model = numbers()
    told = model.annotate(some_rows())
    doubt = doubt_numbers(model, told)
    assert (doubt.ignorance > 0).all() and (doubt.noise >= 1.5).all()
    safe = order_for(model, CSR, three(), "csr>=52", lots=1.0)
    expected = grader_for(model, CSR, promise="expected")
    x = some_rows()
    sure, likely = (grader.look(x, (safe.target,))[0] for grader in (safe.grader, expected))
    assert (sure <= likely).all() and (sure < likely - 0.05).any()
    found = plan(replace(safe, confidence=0.8), compare=False)
    assert found.blend is not None and found.blend.risk.ignorance_sd > 0
    x = some_rows(5)
    chance, _ = safe.grader.look(x, (safe.target,))
    again = [_ask(safe, x[i : i + 1])[0] for i in range(5)]
    assert chance[:, 0] == pytest.approx(again, abs=1e-9)


@pytest.mark.parametrize("scope", [True, False])
def test_blends_that_the_range_refuses_are_counted_and_passed_over(scope):
    model = foreseen(knowledge=Knowledge(range=refusing))
    coals = offer(3, 3)
    with pytest.raises(KnowledgeError):
        model.annotate(torch.tensor([[15.0, 1.0]]))
    found = plan(
        order_for(model, STEPS, coals, "grade>=Q13", confidence=0.6, scope=scope, lots=1.0),
        compare=scope,
    )
    assert found.blend is not None and 0 < found.refused < found.looked
    assert found.blend.features["ash"] <= 14.0 + 1e-6
    assert any("has no answer for" in line for line in plan_summary(found))
    assert as_json(found)["blends_refused_by_the_range"] == found.refused


def test_a_checker_calls_a_refused_blend_broken():
    order = order_for(wild(0, Knowledge(range=lambda x: x[:, :1] < 10 * torch.ones(4))), GRADES,
                      three(), "grade>=fair")  # fmt: skip
    assert any("has no answer for this blend" in line for line in check(order, np.eye(3)[0]))


def test_an_expert_may_refuse_for_other_reasons():
    """Not an empty range but a contradiction: found row by row."""
    best = Knowledge(prediction=lambda x: torch.eye(4)[torch.full((len(x),), 3)], conflict="error",
                     range=lambda x: ~((x[:, :1] > 15) & (torch.arange(4) == 3)))  # fmt: skip
    order = order_for(ladder(best), GRADES, three(), "grade>=fair")
    x = torch.tensor([[14.0, 1.0], [16.0, 1.0], [15.0, 1.0], [20.0, 1.0]])
    assert find_answered(order.grader, x).tolist() == [True, False, True, False]


def test_a_range_that_refuses_everything_is_a_reason():
    nothing = Knowledge(range=lambda x: torch.zeros(len(x), 8, dtype=torch.bool))
    found = plan(order_for(foreseen(knowledge=nothing), STEPS, three(), "grade>=Q13"))
    assert found.blend is None and found.nearest is None and found.floor is None
    assert "no answer for any of" in found.reasons[0]


def test_an_unknown_promise_is_refused():
    with pytest.raises(FedloreError, match="promise must be expected or safe, got 'sure'"):
        order_for(foreseen(), STEPS, three(), "grade>=Q13", promise="sure")


def test_chosen_plans_are_right_on_average_only_if_ignorance_counts():
    """The optimiser's curse in the open: laws drawn from the prior, the cheapest of 400 rows."""
    draw = stream("curse")
    count, wanted, noise = 150, 0.9, torch.tensor(0.5, dtype=torch.float64)
    true = {"expected": [], "blind": []}
    for _ in range(count):
        law = torch.randn(5, generator=draw, dtype=torch.float64)
        x, at = (torch.randn(n, 5, generator=draw, dtype=torch.float64) for n in (12, 400))
        y = x @ law + noise.sqrt() * torch.randn(12, generator=draw, dtype=torch.float64)
        mean, covariance = posterior(x.T @ x, x.T @ y, noise, torch.ones(5, dtype=torch.float64))
        spread = ((at @ covariance) * at).sum(1)
        price = at @ law + torch.randn(400, generator=draw, dtype=torch.float64)  # quality is dear
        for name, variance in (("expected", noise + spread), ("blind", noise)):
            good = torch.special.ndtr((at @ mean) / variance.sqrt()) >= wanted
            best = int(torch.where(good, price, torch.inf).argmin())
            true[name].append(float(torch.special.ndtr(at[best] @ law / noise.sqrt())))
    assert abs(np.mean(true["expected"]) - wanted) < 0.05
    assert np.mean(true["blind"]) < wanted - 0.08


def test_the_doubt_is_that_of_the_one_round_model():
    model = foreseen()
    member = model.ensemble.members[0]
    x = some_rows(4)
    features, _, _ = member.one_shot_model.one_shot.rows(member.scaler(x), None, None, classes=8)
    _, variance = predict_new(member.one_shot_model.found, member.one_shot_model.home, features)
    doubt = doubt_classes(model, model.annotate(x))
    ignorance = variance - member.one_shot_model.found.noise
    assert torch.allclose(doubt.ignorance.square(), INFLATION["quadratic"] * ignorance)
    noise = float(member.one_shot_model.found.noise)  # of classes, rounding included
    assert float(doubt.noise[0]) == pytest.approx(max(noise - 1 / 12, noise / 2) ** 0.5)
    # hardly weighed at all it does not speak for the mixture
    assert not torch.equal(
        doubt_classes(foreseen(weight=0.05), model.annotate(x)).place, doubt.place
    )


@pytest.mark.parametrize("target", ["csr>=80", "csr<=20", "csr>=52"])
def test_a_target_stands_among_its_neighbours_even_at_the_end_of_the_scale(target):
    order = order_for(numbers(), CSR, three(), target, lots=50.0)
    assert order.judge.targets[order.goal.place] == order.target


def test_the_least_chance_of_a_number_is_that_of_a_target_moved_by_the_doubt():
    """If all numbers are off by so much, a target is met where it is met moved the other way."""
    model, x = numbers(), some_rows(6)
    known, target = model.annotate(x), BlendTarget("", 48.0, 56.0)
    found, doubt = number_chances(model, known, [target]), doubt_numbers(model, known)
    by = ERRING * doubt.ignorance
    for i in range(len(x)):
        moved = [BlendTarget("", 48.0 + s * by[i].item(), 56.0 + s * by[i].item()) for s in (-1, 1)]
        least = number_chances(model, known, moved).expected[i].min()
        assert found.low[i, 0] == pytest.approx(float(least), abs=1e-6)
    assert (found.low < found.expected).any()
