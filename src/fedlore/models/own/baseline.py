"""The local baseline: a site's own learners, cross-validated, and the best of them."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...answers import Measured
from ...core.examples import Examples
from ...core.history import tell_step
from ...core.metrics import row_costs
from ...core.rng import key
from ...errors import FedloreError
from ...kernel.knowledge import HEARD_OF_ORDER
from .bent import TurningLearner, cut_inputs
from .gaussian import GaussianLearner
from .limits import HALVED_FROM, MOST_GAUSSIAN, MOST_TERMS, MOST_TRIED, once, thin
from .linear import (
    Family,
    LogisticLearner,
    OrdinalLinear,
    Ridge,
    SignedLinear,
    log_masses,
)
from .members import (
    Body,
    ClassMember,
    NumberMember,
    OrderMember,
    OwnMember,
    Sight,
    keeps_signs,
    mask_logits,
    see_classes,
    see_numbers,
    see_order,
    smooth_votes,
    within,
)
from .mixture import class_weights, mix, number_weights, start_weights
from .trees import BoostedTrees, ExtraTrees, has_trees

FOLDS = 5
FOREST, BOOSTED = "extra trees", "boosted trees"


@dataclass(frozen=True)
class Mode:
    """How a learner uses the expert."""

    words: str
    hears: bool = False  # his word is among the inputs
    over: bool = False  # what is learned is what he misses


ALONE = Mode("")
HEARING = Mode(", given the expert's answer", hears=True)
OVER = Mode(", correcting the expert", hears=True, over=True)


@dataclass(frozen=True, eq=False)
class JudgedOutputs:
    """Out-of-fold outputs behind the range: how wide they miss, what they say, how bad it is."""

    width: float
    held: Tensor  # (n,) numbers or (n, k) log-probabilities
    error: float


@dataclass(frozen=True, eq=False)
class FamilyTrial:
    """A family in one mode at its best setting."""

    family: Family
    mode: Mode
    setting: Any
    judged: JudgedOutputs

    @property
    def name(self) -> str:
        return self.family.name + self.mode.words


# (m, o) out-of-fold outputs of some rows, and which rows those are
_Judge = Callable[[Tensor, Tensor | slice], JudgedOutputs]
_ALL = slice(None)


def folds(rows: int, *, seed: int, site: str = "") -> Tensor:
    """The fold that each row is held out in, (n,) int64: blocks of a random order."""
    if rows < FOLDS:
        raise FedloreError(f"own models need at least {FOLDS} rows, got {rows}")
    order = np.arange(rows)
    np.random.RandomState(fold_seed(seed, site)).shuffle(order)
    found = np.empty(rows, dtype=np.int64)
    for fold, block in enumerate(np.array_split(order, FOLDS)):
        found[block] = fold
    return torch.from_numpy(found)


def fold_seed(seed: int, site: str) -> int:
    """The 32-bit seed of a site's folds and trees."""
    return key(seed, "own", site) % (1 << 32)


def try_family(
    family: Family,
    sight: Sight,
    target: Callable[[Mode], Tensor],
    part: Tensor,  # (n,) folds
    modes: Sequence[Mode],
    judge: _Judge,
) -> list[FamilyTrial]:
    """One entry per mode; the first mode tries every setting, the others those near its best.

    Of many rows there is one entry: what the first fold favours is tried on the other folds.
    """
    if len(part) >= HALVED_FROM:
        return [_try_by_first_fold(family, sight, target, part, modes, judge)]
    found: list[FamilyTrial] = []
    settings = family.settings
    for mode in modes:
        outputs = predict_held_out(family, sight, target(mode), part, mode, settings)
        each = [judge(one, _ALL) for one in outputs]
        best = min(range(len(each)), key=lambda i: each[i].error)
        found.append(FamilyTrial(family, mode, settings[best], each[best]))
        if mode is modes[0]:
            settings = family.near(settings[best])
        tell_step(f"own models, {family.name}")
    return found


