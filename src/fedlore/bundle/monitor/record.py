"""What was monitored, in one file that only grows: a head with the claims, then a line per row.

A line is whole or it is not there: what a crash left of the last one is passed over and written
again. A row with a day is known by what it holds, so it may be given again; without one equal rows
are rows of their own, and only a file that begins with the whole record is taken to have grown.
"""

import hashlib
import json
import os
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...core.statistics import Reals, wilson
from ...core.store import hold_lock, write_private
from ...errors import FedloreError
from ..header import Bundle
from .facts import Fact, Question, find_facts

Places = NDArray[np.int64]

_FORMAT = "fedlore monitor 1"
#: Without rows from before a rule is claimed to be wrong in at most so many rows, a range so.
USUAL = {"rule": 0.1, "range": 0.02}
_LEAST, _MOST = 0.002, 0.95  # rates that can be bet against
_WIDE = 1.0  # standard errors that a claim is more careful than what was counted
_LEAN = 30  # rows, or lots, that the rate of all rules together counts for


@dataclass(frozen=True)
class MeasuredRows:
    """n rows with their labels, and where known when each was and which lot it belongs to."""

    x: Tensor  # (n, d) float32, raw units
    y: Tensor  # (n,) classes, or numbers in float64
    days: Sequence[str] = ()  # n or none; empty text where nobody said
    lots: Sequence[str] | None = None  # n; None: rows stand for themselves

    def __post_init__(self) -> None:
        for name, said in (("days", self.days), ("lots", self.lots)):
            if said and len(said) != len(self.x):
                raise FedloreError(f"{len(said)} {name} for {len(self.x)} rows")

    def day(self, row: int) -> str:
        return self.days[row] if self.days else ""


@dataclass
class Record:
    """Claims, rows from before, and all rows seen so far; `append` adds to the file as well."""

    path: Path
    seed: int  # tells equal numbers apart
    alarm: float  # the chance of a false alarm over all questions and all time
    questions: tuple[Question, ...]
    rates: Mapping[str, float]  # how many faults each rule or range is claimed to have at most
    before: Mapping[str, Reals]  # numbers of rows, or means of lots, from before, by question
    in_lots: bool = False  # whether rows of one lot may hang together, so that lots are judged
    rows: list[str] = field(default_factory=list)  # digests
    days: list[str] = field(default_factory=list)
    lots: list[str] = field(default_factory=list)  # empty text where rows stand for themselves
    values: dict[str, list[float]] = field(default_factory=dict)  # by question; NaN: says nothing
    bundle: str = ""  # the fingerprint of the bundle

    def append(self, bundle: Bundle, rows: MeasuredRows, *, grown: bool = False) -> int:
        """Take rows in, in their order, less those with a day that are there; how many they were.

        With `grown` rows that begin with the whole record are taken for it and what came after.
        """
        if (rows.lots is not None) != self.in_lots:
            said = "lots: name their column" if self.in_lots else "rows that have no lot"
            raise FedloreError(f"{self.path} was begun with {said}, or give a new --record")
        names = _name_rows(rows)
        seen, times = Counter(self.rows), Counter[str]()
        begun = len(self.rows) if grown and names[: len(self.rows)] == self.rows else 0
        new = []
        for i, name in enumerate(names):
            times[name] += 1
            if i >= begun and (not rows.day(i) or times[name] > seen[name]):
                new.append(i)
        if not new:
            return 0
        days = [rows.day(i) for i in new]
        facts = find_facts(bundle, rows.x[new], rows.y[new], days)
        columns = [(fact.question.name, fact.values.tolist()) for fact in facts]
        lines = []
        for place, i in enumerate(new):
            heard = {name: said[place] for name, said in columns if said[place] == said[place]}
            lot = {} if rows.lots is None else {"lot": rows.lots[i]}
            lines.append(json.dumps({"row": names[i], "day": rows.day(i), **lot, "facts": heard}))
        _append_lines(self.path, lines)
        for line in lines:
            self._take(json.loads(line))
        return len(new)

    def _take(self, line: Mapping[str, Any]) -> None:
        facts = dict(line["facts"])
        self.rows.append(str(line["row"]).partition("-")[0])  # older records count equal ones
        self.days.append(str(line["day"]))
        self.lots.append(str(line["lot"]) if self.in_lots else "")
        for question in self.questions:
            self.values.setdefault(question.name, []).append(facts.get(question.name, np.nan))


@contextmanager
def lock_record(
    path: Path,
    bundle: Bundle,
    *,
    reference: MeasuredRows | None = None,
    in_lots: bool = False,
    alarm: float = 0.05,
) -> Iterator[Record]:
    """A record to write to, which nobody else may hold until the end of the block."""
    with hold_lock(path.with_name(f".{path.name}.lock"), f"a monitor that writes to '{path}'"):
        yield open_record(path, bundle, reference=reference, in_lots=in_lots, alarm=alarm)


def open_record(
    path: Path,
    bundle: Bundle,
    *,
    reference: MeasuredRows | None = None,
    in_lots: bool = False,
    alarm: float = 0.05,
) -> Record:
    """A record as it stands, or a new one with claims from rows of before where there are some."""
    if not path.exists():
        return _begin(path, bundle, reference, in_lots, alarm)
    found = read_record(path)
    if found.bundle != bundle.fingerprint:
        raise FedloreError(
            f"{path} is about another bundle ({found.bundle[:12]}, this one is "
            f"{bundle.fingerprint[:12]}): give a new one with --record"
        )
    if reference is not None:
        raise FedloreError(f"{path} has its claims already: give rows of before to a new record")
    return found


