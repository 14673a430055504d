"""The cheapest blend that reaches a goal: look widely once, then search from the best places."""

from dataclasses import dataclass, replace

import numpy as np

from fedlore.core.rng import key

from .coals import Array
from .descent import Field, descend, trade
from .judge import Goal, Judge, JudgedBlends
from .limits import Limits, cheapest, scipy_optimize
from .points import LATTICE_STEPS, distinct_blends, fit_lots, lattice, lattice_size, sparse

POOL = 180_000  # blends of a lattice that are looked at, all of them
SWEEP = 2_000_000  # blends in lots that may be gone through in order of price
RANDOM = 3_000  # sparse random blends for each coal


@dataclass(frozen=True)
class Effort:
    """How hard to search."""

    starts: int = 32
    rounds: int = 40  # of linear programs
    ends: int = 8  # blends that are traded further
    doubles: int = 5000  # pairs of trades in each round
    evolve: bool = True  # look once more before a goal is called out of reach


FULL, LIGHT = Effort(), Effort(starts=8, rounds=15, ends=2, doubles=1500, evolve=False)


@dataclass(frozen=True, eq=False)
class BlendPool:
    """Blends that have been looked at, to start from."""

    shares: Array  # (n, c)
    cost: Array  # (n,)
    seen: JudgedBlends
    exact: bool = False  # these are all the blends that there are

    @property
    def refused(self) -> int:
        """For how many of them the expert has no answer."""
        return int(self.seen.refused.sum())


@dataclass(frozen=True, eq=False)
class Found:
    """The outcome of a search: a blend that reaches the goal, or the nearest to it."""

    shares: Array  # (c,)
    seen: JudgedBlends  # of this one blend
    reached: bool
    proved: bool  # every blend in lots that is cheaper was looked at


def explore(
    judge: Judge, limits: Limits, price: Array, *, seed: int, random: int = RANDOM
) -> BlendPool:
    """A wide look: a lattice as fine as can be afforded, sparse random blends, extreme ones."""
    c = len(limits)
    draw = np.random.default_rng(key(seed, "blend", "explore"))
    if limits.lots is not None:
        size = lattice_size(c, limits.lots, limits.coals)
        if size <= POOL:
            shares = lattice(limits, limits.lots)
            return BlendPool(shares, shares @ price, judge(shares), exact=True)
        parts = []
    else:
        affordable = (n for n in LATTICE_STEPS if lattice_size(c, n, limits.coals) <= POOL)
        parts = [lattice(limits, next(affordable, 1))]
    corners = [cheapest(price, limits)] + [
        cheapest(-np.eye(c)[i], limits) for i in range(c) if limits.high[i] > 0
    ]
    parts.append(np.array([w for w in corners if w is not None]).reshape(-1, c))
    if c > 4 or limits.lots is not None:
        parts.append(sparse(limits, random * c, draw))
    shares = np.concatenate(parts)
    shares = shares[limits.holds(shares)]
    return BlendPool(shares, shares @ price, judge(shares))


