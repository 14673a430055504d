"""Measured blends: read and learned from, and which test is worth its price.

A test tells of all blends like the one that was tested. For every result that it may have, the
one-shot model says in closed form what it would then know of the others, and so what the cheapest
blend would cost that keeps the promise (the knowledge gradient: Frazier, Powell, Dayanik 2008).
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedlore.core.one_shot import OneShotModel, Posterior
from fedlore.data.rows import FileForm, Problems, number_cells, place_cells
from fedlore.errors import FedloreError, KnowledgeError, unknown
from fedlore.models import (
    INFLATION,
    Doubt,
    OneShotMember,
    find_one_shot,
    one_shot_doubt,
    take_tests,
)

from .coals import Array, read_columns
from .graders import ClassGrader, doubted_chances
from .mixing import rows_of
from .order import BlendPlan, Order, PossibleResult, TestBlend
from .search import explore

_OFF = 0.5  # %, by which shares may miss 100 together: people round


@dataclass(frozen=True, eq=False)
class BlendTests:
    """n tests: what was charged, and the class that came out."""

    shares: Array  # (n, c) of the coals of the list
    classes: NDArray[np.int64]  # (n,)
    lines: tuple[int, ...]  # of the file
    place: str  # what messages call it

    def __len__(self) -> int:
        return len(self.classes)


def read_tests(path: str | Path, order: Order, *, form: FileForm | None = None) -> BlendTests:
    """A file with one test a row: a column for each coal that was charged, in %, and the grade."""
    schema, coals = order.recipe.schema, order.coals
    cells, lines, decimal, place = read_columns(path, form)
    if schema.label not in cells:
        raise FedloreError(f"{place}: {unknown('column', schema.label, cells)}")
    for title in cells:
        if title != schema.label and title not in coals.names:
            raise FedloreError(
                f"{place}: a column must be '{schema.label}' or a coal of the list, "
                f"{unknown('coal', title, coals.names)}"
            )
    problems = Problems(place)
    if not lines:
        raise FedloreError(f"{place} has no tests below its header")
    label = cells.pop(schema.label)
    classes, strange = place_cells(label, schema.classes, "class")
    blank = np.flatnonzero(np.isnan(classes)).tolist()
    strange |= {i: " is blank" for i in blank if i not in strange}
    problems.add(strange, lines, schema.label)
    shares = np.zeros((len(lines), len(coals)))
    for at, (name, column) in enumerate(cells.items()):
        values, wrong = number_cells(column, decimal)
        values = np.where(np.isnan(values), 0.0, values)  # a blank is a coal that was not charged
        out = np.flatnonzero(~((values >= 0.0) & (values <= 100.0)))
        wrong |= {int(i): f": {values[i]:g} is not a share in %" for i in out if i not in wrong}
        problems.add(wrong, lines, name, at)
        shares[:, coals.place(name)] = values / 100.0
    total = 100.0 * shares.sum(1)
    off = np.flatnonzero(np.abs(total - 100.0) > _OFF)
    if not problems.count:
        wrong = {int(i): f": its shares add up to {total[i]:g} %, not to 100 %" for i in off}
        problems.add(wrong, lines)
    problems.check()
    shares /= shares.sum(1, keepdims=True)
    return BlendTests(shares, classes.astype(np.int64), tuple(lines), place)


def take_results(order: Order, tests: BlendTests) -> Order:
    """The same order, promised by the model after these tests; an impossible one is refused."""
    grader = order.grader
    if not isinstance(grader, ClassGrader):
        raise FedloreError(
            "measured results can be taken in by a model of ordered classes, not of a number"
        )
    x = rows_of(order.recipe.features(tests.shares))
    y = torch.from_numpy(tests.classes)
    problems = Problems(tests.place)
    names = grader.schema.classes
    for i in range(len(tests)):
        try:
            allowed = grader.annotate(x[i : i + 1]).allowed
        except KnowledgeError as error:
            problems.add({i: f": {error}"}, tests.lines)
            continue
        if allowed is not None and not allowed[0, y[i]]:
            may = [name for name, ok in zip(names, allowed[0].tolist(), strict=True) if ok]
            problems.add(
                {i: f": {names[int(y[i])]} is impossible for this blend, the expert's range "
                 f"allows {', '.join(may)}"}, tests.lines,
            )  # fmt: skip
    problems.check()
    return replace(order, grader=replace(grader, personal=take_tests(grader.personal, x, y)))


_NEXT, _SURE = 500, 150  # blends that may become the next plan, and that are good already
_TESTED = 48  # blends whose test is thought through
_MIXED = (0.15, 0.4, 0.7)  # ways from the plan towards another blend
_RARE = 0.01  # a result less likely than this is left out


@torch.no_grad()
def propose_test(order: Order, plan: BlendPlan, *, seed: int = 0) -> TestBlend | None:
    """The test that is worth most; None where none would lower the price that is expected."""
    grader, sure = check_teachable(order)
    if plan.blend is None:
        return None
    blends = _blends(order, order.coals.shares(plan.blend.shares), seed)
    x = rows_of(order.recipe.features(blends))
    known = grader.annotate(x)
    place = [order.target.low <= i <= order.target.high for i in range(len(grader.schema.classes))]
    inside = torch.tensor(place, dtype=torch.float64).unsqueeze(1)
    scaled = known.x if sure.scaler is None else sure.scaler(known.x)
    doubt = one_shot_doubt(sure, known)
    moves = sure.one_shot_model.slopes(scaled, known.prior, known.allowed, known.stated)
    learned = _Refit.of(sure.one_shot_model, *moves)
    cost = blends @ order.coals.price
    now = float(cost[0])

    def cheapest(doubt: Doubt) -> float:
        said = doubted_chances(doubt, known.allowed, inside).promised(grader.promise)[:, 0].numpy()
        good = said >= order.confidence
        return float(cost[good].min()) if good.any() else float(cost[int(said.argmax())])

    best: TestBlend | None = None
    for at in _worth_a_test(cost, doubt):
        shift, left = learned.by(at)
        wide = doubt.ignorance * left
        likely = doubt.log_probs(known.allowed, len(inside))[at].exp()
        outcomes = [
            PossibleResult(
                grader.schema.classes[c],
                float(likely[c]),
                cheapest(Doubt(doubt.place + shift * (c - doubt.place[at]), doubt.noise, wide)),
            )
            for c in range(len(inside))
            if likely[c] >= _RARE
        ]
        total = sum(o.chance for o in outcomes)
        then = sum(o.chance * o.cost for o in outcomes) / total
        if then < now - 1e-6 * now and (best is None or then < best.then):
            shares = order.coals.named(blends[at])
            best = TestBlend(shares, float(cost[at]), now, then, tuple(outcomes))
    return best


def check_teachable(order: Order) -> tuple[ClassGrader, OneShotMember]:
    """What can tell the worth of a test; a model that cannot is refused before any search."""
    grader = order.grader
    if isinstance(grader, ClassGrader) and grader.schema.ordered:
        sure = find_one_shot(grader.personal)
        if sure is not None:
            return grader, sure
    raise FedloreError(
        "what a test is worth can be said by an ensemble with a one-shot model, and this model "
        'has none: train it with recipe = "lore" on ordered classes'
    )


def _blends(order: Order, mine: Array, seed: int) -> Array:
    """The plan first, then blends that a test might make the next one, (n, c)."""
    judge, goal, limits, price = order.judge, order.goal, order.limits, order.coals.price
    pool = explore(judge, limits, price, seed=seed, random=1000)
    kept = ~pool.seen.refused & (pool.seen.outside <= 0.0 if order.scope else True)
    if order.worst_case:
        kept &= pool.seen.stray[:, goal.place] <= 0.0
    kept &= (pool.seen.margins >= 0.0).all(1)
    shares, cost, said = pool.shares[kept], pool.cost[kept], pool.seen.chance[kept, goal.place]
    now = float(mine @ price)
    hopeful = np.flatnonzero((cost < now) & (said >= 0.4 * order.confidence))
    good = np.flatnonzero((cost >= now) & (said >= order.confidence))
    # the likelier a blend is to become good, the more it may cost
    rank = cost[hopeful] + 0.1 * now * (order.confidence - said[hopeful]).clip(min=0.0)
    hopeful = hopeful[np.argsort(rank, kind="stable")[:_NEXT]]
    good = good[np.argsort(cost[good], kind="stable")[:_SURE]]
    some = shares[np.concatenate([hopeful, good])]
    between = [(1.0 - t) * mine + t * some[: _NEXT // 2] for t in _MIXED]
    every = np.concatenate([mine[None], some, *between])
    seen = judge(every)
    fit = limits.holds(every) & ~seen.refused & (seen.margins >= 0.0).all(1)
    fit &= seen.outside <= 0.0 if order.scope else True
    if order.worst_case:
        fit &= seen.stray[:, goal.place] <= 0.0
    fit[0] = True
    return every[fit]


def _worth_a_test(cost: Array, doubt: Doubt) -> list[int]:
    """The plan, and blends no dearer of which most is unknown, at different prices."""
    cheap = np.flatnonzero(cost <= cost[0] * (1.0 + 1e-9))
    order = cheap[np.argsort(cost[cheap], kind="stable")]
    parts = np.array_split(order, min(_TESTED, len(order)))
    far = doubt.ignorance.numpy()
    return list(dict.fromkeys([0, *(int(part[np.argmax(far[part])]) for part in parts)]))


@dataclass(frozen=True, eq=False)
class _Refit:
    """What a test of one of n blends tells of all of them."""

    found: Posterior
    away: Tensor  # (n, f) how places move with the weights
    own: Tensor  # (n,) variance of each place
    level: Tensor  # (n,) and how they move with the site's level, in its sd
    noise: Tensor  # () of a test that counts as several rows

    @staticmethod
    def of(one_shot_model: OneShotModel, away: Tensor, slope: Tensor) -> "_Refit":
        found, home = one_shot_model.found, one_shot_model.home
        level = slope * (found.noise / home.rows).sqrt()
        own = ((away @ found.covariance) * away).sum(1) + level.square()
        noise = found.noise / INFLATION[one_shot_model.one_shot.basis.terms]
        return _Refit(found, away, own, level, noise)

    def by(self, at: int) -> tuple[Tensor, Tensor]:
        """By how much places follow a result, and what share of their sd of ignorance is left."""
        along = self.away @ (self.found.covariance @ self.away[at])  # (n,)
        along = along + self.level * self.level[at]
        total = self.own[at] + self.noise
        return along / total, (1.0 - along.square() / (total * self.own)).clamp(min=0.0).sqrt()
