"""Decision tables checked over the whole declared domain, without data."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import KnowledgeError
from ...kernel.cells import Span, format_condition, number
from ...kernel.findings import Finding, Place, Severity
from ..tables.table import Table
from .domain import Box, GaveUp, Index, Meter, axis_scope, holds_a_float
from .rules import (
    Clash,
    RulePool,
    clashes,
    common_box,
    empty_range,
    ever_speaks,
    gaps,
    outside_range,
    rivals,
)

LISTED = 100  # findings of one kind per table; the rest is counted
GAPS = 5
LINT_STEPS = 5_000_000  # about as many microseconds
_WHOLE, _SINGLE = 0.5, 0.02  # shares of the budget for a question about a table, and about a rule
_Answer = TypeVar("_Answer")
_Keep = Callable[[int, Index], NDArray[np.bool_]]  # which of the others to list one by one


def check_cells(table: Table) -> Iterator[Finding]:
    """Everything that can be said without looking at two rules' overlap."""
    yield from _doubles(table)
    yield from _scope(table)
    yield from _close(table)
    for index, rule in enumerate(table.rules):
        if table.policy == "intersect" and len(rule.outcome) == len(table.schema.classes):
            yield Finding("info", "no-effect", rule.place, {"rule": table.label(index)})


def _doubles(table: Table) -> Iterator[Finding]:
    seen: dict[object, int] = {}
    for index, rule in enumerate(table.rules):
        before = seen.setdefault((rule.conditions, rule.outcome), index)
        if before != index:
            rules = {"rule": table.label(index), "before": table.label(before)}
            yield Finding("warning", "duplicate", rule.place, rules)


def _scope(table: Table) -> Iterator[Finding]:
    """Rules that no row inside the scope can satisfy, and thresholds beyond it, by column."""
    far: dict[int, list[int]] = {}
    for column, feature in enumerate(table.schema.features):
        start, stop = axis_scope(feature)
        for index, rule in enumerate(table.rules):
            condition = dict(rule.conditions).get(column)
            if condition is None or condition.chosen:
                continue
            spans = [Span(max(a, start), min(b, stop)) for a, b in condition.spans]
            if not any(span.start < span.stop and holds_a_float(span) for span in spans):
                args = {
                    "rule": table.label(index),
                    "feature": feature.name,
                    "cell": format_condition(condition, feature),
                    "low": number(feature.low),
                    "high": number(feature.high),
                }
                place = replace(rule.place, column=feature.name)
                yield Finding("warning", "outside-scope", place, args)
            elif any(
                not start <= end <= stop
                for span in condition.spans
                for end in span
                if math.isfinite(end.value)
            ):
                far.setdefault(column, []).append(index)
    for column, rules in far.items():
        name = table.schema.features[column].name
        place = replace(table.rules[rules[0]].place, column=name)
        args = {"feature": name, "rules": table.labels(rules)}
        yield Finding("info", "beyond-scope", place, args)


def _close(table: Table) -> Iterator[Finding]:
    """Thresholds that float32 data cannot tell apart; the other checks take them as they stand."""
    by_column: dict[int, set[float]] = {}
    for rule in table.rules:
        for column, condition in rule.conditions:
            ends = (end.value for span in condition.spans for end in span)
            by_column.setdefault(column, set()).update(ends)
    for column, found in sorted(by_column.items()):
        values = np.array(sorted(found))
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        for first in np.flatnonzero(single[1:] == single[:-1]).tolist():
            one, other = values[first : first + 2].tolist()
            place = replace(table.place, column=table.schema.features[column].name)
            args = {"one": number(one), "other": number(other)}
            yield Finding("warning", "same-in-float32", place, args)


@dataclass(frozen=True)
class _Review:
    """The rules as boxes, the budget, and findings about them."""

    pool: RulePool
    meter: Meter
    listed: int

    def ask(
        self, question: Callable[[], _Answer], unsure: _Answer, share: float
    ) -> tuple[_Answer, bool]:
        """The answer and whether there was one, for a share of the budget at most."""
        try:
            self.meter.question(share)
            return question(), True
        except GaveUp:
            return unsure, False

    def name(self, member: int, *, file: bool = False) -> str:
        table, (_, rule) = self.pool.table(member), self.pool.members[member]
        return f"{table.name}, {table.label(rule)}" if file else table.label(rule)

    def place(self, member: int) -> Place:
        return self.pool.table(member).rules[self.pool.members[member][1]].place

    def finding(
        self, severity: Severity, kind: str, place: Place, box: Box, *, case: str = "", **args: Any
    ) -> Finding:
        """What was found in a box of rows."""
        runs, domain = box.runs(), self.pool.domain
        return Finding(severity, kind, place, args, case, domain.region(runs), domain.row(runs))

    def pairs(self, parts: Sequence[range], keep: _Keep) -> "_Pairs":
        """Members of some tables that can hit one row and share no class."""
        found: list[tuple[int, int]] = []
        rest: list[tuple[int, int]] = []
        counts = [0, 0]

        def collect() -> None:
            for member, others in clashes(self.pool, parts, self.meter):
                kept = keep(member, others)
                for side, (part, some) in enumerate(((rest, ~kept), (found, kept))):
                    counts[side] += int(some.sum())
                    listed = others[some][: self.listed - len(part)]
                    part.extend((member, other) for other in listed.tolist())

        _, sure = self.ask(collect, None, _WHOLE)
        return _Pairs(found, counts[1], rest, counts[0], sure)