def read_record(path: Path) -> Record:
    """A record as it stands, whatever bundle it is about."""
    lines = path.read_bytes().split(b"\n")
    try:
        head = json.loads(lines[0])
        if head["format"] != _FORMAT:
            raise ValueError
        questions = tuple(Question(q["name"], q["kind"]) for q in head["questions"])
        before = {name: np.array(v, dtype=np.float64) for name, v in head["before"].items()}
        found = Record(path, head["seed"], head["alarm"], questions, head["rates"], before)
        found.bundle, found.in_lots = str(head["bundle"]), bool(head.get("lots", False))
    except (ValueError, KeyError, TypeError):
        raise FedloreError(f"{path} is not a record of fedlore monitor") from None
    for number, line in enumerate(lines[1:-1], 2):  # behind the last end of a line: half a line
        try:
            found._take(json.loads(line))
        except (ValueError, KeyError, TypeError):
            raise FedloreError(f"{path}: line {number} cannot be read") from None
    return found


def _begin(
    path: Path, bundle: Bundle, reference: MeasuredRows | None, in_lots: bool, alarm: float
) -> Record:
    if not 0.0 < alarm < 1.0:
        raise FedloreError(f"the rate of false alarms must lie between 0 and 1, got {alarm:g}")
    if reference is None:
        width = len(bundle.schema.features)
        none: Sequence[str] | None = () if in_lots else None
        reference = MeasuredRows(torch.zeros(0, width), torch.zeros(0, dtype=torch.long), (), none)
    if (reference.lots is not None) != in_lots:
        raise FedloreError("rows of before need lots where the others have them, and only there")
    facts = find_facts(bundle, reference.x, reference.y, reference.days, every=True)
    questions = tuple(fact.question for fact in facts)
    blocks = number_blocks(reference.lots, len(reference.x))
    rates = _make_claims(facts, blocks)
    before = {
        f.question.name: block_means(f.values.numpy(), blocks)[0]
        for f in facts
        if f.question.kind == "input"  # the model has learned from such rows: it knows them
    }
    head = {
        "format": _FORMAT,
        "bundle": bundle.fingerprint,
        "seed": secrets.randbits(48),
        "alarm": alarm,
        "lots": in_lots,
        "questions": [{"name": q.name, "kind": q.kind} for q in questions],
        "rates": rates,
        "before": {name: v.tolist() for name, v in before.items()},
    }
    write_private(path, json.dumps(head).encode() + b"\n")
    return Record(path, int(str(head["seed"])), alarm, questions, rates, before, in_lots)


def number_blocks(lots: Sequence[str] | None, rows: int) -> Places:
    """The lot of each row by its number, (n,); each row by itself where there are no lots.

    Rows that come when their lot was over are in none, -1.
    """
    if lots is None:
        return np.arange(rows)
    found, number, last, seen = np.empty(rows, dtype=np.int64), -1, None, set[str]()
    for row, lot in enumerate(lots):
        if lot != last:
            number = -1 if lot in seen else len(seen)
            last = lot
            seen.add(lot)
        found[row] = number
    return found


def block_means(values: Reals, blocks: Places) -> tuple[Reals, Places]:
    """The mean of each block that says something, and the first row of it that does."""
    rows = np.flatnonzero(~np.isnan(values) & (blocks >= 0))
    _, first, each, counts = np.unique(
        blocks[rows], return_index=True, return_inverse=True, return_counts=True
    )
    return np.bincount(each, values[rows], len(first)) / counts, rows[first]


def _make_claims(facts: Sequence[Fact], blocks: Places) -> dict[str, float]:
    """How many faults each has at most: what was counted, leaning on all of its kind together.

    A rule that fired ten times says little about itself alone; and all claims are a little more
    careful than what was counted. One with a confidence has said itself how often it fails.
    Rows of a lot count for one together.
    """
    claims = {f.question.name: f.claimed for f in facts if f.claimed is not None}
    facts = [fact for fact in facts if fact.claimed is None]
    for kind, usual in USUAL.items():
        some = {
            f.question.name: block_means(f.values.numpy(), blocks)[0]
            for f in facts
            if f.question.kind == kind
        }
        counts = sum(len(heard) for heard in some.values())
        faults = sum(float(heard.sum()) for heard in some.values())
        apart = min(counts, len(np.unique(blocks)))  # what one lot says of several rules is one
        shared = wilson(faults / counts, apart, wide=_WIDE)[1] if counts else usual
        for name, heard in some.items():
            rate = (float(heard.sum()) + _LEAN * shared) / (len(heard) + _LEAN)
            claims[name] = rate
    return {name: min(max(rate, _LEAST), _MOST) for name, rate in claims.items()}


def _name_rows(rows: MeasuredRows) -> list[str]:
    """A name for each row by what it holds."""
    names = []
    for i, (row, label) in enumerate(zip(rows.x.flatten(1).double(), rows.y.double(), strict=True)):
        said = row.numpy().tobytes() + label.numpy().tobytes() + rows.day(i).encode()
        names.append(hashlib.sha256(said).hexdigest()[:24])
    return names


def _append_lines(path: Path, lines: Sequence[str]) -> None:
    """Behind the last whole line, and on the disk before anybody hears of it."""
    with open(path, "r+b") as file:
        whole = file.read().rfind(b"\n") + 1
        file.truncate(whole)
        file.seek(whole)
        file.write("".join(f"{line}\n" for line in lines).encode())
        file.flush()
        os.fsync(file.fileno())
