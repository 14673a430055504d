"""The judgement on each question: how much speaks against its claim, since when, and what to do."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from ...core.rng import key
from ...core.statistics import Course, Reals, bet_on_order, bet_on_rate
from ..header import Bundle
from .facts import Question, QuestionKind
from .record import Record

#: How the chance of a false alarm is shared; within a kind evenly.
SHARES: dict[QuestionKind, float] = {
    "rule": 0.5,
    "range": 0.1,
    "miss": 0.5,  # of numbers, where no rule has a rate
    "expert": 0.08,
    "answers": 0.07,
    "input": 0.25,
}
ADVICE: dict[QuestionKind, str] = {
    "rule": "correct or drop the rule, then fedlore update",
    "range": "widen it, then fedlore update",
    "miss": "correct the rule's number or formula, then fedlore update",
    "expert": "let λ and the weights be chosen anew: fedlore tune, or train again",
    "answers": "recalibrate on new rows, or train again",
    "input": "look whether the scope still fits, and train again with new rows",
}


@dataclass(frozen=True, eq=False)
class Judgement:
    """What rows say about one question so far."""

    question: Question
    rows: int  # that said something about it
    claim: str  # what was bet against
    seen: str  # what was counted instead
    evidence: float  # the most that a stake of 1 against the claim ever became
    needed: float  # what it must come to for an alarm
    since: str  # the day or row from which on it seems false
    course: Course

    @property
    def alarm(self) -> bool:
        return self.evidence >= self.needed

    @property
    def advice(self) -> str:
        """What to do."""
        return ADVICE[self.question.kind] if self.alarm else ""


@dataclass(frozen=True, eq=False)
class MonitorReport:
    """All judgements over the rows of a record."""

    judgements: tuple[Judgement, ...]
    rows: int
    new: int
    alarm_rate: float

    @property
    def alarms(self) -> tuple[Judgement, ...]:
        return tuple(judgement for judgement in self.judgements if judgement.alarm)


def monitor_rows(
    record: Record, bundle: Bundle, x: Tensor, y: Tensor, days: Sequence[str] | None = None
) -> MonitorReport:
    """Take measured rows into the record, and judge all there are."""
    new = record.append(bundle, x, y, days or [""] * len(x))
    return judge_record(record, new=new)


def judge_record(record: Record, *, new: int = 0) -> MonitorReport:
    """The judgements on what was recorded so far."""
    counts = {kind: 0 for kind in SHARES}
    for question in record.questions:
        counts[question.kind] += 1
    there = sum(share for kind, share in SHARES.items() if counts[kind])
    judgements = []
    for question in record.questions:
        share = SHARES[question.kind] / there / counts[question.kind]
        judgements.append(_judge(record, question, 1.0 / (record.alarm * share)))
    return MonitorReport(tuple(judgements), len(record.rows), new, record.alarm)


def _judge(record: Record, question: Question, needed: float) -> Judgement:
    values = np.array(record.values.get(question.name, []), dtype=np.float64)
    places = np.flatnonzero(~np.isnan(values))
    heard = values[places]
    if question.is_rate:
        rate = record.rates[question.name]
        course = bet_on_rate(heard, rate)
        claim = f"right in at least {1 - rate:.1%}"
        part = heard[course.since :]
        seen = f"{1 - part.mean():.1%} of {len(part)}" if len(part) else ""
    else:
        before = record.before.get(question.name, np.empty(0))
        draws = _draw(record.seed, question.name, len(heard))
        both = question.kind not in ("answers", "miss")  # those may become better
        course = bet_on_order(heard, before, draws, falls=both)
        claim = "as before"
        seen = _compare(np.concatenate([before, heard]), len(before) + course.since)
    since = _name_day(record, int(places[course.since])) if len(places) else ""
    evidence = float(np.exp(min(course.most, 700.0)))
    return Judgement(question, len(heard), claim, seen, evidence, needed, since, course)


def _compare(numbers: Reals, since: int) -> str:
    if not 0 < since < len(numbers):
        return ""
    return f"mean {numbers[:since].mean():.4g}, then {numbers[since:].mean():.4g}"


def _name_day(record: Record, row: int) -> str:
    return record.days[row] or f"row {row + 1}"


def _draw(seed: int, name: str, count: int) -> Reals:
    """Uniform numbers that stay the same when more rows come."""
    return np.random.default_rng(key("watch", seed, name)).random(count)
