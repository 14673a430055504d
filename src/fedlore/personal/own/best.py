"""What a site gets on its own: its own learners, cross-validated, and the best of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...answers import Measured
from ...core.examples import Examples
from ...errors import FedloreError
from .boosted import BoostedTrees
from .crossfit import (
    ALONE,
    HEARING,
    OVER,
    Family,
    JudgedOutputs,
    Mode,
    fit_whole,
    fold_seed,
    folds,
    try_family,
)
from .forest import ExtraTrees
from .grown import has_trees
from .linear import Ridge
from .logistic import LogisticLearner
from .members import (
    ClassMember,
    NumberMember,
    OrderMember,
    OwnMember,
    mask_logits,
    smooth_votes,
    within,
)
from .memory import once
from .ordinal import OrdinalLinear, log_masses
from .sight import HEARD_OF_ORDER, Sight, see_classes, see_numbers, see_order
from .signed import SignedLinear
from .signs import keeps_signs

MOST_TERMS = 1000  # of a quadratic model
WIDTHS = (0.6, 0.75, 0.9, 1.05, 1.25, 1.6)  # times the root of the mean squared miss
LEAST_WIDTH = 0.3  # in classes
_ORDINAL = "ordinal linear"
_SHARPNESS = torch.logspace(-1.0, 0.5, 16, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class OwnModel:
    """An own model made from all rows, and what its like said of rows they had not seen."""

    member: OwnMember
    held: Tensor  # (n,) numbers in S(x), or (n, k) log-probabilities
    error: float  # of `held`: mean squared error, nll, or share of wrong classes (ties by nll)


@dataclass(frozen=True, eq=False)
class Own:
    """All own models of a site; `folds` says which row was held out when, for others to join."""

    candidates: tuple[OwnModel, ...]
    folds: Tensor  # (n,)

    @property
    def best(self) -> OwnModel:
        """The baseline `local best`."""
        return min(self.candidates, key=lambda c: c.error)


def missing_learners() -> dict[str, str]:
    """Own learners that cannot be made here, and what to install for them."""
    if has_trees():
        return {}
    return dict.fromkeys(("extra trees", "boosted trees"), "pip install 'fedlore[sklearn]'")


@once
def own_numbers(
    known: Measured, *, seed: int = 0, site: str = "", signs: Tensor | None = None
) -> Own:
    """Own models of a number: ridge, quadratic ridge, extra and boosted trees, three modes each.

    With `signs` (see `input_signs`) only those that keep them.
    """
    if known.y is None:
        raise FedloreError("own models need rows with a measured number")
    y = known.y
    sight = _withheld(see_numbers(known), signs)

    def judge(outputs: Tensor) -> JudgedOutputs:
        held = within(outputs.squeeze(1), known)
        missed = float((held - y).square().mean())
        return JudgedOutputs(max(math.sqrt(missed), 1e-12), held, missed)

    def target(mode: Mode) -> Tensor:
        return (y - sight.start if mode.over else y).unsqueeze(1)

    heard = known.said is not None or known.sets is not None
    modes = _heard_modes((HEARING, OVER, ALONE) if heard else (ALONE,), signs)
    part = folds(len(known), seed=seed, site=site)
    found = []
    for family in _number_families(sight, fold_seed(seed, site), signs):
        for one in try_family(family, sight, target, part, modes, judge):
            body = fit_whole(one, sight, target(one.mode))
            mode, width = one.mode, one.judged.width
            member = NumberMember(one.name, body, mode.hears, mode.over, width)
            found.append(OwnModel(member, one.judged.held, one.judged.error))
    return Own(_kept(found, signs), part)


@once
def own_order(
    known: Examples, classes: int, *, seed: int = 0, site: str = "", signs: Tensor | None = None
) -> Own:
    """Own models of ordered classes, a place and a width each; with `signs` those keeping them."""
    y = _labels(known)
    sight = _withheld(see_order(known, classes), signs)

    def judge(outputs: Tensor) -> JudgedOutputs:
        return judge_places(outputs.squeeze(1), known, classes)

    def target(mode: Mode) -> Tensor:
        return (y - sight.start if mode.over else y.double()).unsqueeze(1)

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
    return Own(_kept(found, signs), part)


def judge_places(place: Tensor, known: Examples, classes: int) -> JudgedOutputs:
    """Places of rows that were not seen, (n,), with the width under which labels are likeliest."""
    y = _labels(known)
    usual = max(float((place - y).square().mean().sqrt()), LEAST_WIDTH)
    every = [mask_logits(log_masses(place, usual * w, classes), known.allowed) for w in WIDTHS]
    costs = [_nll(rows, y) for rows in every]
    best = min(range(len(costs)), key=lambda i: costs[i])
    # by likelihood, not by errors: one row more or less of forty must not decide
    return JudgedOutputs(usual * WIDTHS[best], every[best], costs[best])


@once
def own_classes(known: Examples, classes: int, *, seed: int = 0, site: str = "") -> Own:
    """Own models of classes without order: logistic, extra trees, boosted trees, two modes each."""
    y = _labels(known)
    sight = see_classes(known)
    part = folds(len(known), seed=seed, site=site)
    found = []
    for family in _class_families(classes, fold_seed(seed, site)):
        votes = isinstance(family, ExtraTrees)

        def judge(outputs: Tensor, votes: bool = votes) -> JudgedOutputs:
            logits = smooth_votes(outputs) if votes else outputs
            every = [mask_logits(float(s) * logits, known.allowed) for s in _SHARPNESS]
            costs = [_nll(rows, y) for rows in every]
            best = min(range(len(costs)), key=lambda i: costs[i])
            return JudgedOutputs(float(_SHARPNESS[best]), every[best], _wrong(every[best], y))

        modes = _modes(known, over=False)
        for one in try_family(family, sight, lambda _: y, part, modes, judge):
            body = fit_whole(one, sight, y)
            member = ClassMember(one.name, body, one.mode.hears, votes, one.judged.width)
            found.append(OwnModel(member, one.judged.held, one.judged.error))
    return Own(tuple(found), part)


def _number_families(sight: Sight, seed: int, signs: Tensor | None) -> list[Family]:
    found: list[Family] = []
    bounds: tuple[float, ...] = ()
    if signs is not None:  # products of inputs keep no signs
        found.append(SignedLinear(Ridge("ridge"), signs))
        bounds = tuple(signs.tolist())
    else:
        found.append(Ridge("ridge"))
        if _terms(sight) <= MOST_TERMS:
            found.append(Ridge("quadratic ridge", quadratic=True))
    if has_trees():
        found.append(ExtraTrees("extra trees", seed=seed, signs=bounds))
        found.append(BoostedTrees("boosted trees", seed=seed, signs=bounds))
    return found


def _order_families(sight: Sight, classes: int, seed: int, signs: Tensor | None) -> list[Family]:
    line = OrdinalLinear(_ORDINAL, classes)
    first: Family = line if signs is None else SignedLinear(line, signs)
    return [first, *_number_families(sight, seed, signs)]


def _withheld(sight: Sight, signs: Tensor | None) -> Sight:
    return sight if signs is None else sight.withhold(signs)


def _heard_modes(modes: Sequence[Mode], signs: Tensor | None) -> Sequence[Mode]:
    """The ways to use an expert of whom signs withhold a part, or all."""
    if signs is None:
        return modes
    heard = signs[-HEARD_OF_ORDER:]
    deaf, lost = bool(heard.isnan().all()), bool(heard[0].isnan())
    return [m for m in modes if not (m.over and lost) and not (m.hears and deaf)]


def _kept(found: Sequence[OwnModel], signs: Tensor | None) -> tuple[OwnModel, ...]:
    """Those that keep the signs: what a library promises is looked at, not believed."""
    return tuple(one for one in found if signs is None or keeps_signs(one.member, signs))


def _class_families(classes: int, seed: int) -> list[Family]:
    found: list[Family] = [LogisticLearner("logistic", classes)]
    if has_trees():
        found.append(ExtraTrees("extra trees", classes, seed))
        found.append(BoostedTrees("boosted trees", classes, seed))
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
