"""The smallest change of a blend in use that keeps its promise."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedlore.data.rows import FileForm
from fedlore.errors import FedloreError, unknown

from .check import check
from .coals import Array, read_shares
from .judge import JudgedBlends, equal, find_answered
from .mixing import rows_of
from .order import Order
from .search import BlendPool, explore, list_trades

_NEAR, _ENDS = 400, 6  # good blends that are walked to, and of their ways those that are shortened
_HALVES = 24  # of a way, to find where it first is good
_ROUNDS = 60
_GRID = 201  # values of a feature that are tried over its scope
_OFF = 0.5  # %, by which shares may miss 100 together: people round


@dataclass(frozen=True)
class FeatureChange:
    """One feature that would do by itself, all others as they are."""

    name: str
    now: float
    then: float
    unit: str


@dataclass(frozen=True, eq=False)
class BlendChange:
    """The answer: what is promised of the blend now, and the least that changes it."""

    order: Order
    now: Array  # (c,)
    chance: float
    reached: bool  # it makes the grade as it is
    then: Array | None  # (c,) the nearest blend found that does; None: there is none
    chance_then: float | None
    features: tuple[FeatureChange, ...]  # smallest first, in parts of the scope

    @property
    def traded(self) -> float | None:
        """The share of the blend's mass that must be exchanged."""
        return None if self.then is None else float(np.abs(self.then - self.now).sum()) / 2.0


def read_blend(path: str | Path, order: Order, *, form: FileForm | None = None) -> Array:
    """The blend of a file with coal and share (%), as shares of the order's coals, (c,)."""
    found = read_shares(path, form=form)
    names = order.coals.names
    odd = [name for name in found if name not in names]
    if odd:
        raise FedloreError(f"{Path(path).name}: {unknown('coal', odd[0], names)}")
    total = sum(found.values())
    if abs(total - 100.0) > _OFF:
        raise FedloreError(f"{Path(path).name}: its shares add up to {total:g} %, not to 100 %")
    return order.coals.shares(found) / total


def smallest_change(order: Order, now: Array, *, seed: int = 0) -> BlendChange:
    """The nearest blend that keeps the order, by traded mass, and features that would do alone."""
    judge, goal, limits = order.judge, order.goal, order.limits
    seen = judge(now[None])
    chance = float(seen.chance[0, goal.place])
    if not check(order, now):
        return BlendChange(order, now, chance, True, now, chance, ())
    pool = explore(judge, limits, order.coals.price, seed=seed)
    then = _nearest(order, pool, now)
    if then is not None and check(order, then):
        then = None
    found = None if then is None else float(judge(then[None]).chance[0, goal.place])
    return BlendChange(order, now, chance, False, then, found, tuple(_features(order, now)))


def _nearest(order: Order, pool: BlendPool, now: Array) -> Array | None:
    goal, limits = order.goal, order.limits
    good = pool.shares[pool.seen.good(goal)]
    if not len(good):
        return None
    good = good[np.argsort(np.abs(good - now).sum(1), kind="stable")[:_NEAR]]
    if limits.lots is None and limits.coals is None:
        good = _shorten(order, now, good)
    order_by = np.argsort(np.abs(good - now).sum(1), kind="stable")[:_ENDS]
    ends = [_closer(order, now, good[i]) for i in order_by]
    return min(ends, key=lambda end: float(np.abs(end - now).sum()))


def _shorten(order: Order, now: Array, good: Array) -> Array:
    """On the way from a blend to each good one the first place that is good, by halving."""
    low, high = np.zeros(len(good)), np.ones(len(good))
    for _ in range(_HALVES):
        middle = (low + high) / 2.0
        points = now + middle[:, None] * (good - now)
        met = _keeps(order, points)
        low, high = np.where(met, low, middle), np.where(met, middle, high)
    return np.asarray(now + high[:, None] * (good - now))