@dataclass(frozen=True)
class _Pairs:
    """The first pairs to list and those to mention, how many of each, and whether that is all."""

    found: list[tuple[int, int]]
    count: int
    rest: list[tuple[int, int]]
    others: int
    sure: bool


def lint_tables(
    predict: Sequence[Table] = (),
    ranges: Sequence[Table] = (),
    *,
    listed: int = LISTED,
    steps: int = LINT_STEPS,
) -> list[Finding]:
    """All that is wrong or odd in some tables, decided for every row of the declared domain.

    Each table is judged by itself, range tables also together (they are intersected), and each
    prediction table against all ranges. What could not be decided within `steps` is said.
    """
    tables = [*predict, *ranges]
    for kind, some in (("predict", predict), ("range", ranges)):
        for table in some:
            if table.kind != kind or table.schema != tables[0].schema:
                raise KnowledgeError(f"{table.name}: not a {kind} table of the same schema")
    findings = [finding for table in tables for finding in check_cells(table)]
    if not tables:
        return findings
    try:
        review = _Review(RulePool.of(tables), Meter(steps), listed)
    except GaveUp as reason:
        return [*_shorten(findings, listed), _gave_up(Place(), "anything", reason=str(reason))]
    # errors first, while there is budget
    over = range(len(predict), len(tables))
    spoken: list[Index] = []  # per table, the boxes of the rules that ever speak
    for place, table in enumerate(tables):
        spoken.append(review.pool.between(review.pool.of_table(place)))
        if table.policy in ("first", "priority"):
            hidden, spoken[place] = _unreachable(review, place)
            findings += hidden
    for place, table in enumerate(predict):
        if table.policy == "unique":
            findings += _overlaps(review, place)
    findings += _empty_ranges(review, over)
    for place in range(len(predict)):
        findings += _outside(review, place, spoken[place], over)
    for place in range(len(tables)):
        findings += _gaps(review, place, spoken[place])
    for place, table in enumerate(predict):
        if table.policy != "unique":
            findings += _overlaps(review, place)
    return _shorten(findings, listed)


def _unreachable(review: _Review, place: int) -> tuple[list[Finding], Index]:
    """Rules that never speak, and the boxes of those that do (or might)."""
    pool, table = review.pool, review.pool.tables[place]
    findings: list[Finding] = []
    undecided: list[int] = []
    spoken, count = pool.between(pool.of_table(place)).copy(), 0
    for member in pool.of_table(place):
        own = pool.between(range(member, member + 1))
        if not len(own):
            continue  # outside the scope, which was said
        earlier = spoken[:count]  # what never speaks covers nothing more
        question = partial(ever_speaks, pool, member, earlier, review.meter)
        speaking, sure = review.ask(question, True, _SINGLE)
        if speaking:
            spoken[count : count + len(own)] = own
            count += len(own)
        if not sure:
            undecided.append(pool.members[member][1])
        if not speaking and len(findings) >= review.listed:
            findings.append(Finding("warning", "unreachable", review.place(member)))  # counted
        elif not speaking:
            before = [pool.members[other][1] for other in rivals(pool, member, earlier)]
            finding = review.finding(
                "warning",
                "unreachable",
                review.place(member),
                pool.boxes[int(own[0])],
                rule=review.name(member),
                before=table.labels(before),
            )
            findings.append(finding)
    findings += _say_undecided(table, undecided, "unreachable")
    return findings, spoken[:count]


