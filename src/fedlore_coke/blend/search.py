"""The search for the cheapest blend: many points, then trades between coals around the best."""

from dataclasses import dataclass, replace

import numpy as np

from fedlore.core.rng import key

from .coals import Array
from .judge import Goal, Judge, JudgedBlends, logit
from .limits import (
    LATTICE_STEPS,
    BlendLimits,
    cheapest,
    distinct_blends,
    fit_lots,
    lattice,
    lattice_size,
    scipy_optimize,
    sparse,
)

NUDGE = 1e-3  # share of a coal added to see what it does
PUSH = 0.06  # the same for the range, which moves in steps
HALVING, FEWEST = 5, 4  # every so many rounds half of the blends are given up, down to a few
_SURE = 1e-7  # by which other limits are to be kept in the linear picture
_STEPS = np.array([1.0, 0.8, 0.6, 0.4, 0.25, 0.15, 0.08, 0.04, 0.015])
TRADES = 0.5 ** np.arange(1, 13)  # shares traded between two coals: 50 % to 0.02 %


@dataclass(frozen=True, eq=False)
class Field:
    """Everything a local search needs to know."""

    judge: Judge
    goal: Goal
    limits: BlendLimits
    price: Array  # (c,)

    def better(self, shares: Array, seen: JudgedBlends) -> Array:
        """An order of blends, (n,): good ones by price, then the others by what they lack."""
        top = float(self.price.max()) + 1.0
        lack = seen.lack(self.goal)
        good = seen.good(self.goal)
        return np.where(good, shares @ self.price, top * (2.0 + lack))


