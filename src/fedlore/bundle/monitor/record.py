"""What was monitored, in one file that only grows: a head with the claims, then a line per row.

A line is whole or it is not there: what a crash left of the last one is passed over and written
again. Rows are known by what they hold, so a file that grows from day to day can be given again.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...core.statistics import Reals, wilson
from ...core.store import alone, write_private
from ...errors import FedloreError
from ..header import Bundle
from .facts import Fact, Question, find_facts

_FORMAT = "fedlore monitor 1"
#: Without rows from before a rule is claimed to be wrong in at most so many rows, a range so.
USUAL = {"rule": 0.1, "range": 0.02}
_LEAST, _MOST = 0.002, 0.95  # rates that can be bet against
_WIDE = 1.0  # standard errors that a claim is more careful than what was counted
_LEAN = 30  # rows that the rate of all rules together counts for


@dataclass
class Record:
    """Claims, rows from before, and all rows seen so far; `append` adds to the file as well."""

    path: Path
    seed: int  # tells equal numbers apart
    alarm: float  # the chance of a false alarm over all questions and all time
    questions: tuple[Question, ...]
    rates: Mapping[str, float]  # how many faults each rule or range is claimed to have at most
    before: Mapping[str, Reals]  # numbers of rows from before, by question
    rows: list[str] = field(default_factory=list)  # digests
    days: list[str] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)  # by question; NaN: says nothing
    bundle: str = ""  # the fingerprint of the bundle

    def append(self, bundle: Bundle, x: Tensor, y: Tensor, days: Sequence[str]) -> int:
        """Take rows in that are not there yet, in their order; how many they were."""
        names = _name_rows(x, y, days)
        seen = set(self.rows)
        new = [i for i, name in enumerate(names) if name not in seen]
        if not new:
            return 0
        facts = find_facts(bundle, x[new], y[new])
        lines = []
        for place, i in enumerate(new):
            values = {f.question.name: float(f.values[place]) for f in facts}
            heard = {name: value for name, value in values.items() if value == value}
            lines.append(json.dumps({"row": names[i], "day": days[i], "facts": heard}))
        _append_lines(self.path, lines)
        for line in lines:
            self._take(json.loads(line))
        return len(new)

    def _take(self, line: Mapping[str, object]) -> None:
        facts = line["facts"]
        assert isinstance(facts, dict)
        self.rows.append(str(line["row"]))
        self.days.append(str(line["day"]))
        for question in self.questions:
            self.values.setdefault(question.name, []).append(facts.get(question.name, np.nan))


@contextmanager
def lock_record(
    path: Path,
    bundle: Bundle,
    *,
    reference: tuple[Tensor, Tensor] | None = None,
    alarm: float = 0.05,
) -> Iterator[Record]:
    """A record to write to, which nobody else may hold until the end of the block."""
    with alone(path.with_name(f".{path.name}.lock"), f"a monitor that writes to '{path}'"):
        yield open_record(path, bundle, reference=reference, alarm=alarm)


def open_record(
    path: Path,
    bundle: Bundle,
    *,
    reference: tuple[Tensor, Tensor] | None = None,
    alarm: float = 0.05,
) -> Record:
    """A record as it stands, or a new one with claims from rows of before where there are some."""
    if not path.exists():
        return _begin(path, bundle, reference, alarm)
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
        found.bundle = str(head["bundle"])
    except (ValueError, KeyError, TypeError):
        raise FedloreError(f"{path} is not a record of fedlore monitor") from None
    for number, line in enumerate(lines[1:-1], 2):  # behind the last end of a line: half a line
        try:
            found._take(json.loads(line))
        except (ValueError, KeyError, TypeError, AssertionError):
            raise FedloreError(f"{path}: line {number} cannot be read") from None
    return found


def _begin(
    path: Path, bundle: Bundle, reference: tuple[Tensor, Tensor] | None, alarm: float
) -> Record:
    if not 0.0 < alarm < 1.0:
        raise FedloreError(f"the rate of false alarms must lie between 0 and 1, got {alarm:g}")
    width = len(bundle.schema.features)
    none = torch.zeros(0, width), torch.zeros(0, dtype=torch.long)
    facts = find_facts(bundle, *(none if reference is None else reference))
    questions = tuple(fact.question for fact in facts)
    rates = _make_claims(facts)
    before = {
        f.question.name: f.values[~f.values.isnan()].numpy()
        for f in facts
        if f.question.kind == "input"  # the model has learned from such rows: it knows them
    }
    head = {
        "format": _FORMAT,
        "bundle": bundle.fingerprint,
        "seed": secrets.randbits(48),
        "alarm": alarm,
        "questions": [{"name": q.name, "kind": q.kind} for q in questions],
        "rates": rates,
        "before": {name: v.tolist() for name, v in before.items()},
    }
    write_private(path, json.dumps(head).encode() + b"\n")
    return Record(path, int(str(head["seed"])), alarm, questions, rates, before)


def _make_claims(facts: Sequence[Fact]) -> dict[str, float]:
    """How many faults each has at most: what was counted, leaning on all of its kind together.

    A rule that fired ten times says little about itself alone; and all claims are a little more
    careful than what was counted. One with a confidence has said itself how often it fails.
    """
    claims = {f.question.name: f.claimed for f in facts if f.claimed is not None}
    facts = [fact for fact in facts if fact.claimed is None]
    for kind, usual in USUAL.items():
        some = {
            f.question.name: f.values[~f.values.isnan()] for f in facts if f.question.kind == kind
        }
        rows = sum(len(heard) for heard in some.values())
        faults = sum(float(heard.sum()) for heard in some.values())
        shared = wilson(faults / rows, rows, wide=_WIDE)[1] if rows else usual
        for name, heard in some.items():
            rate = (float(heard.sum()) + _LEAN * shared) / (len(heard) + _LEAN)
            claims[name] = rate
    return {name: min(max(rate, _LEAST), _MOST) for name, rate in claims.items()}


def _name_rows(x: Tensor, y: Tensor, days: Sequence[str]) -> list[str]:
    """A name for each row by what it holds; of equal ones the first, the second and so on."""
    counts: dict[str, int] = {}
    names = []
    for row, label, day in zip(x.flatten(1).double(), y.double(), days, strict=True):
        digest = hashlib.sha256(row.numpy().tobytes() + label.numpy().tobytes() + day.encode())
        name = digest.hexdigest()[:24]
        counts[name] = counts.get(name, 0) + 1
        names.append(f"{name}-{counts[name]}")
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
