"""Where rows come from: one protocol for files and memory, and how a file may be told apart."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...errors import ConfigError

ROWS_AT_ONCE = 65_536  # rows at a time

OnProgress = Callable[[float], None]  # the share of the file that has been read


@dataclass(frozen=True)
class FileForm:
    """How a file is to be read, where that is not to be found out."""

    separator: str | None = None  # one of , ; tab |
    decimal: str | None = None  # . or ,
    encoding: str | None = None  # such as latin-1; None: found out
    sheet: str | None = None  # of a workbook; the first otherwise

    def __post_init__(self) -> None:
        if self.separator in ("tab", "\\t"):
            object.__setattr__(self, "separator", "\t")
        if self.separator not in (None, ",", ";", "\t", "|"):
            raise ConfigError(f"separator must be one of , ; tab |, got '{self.separator}'")
        if self.decimal not in (None, ".", ","):
            raise ConfigError(f"decimal must be . or , got '{self.decimal}'")


@dataclass(frozen=True)
class RowBatch:
    """Some rows: the columns asked for, and the number of each row as its owner sees it."""

    columns: Sequence[Any]
    lines: Sequence[int]
    odd: Mapping[int, str] = field(default_factory=dict)  # rows without the right cells, by number


class RowSource(Protocol):
    """A table that can be read, more than once."""

    @property
    def place(self) -> str:
        """What messages call it; empty for rows in memory."""

    @property
    def titles(self) -> Sequence[str]: ...

    @property
    def units(self) -> Mapping[int, str]:
        """Units that are told beside the titles, by position."""

    @property
    def decimal(self) -> str: ...

    @property
    def said(self) -> str:
        """How the file was taken to be written, where that is worth a sentence."""

    @property
    def fast(self) -> bool:
        """Whether a fault is better placed by a second, slower look."""

    def batches(
        self, columns: Sequence[int], words: Sequence[int], on_progress: OnProgress
    ) -> Iterator[RowBatch]:
        """The columns at these positions; those in `words` hold text."""