def _closer(order: Order, now: Array, start: Array) -> Array:
    """Trades that bring a good blend nearer, while there is one."""
    best, far = start, float(np.abs(start - now).sum())
    for _ in range(_ROUNDS):
        points = best + list_trades(best, order.limits)
        points[np.abs(points) < 1e-9] = 0.0
        near = np.abs(points - now).sum(1)
        points, near = points[near < far - 1e-7], near[near < far - 1e-7]
        kept = _keeps(order, points) if len(points) else np.zeros(0, dtype=bool)
        if not kept.any():
            break
        at = int(np.where(kept, near, np.inf).argmin())
        best, far = points[at], float(near[at])
    return best


def _keeps(order: Order, points: Array) -> np.ndarray:
    seen: JudgedBlends = order.judge(points)
    return seen.good(order.goal) & order.limits.holds(points)


def _features(order: Order, now: Array) -> list[FeatureChange]:
    """Features of the target's own model, one at a time over their scope."""
    values = order.recipe.features(now[None])[0]
    found = []
    for place, feature in enumerate(order.recipe.schema.features):
        known = not feature.levels and feature.name not in order.recipe.without
        if not known or not np.isfinite(feature.high - feature.low):
            continue
        grid = np.linspace(feature.low, feature.high, _GRID)
        rows = np.repeat(values[None], _GRID, 0)
        rows[:, place] = grid
        good = _good_rows(order, rows)
        if good.any():
            far = np.abs(grid - values[place]) / (feature.high - feature.low)
            at = int(np.where(good, far, np.inf).argmin())
            ends = float(values[place]), float(grid[at])
            found.append((float(far[at]), FeatureChange(feature.name, *ends, feature.unit)))
    return [change for _, change in sorted(found, key=lambda pair: pair[0])]


@torch.no_grad()
def _good_rows(order: Order, rows: Array) -> np.ndarray:
    """Which rows reach the target; those that the expert has no answer for do not."""
    x = rows_of(rows)
    good = find_answered(order.grader, x)
    if good.any():
        chance, stray = order.grader.look(x[torch.from_numpy(good)], (order.target,))
        met = chance[:, 0] >= order.confidence
        good[good] = met & (stray[:, 0] <= 0) if order.worst_case else met
    return good


def change_words(found: BlendChange) -> list[str]:
    """The answer in sentences."""
    order = found.order
    wanted = f"{order.target.text} with P >= {order.confidence:g}"
    now = f"P({order.target.text}) of this blend {equal(found.chance)}"
    if found.reached:
        return [f"{now}: it reaches {wanted} as it is"]
    said = [f"{now}, wanted is {order.confidence:g}"]
    said += [
        f"{side.limit}: {side.found} ({side.wanted})"
        for side in (limit.tell(found.now) for limit in order.also)
        if not side.kept
    ]
    if found.then is None or found.traded is None or found.chance_then is None:
        said.append("No blend of these coals was found that reaches it")
    else:
        cost = float((found.then - found.now) @ order.coals.price)
        said.append(
            f"The nearest blend found that reaches it exchanges {100 * found.traded:.2f} % of the "
            f"mass, has P {equal(found.chance_then)} and costs {cost:+,.2f} per tonne"
        )
    if found.features:
        each = [
            f"{f.name} {f.now:.4g} -> {f.then:.4g} {f.unit}".strip() for f in found.features[:5]
        ]
        said.append(f"One feature alone would do, if it could be had: {'; '.join(each)}")
    else:
        said.append("No single feature would do, whatever its value within the scope")
    return said


def change_values(found: BlendChange) -> dict[str, object]:
    """The answer in values that JSON knows."""
    shares = found.order.coals.named
    return {
        "target": found.order.target.text,
        "confidence": found.order.confidence,
        "limits": [limit.text for limit in found.order.also],
        "reached": found.reached,
        "p_target": found.chance,
        "blend": shares(found.now),
        "nearest": None if found.then is None else shares(found.then),
        "p_nearest": found.chance_then,
        "exchanged": found.traded,
        "features": [vars(feature) for feature in found.features],
    }
