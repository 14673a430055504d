"""A plan: the cheapest blend, what holds it back, what comes next, and what quality costs.

With scenarios of prices: the blend that is best in their mean, or in the worst of them. There the
least cost is, by the duality of linear programs, that at some mixture of the scenarios: plans are
made at mixtures that lean ever more to the scenarios in which the plans so far cost most
(multiplicative weights: Freund, Schapire 1999), and the best of all of them is kept.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from fedlore.data.rows import FileForm
from fedlore.errors import FedloreError, unknown

from .check import check
from .coals import Array, Coals, held_places, read_prices
from .judge import Goal, Judge
from .limits import BlendLimits, cheapest
from .mixing import rows_of
from .order import Blend, BlendPlan, Order, Point, Relaxation
from .reasons import relaxations, shortage, unreachable
from .search import (
    FULL,
    LIGHT,
    BlendPool,
    Effort,
    Field,
    SearchResult,
    explore,
    search_blends,
    sweep,
)

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # of confidence, for the price of quality
SPECK = 0.01  # a share below which a coal is left out, if that costs next to nothing
NEXT_TO_NOTHING = 5e-4
MATTERS = 0.05  # a coal with such a share must be gone before a blend is called another one


_Progress = Callable[[str, int, int], None]


def plan(
    order: Order, *, seed: int = 0, compare: bool = True, progress: _Progress | None = None
) -> BlendPlan:
    """The cheapest blend that keeps the order, or why there is none.

    Whatever is reported has passed `check`. The same order and seed give the same plan. Without
    `compare` it is the blend alone: no runner-up, no binding limits, no fronts. `progress` hears
    what is being worked on, which step that is, and of how many.
    """
    causes = shortage(order)
    if causes:
        return BlendPlan(order, None, causes)
    judge, limits, price = order.judge, order.limits, order.coals.price
    steps = itertools.count(1)
    total = 5 + len({*LEVELS, order.confidence}) + len(judge.targets)

    def report(what: str) -> None:
        if progress is not None:
            progress(what, next(steps), total)

    report("a wide look")
    pool = explore(judge, limits, price, seed=seed)
    planner = _Planner(order, judge, order.goal, limits, pool, seed, report)
    at_all = cheapest(price, limits)
    floor = None if at_all is None or planner.refuses(at_all) else planner.blend(at_all)
    report("the cheapest blend")
    if pool.refused and pool.refused == len(pool.shares):  # there is nothing to search in
        causes = unreachable(order, judge, planner.goal, pool, None)
        return BlendPlan(order, None, causes, looked=pool.refused, refused=pool.refused)
    found = planner.find(planner.goal, limits, effort=FULL)
    if found is not None:
        found = sweep(Field(judge, planner.goal, limits, price), found)
    so_far = BlendPlan(
        order,
        None,
        floor=floor,
        proved=found is not None and found.proved,
        looked=len(pool.shares),
        refused=pool.refused,
    )
    if found is None or not found.reached:
        causes = unreachable(order, judge, planner.goal, pool, found)
        none = found is None or planner.refuses(found.shares)
        nearest = None if none or found is None else planner.blend(found.shares)
        return replace(so_far, reasons=causes, nearest=nearest)
    shares = planner.presentable(found.shares, limits)
    if not compare:
        return replace(so_far, blend=planner.blend(shares))
    without = planner.without(shares)
    cheaper = [
        other for _, other in without if other is not None and other @ price < shares @ price
    ]
    if cheaper:  # a blend of fewer coals that the search for the plan had passed by
        shares = planner.presentable(min(cheaper, key=lambda other: float(other @ price)), limits)
        without = planner.without(shares)
    best = planner.blend(shares)
    names = order.coals.names
    return replace(
        so_far,
        blend=best,
        runner_up=planner.runner_up(shares, without),
        without=tuple((names[i], None if w is None else float(w @ price)) for i, w in without),
        binding=tuple(planner.relaxations(shares, best.cost)),
        confidences=planner.confidences(shares),
        targets=planner.targets(shares),
    )


@dataclass(frozen=True, eq=False)
class _Planner:
    """One order, one pool of blends, many questions."""

    order: Order
    judge: Judge
    goal: Goal
    limits: BlendLimits
    pool: BlendPool
    seed: int
    report: Callable[[str], None]

    @property
    def price(self) -> Array:
        return self.order.coals.price

    def find(
        self,
        goal: Goal,
        limits: BlendLimits,
        *,
        effort: Effort = LIGHT,
        near: list[Array] | None = None,
        wider: bool = False,
    ) -> SearchResult | None:
        pool = replace(self.pool, exact=False) if wider else self.pool
        extra = np.array(near) if near else None
        field = Field(self.judge, goal, limits, self.price)
        return search_blends(field, pool, seed=self.seed, effort=effort, extra=extra)

    def blend(self, shares: Array) -> Blend:
        order = self.order
        x = order.recipe.features(shares[None])
        return Blend(
            order.coals.named(shares),
            float(shares @ self.price),
            float(order.grader.look(rows_of(x), (order.target,))[0][0, 0]),
            order.recipe.name_values(x[0]),
            order.grader.tell(rows_of(x)),
            order.grader.weigh(rows_of(x), order.target),
            tuple(limit.tell(shares) for limit in order.also),
        )

    def refuses(self, shares: Array) -> bool:
        """Whether the expert has no answer for a blend."""
        return bool(self.judge(shares[None]).refused[0])

    def presentable(self, shares: Array, limits: BlendLimits) -> Array:
        """Nearly the same blend without specks of coal and in few digits, if it costs nothing."""
        most = (1.0 + NEXT_TO_NOTHING) * float(shares @ self.price)
        specks = [] if self.order.lots is not None else held_places(shares)
        for i in sorted(specks, key=lambda i: shares[i]):
            if shares[i] < SPECK and limits.low[i] <= 0:
                others = [j for j in range(len(shares)) if shares[j] <= 0]
                fewer = _bar(limits, i, *others)  # or one speck would make way for another
                other = self.find(self.goal, fewer, near=self.instead(shares, i, fewer))
                if other is not None and other.reached and other.shares @ self.price <= most:
                    shares, limits = other.shares, fewer
        for digits in (4, 5, 6):
            rough = np.round(shares, digits)
            top = int(np.argmax(np.where(rough < limits.high - 1e-3, rough, 0.0)))
            rough[top] = round(rough[top] + 1.0 - rough.sum(), digits)
            if not check(self.order, rough) and rough @ self.price <= most:
                return rough
        broken = check(self.order, shares)
        if broken:  # the search errs on the safe side, so this is a fault of ours, and no plan
            raise FedloreError(f"the best blend found fails its check: {'; '.join(broken)}")
        return shares

    def instead(self, shares: Array, out: int, limits: BlendLimits) -> list[Array]:
        """The best two blends with another coal in the place of one, or with more of all others."""
        c = len(shares)
        rest = shares.copy()
        rest[out] = 0.0
        swaps = rest + shares[out] * np.eye(c)
        options = np.concatenate([swaps, rest[None] / max(float(rest.sum()), 1e-12)])
        options = options[limits.holds(options)]
        field = Field(self.judge, self.goal, limits, self.price)
        order = field.better(options, self.judge(options))
        return [options[i] for i in np.argsort(order, kind="stable")[:2]]

    def without(self, shares: Array) -> list[tuple[int, Array | None]]:
        """The best blend without each coal of the plan in turn, where there is one."""
        self.report("without each coal")
        found: list[tuple[int, Array | None]] = []
        for i in held_places(shares):
            if self.limits.low[i] <= 0:
                fewer = _bar(self.limits, i)
                other = self.find(self.goal, fewer, near=self.instead(shares, i, fewer))
                good = other is not None and other.reached and not check(self.order, other.shares)
                found.append((i, other.shares if other is not None and good else None))
        return found

    def runner_up(self, shares: Array, found: list[tuple[int, Array | None]]) -> Blend | None:
        """The cheapest blend that leaves out a coal which matters in the plan."""
        others = [(i, other) for i, other in found if other is not None]
        apart = [(i, other) for i, other in others if shares[i] >= MATTERS] or others
        if not apart:
            return None
        i, best = min(apart, key=lambda pair: float(pair[1] @ self.price))
        return self.blend(self.presentable(best, _bar(self.limits, i)))

    def relaxations(self, shares: Array, cost: float) -> Iterator[Relaxation]:
        """Every limit that the plan touches, and what the next looser one would cost."""
        self.report("what holds it back")
        for limit, relaxed, goal, limits in relaxations(self.order, shares):
            other = self.find(goal, limits, near=[shares], wider=True)
            if other is None or not other.reached:
                continue
            then = float(other.shares @ self.price)
            if cost - then > 1e-4 * cost:
                yield Relaxation(limit, relaxed, then, cost - then)

    def confidences(self, shares: Array) -> tuple[Point, ...]:
        levels = sorted({*LEVELS, self.order.confidence}, reverse=True)
        goals = [replace(self.goal, confidence=level) for level in levels]
        return self._front(goals, shares)

    def targets(self, shares: Array) -> tuple[Point, ...]:
        hardest_first = reversed(range(len(self.judge.targets)))
        return self._front([replace(self.goal, place=i) for i in hardest_first], shares)

    def _front(self, goals: list[Goal], shares: Array) -> tuple[Point, ...]:
        """The cheapest blend for each goal, hardest first: each is good for all easier ones."""
        points, known = [], [shares]
        for goal in goals:
            target = self.judge.targets[goal.place]
            self.report(f"{target.text} at {goal.confidence:g}")
            if goal == self.goal:
                best: Array | None = shares
            else:
                found = self.find(goal, self.limits, near=known[-1:])
                best = found.shares if found is not None and found.reached else None
            order = replace(self.order, target=target, confidence=goal.confidence)
            if best is None or check(order, best):
                continue
            known.append(best)
            mix = self.order.coals.named(best)
            points.append(Point(target.text, goal.confidence, float(best @ self.price), mix))
        return tuple(reversed(points))


def _bar(limits: BlendLimits, *coals: int) -> BlendLimits:
    """The same limits without some coals."""
    high = limits.high.copy()
    high[list(coals)] = 0.0
    return replace(limits, high=high)


Choice = Literal["mean", "worst"]
LIST = "list"  # the prices of the coals' own list
_LEANS = 6  # mixtures of scenarios that are tried for the worst case
_EAGER = 40.0  # how fast they lean, per part of the price


@dataclass(frozen=True, eq=False)
class Scenarios:
    """Prices of the c coals by name of a scenario, the list's own among them."""

    prices: dict[str, Array]
    choose: Choice = "mean"

    def __post_init__(self) -> None:
        if self.choose not in get_args(Choice):
            raise FedloreError(f"choose must be mean or worst, got '{self.choose}'")

    def costs(self, shares: Array) -> dict[str, float]:
        """What a blend costs in each scenario, per tonne."""
        return {name: float(shares @ price) for name, price in self.prices.items()}

    def value(self, shares: Array) -> float:
        """What is to be as low as can be."""
        costs = list(self.costs(shares).values())
        return max(costs) if self.choose == "worst" else float(np.mean(costs))


