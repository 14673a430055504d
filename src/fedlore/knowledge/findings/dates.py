"""What is to be said of dates: gaps and ends in time, and what is wrong on some days only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta

from ...kernel.cells import ALWAYS, Validity
from ...kernel.dates import Dated, list_dated, stretches_of
from ...kernel.document import FILE
from ...kernel.findings import Finding, Place, Severity
from ..sources.table import own_name, table_file
from ..timeline import SOON, Timeline, members_on

MOST_STRETCHES = 60  # that are checked one by one
Members = Mapping[str, bytes]


def lint_dates(
    timeline: Timeline,
    check: Callable[[Members], list[Finding]],
    place: Place,
    tables: Sequence[Place] = (),
) -> list[Finding]:
    """Everything about time, then what `check` finds in each stretch in which nothing changes.

    `place` and `tables` are the file and its tables as the expert knows them.
    """
    names = {own_name(table_file(one.file, 1)): one for one in tables}
    names = {k: v for k, v in names.items() if {v.sheet} == {t.sheet for t in tables
                                                            if t.file == v.file}}  # fmt: skip

    def known(packed: Place) -> Place:
        if packed.file == FILE:
            return replace(packed, file=place.file)
        own = own_name(packed.file)
        found = names.get(own, Place(own))
        return replace(packed, file=found.file, sheet=found.sheet)

    dated = [one._replace(place=known(one.place)) for one in list_dated(timeline.texts)]
    found = [*_empty_ranges(dated), *_past(dated, timeline.day), *_gaps(dated, place)]
    for side, end in timeline.run_out.items():
        severity: Severity = "warning" if end - timeline.day <= SOON else "info"
        found.append(Finding(severity, "run-out", place, {"side": side, "end": end.isoformat()}))
    stretches = _check_stretches(timeline, dated, check, place)
    return [*found, *(replace(one, place=known(one.place)) for one in stretches)]


def _empty_ranges(dated: Sequence[Dated]) -> list[Finding]:
    return [
        Finding("error", "date-empty", one.place, {"of": _name(one), **_ends(one.validity)})
        for one in dated
        if one.validity.empty
    ]


def _past(dated: Sequence[Dated], day: date) -> list[Finding]:
    """What holds no more, all rules of a table together."""
    ended: dict[Place, list[Dated]] = {}
    for one in dated:
        until = one.validity.until
        if until is not None and until <= day and not one.validity.empty:
            ended.setdefault(replace(one.place, row=None), []).append(one)
    return [
        Finding("info", "date-past", place, {"of": [_name(one) for one in some], "day": str(day)})
        for place, some in ended.items()
    ]


def _gaps(dated: Sequence[Dated], place: Place) -> list[Finding]:
    """Stretches between the first day and the last on which a table, or a side, says nothing."""
    found = []
    for side in dict.fromkeys(one.side for one in dated):
        some = [one for one in dated if one.side == side]
        whole = _holes(some)
        for number in dict.fromkeys(one.source for one in some):
            own = [one for one in some if one.source == number]
            holes = _holes(own) if own[0].place.row is not None else []
            found += [
                Finding("warning", "date-gap", replace(own[0].place, row=None),
                        {"side": side, **_ends(hole)}, "table")
                for hole in holes if hole not in whole or len(own) == len(some)
            ]  # fmt: skip
        if len({one.source for one in some}) > 1:
            found += [
                Finding("warning", "date-gap", place, {"side": side, **_ends(hole)}, "side")
                for hole in whole
            ]
    return found


def _holes(dated: Sequence[Dated]) -> list[Validity]:
    """The stretches inside the life of some things in which none of them is valid."""
    known = sorted(
        (one.validity for one in dated if not one.validity.empty),
        key=lambda days: days.since or date.min,
    )
    holes, end = [], known[0].until if known else None
    for days in known[1:]:
        if end is None:
            break
        if days.since is not None and days.since > end:
            holes.append(Validity(end, days.since))
        end = None if days.until is None else max(end, days.until)
    return holes


def _check_stretches(
    timeline: Timeline,
    dated: Sequence[Dated],
    check: Callable[[Members], list[Finding]],
    place: Place,
) -> list[Finding]:
    """What a check without dates finds, once, with the stretches in which it is so."""
    alive = [
        days
        for days in stretches_of(timeline.days)
        if any(one.validity.holds(_inside(days)) for one in dated)
    ]
    seen: dict[tuple[str, ...], tuple[Finding, list[Validity]]] = {}
    for days in alive[:MOST_STRETCHES]:
        for one in check(members_on(timeline.members, _inside(days))):
            key = (one.severity, one.kind, one.case, str(one.place), one.message)
            seen.setdefault(key, (one, []))[1].append(days)
    found = [
        one if len(when) == len(alive) else replace(one, days=_join(when))
        for one, when in seen.values()
    ]
    if len(alive) > MOST_STRETCHES:
        args = {"most": MOST_STRETCHES, "all": len(alive)}
        found.append(Finding("info", "gave-up", place, args, "stretches"))
    return found


def _inside(days: Validity) -> date:
    """A day of a stretch."""
    if days.since is not None:
        return days.since
    return date.min if days.until is None else days.until - timedelta(days=1)


def _join(stretches: Sequence[Validity]) -> tuple[tuple[str, str], ...]:
    """Stretches as pairs of days, those that touch as one; empty text where one is open."""
    joined: list[Validity] = []
    for days in stretches:
        if joined and joined[-1].until is not None and joined[-1].until == days.since:
            joined[-1] = Validity(joined[-1].since, days.until)
        else:
            joined.append(days)
    return tuple((_text(days.since), _text(days.until)) for days in joined)


def _ends(days: Validity) -> dict[str, str]:
    assert days != ALWAYS
    return {"since": _text(days.since), "until": _text(days.until)}


def _text(day: date | None) -> str:
    return "" if day is None else day.isoformat()


def _name(one: Dated) -> str:
    """What to call it: a row of its table, or a source of the file."""
    return f"row {one.place.row}" if one.place.row is not None else f"[{one.side}] {one.source}"
