"""How sharp the members of a mixture should be, so that its probabilities mean what they say.

Members that are right about their own doubts make a mixture that doubts too much: what they
disagree in counts twice. One factor on all their log-probabilities, found in private on rows that
none of them had seen, undoes that (temperature scaling: Guo, Pleiss, Sun, Weinberger 2017). It is
kept where each member keeps its own width, so bundles, graphs and certificates hold it as it is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from ...personal.foreseen import Foreseen
from ...personal.own.members import ClassMember, OrderMember
from ...personal.own.mixture import mix
from .private import EXPERT, Voice

#: Few rows must not decide alone: the factor is drawn to 5/4, the best of development seeds.
USUAL, APART = 1.25, 0.3  # the middle, and the sd of its logarithm
_FACTORS = tuple(2.0 ** (i / 6) for i in range(-4, 10))

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

    best: float = min(_FACTORS, key=cost)
    return best


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


def _temper(voice: Voice, factor: float) -> Tensor:
    held = voice.held.double()
    if voice.name == EXPERT or isinstance(voice.member, Foreseen):
        return held
    return torch.log_softmax(factor * held, 1)
