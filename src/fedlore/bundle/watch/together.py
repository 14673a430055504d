"""Evidence of several sites together, from sums of what each site's stakes became.

The mean of e-values is an e-value whatever the sites have to do with each other (Vovk, Wang 2021,
*E-values: calibration, combination and applications*). Their product is one where no site's rows
depend on another's, and finds what is weak at each and the same at all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ...core.tree import Params
from ...errors import FedloreError
from .facts import QuestionKind
from .record import Record
from .watching import SHARES, judge_record

#: What every site is asked about; rules and ranges have names of their own and are taken together.
_KINDS: tuple[QuestionKind, ...] = ("rule", "range", "expert", "answers")
_WORDS = ("the rules", "the ranges", "the expert against the answers", "the answers")
_MOST = math.log(2.0**20)  # more evidence than this is not told: less is always allowed


@dataclass(frozen=True)
class JointEvidence:
    """What all sites' stakes against one claim became."""

    question: str
    mean: float
    product: float
    needed: float  # of either, for an alarm

    @property
    def alarm(self) -> bool:
        return max(self.mean, self.product) >= self.needed


def shared_questions(features: Sequence[str]) -> tuple[str, ...]:
    """The names of what sites with these features are asked about, in order."""
    return (*_WORDS, *(f"input {name}" for name in features))


def share_evidence(record: Record | None, features: Sequence[str]) -> Params:
    """What a site lets out: its stakes as they are now, and their logarithms, (q,) each.

    Without a record, and where a question is not asked here, the stake is 1: it was never bet.
    """
    logs = dict.fromkeys(shared_questions(features), 0.0)
    if record is not None:
        found: dict[str, list[float]] = {}
        for one in judge_record(record).judgements:
            kind, capital = one.question.kind, one.course.capital
            word = one.question.name if kind == "input" else _WORDS[_KINDS.index(kind)]
            found.setdefault(word, []).append(float(capital[-1]) if len(capital) else 0.0)
        for word, each in found.items():
            if word in logs:  # the mean of a site's own stakes is as fair as each of them
                logs[word] = float(np.logaddexp.reduce(each)) - math.log(len(each))
    told = torch.tensor([min(log, _MOST) for log in logs.values()], dtype=torch.float64)
    return {"plain": told.exp(), "log": told}


def join_evidence(
    total: Params, features: Sequence[str], sites: int, *, alarm: float = 0.05
) -> list[JointEvidence]:
    """The sums of all sites as evidence, the chance of a false alarm shared as a site shares it."""
    names = shared_questions(features)
    if any(total[part].shape != (len(names),) for part in ("plain", "log")) or sites < 1:
        raise FedloreError(f"sums of evidence about other than {len(names)} questions")
    found = []
    for place, name in enumerate(names):
        kind = "input" if place >= len(_KINDS) else _KINDS[place]
        share = SHARES[kind] / (len(features) if kind == "input" else 1)
        mean = max(float(total["plain"][place]) / sites, 0.0)
        product = math.exp(min(float(total["log"][place]), 700.0))
        found.append(JointEvidence(name, mean, product, 2.0 / (alarm * share)))
    return found


def say_together(found: Sequence[JointEvidence], sites: int) -> list[str]:
    """One sentence for each alarm, or that there is none."""
    loud = [one for one in found if one.alarm]
    if not loud:
        most = max(found, key=lambda one: max(one.mean, one.product) / one.needed)
        return [
            f"watch of {sites} sites together: no alarm; most evidence: {most.question}, mean "
            f"{most.mean:.3g}, product {most.product:.3g}, {most.needed:.0f} needed"
        ]
    return [
        f"watch of {sites} sites together: {one.question}: no longer as before: mean of the "
        f"evidence {one.mean:.3g}, product {one.product:.3g}, {one.needed:.0f} needed"
        for one in loud
    ]
