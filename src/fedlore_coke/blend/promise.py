"""What may be promised of a blend that was chosen because the model likes it.

An optimiser finds the blends that a model errs on upwards. `expected` averages over all that the
model may be wrong about, so that plans are right on average; `safe` also bounds how far a single
plan may fall below: the model would have to err by `ERRING` sds of its ignorance before the true
chance is `FALL` under the promised one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from fedlore import Bins, Examples, Personal, PersonalRegressor
from fedlore.answers import Measured
from fedlore.errors import FedloreError
from fedlore.personal import Distribution, Doubt, class_voices, doubt_classes, doubt_numbers

from .target import BlendTarget

Promise = Literal["expected", "safe"]

FALL = 0.2  # how far below its promise a plan may come true
ERRING = 1.645  # sds of ignorance: one in twenty


@dataclass(frozen=True)
class Risk:
    """What may go wrong with one blend, and why."""

    expected: float  # P(target), all doubts averaged
    low: float | None = None  # P(target) if the model errs by ERRING sds; None: it cannot tell
    noise: float | None = None  # of 1 - expected: what the noise of the test alone leaves
    ignorance: float | None = None  # and what the model does not know
    noise_sd: float | None = None  # in classes, or in units of the number
    ignorance_sd: float | None = None


@dataclass(frozen=True, eq=False)
class Chances:
    """Of n rows and t targets what is likely, and what is left if the model errs; (n, t) each."""

    expected: Tensor  # with all doubts averaged
    low: Tensor | None = None  # if it errs by ERRING sds; None: the model cannot tell

    def promised(self, promise: Promise) -> Tensor:
        """The chance that may be promised, (n, t)."""
        if promise == "expected" or self.low is None:
            return self.expected
        return torch.minimum(self.expected, self.low + FALL)

    def risk(self, doubt: Doubt | None, known: float | None = None) -> Risk:
        """The first row and target in plain numbers; `known`: P if the place were right."""
        expected = float(self.expected[0, 0])
        low = None if self.low is None else float(self.low[0, 0])
        if doubt is None:
            return Risk(expected, low)
        sds = float(doubt.noise[0]), float(doubt.ignorance[0])
        if known is None:
            return Risk(expected, low, None, None, *sds)
        noise = min(1.0 - known, 1.0 - expected)
        return Risk(expected, low, noise, 1.0 - expected - noise, *sds)


def check_promise(promise: str) -> None:
    if promise not in get_args(Promise):
        raise FedloreError(f"promise must be expected or safe, got '{promise}'")


@torch.no_grad()
def class_chances(
    personal: Personal,
    known: Examples,
    inside: Tensor,  # (k, t) which classes lie in each target
    *,
    ordered: bool,
) -> Chances:
    """The chances of targets of classes."""
    doubt = doubt_classes(personal, known) if ordered else None
    if doubt is not None:
        return doubted_chances(doubt, known.allowed, inside)
    voices, weights = class_voices(personal, known)
    if len(voices) < 2:
        return Chances(chance_within(personal.log_probs(known), inside))
    each = torch.stack([chance_within(voice.log(), inside) for voice in voices])  # (j, n, t)
    expected = chance_within(personal.log_probs(known), inside)
    spread = torch.einsum("j,jnt->nt", weights, (each - expected).square()).sqrt()
    return Chances(expected, (expected - ERRING * spread).clamp(min=0.0))


def doubted_chances(doubt: Doubt, allowed: Tensor | None, inside: Tensor) -> Chances:
    """The chances of targets of ordered classes, (k, t), by a place and its doubts."""
    k = len(inside)
    # a target that is open above can only be missed by a place that is lower, and the reverse
    upward, downward = bool(inside[-1].all()), bool(inside[0].all())
    shifts = (-ERRING,) if upward else (ERRING,) if downward else (-ERRING, ERRING)
    # all at once: what is asked of a few blends takes as long as of many
    expected, *ends = chance_within(doubt.weigh(shifts, allowed, k), inside)
    low = ends[0] if len(ends) == 1 else torch.minimum(*ends)
    return Chances(expected, low)


@torch.no_grad()
def number_chances(
    regressor: PersonalRegressor, told: Measured, targets: Sequence[BlendTarget]
) -> Chances:
    """The chances of targets of a number."""
    found, doubt = regressor.distribution(told), doubt_numbers(regressor, told)

    def within(off: Tensor) -> Tensor:
        every = [_number_chance(found, target, regressor.bins, off) for target in targets]
        return torch.stack(every, 1)

    expected = within(torch.zeros(len(told), dtype=torch.float64))
    if doubt is None:
        return Chances(expected)
    low = torch.minimum(*(within(by * doubt.ignorance) for by in (-ERRING, ERRING)))
    # what the range leaves no room for cannot go wrong
    return Chances(expected, torch.where(expected >= 1.0, 1.0, low))


def _number_chance(found: Distribution, target: BlendTarget, bins: Bins, off: Tensor) -> Tensor:
    """P(target), (n,), if all numbers were off by so much, (n,)."""
    upto, below = torch.ones_like(off), torch.zeros_like(off)  # an open end stays open
    if target.high < bins.upper:
        upto = found.cdf(target.high - off)
    if target.low > bins.lower:
        below = found.cdf(torch.nextafter(target.low - off, off.new_tensor(-torch.inf)))
    return (upto - below).clamp(0.0, 1.0)


def chance_within(log_probs: Tensor, inside: Tensor) -> Tensor:
    """The probability of each target, exactly 1 where nothing lies outside of it, (..., n, t)."""
    chances = log_probs.exp().double()
    within, beyond = chances @ inside, chances @ (1.0 - inside)
    return torch.where(beyond == 0, 1.0, within.clamp(max=1.0))
