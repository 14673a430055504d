"""What a site's own learner becomes: plain arrays that predict inside the range."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ...answers import Measured
from ...core.examples import Examples
from ...core.inject import guard
from .linear import Linear
from .ordinal import log_masses
from .sight import Sight, see_classes, see_numbers, see_order
from .trees import Trees

Body = Linear | Trees  # (n, i) -> (n, o) float64
SMOOTH = 0.02  # of each row of a forest's votes is spread over all classes


class ClassVoice(Protocol):
    """A member of a mixture over classes."""

    def log_probs(self, known: Examples) -> Tensor:
        """Log-probabilities, (n, k), -inf outside the range."""
        ...


class NumberVoice(Protocol):
    """A member of a mixture over numbers."""

    def number(self, known: Measured) -> Tensor:
        """Numbers inside S(x), (n,) float64."""
        ...


@dataclass(frozen=True, eq=False)
class NumberMember:
    """A number of the site's own, and how far it misses on rows it has not seen."""

    name: str
    body: Body
    hears: bool  # the expert's word is among its inputs
    over: bool  # what it says is added to the expert's number
    width: float  # σ, in the units of the number

    def number(self, known: Measured) -> Tensor:
        return within(_place(self, see_numbers(known)), known)


@dataclass(frozen=True, eq=False)
class OrderMember:
    """A place on the line of ordered classes, and a width: a discretised normal."""

    name: str
    body: Body
    hears: bool
    over: bool
    width: float  # σ, in classes
    classes: int  # k

    def log_probs(self, known: Examples) -> Tensor:
        place = _place(self, see_order(known, self.classes))
        return mask_logits(log_masses(place, self.width, self.classes), known.allowed)


@dataclass(frozen=True, eq=False)
class ClassMember:
    """A score for each class without order."""

    name: str
    body: Body
    hears: bool
    votes: bool  # the body gives shares of votes, not logits
    sharpness: float  # what logits are multiplied by: calibrated on rows it has not seen

    def log_probs(self, known: Examples) -> Tensor:
        outputs = self.body(see_classes(known).inputs(hears=self.hears))
        return mask_logits(
            self.sharpness * (smooth_votes(outputs) if self.votes else outputs), known.allowed
        )


OwnMember = NumberMember | OrderMember | ClassMember


def _place(member: NumberMember | OrderMember, sight: Sight) -> Tensor:
    """The number or place that a member names, not yet inside any range, (n,)."""
    found = member.body(sight.inputs(hears=member.hears)).squeeze(1)
    return found + sight.start if member.over else found


def within(numbers: Tensor, known: Measured) -> Tensor:
    """Numbers moved into S(x), or into the bounds where there is no range; NaN is the expert's."""
    if known.sets is not None:
        ends = known.sets
        safe = torch.where(numbers.isfinite(), numbers, see_numbers(known).start)
        return ends.nearest(safe)
    safe = torch.where(numbers.isfinite(), numbers, see_numbers(known).start)
    return safe.clamp(known.bins.lower, known.bins.upper)


def mask_logits(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """Log-probabilities with exactly no mass outside the range, whatever the logits are."""
    logits = guard(logits)
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -torch.inf)
    return logits.log_softmax(-1)


def smooth_votes(votes: Tensor) -> Tensor:
    """The log of shares of votes, none of them 0."""
    return ((1.0 - SMOOTH) * votes + SMOOTH / votes.shape[1]).log()