def _try_by_first_fold(
    family: Family,
    sight: Sight,
    target: Callable[[Mode], Tensor],
    part: Tensor,
    modes: Sequence[Mode],
    judge: _Judge,
) -> FamilyTrial:
    """The mode and setting that are best on the first fold, with their outputs on all folds."""
    first, settings = part == 0, family.settings
    found: list[tuple[float, Mode, Any, Tensor]] = []
    for mode in modes:
        outputs = _predict_fold(family, sight, target(mode), first, mode, settings)
        errors = [judge(one, first).error for one in outputs]
        best = min(range(len(errors)), key=lambda i: errors[i])
        found.append((errors[best], mode, settings[best], outputs[best]))
        if mode is modes[0]:
            settings = family.near(settings[best])
        tell_step(f"own models, {family.name}")
    _, mode, setting, said = min(found, key=lambda one: one[0])
    held = said.new_empty(len(part), said.shape[1])
    held[first] = said
    for fold in range(1, int(part.max()) + 1):
        out = part == fold
        held[out] = _predict_fold(family, sight, target(mode), out, mode, [setting])[0]
        tell_step(f"own models, {family.name}")
    return FamilyTrial(family, mode, setting, judge(held, _ALL))


def predict_held_out(
    family: Family,
    sight: Sight,
    target: Tensor,
    part: Tensor,
    mode: Mode,
    settings: Sequence[Any],
) -> Tensor:
    """Out-of-fold outputs of each setting, (s, n, o), the expert's number added where due."""
    found: Tensor | None = None
    for fold in range(int(part.max()) + 1):
        out = part == fold
        said = _predict_fold(family, sight, target, out, mode, settings)
        if found is None:
            found = said.new_empty(len(settings), len(part), said.shape[2])
        found[:, out] = said
    assert found is not None  # there are at least two folds
    return found


def _predict_fold(
    family: Family,
    sight: Sight,
    target: Tensor,
    out: Tensor,  # (n,) bool, the rows of the fold
    mode: Mode,
    settings: Sequence[Any],
) -> Tensor:
    """Outputs of each setting on one fold, (s, m, o), by what the others teach."""
    inputs = sight.inputs(hears=mode.hears)
    rest = (~out).nonzero().squeeze(1)
    rest = rest[thin(len(rest), MOST_TRIED)]
    said = family.trace(inputs[rest], target[rest], inputs[out], settings)
    return said + sight.start[out, None] if mode.over else said


def fit_whole(tried: FamilyTrial, sight: Sight, target: Tensor) -> Body:
    """The model of a trial on all rows."""
    made: Body = tried.family.fit(sight.inputs(hears=tried.mode.hears), target, tried.setting)
    return made