def descend(field: Field, starts: Array, *, rounds: int = 25) -> tuple[Array, JudgedBlends]:
    """Sequential linear programs in a trust region, from many blends side by side, (s, c).

    Each round adds a little of every coal to see what it does, lets HiGHS find the cheapest blend
    that the linear picture allows, and takes the best point on the way there that is truly good.
    """
    shares, seen = starts.copy(), field.judge(starts)
    rank = field.better(shares, seen)
    radius = np.full(len(shares), 0.25)
    smallest = 1e-4 if field.limits.lots is None else 1.0 / field.limits.lots
    for turn in range(1, rounds + 1):
        alive = np.flatnonzero(radius >= smallest)
        if not len(alive):
            break
        if turn % HALVING == 0 and len(alive) > FEWEST:  # the better half goes on
            best = alive[np.argsort(rank[alive], kind="stable")]
            radius[best[max(FEWEST, len(best) // 2) :]] = 0.0
            continue
        cuts = _pictures(field, shares[alive], seen[alive])
        tried, owner = [], []
        for i, cut in zip(alive, cuts, strict=True):
            aim = cheapest(field.price, field.limits, cuts=cut, near=(shares[i], radius[i]))
            if aim is not None:
                steps = _STEPS if field.limits.lots is None else _STEPS[:1]
                way = shares[i] + steps[:, None] * (aim - shares[i])
                way = way[field.limits.holds(way)]
                tried.append(way)
                owner += [i] * len(way)
        radius[alive] *= 0.4
        if not owner:
            continue
        points, place = np.concatenate(tried), np.array(owner)
        looked = field.judge(points)
        order = field.better(points, looked)
        for i in alive:
            mine = np.flatnonzero(place == i)
            if len(mine):
                best = mine[order[mine].argmin()]
                if order[best] < rank[i] - 1e-9 * max(abs(rank[i]), 1.0):
                    shares[i], rank[i] = points[best], order[best]
                    for name, values in vars(seen).items():
                        values[i] = getattr(looked, name)[best]
                    # what the round took from the radius comes back, and a little more
                    radius[i] = min(radius[i] * 2.5 * 1.4, 0.5)
    return shares, seen


def trade(
    field: Field, start: Array, draw: np.random.Generator, *, rounds: int = 40, doubles: int = 3000
) -> tuple[Array, JudgedBlends]:
    """Trades between two coals, and random pairs of trades, while any of them is better, (c,).

    Needs no slopes, so it ends where steps of a table or of a range end.
    """
    shares = start[None]
    seen = field.judge(shares)
    rank = float(field.better(shares, seen)[0])
    for _ in range(rounds):
        moves = list_trades(shares[0], field.limits)
        if not len(moves):
            break
        if doubles:
            pairs = draw.integers(0, len(moves), size=(doubles, 2))
            moves = np.concatenate([moves, moves[pairs[:, 0]] + moves[pairs[:, 1]]])
        points = shares + moves
        points[np.abs(points) < 1e-9] = 0.0
        if seen.good(field.goal)[0]:
            points = points[points @ field.price < rank - 1e-9]
        points = points[field.limits.holds(points)]
        if not len(points):
            break
        looked = field.judge(points)
        order = field.better(points, looked)
        best = int(order.argmin())
        if not order[best] < rank - 1e-7 * max(abs(rank), 1.0):
            break
        shares, seen, rank = points[best : best + 1], looked[best : best + 1], float(order[best])
    return shares[0], seen


def list_trades(shares: Array, limits: BlendLimits) -> Array:
    """Moves of mass from one coal to another that the bounds leave room for, (n, c)."""
    c = len(shares)
    give, take = shares - limits.low, limits.high - shares
    sizes = TRADES if limits.lots is None else np.array([1, 2, 3, 5, 8]) / limits.lots
    moves = []
    for i in np.flatnonzero(give > 1e-9):
        for j in np.flatnonzero(take > 1e-9):
            if i == j:
                continue
            all_of_it = min(give[i], take[j])
            amounts = sizes[sizes < all_of_it - 1e-9]
            if limits.lots is None or abs(all_of_it * limits.lots % 1.0) < 1e-6:
                amounts = np.r_[amounts, all_of_it]
            move = np.zeros((len(amounts), c))
            move[:, i], move[:, j] = -amounts, amounts
            moves.append(move)
    return np.concatenate(moves) if moves else np.zeros((0, c))


def _pictures(field: Field, shares: Array, seen: JudgedBlends) -> list[tuple[Array, Array]]:
    """Linear pictures of all goals around blends: for each, cuts (m, c) and their ends (m,).

    As shares sum to 1, g(w') is about g(w) + sum w'_i D_i with D_i the slope towards coal i.
    """
    s, c = shares.shape
    judge, goal = field.judge, field.goal
    towards = _towards(shares, NUDGE)  # (s, c, c)
    there = judge(towards.reshape(-1, c))
    here = logit(seen.chance[:, goal.place])
    slope = (logit(there.chance[:, goal.place]).reshape(s, c) - here[:, None]) / NUDGE
    wanted = float(logit(np.array(min(goal.confidence + 2e-6, 1.0))))
    rows, ends = [slope[:, None]], [(wanted - here)[:, None]]
    if goal.worst_case:
        push = _towards(shares, PUSH)
        far = judge(push.reshape(-1, c)).stray[:, goal.place].reshape(s, c)
        near = seen.stray[:, goal.place]
        rows.append(-((far - near[:, None]) / PUSH)[:, None])
        ends.append(near[:, None])
    if judge.also:
        kept = there.margins.reshape(s, c, -1)  # (s, c, m)
        rows.append(((kept - seen.margins[:, None]) / NUDGE).transpose(0, 2, 1))
        ends.append(_SURE - seen.margins)
    if goal.scope:
        low, high, width = judge.scope
        values = judge.recipe.features(shares)  # (s, d)
        moved = judge.recipe.features(towards.reshape(-1, c)).reshape(s, c, -1)
        slopes = ((moved - values[:, None]) / NUDGE / width).transpose(0, 2, 1)  # (s, d, c)
        for bound, sign in ((low, 1.0), (high, -1.0)):
            known = np.isfinite(bound)
            rows.append(sign * slopes[:, known])
            ends.append(sign * ((bound - values) / width)[:, known])
    cuts, levels = np.concatenate(rows, 1), np.concatenate(ends, 1)
    size = np.maximum(np.abs(cuts).max(2), 1e-9)
    cuts, levels = cuts / size[:, :, None], levels / size
    # a cut that no blend at all could break says nothing
    return [(a[a.min(1) < e], e[a.min(1) < e]) for a, e in zip(cuts, levels, strict=True)]


def _towards(shares: Array, size: float) -> Array:
    """Each blend with a little of each coal added, (s, c) -> (s, c, c)."""
    return (1.0 - size) * shares[:, None] + size * np.eye(shares.shape[1])


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
class SearchResult:
    """The outcome of a search: a blend that reaches the goal, or the nearest to it."""

    shares: Array  # (c,)
    seen: JudgedBlends  # of this one blend
    reached: bool
    proved: bool  # every blend in lots that is cheaper was looked at


def explore(
    judge: Judge, limits: BlendLimits, price: Array, *, seed: int, random: int = RANDOM
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
    field: Field,
    pool: BlendPool,
    *,
    seed: int,
    effort: Effort = FULL,
    extra: Array | None = None,  # (e, c) blends to start from as well
) -> SearchResult | None:
    """The cheapest blend found that reaches the goal, else the nearest to it; None: no blend."""
    goal, limits = field.goal, field.limits
    kept = limits.holds(pool.shares)
    shares, seen = pool.shares[kept], pool.seen[kept]
    order = field.better(shares, seen)
    if pool.exact:
        if not len(shares):
            return None
        top = int(order.argmin())
        good = bool(seen.good(goal)[top])
        return SearchResult(shares[top], seen[top : top + 1], good, True)
    first = _starts(field, shares, seen, order, effort.starts)
    given = first[:0] if extra is None else extra[limits.holds(extra)]
    first = np.concatenate([given, first])
    if not len(first):
        one = cheapest(field.price, limits)
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
    return SearchResult(best, verdict, bool(verdict.good(goal)[0]), False)


def sweep(field: Field, found: SearchResult) -> SearchResult:
    """All blends in lots that are cheaper, in order of price, where they are few enough."""
    judge, goal, limits, price = field.judge, field.goal, field.limits, field.price
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
            return SearchResult(rows[at], seen[at : at + 1], True, True)
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
