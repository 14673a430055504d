"""What is wrong with a table, all of it together, by the row that its owner sees."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...errors import FedloreError

UNUSABLE = ": it cannot be used"  # where many faults are alike, not each is put into words
SHOWN = 20  # problems that are written out; the others are counted


class Stumbled(FedloreError):
    """A fault that a fast reader met and only the slow one can place."""


@dataclass(frozen=True, order=True)
class Fault:
    """One fault: the row as an editor numbers it, the header being row 1, and what is wrong."""

    row: int
    order: int  # of the column, where several are wrong in one row
    text: str = field(compare=False)

    def __str__(self) -> str:
        return f"row {self.row}{self.text}"


@dataclass
class Problems:
    """The first problems of a table, and how many there are."""

    place: str  # what messages call the table; may be empty
    count: int = 0
    first: list[Fault] = field(default_factory=list)
    most: int | None = SHOWN  # how many are written out; None: all

    def add(
        self, wrong: Mapping[int, str], lines: Sequence[int], column: str = "", order: int = 0
    ) -> None:
        """Faults by their position in a batch whose rows have these numbers."""
        self.count += len(wrong)
        named = f", column '{column}'" if column else ""
        some = sorted(wrong)[: self.most]
        self.first += [Fault(lines[i], order, named + (wrong[i] or UNUSABLE)) for i in some]
        self.first = sorted(self.first)[: self.most]

    def check(self) -> None:
        """Raise them all, if there are any."""
        if self.count:
            raise refusal(self.place, [str(problem) for problem in self.first], self.count)


def refusal(place: str, texts: Sequence[str], count: int | None = None) -> FedloreError:
    """One error for everything that is wrong with a table."""
    total = len(texts) if count is None else count
    if total == 1:
        return FedloreError(f"{place}: {texts[0]}" if place else texts[0])
    return FedloreError("\n".join(_lines(place, texts, total)))


def _lines(place: str, texts: Iterable[str], total: int) -> Iterator[str]:
    yield f"{place} has {total} problems:" if place else f"there are {total} problems:"
    shown = list(texts)[:SHOWN]
    yield from (f"  {text}" for text in shown)
    if total > len(shown):
        yield f"  and {total - len(shown)} more"
