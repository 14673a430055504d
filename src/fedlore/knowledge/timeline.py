"""Knowledge whose rules have dates: all of it, and what it is as of a day.

`kernel.dates` says what dates mean. Here the files around it are packed, so that everything else
reads knowledge without dates and still can write, hash and sign all days.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Any

from ..kernel import dates
from ..kernel.cells import ALWAYS, Validity

SOON = timedelta(days=30)  # so long before knowledge runs out it is said


@dataclass(frozen=True, eq=False)
class Timeline:
    """All days of a knowledge file, and the day that knowledge was read as of."""

    members: Mapping[str, bytes]  # packed, with every rule and its dates
    values: Mapping[str, Any]  # the same, as described
    day: date

    @cached_property
    def texts(self) -> dict[str, str]:
        return texts_of(self.members)

    @cached_property
    def days(self) -> tuple[date, ...]:
        """The days on which something begins or ends."""
        return dates.named_days(self.texts)

    @property
    def stretch(self) -> Validity:
        """The days around the one it is as of, in which nothing changes."""
        return dates.stretch_of(self.days, self.day)

    @cached_property
    def run_out(self) -> dict[str, date]:
        """By side, the day from which on nothing of it is valid any more."""
        return dates.run_out(self.texts)

    @property
    def sentence(self) -> str:
        """As of which day it is, until when nothing changes, and when it runs out."""
        until = self.stretch.until
        change = "nothing changes after it" if until is None else f"unchanged until {until}"
        return f"knowledge as of {self.day}, {change}{''.join(f'; {s}' for s in self.ends)}"

    @property
    def ends(self) -> list[str]:
        """When which side runs out, in words."""
        return [f"nothing of [{side}] is valid from {end} on" for side, end in self.run_out.items()]

    @property
    def warnings(self) -> list[str]:
        """What has run out on this day, or will soon."""
        found = []
        for side, end in self.run_out.items():
            left = (end - self.day).days
            if end <= self.day:
                found.append(
                    f"nothing of [{side}] is valid since {end}: the answers of {self.day} come "
                    "without it; write new rules (fedlore update puts them into a bundle)"
                )
            elif end - self.day <= SOON:
                found.append(
                    f"nothing of [{side}] is valid from {end} on, in {left} "
                    f"day{'' if left == 1 else 's'}: write new rules before"
                )
        return found


def texts_of(members: Mapping[str, bytes]) -> dict[str, str]:
    """The members of packed knowledge that are text."""
    return {n: d.decode() for n, d in members.items() if n.endswith((".toml", ".csv"))}


def members_on(members: Mapping[str, bytes], day: date) -> dict[str, bytes]:
    """Packed knowledge as of a day: what `kernel.dates.as_of` leaves of it."""
    texts = texts_of(members)
    rest = {name: data for name, data in members.items() if name not in texts}
    return {**rest, **{name: text.encode() for name, text in dates.as_of(texts, day).items()}}


def has_dates(sources: Iterable[Mapping[str, Any]], leaves: Iterable[Any]) -> bool:
    """Whether some source, or a rule of some table among the models, says a day."""
    tables = (getattr(leaf, "table", None) for leaf in leaves)
    return any(dates.split_source(one)[1] != ALWAYS for one in sources) or any(
        rule.validity != ALWAYS for table in tables if table is not None for rule in table.rules
    )
