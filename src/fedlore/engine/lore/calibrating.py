"""How sharp the members of a mixture should be, so that its probabilities mean what they say.

Members that are right about their own doubts make a mixture that doubts too much: what they
disagree in counts twice. One factor on all their log-probabilities, found in private on rows that
none of them had seen, undoes that (temperature scaling: Guo, Pleiss, Sun, Weinberger 2017). It is
kept where each member keeps its own width, so bundles, graphs and certificates hold it as it is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from ...knowledge.numbers.told import Told
from ...personal.distribution import Distribution
from ...personal.foreseen import Foreseen
from ...personal.own.members import ClassMember, OrderMember
from ...personal.own.mixture import NumberMixture, mix
from ...personal.tasks.regression import LEVEL
from .private import EXPERT, Voice

#: Few rows must not decide alone: the factor is drawn to 5/4, the best of development seeds.
USUAL, APART = 1.25, 0.3  # the middle, and the sd of its logarithm
_FACTORS: tuple[float, ...] = tuple(2.0 ** (i / 6) for i in range(-4, 10))
#: Of a number, times the root of the mean squared miss.
_WIDTHS: tuple[float, ...] = tuple(2.0 ** (i / 8) for i in range(-16, 17))

_M = TypeVar("_M")


def mixture_sharpness(voices: Sequence[Voice], share: Mapping[str, float], y: Tensor) -> float:
    """The factor under which rows that no member had seen are likeliest, given their weights."""
    kept = [voice for voice in voices if share.get(voice.name, 0.0) > 0.0]
    if not kept:
        return 1.0
    total = sum(share[voice.name] for voice in kept)
    weights = [share[voice.name] / total for voice in kept]
    weights[0] += 1.0 - sum(weights)

    def cost(factor: float) -> float:
        parts = torch.stack([_temper(voice, factor).exp() for voice in kept])
        likely = mix(parts, weights).gather(1, y.unsqueeze(1)).clamp(min=1e-9)
        return -float(likely.log().sum()) + 0.5 * (math.log(factor / USUAL) / APART) ** 2

    return min(_FACTORS, key=cost)


def sharpen(member: _M, factor: float) -> _M:
    """A member whose log-probabilities are so many times as steep.

    Of a bell that is a width less by the root; the one-round model keeps its own doubt, which
    plans are promised by.
    """
    if isinstance(member, OrderMember):
        return replace(member, width=member.width / math.sqrt(factor))
    if isinstance(member, ClassMember):
        return replace(member, sharpness=member.sharpness * factor)
    return member


def number_width(centre: Tensor, told: Told, usual: float) -> float:
    """The width under which 90 % intervals hold as many unseen rows as conformal sets would.

    Intervals around a number grow with the width, so they are nested sets: the least width that
    holds ⌈(n + 1)·0.9⌉ of n out-of-fold rows (Gupta, Kuchibhotla, Ramdas 2022). Fewer than nine
    rows cannot promise that; they keep the widest that any of them needs.
    """
    y = told.y
    assert y is not None
    wanted = min(math.ceil((len(told) + 1) * LEVEL - 1e-9), len(told))
    for factor in _WIDTHS:
        bell = NumberMixture((_Number(centre),), (1.0,), width=factor * usual)
        spread = Distribution.spread(bell.probabilities(told), told.bins, told.sets)
        low, high = spread.interval(LEVEL)
        if int(((low <= y) & (y <= high)).sum()) >= wanted:
            return factor * usual
    return _WIDTHS[-1] * usual


@dataclass(frozen=True, eq=False)
class _Number:
    said: Tensor

    def number(self, known: Told) -> Tensor:
        return self.said


def _temper(voice: Voice, factor: float) -> Tensor:
    held = voice.held.double()
    if voice.name == EXPERT or isinstance(voice.member, Foreseen):
        return held
    return torch.log_softmax(factor * held, 1)