def _overlaps(review: _Review, place: int) -> Iterator[Finding]:
    """Prediction rules with different outcomes that can hit together."""
    pool, table = review.pool, review.pool.tables[place]
    unique = table.policy == "unique"
    rank = np.array(
        [pool.table(m).rules[rule].priority for m, (_, rule) in enumerate(pool.members)]
    )
    if table.policy == "first":
        rank = np.arange(len(rank))  # no two are equal

    def equal(member: int, others: Index) -> NDArray[np.bool_]:
        same: NDArray[np.bool_] = (rank[others] == rank[member]) | unique
        return same

    pairs = review.pairs([pool.of_table(place)], equal)
    for one, other in pairs.found:
        box = common_box(pool, one, other)
        yield review.finding(
            "error" if unique else "warning",
            "contradiction" if unique else "tie",
            review.place(other),
            box,
            rule=review.name(one),
            other=review.name(other),
        )
    if pairs.rest:
        one, other = pairs.rest[0]
        box = common_box(pool, one, other)
        yield review.finding(
            "info",
            "overlap",
            table.place,
            box,
            pairs=pairs.others,
            rule=review.name(one),
            other=review.name(other),
        )
    yield from _more(table, pairs, "contradiction" if unique else "tie")
    if not pairs.sure:
        yield _gave_up(table.place, "overlap")


def _gaps(review: _Review, place: int, spoken: Index) -> Iterator[Finding]:
    table, found = review.pool.tables[place], list[Box]()

    def collect() -> None:
        for box in gaps(review.pool, spoken, review.meter, GAPS):
            found.append(box)

    _, sure = review.ask(collect, None, _WHOLE)
    for box in found:
        yield review.finding("info", "gap", table.place, box, case=table.kind)
    if not sure:
        yield _gave_up(table.place, "more-gaps" if found else "gaps")


def _empty_ranges(review: _Review, places: range) -> Iterator[Finding]:
    """Range rules that together leave no class; sets of three and more where no two do."""
    pool = review.pool
    if not places:
        return
    strict = [pool.of_table(i) for i in places if pool.tables[i].policy == "intersect"]
    pairs = review.pairs(strict, lambda _, others: np.full(len(others), True))
    clashing = [Clash(pair, common_box(pool, *pair)) for pair in pairs.found]
    sure = pairs.sure
    if sure and not clashing:
        clash, sure = review.ask(partial(empty_range, pool, places, review.meter), None, _WHOLE)
        clashing = [] if clash is None else [clash]
    for members, box in clashing:
        names = [review.name(member, file=len(places) > 1) for member in members]
        yield review.finding(
            "error",
            "empty-range",
            review.place(members[-1]),
            box,
            case="rules",
            rules=names,
        )
    yield from _more(pool.tables[places[0]], pairs, "empty-range")
    if not sure:
        yield _gave_up(pool.tables[places[0]].place, "empty-range")


def _outside(review: _Review, place: int, spoken: Index, ranges: range) -> Iterator[Finding]:
    """Predictions outside the range: where they are, the paper's g_p ⊆ g_r does not hold."""
    pool, table, undecided, count = review.pool, review.pool.tables[place], [], 0
    if not ranges:
        return
    for member in sorted({*pool.owner[spoken].tolist()}):
        rule = pool.members[member][1]
        before = spoken[:0] if table.policy == "unique" else spoken[: _rank(pool, spoken, member)]
        question = partial(outside_range, pool, member, before, ranges, review.meter)
        clash, sure = review.ask(question, None, _SINGLE)
        if not sure:
            undecided.append(rule)
        if clash is None:
            continue
        count += 1
        if count > review.listed:  # to be counted, not read
            yield Finding("error", "outside-range", review.place(member))
        else:
            yield review.finding(
                "error",
                "outside-range",
                review.place(member),
                clash.box,
                case="rules",
                rule=review.name(member),
                outcome=table.schema.classes[table.rules[rule].outcome[0]],
                rival=review.name(clash.members[1], file=True),
            )
    yield from _say_undecided(table, undecided, "outside-range")


def _rank(pool: RulePool, boxes: Index, member: int) -> int:
    """How many of some boxes, in order, come before those of a member."""
    return int(np.searchsorted(boxes, pool.starts[member]))


def _say_undecided(table: Table, rules: Sequence[int], about: str) -> Iterator[Finding]:
    if rules:
        yield _gave_up(table.place, about, rules=table.labels(rules))


def _gave_up(place: Place, about: str, **args: str) -> Finding:
    return Finding("info", "gave-up", place, {"about": about, **args}, "steps")


def _more(table: Table, pairs: _Pairs, kind: str) -> Iterator[Finding]:
    left = pairs.count - len(pairs.found)
    if left:
        yield Finding("info", "more", table.place, {"count": left, "of": kind})


def _shorten(findings: Sequence[Finding], listed: int) -> list[Finding]:
    """The gravest first, not more than some of a kind per file, and how many were left out."""
    kept: list[Finding] = []
    counts: dict[tuple[str, str], int] = {}
    for finding in sorted(findings, key=lambda f: ("error", "warning", "info").index(f.severity)):
        key = (finding.kind, finding.place.file)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= listed:
            kept.append(finding)
    for (kind, file), count in counts.items():
        if count > listed:
            args = {"count": count - listed, "of": kind}
            kept.append(Finding("info", "more", Place(file), args))
    return kept
