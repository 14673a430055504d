"""The judgement on each question: how much speaks against its claim, since when, and what to do."""

from dataclasses import dataclass

import numpy as np

from ...core.rng import key
from ...core.statistics import Course, Reals, bet_on_order, bet_on_rate
from ..header import Bundle
from .facts import Question, QuestionKind
from .record import MeasuredRows, Places, Record, block_means, number_blocks

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
    rows: int  # or lots, that said something about it
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
    lots: int | None = None  # that are over, where lots are judged
    late: int = 0  # rows that came when their lot was over: they are not judged

    @property
    def alarms(self) -> tuple[Judgement, ...]:
        return tuple(judgement for judgement in self.judgements if judgement.alarm)


def monitor_rows(
    record: Record, bundle: Bundle, rows: MeasuredRows, *, grown: bool = True
) -> MonitorReport:
    """Take measured rows into the record, and judge all there are."""
    new = record.append(bundle, rows, grown=grown)
    return judge_record(record, new=new)


def judge_record(record: Record, *, new: int = 0) -> MonitorReport:
    """The judgements on what was recorded so far, of lots on those that are over."""
    counts = {kind: 0 for kind in SHARES}
    for question in record.questions:
        counts[question.kind] += 1
    there = sum(share for kind, share in SHARES.items() if counts[kind])
    blocks = number_blocks(record.lots if record.in_lots else None, len(record.rows))
    late, lots = int((blocks < 0).sum()), None
    if record.in_lots:  # the last may go on: a bet on half of it could be taken back
        lots = int(blocks.max(initial=0))
        blocks[blocks == lots] = -1
    judgements = []
    for question in record.questions:
        share = SHARES[question.kind] / there / counts[question.kind]
        judgements.append(_judge(record, question, blocks, 1.0 / (record.alarm * share)))
    return MonitorReport(tuple(judgements), len(record.rows), new, record.alarm, lots, late)


def _judge(record: Record, question: Question, blocks: Places, needed: float) -> Judgement:
    values = np.array(record.values.get(question.name, []), dtype=np.float64)
    heard, places = block_means(values, blocks)
    if question.is_rate:
        rate = record.rates[question.name]
        course = bet_on_rate(heard, rate)
        claim = f"right in at least {1 - rate:.1%}"
        part = heard[course.since :]
        of = " lots" if record.in_lots else ""
        seen = f"{1 - part.mean():.1%} of {len(part)}{of}" if len(part) else ""
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
    if record.in_lots and not record.days[row]:
        return f"lot {record.lots[row]}"
    return record.days[row] or f"row {row + 1}"


def _draw(seed: int, name: str, count: int) -> Reals:
    """Uniform numbers that stay the same when more rows come."""
    return np.random.default_rng(key("watch", seed, name)).random(count)