WIDTHS = (0.6, 0.75, 0.9, 1.05, 1.25, 1.6)  # times the root of the mean squared miss
LEAST_WIDTH = 0.3  # in classes
ROWS_OF_A_CLASS = 10  # on average, for learners of ordered classes that must find their order
_ORDINAL = "ordinal linear"
_SHARPNESS = torch.logspace(-1.0, 0.5, 16, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class OwnModel:
    """An own model made from all rows, and what its like said of rows they had not seen."""

    member: OwnMember
    held: Tensor  # (n,) numbers in S(x), or (n, k) log-probabilities
    error: float  # of `held`: mean squared error, nll, or share of wrong classes (ties by nll)

    def cost(self, metric: str, y: Tensor) -> float:
        """What decides between own models: the metric on unseen rows, else the usual error."""
        if not metric:
            return self.error
        return float(row_costs(metric, self.held, y).mean()) + 1e-3 * self.error


@dataclass(frozen=True, eq=False)
class Own:
    """All own models of a site; `folds` says which row was held out when, for others to join."""

    candidates: tuple[OwnModel, ...]
    folds: Tensor  # (n,)

    def best_ways(self, metric: str, y: Tensor) -> list[OwnModel]:
        """Of each kind of learner the best way to use the expert."""
        best: dict[str, OwnModel] = {}
        for one in sorted(self.candidates, key=lambda c: c.cost(metric, y)):
            best.setdefault(kind_of_learner(one.member.name, one.held), one)
        return list(best.values())

    def local_best(self, metric: str, y: Tensor) -> "LocalBest":
        """The baseline: the best way of each kind of learner, weighed by rows not seen."""
        ways = self.best_ways(metric, y)
        held = torch.stack([one.held.double() for one in ways])
        find = number_weights if held.ndim == 2 else class_weights
        found = find([one.held for one in ways], y, start_weights(0, len(ways)))
        members, weights = tuple(one.member for one in ways), tuple(found.tolist())
        if held.ndim == 2:
            return LocalBest(members, weights, found @ held)
        said = mix(held.exp(), weights).log()
        each = [torch.log_softmax(float(s) * said, 1) for s in _SHARPNESS]
        best = min(range(len(each)), key=lambda i: _nll(each[i], y))
        return LocalBest(members, weights, each[best], float(_SHARPNESS[best]))


@dataclass(frozen=True, eq=False)
class LocalBest:
    """What a site gets on its own: all kinds of own learners together."""

    members: tuple[Any, ...]  # all of them of classes, or all of a number
    weights: tuple[float, ...]
    held: Tensor  # (n,) or (n, k): what they say together of rows they had not seen
    factor: float = 1.0  # on their log-probabilities: a mixture doubts too much

    @property
    def name(self) -> str:
        """The members that count, the heaviest first."""
        order = sorted(zip(self.weights, self.members, strict=True), key=lambda pair: -pair[0])
        return ", ".join(f"{member.name} {100 * w:.0f} %" for w, member in order if w >= 0.005)

    def log_probs(self, known: Examples) -> Tensor:
        """(n, k), exactly 0 outside the range."""
        said = [m.log_probs(known) for m in self.members]
        whole = mix(torch.stack([one.double().softmax(1) for one in said]), self.weights).log()
        return torch.log_softmax(self.factor * whole, 1)

    def number(self, known: Measured) -> Tensor:
        """(n,) inside S(x)."""
        whole = torch.stack([m.number(known).double() for m in self.members])
        return within(whole.new_tensor(self.weights) @ whole, known)


def kind_of_learner(name: str, said: Tensor) -> str:
    """A member's name without how it uses the expert: of its ways the best is kept.

    Of trees that say a number (n,) all are: together they miss less than the one that looks best.
    """
    kind = name.partition(",")[0]
    return name if said.ndim == 1 and kind in (FOREST, BOOSTED) else kind


def missing_learners() -> dict[str, str]:
    """Own learners that cannot be made here, and what to install for them."""
    if has_trees():
        return {}
    return dict.fromkeys((FOREST, BOOSTED), "pip install 'fedlore[sklearn]'")


@once
def own_numbers(
    known: Measured, *, seed: int = 0, site: str = "", signs: Tensor | None = None
) -> Own:
    """Own models of a number: ridges, Gaussian processes, two kinds of trees, three modes each.

    With `signs` (see `input_signs`) only those that keep them.
    """
    if known.y is None:
        raise FedloreError("own models need rows with a measured number")
    y = known.y
    sight = _withheld(see_numbers(known), signs)

    def target(mode: Mode) -> Tensor:
        return (y - sight.start if mode.over else y).unsqueeze(1)

    heard = known.said is not None or known.sets is not None
    modes = _heard_modes((HEARING, OVER, ALONE) if heard else (ALONE,), signs)
    part = folds(len(known), seed=seed, site=site)
    found = []
    families = _number_families(sight, fold_seed(seed, site), signs, (1,))
    if signs is None and len(sight) <= MOST_GAUSSIAN and _terms(sight) <= MOST_TERMS:
        families.append(GaussianLearner("Gaussian process of ranks", (0.25,), ranks=True))
    for family in families:
        for one in try_family(family, sight, target, part, modes, partial(_judge_number, known)):
            body = fit_whole(one, sight, target(one.mode))
            mode, width = one.mode, one.judged.width
            member = NumberMember(one.name, body, mode.hears, mode.over, width)
            found.append(OwnModel(member, one.judged.held, one.judged.error))
    return Own(_keep_signs(found, signs), part)


CORRECTING = Mode(", correcting the federation", hears=True, over=True)


def correct_number(
    known: Measured, said: Tensor, *, seed: int = 0, site: str = ""
) -> tuple[NumberMember, Tensor] | None:
    """Extra trees on what a shared model misses that says these numbers (n,) of rows left out.

    What is to be added to it, and out of fold both together.
    """
    if not has_trees():
        return None
    sight, target = replace(see_numbers(known), start=said), (known.numbers() - said).unsqueeze(1)
    (one,) = try_family(
        ExtraTrees(FOREST, seed=fold_seed(seed, site)),
        sight,
        lambda _: target,
        folds(len(known), seed=seed, site=site),
        (CORRECTING,),
        partial(_judge_number, known),
    )
    width = one.judged.width
    return NumberMember(
        one.name, fit_whole(one, sight, target), True, False, width
    ), one.judged.held


@once
def own_order(
    known: Examples, classes: int, *, seed: int = 0, site: str = "", signs: Tensor | None = None
) -> Own:
    """Own models of ordered classes, a place and a width each; with `signs` those keeping them.

    With rows enough also those that know no order: it may be no help, or not there.
    """
    y, aim = _labels(known), known.aim
    sight = _withheld(see_order(known, classes), signs)

    def judge(outputs: Tensor, rows: Tensor | slice) -> JudgedOutputs:
        return judge_places(outputs.squeeze(1), known[rows], classes)

    def target(mode: Mode) -> Tensor:
        # cells are what an ordinal model is fitted to; the others learn a place, as it was measured
        goal = aim if family.name != _ORDINAL else y.double()
        return (goal - sight.start if mode.over else goal).unsqueeze(1)

    modes = _heard_modes(_modes(known, over=True), signs)
    part = folds(len(known), seed=seed, site=site)
    found = []
    for family in _order_families(sight, classes, fold_seed(seed, site), signs):
        used = [m for m in modes if not (m.over and family.name == _ORDINAL)]
        for one in try_family(family, sight, target, part, used, judge):
            body = fit_whole(one, sight, target(one.mode))
            mode, width = one.mode, one.judged.width
            member = OrderMember(one.name, body, mode.hears, mode.over, width, classes)
            found.append(OwnModel(member, one.judged.held, one.judged.error))
    if signs is None and len(known) >= ROWS_OF_A_CLASS * classes:
        families = _class_families(classes, fold_seed(seed, site), len(known), "unordered ")
        found += _try_classes(families, known, part, _nll)
    return Own(_keep_signs(found, signs), part)


def _judge_number(known: Measured, outputs: Tensor, rows: Tensor | slice) -> JudgedOutputs:
    some = known[rows]
    held = within(outputs.squeeze(1), some)
    missed = float((held - some.numbers()).square().mean())
    return JudgedOutputs(max(math.sqrt(missed), 1e-12), held, missed)


def judge_places(place: Tensor, known: Examples, classes: int) -> JudgedOutputs:
    """Places of rows that were not seen, (n,), with the width under which labels are likeliest."""
    y = _labels(known)
    usual = max(float((place - known.aim).square().mean().sqrt()), LEAST_WIDTH)
    every = [mask_logits(log_masses(place, usual * w, classes), known.allowed) for w in WIDTHS]
    costs = [_nll(rows, y) for rows in every]
    best = min(range(len(costs)), key=lambda i: costs[i])
    # by likelihood, not by errors: one row more or less of forty must not decide
    return JudgedOutputs(usual * WIDTHS[best], every[best], costs[best])


@once
def own_classes(known: Examples, classes: int, *, seed: int = 0, site: str = "") -> Own:
    """Own models of classes without order: logistic, extra trees, boosted trees, two modes each."""
    part = folds(len(known), seed=seed, site=site)
    families = _class_families(classes, fold_seed(seed, site), len(known))
    return Own(tuple(_try_classes(families, known, part, _wrong)), part)


def _try_classes(
    families: Sequence[Family], known: Examples, part: Tensor, error: Callable[..., float]
) -> Iterator[OwnModel]:
    """Learners of classes without order in each mode, judged by an error of log-probabilities."""
    y, sight = _labels(known), see_classes(known)
    for family in families:
        votes = isinstance(family, ExtraTrees)

        def judge(outputs: Tensor, rows: Tensor | slice, votes: bool = votes) -> JudgedOutputs:
            logits = smooth_votes(outputs) if votes else outputs
            allowed = None if known.allowed is None else known.allowed[rows]
            every = [mask_logits(float(s) * logits, allowed) for s in _SHARPNESS]
            costs = [_nll(one, y[rows]) for one in every]
            best = min(range(len(costs)), key=lambda i: costs[i])
            return JudgedOutputs(float(_SHARPNESS[best]), every[best], error(every[best], y[rows]))

        modes = _modes(known, over=False)
        for one in try_family(family, sight, lambda _: y, part, modes, judge):
            body = fit_whole(one, sight, y)
            member = ClassMember(one.name, body, one.mode.hears, votes, one.judged.width)
            yield OwnModel(member, one.judged.held, one.judged.error)


def _number_families(
    sight: Sight, seed: int, signs: Tensor | None, leaves: tuple[int, ...] = ExtraTrees.settings
) -> list[Family]:
    found: list[Family] = []
    bounds: tuple[float, ...] = ()
    cut = None
    if signs is not None:  # products of inputs keep no signs
        found.append(_signed(Ridge("ridge"), sight, signs))
        cut = cut_inputs(signs)
        bounds = tuple((signs[0] if cut is None else cut.way).tolist())
    else:
        found.append(Ridge("ridge"))
        if _terms(sight) <= MOST_TERMS:
            found.append(Ridge("quadratic ridge", quadratic=True))
        if len(sight) <= MOST_GAUSSIAN:
            found.append(GaussianLearner("Gaussian process"))
    if has_trees():
        trees: list[Family] = [
            ExtraTrees(FOREST, seed=seed, settings=leaves, signs=bounds),
            BoostedTrees(BOOSTED, seed=seed, signs=bounds, rows=len(sight)),
        ]
        found += trees if cut is None else [TurningLearner(one, cut) for one in trees]
    return found


def _signed(line: Ridge | OrdinalLinear, sight: Sight, signs: Tensor) -> Family:
    """A linear learner that keeps signs, on inputs that are cut where they turn or may bend."""
    cut = cut_inputs(signs, sight.x)
    if cut is None:
        return SignedLinear(line, signs[0])
    return TurningLearner(SignedLinear(line, cut.way), cut)


def _order_families(sight: Sight, classes: int, seed: int, signs: Tensor | None) -> list[Family]:
    line = OrdinalLinear(_ORDINAL, classes)
    first: Family = line if signs is None else _signed(line, sight, signs)
    return [first, *_number_families(sight, seed, signs)]


def _withheld(sight: Sight, signs: Tensor | None) -> Sight:
    return sight if signs is None else sight.withhold(signs)


def _heard_modes(modes: Sequence[Mode], signs: Tensor | None) -> Sequence[Mode]:
    """The ways to use an expert of whom signs withhold a part, or all."""
    if signs is None:
        return modes
    heard = signs[0, -HEARD_OF_ORDER:]
    deaf, lost = bool(heard.isnan().all()), bool(heard[0].isnan())
    return [m for m in modes if not (m.over and lost) and not (m.hears and deaf)]


def _keep_signs(found: Sequence[OwnModel], signs: Tensor | None) -> tuple[OwnModel, ...]:
    """Those that keep the signs: what a library promises is looked at, not believed."""
    return tuple(one for one in found if signs is None or keeps_signs(one.member, signs))


def _class_families(classes: int, seed: int, rows: int, before: str = "") -> list[Family]:
    found: list[Family] = [LogisticLearner(f"{before}logistic", classes)]
    if has_trees():
        found.append(ExtraTrees(f"{before}extra trees", classes, seed))
        found.append(BoostedTrees(f"{before}boosted trees", classes, seed, rows=rows))
    return found


def _terms(sight: Sight) -> int:
    wide = sight.x.shape[1] + sight.heard.shape[1]
    return wide * (wide + 3) // 2


def _modes(known: Examples, *, over: bool) -> Sequence[Mode]:
    if known.prior is None and known.allowed is None:
        return (ALONE,)
    return (HEARING, OVER, ALONE) if over else (HEARING, ALONE)


def _labels(known: Examples) -> Tensor:
    if known.y is None:
        raise FedloreError("own models need rows with a class")
    return known.y


def _nll(log_probs: Tensor, y: Tensor) -> float:
    """Mean -log p of the label; a label outside its range counts as a very improbable one."""
    return -float(log_probs.gather(1, y.unsqueeze(1)).clamp(min=-20.0).mean())


def _wrong(log_probs: Tensor, y: Tensor) -> float:
    """The share of wrong classes; a thousandth of the nll decides between equals."""
    return float((log_probs.argmax(1) != y).double().mean()) + 1e-3 * _nll(log_probs, y)
