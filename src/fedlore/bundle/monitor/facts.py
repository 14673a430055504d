"""What measured rows say about each part of a bundle: a rule, the range, the expert, the inputs.

A fact is a number for a row and a question, or nothing where the row says nothing about it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Literal

import torch
from torch import Tensor

from ...answers.axis import axis_of
from ...data.rows.cells import read_date
from ...errors import FedloreError
from ...kernel.cells import Validity
from ...kernel.dates import stretches_of
from ...kernel.schema import Schema
from ...kernel.sheets import Rule
from ...knowledge.missing import allow, find_lacking, hear, hide_others
from ...knowledge.soft import SoftFormulas
from ...knowledge.sources.catalog import kind_of_model, parts_of
from ...knowledge.tables.numbers import NumberTable
from ...knowledge.tables.soft import SoftTable
from ...knowledge.tables.table import Table
from ...knowledge.views import Recalibrated
from ..header import Bundle
from ..predict import answer_rows, shape_rows
from ..store import bundle_on

#: `rule` and `range`: a fault is 1, and a claim says how many there are at most. The others are
#: numbers whose order says nothing while nothing changes; `miss` is how far a rule's number lies
#: from the measured one.
QuestionKind = Literal["rule", "range", "miss", "expert", "answers", "input"]


@dataclass(frozen=True)
class Question:
    """What is monitored."""

    name: str
    kind: QuestionKind

    @property
    def is_rate(self) -> bool:
        """Whether a claim about it is a rate of faults."""
        return self.kind in ("rule", "range")


@dataclass(frozen=True, eq=False)
class Fact:
    """A question with a number for each of n rows; NaN where a row says nothing about it."""

    question: Question
    values: Tensor  # (n,) float64
    claimed: float | None = None  # how many faults it admits itself, of a rule with a confidence


def find_facts(
    bundle: Bundle, x: Tensor, y: Tensor, days: Sequence[str] = (), *, every: bool = False
) -> list[Fact]:
    """Every question that a bundle raises, in an order of its own, with what n rows answer.

    Where rules have dates each row is held against those of its own day, one without a day against
    those that the bundle was read with. Then questions are those of the days of the rows, or with
    `every` of all days.
    """
    timeline = bundle.timeline
    if timeline is None:
        return _ask_day(bundle, x, y)
    when = [_read_day(text) or timeline.day for text in days]
    when = when or [timeline.day] * len(x)
    found: dict[str, Fact] = {}
    for stretch in stretches_of(timeline.days):
        rows = [row for row, day in enumerate(when) if stretch.holds(day)]
        if not rows and not every:
            continue
        day = when[rows[0]] if rows else stretch.since or (stretch.until or date.max) - _ONE_DAY
        try:
            facts = _ask_day(bundle_on(bundle, day), x[rows], y[rows])
        except FedloreError:
            if rows:
                raise
            continue  # on such a day the bundle gives no answer at all
        for fact in facts:
            name = _name_in(fact.question.name, stretch)
            whole = found.get(name)
            if whole is None:
                values = torch.full((len(x),), torch.nan, dtype=torch.float64)
                whole = replace(fact, question=replace(fact.question, name=name), values=values)
                found[name] = whole
            whole.values[rows] = fact.values.double()
    return list(found.values())


_ONE_DAY = timedelta(days=1)


def _read_day(text: str) -> date | None:
    """The day of a row; None where nobody said."""
    found = read_date(text) if text.strip() else None
    if found is None and text.strip():
        raise FedloreError(
            f"the day {text[:40]!r} of a row is not a date, and the rules of this bundle have "
            "dates: write it as 2025-06-01"
        )
    return found


def _name_in(name: str, stretch: Validity) -> str:
    """The name of a question over all days: what is counted among the sources of some is theirs."""
    if re.match(r"(prediction|range) \d+ \(", name) is None:
        return name
    ends = (stretch.since and f"from {stretch.since}", stretch.until and f"until {stretch.until}")
    return ", ".join(part for part in (name, *ends) if part)


@torch.no_grad()
def _ask_day(bundle: Bundle, x: Tensor, y: Tensor) -> list[Fact]:
    """The same with the rules that the bundle was read with."""
    answers = answer_rows(bundle, x)
    rows = hide_others(shape_rows(bundle, x), bundle.schema)
    known = bundle.personal.knowledge
    kind: QuestionKind = "rule" if known.line is None else "miss"
    found = [*_ask_sources(known.prediction, rows, y, kind)]
    found += _ask_sources(known.range, rows, y, "range")
    if known.prediction is not None:
        better = answers.wrong(answers.predicted, y) - answers.wrong(answers.expert, y)
        better = better.masked_fill(answers.silent, torch.nan)
        found.append(Fact(Question("the expert against the answers", "expert"), better))
    found.append(Fact(Question("the answers", "answers"), answers.losses(y)))
    return [*found, *_ask_inputs(bundle.schema, rows)]


def _ask_inputs(schema: Schema, rows: Tensor) -> Iterator[Fact]:
    flat = rows.flatten(1).double()
    for column, feature in enumerate(schema.features):
        yield Fact(Question(f"input {feature.name}", "input"), flat[:, column])


def _ask_sources(model: Any, x: Tensor, y: Tensor, kind: QuestionKind) -> Iterator[Fact]:
    """Rules of tables one by one, other sources as a whole."""
    for place, (leaf, seen) in enumerate(_leaves(model, x), 1):
        side = "range" if kind == "range" else "prediction"
        ask: Callable[..., Iterator[Fact]] = _ASKS.get(type(leaf), _ask_whole)
        yield from ask(leaf, seen, y, kind, f"{side} {place}")


def _ask_whole(model: Any, x: Tensor, y: Tensor, kind: QuestionKind, place: str) -> Iterator[Fact]:
    source = kind_of_model(model)
    what = type(model).__name__ if source is None else source.name
    if kind == "range":
        allowed = allow(model, x)
        fault = axis_of(allowed).find_outside(allowed, y).double()
    else:
        said = hear(model, x)
        axis = axis_of(said)
        fault = torch.where(axis.speaks(said), axis.miss(said, y), torch.nan)
    yield Fact(Question(f"{place} ({what})", kind), fault)


def _ask_rules(model: Any, x: Tensor, y: Tensor, kind: QuestionKind, _: str) -> Iterator[Fact]:
    """Each rule where it speaks: of a prediction the one that is heard, of a range all that hit."""
    table = model.table
    lacking = find_lacking(table, x).unsqueeze(1)
    hits = torch.zeros(len(x), len(table.rules), dtype=torch.bool)
    hits[~lacking.squeeze(1)] = table.hits(x[~lacking.squeeze(1)])
    hits = table.first_of(hits)
    for index, rule in enumerate(table.rules):
        wrong = _WRONG_BY[type(model)](model, rule, y)
        values = torch.where(hits[:, index], wrong.double(), torch.nan)
        yield Fact(Question(f"{table.place}, {table.label(index)}", kind), values)


def _wrong_class(_: Table, rule: Rule, y: Tensor) -> Tensor:
    """Whether a rule is wrong about each label."""
    return ~torch.isin(y, torch.tensor(rule.outcome))


def _wrong_number(model: NumberTable, rule: Rule, y: Tensor) -> Tensor:
    """By how much a rule that names a number is wrong; of one that limits it, whether it is."""
    pairs = model.sets[rule.outcome[0]]
    if model.table.kind == "predict":
        return (y - pairs[0][0]).abs()
    inside = [(low <= y) & (y <= high) for low, high in pairs]
    return ~torch.stack(inside).any(0)


def _ask_soft(model: Any, x: Tensor, y: Tensor, _: QuestionKind, place: str) -> Iterator[Fact]:
    """What holds in most cases only, held to how often it says itself that it holds."""
    whole = ~find_lacking(model, x)
    for one in model.statements(x):
        wrong = (~one.right(y)).double()
        table = getattr(model, "table", None)
        name = f"{place} ({one.name})" if table is None else f"{table.place}, {one.name}"
        admitted = None if one.confidence == 1.0 else 1.0 - one.confidence
        values = torch.where(one.spoken & whole, wrong, torch.nan)
        yield Fact(Question(name, "rule"), values, admitted)


#: How sources are asked of which more is known than what they say as a whole.
_ASKS: dict[type, Callable[..., Iterator[Fact]]] = {
    Table: _ask_rules,
    NumberTable: _ask_rules,
    SoftTable: _ask_soft,
    SoftFormulas: _ask_soft,
}
_WRONG_BY: dict[type, Callable[..., Tensor]] = {Table: _wrong_class, NumberTable: _wrong_number}


def _leaves(model: Any, x: Tensor) -> Iterator[tuple[Any, Tensor]]:
    """The sources of a model, each with the rows as it sees them."""
    see = getattr(model, "see", None)
    if see is not None:
        yield from _leaves(model.model, see(x))
        return
    parts = parts_of(model)
    if parts is None:
        yield model, x
        return
    if isinstance(model, Recalibrated) and model.expert is None:
        return  # his rows came with the data: there is nobody to ask
    for part in parts:
        yield from _leaves(part, x)