def search_blends(
    judge: Judge,
    goal: Goal,
    limits: Limits,
    price: Array,
    pool: BlendPool,
    *,
    seed: int,
    effort: Effort = FULL,
    extra: Array | None = None,  # (e, c) blends to start from as well
) -> Found | None:
    """The cheapest blend found that reaches the goal, else the nearest to it; None: no blend."""
    field = Field(judge, goal, limits, price)
    kept = limits.holds(pool.shares)
    shares, seen = pool.shares[kept], pool.seen[kept]
    order = field.better(shares, seen)
    if pool.exact:
        if not len(shares):
            return None
        top = int(order.argmin())
        good = bool(seen.good(goal)[top])
        return Found(shares[top], seen[top : top + 1], good, True)
    first = _starts(field, shares, seen, order, effort.starts)
    given = first[:0] if extra is None else extra[limits.holds(extra)]
    first = np.concatenate([given, first])
    if not len(first):
        one = cheapest(price, limits)
        if one is None:
            return None
        first = one[None]
    draw = np.random.default_rng(key(seed, "blend", "search"))
    found, verdicts = descend(field, first, rounds=effort.rounds)
    chosen = distinct_blends(found, field.better(found, verdicts), effort.ends)
    ends = [
        trade(field, found[i], draw, doubles=effort.doubles)
        for i in dict.fromkeys([*chosen, *range(len(given))])
    ]
    # trades may have jumped a step, behind which there is a slope again
    last, verdicts = descend(field, np.array([w for w, _ in ends]), rounds=effort.rounds // 2)
    ends += [(last[i], verdicts[i : i + 1]) for i in range(len(last))]
    best, verdict = min(ends, key=lambda end: float(field.better(end[0][None], end[1])[0]))
    if effort.evolve and not verdict.good(goal)[0]:
        rescued = _evolve(field, np.concatenate([best[None], first]), seed)
        ends = [(best, verdict)] + ([] if rescued is None else [trade(field, rescued, draw)])
        best, verdict = min(ends, key=lambda end: float(field.better(end[0][None], end[1])[0]))
    return Found(best, verdict, bool(verdict.good(goal)[0]), False)


def sweep(judge: Judge, goal: Goal, limits: Limits, price: Array, found: Found) -> Found:
    """All blends in lots that are cheaper, in order of price, where they are few enough."""
    if limits.lots is None or found.proved:
        return found
    if lattice_size(len(limits), limits.lots, limits.coals) > SWEEP:
        return found
    shares = lattice(limits, limits.lots)
    cost = shares @ price
    if found.reached:
        below = cost < float(found.shares @ price) - 1e-9
        shares, cost = shares[below], cost[below]
    order = np.argsort(cost, kind="stable")
    for i in range(0, len(order), 16_384):
        rows = shares[order[i : i + 16_384]]
        seen = judge(rows)
        good = np.flatnonzero(seen.good(goal))
        if len(good):
            at = int(good[0])
            return Found(rows[at], seen[at : at + 1], True, True)
    return replace(found, proved=True)


def _starts(field: Field, shares: Array, seen: JudgedBlends, order: Array, count: int) -> Array:
    """Good and nearly good blends, cheap ones first, with different sets of coals."""
    if not len(shares):
        return shares
    cost, lack = shares @ field.price, seen.lack(field.goal)
    span = float(cost.max() - cost.min()) or 1.0
    chosen = []
    # by price alone, and with a lack worth little or much of it
    for rank, share in ((order, 2), (cost + 0.3 * span * lack, 4), (cost + 3.0 * span * lack, 4)):
        few = min(4096, len(rank) - 1)
        top = np.argpartition(rank, few)[: few + 1]
        top.sort()  # the order of equals must not hang on the partition
        chosen += [int(top[i]) for i in distinct_blends(shares[top], rank[top], count // share)]
    return shares[list(dict.fromkeys(chosen))]


def _evolve(field: Field, known: Array, seed: int) -> Array | None:
    """Differential evolution towards the goal, before it is called out of reach, (c,)."""
    optimize = scipy_optimize()
    c = len(field.limits)
    if c < 2:
        return None
    members = 8 * max(c, 5)
    draw = np.random.default_rng(key(seed, "blend", "evolve"))
    first = np.concatenate([known[:members], draw.random((members, c)) ** 3])[:members]

    def rank(columns: Array) -> Array:
        """(c, n) weights -> (n,)."""
        blends, possible = fit_lots(np.atleast_2d(columns.T), field.limits)
        values = np.full(len(blends), np.inf)
        values[possible] = field.better(blends[possible], field.judge(blends[possible]))
        return values

    result = optimize.differential_evolution(
        rank,
        [(0.0, 1.0)] * c,
        init=np.clip(first, 0.0, 1.0),
        maxiter=40,
        tol=0.0,
        polish=False,
        vectorized=True,
        updating="deferred",
        seed=key(seed, "blend", "evolve") % 2**32,
    )
    best, possible = fit_lots(result.x[None], field.limits)
    return best[0] if possible[0] else None
