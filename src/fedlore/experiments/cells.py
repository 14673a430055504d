"""Cells of an experiment, and the file that remembers the finished ones."""

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from importlib.metadata import version
from pathlib import Path

from ..core.history import Row, check_writable, read_rows, write_rows
from ..errors import FedloreError
from ..version import __version__


@dataclass(frozen=True)
class ResultCell:
    """What is computed at once: one approach under one seed, a row for each client."""

    dataset: str
    protocol: str
    range: str
    approach: str
    seed: int
    share: float  # of the training part
    trust: float | None  # λ; None for an approach that has no use for it

    @property
    def tags(self) -> dict[str, str | int | float | bool | None]:
        """The columns that name it."""
        return asdict(self)

    def belongs(self, row: Row) -> bool:
        """Whether a row is one of this cell's."""
        return all(row.get(name) == value for name, value in vars(self).items())


class ResultLedger:
    """A jsonl file of finished cells: written whole after each one, so never half a cell.

    A row belongs to a finished cell if its settings (`config`) are the ones asked for; rows of
    the same cell under other settings are replaced. `borrow` names files of other tables that
    may have computed the cell already.
    """

    def __init__(self, path: Path, *, borrow: Iterable[Path] = ()) -> None:
        check_writable(path)
        self.path = path
        self._rows = _read(path)
        self._others = [_read(other) for other in borrow]

    def find(self, cell: ResultCell, config: str, *, borrow: bool = True) -> list[Row]:
        """The rows of a cell, or none if it is not finished."""
        own = _matching(self._rows, cell, config)
        if own or not borrow:
            return own
        for other in self._others:  # the first that has it: two tables may both
            borrowed = _matching(other, cell, config)
            if borrowed:
                self.add(cell, borrowed)
                return borrowed
        return []

    def add(self, cell: ResultCell, rows: Sequence[Row]) -> None:
        """Write down a finished cell."""
        self._rows = [row for row in self._rows if not cell.belongs(row)] + list(rows)
        write_rows(self._rows, self.path)


def replace_rows(path: Path, rows: Sequence[Row], outdated: Callable[[Row], bool]) -> None:
    """Add rows to a jsonl file in place of those that are outdated."""
    write_rows([row for row in _read(path) if not outdated(row)] + list(rows), path)


def _matching(rows: Iterable[Row], cell: ResultCell, config: str) -> list[Row]:
    return [row for row in rows if row.get("config") == config and cell.belongs(row)]


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    try:
        return read_rows(path)
    except ValueError as error:
        raise FedloreError(f"'{path}' is not a file of rows: {error}; move it away") from None


def settings_fingerprint(*parts: object) -> str:
    """Twelve digits that change when any of the settings does."""
    plain = [asdict(p) if is_dataclass(p) and not isinstance(p, type) else p for p in parts]
    text = json.dumps(plain, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def package_versions() -> str:
    """What the numbers were computed with."""
    parts = [f"{name} {version(name)}" for name in ("torch", "numpy")]
    return ", ".join([f"fedlore {__version__}", *parts, f"python {platform.python_version()}"])