def read_scenarios(
    paths: Sequence[Path], coals: Coals, choose: str, *, form: FileForm | None = None
) -> Scenarios | None:
    """The list's columns `price:NAME` and files with coal and price, named by the file; or None."""
    if choose not in get_args(Choice):
        raise FedloreError(f"choose must be mean or worst, got '{choose}'")
    prices = {LIST: coals.price, **coals.scenarios}
    for path in paths:
        if path.stem in prices:
            raise FedloreError(f"there are two scenarios called '{path.stem}'")
        found = read_prices(path, form=form)
        odd = [name for name in found if name not in coals.names]
        if odd:
            raise FedloreError(f"{path.name}: {unknown('coal', odd[0], coals.names)}")
        lacking = [name for name in coals.names if name not in found]
        if lacking:
            raise FedloreError(f"{path.name} has no price of the coal '{lacking[0]}'")
        prices[path.stem] = np.array([found[name] for name in coals.names])
    if len(prices) == 1:
        return None
    return Scenarios(prices, "worst" if choose == "worst" else "mean")


def priced(order: Order, price: Array) -> Order:
    """The same order at other prices."""
    return replace(order, coals=replace(order.coals, price=price))


def lean_order(order: Order, scenarios: Scenarios, *, seed: int = 0) -> Order:
    """The order at the mixture of scenarios whose plan is best by the scenarios' own measure."""
    names = list(scenarios.prices)
    every = np.stack([scenarios.prices[name] for name in names])  # (s, c)
    mean = priced(order, every.mean(0))
    if scenarios.choose == "mean":
        return mean
    best, least = mean, np.inf
    weights = np.full(len(names), 1.0 / len(names))
    for _ in range(_LEANS):
        asked = priced(order, weights @ every)
        found = plan(asked, seed=seed, compare=False)
        if found.blend is None:
            return mean  # what no price makes possible
        shares = order.coals.shares(found.blend.shares)
        if scenarios.value(shares) < least - 1e-9:
            best, least = asked, scenarios.value(shares)
        costs = every @ shares
        weights = weights * np.exp(_EAGER * (costs - costs.max()) / max(float(costs.max()), 1e-9))
        weights /= weights.sum()
    return best


def scenario_costs(found: BlendPlan, scenarios: Scenarios) -> dict[str, float]:
    """What the plan costs in each scenario; empty without a plan."""
    if found.blend is None:
        return {}
    return scenarios.costs(found.order.coals.shares(found.blend.shares))
