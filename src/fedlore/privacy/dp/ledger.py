"""What a site has spent of its privacy, over all rounds and all runs.

Spending is written down before the answer leaves. A file that is not what was written stops the
site: a budget that cannot be read counts as spent.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ...core.locking import lock_file
from ...core.store import write_whole
from ...errors import ConfigError, FedloreError
from .accounting import Release, affordable, check_delta, check_epsilon, epsilon_of

Level = Literal["site", "record"]
_START = hashlib.sha256(b"fedlore ledger 1").hexdigest()


class BudgetSpent(FedloreError):
    """The next answer would cost more privacy than is left."""

    kind = "budget"


class LedgerDamaged(FedloreError):
    """A ledger that is not what was written."""

    kind = "ledger"


@dataclass(frozen=True)
class LedgerEntry:
    """One answer that left the site, or was about to."""

    run: str
    round: int
    level: Level
    noise: float
    steps: int
    sample: float

    @property
    def release(self) -> Release:
        return Release(self.noise, self.steps, self.sample)


class Ledger:
    """One site's entries: in a file, or without a path for as long as the object lives."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._kept: list[LedgerEntry] = []
        self.entries()  # a damaged file is found before anything is asked

    def entries(self) -> list[LedgerEntry]:
        """Everything spent so far, in order."""
        return list(self._kept) if self._path is None else _read(self._path)

    def spent(self, level: Level, delta: float) -> float:
        """The ε at this δ of everything that left, about a record or about the whole site."""
        return epsilon_of(_releases(self.entries(), level), delta)

    def spend(self, entry: LedgerEntry, *, epsilon: float, delta: float) -> None:
        """Write an entry down if the budget bears it, or raise `BudgetSpent`."""
        check_epsilon(epsilon)
        check_delta(delta)
        with self._alone():
            entries = self.entries()
            ours = _releases([*entries, entry], entry.level)
            if not affordable(ours, epsilon, delta):
                before = epsilon_of(_releases(entries, entry.level), delta)
                total = epsilon_of(ours, delta)
                raise BudgetSpent(
                    f"the privacy budget is spent: ε = {before:.4g} of {epsilon:g} at δ = "
                    f"{delta:g} after {len(entries)} answers ({entry.level} level), the next "
                    f"would make it {total:.4g}"
                )
            if self._path is None:
                self._kept.append(entry)
            else:
                _write(self._path, [*entries, entry])

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else reads or writes the file between our reading and our writing."""
        if self._path is None:
            yield
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._path.with_name(f".{self._path.name}.lock"), os.O_CREAT | os.O_RDWR)
        except OSError as error:
            raise LedgerDamaged(f"cannot lock '{self._path}': {error.strerror}") from None
        try:
            lock_file(lock, wait=True)
            yield
        finally:
            os.close(lock)


def _releases(entries: Sequence[LedgerEntry], level: Level) -> list[Release]:
    """What all entries tell about one unit of a level.

    Who hides a whole site hides each of its records at least as well. Who hides one record does not
    hide the site: about it such an answer counts as one without noise.
    """
    if level == "record":
        return [entry.release for entry in entries]
    return [e.release if e.level == "site" else Release(0.0, e.steps) for e in entries]


def _link(before: str, values: dict[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, allow_nan=False)
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def _write(path: Path, entries: Sequence[LedgerEntry]) -> None:
    """All or nothing, on the disk when this returns; each line holds the hash of all before it."""
    lines, last = [], _START
    for entry in entries:
        last = _link(last, asdict(entry))
        lines.append(asdict(entry) | {"hash": last})
    text = json.dumps({"entries": lines, "last": last, "count": len(lines)}, indent=0)
    try:
        write_whole(path, text)
    except OSError as error:
        raise LedgerDamaged(
            f"cannot write '{path}': {error.strerror}; nothing may leave that is not written down"
        ) from None


def _read(path: Path) -> list[LedgerEntry]:
    """The entries of a file; a missing file is a new ledger, anything odd is `LedgerDamaged`."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise _say_damaged(path, str(error)) from None
    try:
        found = json.loads(text)
        entries: list[LedgerEntry] = []
        last = _START
        for line in found["entries"]:
            values = {k: v for k, v in line.items() if k != "hash"}
            last = _link(last, values)
            if line["hash"] != last:
                raise ValueError(f"line {len(entries) + 1} is not what was written")
            entries.append(_entry(values))
        if found["last"] != last or found["count"] != len(entries):
            raise ValueError("lines are missing")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _say_damaged(path, str(error)) from None
    return entries


def read_marks(path: Path) -> list[str]:
    """The hash of each entry and all before it, by which an older ledger is told from a newer."""
    found, last = [], _START
    for entry in _read(path):
        last = _link(last, asdict(entry))
        found.append(last)
    return found


def _entry(values: dict[str, Any]) -> LedgerEntry:
    entry = LedgerEntry(**values)
    if entry.level not in ("site", "record"):
        raise ConfigError(f"no such level '{entry.level}'")
    entry.release  # noqa: B018  # its checks
    return entry


def _say_damaged(path: Path, why: str) -> LedgerDamaged:
    return LedgerDamaged(
        f"the ledger '{path}' is damaged ({why}): what was spent is unknown, so this site answers "
        "nothing that costs privacy until its owner puts the file right"
    )
