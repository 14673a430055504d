"""Local search: linearise, solve the linear program, look, and step; then trade pairs of coals."""

from dataclasses import dataclass

import numpy as np

from .coals import Array
from .judge import Goal, Judge, JudgedBlends, logit
from .limits import Limits, cheapest

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
    limits: Limits
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
                    seen = _put(seen, int(i), looked, int(best))
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


def list_trades(shares: Array, limits: Limits) -> Array:
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


def _put(seen: JudgedBlends, row: int, other: JudgedBlends, take: int) -> JudgedBlends:
    """The same verdicts with one row from others."""
    pairs: tuple[tuple[np.ndarray, np.ndarray], ...] = (
        (seen.chance, other.chance),
        (seen.stray, other.stray),
        (seen.outside, other.outside),
        (seen.refused, other.refused),
        (seen.margins, other.margins),
    )
    for mine, theirs in pairs:
        mine[row] = theirs[take]
    return seen
