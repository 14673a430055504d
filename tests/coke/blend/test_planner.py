"""Plans against brute force, and every limit they must keep."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedlore import Knowledge
from fedlore.answers import Bins
from fedlore.core.nets import mlp
from fedlore.errors import FedloreError
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.intervals import Between
from fedlore.models.regressor import PersonalRegressor
from fedlore_coke.blend import check, order_for, plan, search
from fedlore_coke.blend.judge import Goal, JudgedBlends, logit
from fedlore_coke.blend.limits import (
    BlendLimits,
    _round_shares,
    distinct_blends,
    fit_lots,
    lattice,
    lattice_size,
    tidy,
)
from fedlore_coke.blend.search import (
    LIGHT,
    Field,
    SearchResult,
    _starts,
    explore,
    search_blends,
    sweep,
)

from .world import GRADES, by_ash, ladder, offer, three, wild

RANGE = Knowledge(range=by_ash)


def grid(parts=100):
    """All blends of three coals in whole parts, by plain counting."""
    rows = [(i, j, parts - i - j) for i in range(parts + 1) for j in range(parts + 1 - i)]
    return np.array(rows) / parts


def shares_of(found, coals):
    return coals.shares(found.blend.shares)


def field_of(order):
    return Field(order.judge, order.goal, order.limits, order.coals.price)


def brute(order, points):
    """The cheapest of some blends that keeps an order, by asking the model of the order alone."""
    x = torch.from_numpy(order.recipe.features(points).astype(np.float32))
    personal = order.grader.personal
    target = slice(int(order.target.low), int(order.target.high) + 1)
    good = personal.predict_proba(x).double()[:, target].sum(1) >= order.confidence + 1e-6
    if order.worst_case:
        outside = torch.ones(4, dtype=torch.bool)
        outside[target] = False
        good &= ~(personal.annotate(x).allowed & outside).any(1)
    cost = points @ order.coals.price
    kept = good.numpy() & order.limits.holds(points)
    return float(cost[kept].min()) if kept.any() else None


MODELS = {
    "smooth": lambda seed: ladder(),
    "steps": lambda seed: ladder(RANGE),
    "wild": lambda seed: wild(seed),
    "wild steps": lambda seed: wild(seed, RANGE),
}


def brute_force_agrees(model, seed, wanted):
    """How many targets the grid reaches; for each the plan is checked and not dearer by 1 %."""
    coals = offer(seed)
    reached = 0
    for target, confidence in wanted:
        order = order_for(MODELS[model](seed), GRADES, coals, target, confidence=confidence)
        best = brute(order, grid())
        found = plan(order, compare=False)
        if best is None:
            # free shares may reach what the grid does not, but then it is checked
            assert found.blend is None or not check(order, shares_of(found, coals))
            continue
        reached += 1
        assert found.blend is not None
        assert not check(order, shares_of(found, coals))
        assert found.blend.cost <= 1.01 * best
        assert found.blend.chance >= confidence
    return reached


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("model", MODELS)
def test_no_blend_on_the_grid_is_cheaper_by_more_than_a_percent(model, seed):
    assert brute_force_agrees(model, seed, [("grade>=good", 0.5), ("grade<=fair", 0.7)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 10))
@pytest.mark.parametrize("model", MODELS)
def test_the_same_over_many_coals_and_targets(model, seed):
    wanted = [(f"grade{sign}{at}", p) for sign in ("<=", ">=") for at in (1, 2) for p in (0.4, 0.8)]
    assert brute_force_agrees(model, seed, wanted)


@pytest.mark.parametrize("seed", range(3))
def test_the_worst_that_the_range_allows(seed):
    coals = offer(seed)
    order = order_for(wild(seed, RANGE), GRADES, coals, "grade>=fair", worst_case=True)
    best, found = brute(order, grid()), plan(order, compare=False)
    if best is None:
        assert found.blend is None
        assert found.reasons
    else:
        assert found.blend.cost <= 1.01 * best
        assert "poor" not in found.blend.forecast.allowed
        assert found.blend.features["ash"] <= 8.0 + 1e-6


def test_the_worst_case_is_dearer():
    sure = order_for(ladder(RANGE), GRADES, three(), "grade>=fair", worst_case=True)
    likely = replace(sure, worst_case=False)
    dear, cheap = (plan(order, compare=False).blend for order in (sure, likely))
    assert dear.cost > cheap.cost
    assert dear.features["ash"] == pytest.approx(8.0, abs=1e-3)  # right at the expert's step


@pytest.mark.parametrize("seed", range(3))
def test_lots_and_few_coals_are_exact(seed):
    coals = offer(seed, 5)
    order = order_for(
        wild(seed, RANGE), GRADES, coals, "grade>=good", confidence=0.4, lots=5.0, most_coals=3
    )
    points = lattice(order.limits, 20)
    assert len(points) == lattice_size(5, 20, 3)
    best, found = brute(order, points), plan(order, compare=False)
    if best is None:
        assert found.blend is None
    else:
        assert found.proved
        assert found.blend.cost == pytest.approx(best)
        assert len(found.blend.shares) <= 3
        assert all((20 * s) % 1 == pytest.approx(0, abs=1e-9) for s in found.blend.shares.values())


def test_a_sweep_mends_what_a_search_missed():
    order = order_for(ladder(), GRADES, three(), "grade>=good", confidence=0.5, lots=5.0)
    poor = np.array([0.0, 0.0, 1.0])
    missed = SearchResult(poor, order.judge(poor[None]), True, False)
    mended = sweep(field_of(order), missed)
    assert mended.proved
    assert float(mended.shares @ order.coals.price) == pytest.approx(brute(order, grid(20)))


@pytest.mark.parametrize("seed", range(2))
def test_many_coals_do_no_worse_than_any_three_of_them(seed):
    coals = offer(seed, 9)
    order = order_for(wild(seed, RANGE), GRADES, coals, "grade>=good", confidence=0.5)
    few = replace(order, most_coals=3, lots=5.0)
    best = brute(few, lattice(few.limits, 20))
    found = plan(order, compare=False)
    assert best is not None
    assert found.blend.cost <= 1.001 * best


def test_bounds_and_stock():
    coals = three(
        stock=np.array([1000.0, 300.0, 500.0]),
        least=np.array([0.0, 0.05, 0.0]),
        most=np.array([0.5, 1.0, 1.0]),
    )
    order = order_for(ladder(), GRADES, coals, "grade>=good", confidence=0.4, tonnes=1000.0)
    found = plan(order)
    shares = shares_of(found, coals)
    assert not check(order, shares)
    assert shares[0] <= 0.5 and 0.05 <= shares[1] <= 0.3 and shares[2] <= 0.5
    assert brute(order, grid()) * 1.01 >= found.blend.cost
    # without the stock the plan is cheaper, and the report says so
    assert any(b.limit == "stock of middle" and b.saving > 0 for b in found.binding)


@pytest.mark.slow
def test_what_a_plan_is_compared_with():
    order = order_for(ladder(), GRADES, three(), "grade>=good", confidence=0.6)
    steps = []
    found = plan(order, progress=lambda what, done, total: steps.append((done, total)))
    assert steps == [(i, steps[0][1]) for i in range(1, len(steps) + 1)]
    assert len(steps) <= steps[0][1]
    best = found.blend
    assert set(found.runner_up.shares) != set(best.shares)
    assert found.runner_up.cost >= best.cost
    assert found.floor.cost == 50.0  # the cheap coal alone
    assert {name for name, _ in found.without} == set(best.shares)
    others = [cost for _, cost in found.without if cost is not None]
    assert min(others) >= best.cost
    assert any(cost == pytest.approx(found.runner_up.cost, rel=1e-3) for cost in others)
    easier = [b for b in found.binding if b.limit == "confidence 0.6"]
    assert easier and easier[0].cost + easier[0].saving == pytest.approx(best.cost)
    levels = [(p.confidence, p.cost) for p in found.confidences]
    assert levels == sorted(levels) and (0.6, best.cost) in levels
    costs = [point.cost for point in found.targets]
    assert costs == sorted(costs) and len(costs) == 3  # fair, good, best
    for point in (*found.confidences, *found.targets):
        one = replace(order, target=order.grader.target(point.target.replace(" ", "")),
                      confidence=point.confidence)  # fmt: skip
        assert not check(one, order.coals.shares(point.shares))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_plan():
    order = order_for(wild(1, RANGE), GRADES, offer(1, 6), "grade>=good", confidence=0.5)
    one, two = (plan(order, seed=3, compare=False).blend for _ in range(2))
    assert one.shares == two.shares and one.cost == two.cost


def test_plans_keep_to_the_scope():
    narrow = Schema((Feature("ash", "%", 0.0, 9.0), GRADES.features[1]), GRADES.classes, "grade")
    order = order_for(ladder(), narrow, three(), "grade>=fair", confidence=0.5)
    inside, anywhere = (
        plan(replace(order, scope=scope), compare=False).blend for scope in (True, False)
    )
    assert inside.features["ash"] <= 9.0
    assert anywhere.features["ash"] > 9.0 and anywhere.cost < inside.cost


@pytest.mark.slow
def test_a_number_as_target():
    """CSR = 40 + 20 rank, give or take 2, said by a range: plans stand on its lower edge."""
    schema = Schema(GRADES.features, tuple(map(str, range(10))), "csr")

    def side(by):
        return lambda x: 40.0 + 20.0 * x[:, 1].double() + by

    known = Knowledge(range=Between(side(-2.0), side(2.0)))
    model = PersonalRegressor(mlp(2, 10, hidden=(8,)), Bins(40.0, 80.0, 10), known)
    sure = order_for(model, schema, three(), "csr>=62", worst_case=True)
    found = plan(sure, compare=False)
    assert found.blend.features["rank"] == pytest.approx(1.2, abs=1e-3)  # 40 + 24 - 2 = 62
    assert not check(sure, shares_of(found, sure.coals))
    likely = plan(replace(sure, worst_case=False, confidence=0.5), compare=False)
    assert likely.blend.cost < found.blend.cost
    assert likely.blend.chance >= 0.5
    assert plan(replace(sure, target=sure.grader.target("csr>=75")), compare=False).blend is None


def test_the_checker_finds_every_fault():
    coals = three(stock=np.array([100.0, 100.0, 100.0]), most=np.array([0.5, 1.0, 1.0]),
                  least=np.array([0.0, 0.0, 0.1]))  # fmt: skip
    order = order_for(
        ladder(RANGE), GRADES, coals, "grade>=best", confidence=0.99, worst_case=True,
        tonnes=150.0, most_coals=2, lots=10.0,
    )  # fmt: skip
    said = " | ".join(check(order, np.array([0.55, 0.4, 0.03])))
    for part in ("sum to 0.98", "above its most", "below its least", "not in lots of 10 %",
                 "3 coals, at most 2", "P(grade >= best)", "the range allows"):  # fmt: skip
        assert part in said
    over = np.array([0.0, 0.2, 0.8])
    assert "120 t, there are 100 t" in " | ".join(check(order, over))
    near = replace(order, tonnes=125.5, lots=None)
    assert "100.4 t, there are 100 t" in " | ".join(check(near, over))
    assert " t, there" not in " | ".join(check(replace(near, tonnes=125.0), over))
    assert "-1.0" in " | ".join(check(order, np.array([0.21, -0.01, 0.8])))
    (less,) = (said for said in check(order, np.array([0.2, -1e-12, 0.8])) if "middle" in said)
    assert "is below its least, 0" in less  # no share is negative, however little
    assert check(order, np.array([np.nan, 0.5, 0.5])) == ("a share is not finite",)
    with pytest.raises(FedloreError, match="3 coals"):
        check(order, np.ones(2))


def test_any_weights_become_blends_within_the_limits():
    coals = three(least=np.array([0.1, 0.0, 0.0]), most=np.array([0.5, 0.6, 0.7]))
    draw = np.random.default_rng(0)
    for lots, most in ((None, None), (5.0, None), (None, 2), (10.0, 2)):
        order = order_for(ladder(), GRADES, coals, "grade>=good", lots=lots, most_coals=most)
        shares, possible = fit_lots(draw.random((200, 3)), order.limits)
        assert possible.any()
        assert order.limits.holds(shares[possible]).all()


def test_a_light_search_starts_from_what_it_is_given():
    order = order_for(ladder(), GRADES, offer(2, 6), "grade>=good", confidence=0.5)
    pool = explore(order.judge, order.limits, order.coals.price, seed=0, random=50)
    full = search_blends(field_of(order), pool, seed=0)
    light = search_blends(field_of(order), pool, seed=0, effort=LIGHT, extra=np.eye(6))
    costs = [float(found.shares @ order.coals.price) for found in (full, light)]
    assert costs[1] <= 1.01 * costs[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 0.0}, r"confidence must lie in \(0, 1\], got 0"),
        ({"confidence": float("nan")}, "confidence must lie"),
        ({"tonnes": -1.0}, "tonnes must be positive"),
        ({"lots": 7.0}, "lots must divide 100 %"),
        ({"lots": 0.0}, "lots must divide 100 %"),
        ({"most_coals": 0}, "at least 1 coal"),
        ({"fixed": {"ash": 50.0}}, "ash is fixed at 50, outside the scope"),
    ],
)
def test_orders_that_cannot_be(options, message):
    with pytest.raises(FedloreError, match=message):
        order_for(ladder(), GRADES, three(), "grade>=good", **options)


def test_a_sweep_that_is_too_long_proves_nothing(monkeypatch):
    order = order_for(ladder(), GRADES, three(), "grade>=good", confidence=0.5, lots=5.0)
    poor = np.array([0.0, 0.0, 1.0])
    missed = SearchResult(poor, order.judge(poor[None]), True, False)
    monkeypatch.setattr(search, "SWEEP", 10)
    found = sweep(field_of(order), missed)
    assert not found.proved and found is missed


def test_rounding_fills_up_a_share_that_has_room():
    limits = order_for(ladder(), GRADES, three(), "grade>=good").limits
    limits = replace(limits, high=np.array([0.6, 1.0, 1.0]))
    clean = tidy(np.array([0.6, 0.3999999, 5e-8]), limits)
    assert clean.sum() == 1.0 and clean[2] == 0.0
    assert (clean <= limits.high).all() and clean[0] == 0.6


@pytest.mark.parametrize(
    ("shares", "low", "high", "wanted"),
    [
        ((0.52, 0.31, 0.17), 0, 1, (5, 3, 2)),  # of 5.2, 3.1 and 1.7 the last is rounded up
        ((0.55, 0.45, 0.0), 0, 1, (6, 4, 0)),  # of equal remainders the first
        ((0.46, 0.46, 0.08), (0, 0, 0.2), 1, (4, 4, 2)),  # two lots at least: others give one each
        ((0.95, 0.05, 0.0), 0, (0.6, 1, 1), (6, 4, 0)),  # what has no room goes to what is used
        ((0.25, 0.25, 0.5), 0, 1, (3, 2, 5)),
    ],
)
def test_whole_lots_by_largest_remainders_within_the_bounds(shares, low, high, wanted):
    low, high = (np.broadcast_to(np.array(end, dtype=float), (3,)) for end in (low, high))
    found = _round_shares(np.array([shares]), BlendLimits(low, high, lots=10), 10)
    assert (found * 10).tolist() == [list(map(float, wanted))]


def test_blends_with_different_sets_of_coals_best_first():
    shares = np.array([[0.5, 0.5, 0], [0.6, 0.4, 0], [1, 0, 0], [0.996, 0.004, 0], [0, 0.5, 0.5]])
    order = np.array([2.0, 1.0, 3.0, 0.5, 0.7])
    assert distinct_blends(shares, order, 9) == [3, 4, 1]  # four thousandths are no coal
    assert distinct_blends(shares, order, 2) == [3, 4]
    assert distinct_blends(shares, order, 1) == [3]
    assert distinct_blends(
        np.array([[0.995, 0.005], [0.99, 0.01], [1.0, 0.0]]), np.arange(3), 9
    ) == [0, 1]


def test_a_coal_that_must_be_in_is_in_whatever_its_weight():
    limits = BlendLimits(np.array([0.0, 0.0, 0.25]), np.ones(3), coals=2)
    shares, kept = fit_lots(np.array([[3.0, 1.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]]), limits)
    assert kept.tolist() == [True] * 3
    assert np.allclose(shares, [[0.75, 0, 0.25], [0, 0.75, 0.25], [0, 0, 1]], atol=1e-6)
    free = BlendLimits(np.zeros(3), np.array([1.0, 0.5, 1.0]))
    shares, kept = fit_lots(np.array([[1.0, 3.0, 0.0], [0.0, 1.0, 0.0], [2.0, 1.0, 1.0]]), free)
    assert kept.tolist() == [True, False, True]  # one coal alone may be half of it at most
    assert np.allclose(shares[0], [0.5, 0.5, 0]) and np.allclose(shares[2], [0.5, 0.25, 0.25])


def verdicts(**changed):
    """Five blends: one that is good, and four that lack one thing each."""
    values = {
        "chance": np.array([[0.95, 0.1], [0.5, 0.9], [0.95, 0.9], [0.95, 0.9], [0.95, 0.9]]),
        "stray": np.array([[0.0, 1.0], [0, 0], [0.25, 0], [0, 0], [0, 0]]),
        "outside": np.array([0.0, 0.0, 0.0, 0.5, 0.0]),
        "refused": np.zeros(5, bool),
        "margins": np.array([[0.0], [1.0], [1.0], [1.0], [-0.3]]),
    }
    return JudgedBlends(**values | changed)


def test_what_is_good_and_what_a_blend_lacks():
    goal = Goal(confidence=0.9, worst_case=True)
    assert verdicts().good(goal).tolist() == [True] + [False] * 4
    short = (math.log(9) - math.log(1)) / 4  # of 0.9 against 0.5
    assert verdicts().lack(goal).tolist() == pytest.approx([0, short, 1.0, 2.0, 0.3], abs=1e-5)
    mild = replace(goal, worst_case=False, scope=False)
    assert verdicts().good(mild).tolist() == [True, False, True, True, False]
    assert verdicts().lack(mild).tolist() == pytest.approx([0, short, 0, 0, 0.3], abs=1e-5)
    other = replace(goal, place=1, confidence=0.8)
    assert verdicts().good(other).tolist() == [False, True, True, False, False]
    edge = verdicts(chance=np.array([[0.9 + d, 0] for d in (0, 5e-7, 2e-6, 0.1, 0.1)]))
    assert edge.good(replace(mild, worst_case=False)).tolist() == [False, False, True, True, False]
    sure = verdicts(chance=np.array([[1.0 - d, 0] for d in (0, 1e-9, 0, 0, 0)]))
    assert sure.good(replace(mild, confidence=1.0)).tolist()[:2] == [True, False]


def test_the_logarithm_of_odds_is_cut_off_far_out():
    found = logit(np.array([0.5, 0.9, 0.1, 0.0, 1.0]))
    far = math.log((1 - 1e-9) / 1e-9)
    assert found.tolist() == pytest.approx([0.0, math.log(9), -math.log(9), -far, far])


def test_blends_are_put_in_an_order_of_price_among_the_good_and_of_lack_among_the_others():
    shares = np.eye(5)
    field = Field(None, Goal(confidence=0.9), None, np.array([5.0, 1.0, 2.0, 3.0, 4.0]))
    found = field.better(shares, verdicts())
    lack = verdicts().lack(field.goal)
    wanted = [5.0, 6 * (2 + lack[1]), 2.0, 6 * (2 + lack[3]), 6 * (2 + lack[4])]
    assert found.tolist() == pytest.approx(wanted)


def test_a_search_starts_from_cheap_blends_that_lack_little_with_different_coals():
    """By rank, and by prices to which a lack adds little or much of their span."""
    field = Field(None, Goal(), None, np.array([1.0, 2.0, 3.0, 4.0, 9.0]))
    lacks = np.array([0.9, 0.5, 0.0, 0.1, 0.0])
    seen = SimpleNamespace(lack=lambda goal: lacks)
    order = np.array([5.0, 4.0, 1.0, 3.0, 2.0])
    # the two first of the order; at 3.16, 3.2 and 3 the third; at 22.6, 14 and 3 the third again
    assert _starts(field, np.eye(5), seen, order, 4).argmax(1).tolist() == [2, 4]
    lacks[:] = [0.5, 0.5, 1.0, 0.1, 0.0]  # 2.2 of the first is least; then 6.4 of the fourth
    assert _starts(field, np.eye(5), seen, order, 4).argmax(1).tolist() == [2, 4, 0, 3]
    assert _starts(field, np.eye(5), seen, order, 8).argmax(1).tolist() == [2, 4, 3, 1, 0]
    assert len(_starts(field, np.zeros((0, 5)), seen, order, 4)) == 0
    one = SimpleNamespace(lack=lambda goal: np.zeros(1))
    assert _starts(field, np.eye(5)[:1], one, order[:1], 8).tolist() == [np.eye(5)[0].tolist()]
