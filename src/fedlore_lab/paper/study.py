"""The paper's tables and figure, run again: approaches, share of data, λ."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedlore.core.history import Row
from fedlore.errors import ConfigError, unknown
from fedlore.experiments import (
    APPROACHES,
    FL_MASK,
    FLWKM,
    Approach,
    ResultCell,
    ResultLedger,
    package_versions,
    replace_rows,
    settings_fingerprint,
    trust_of,
)

from .drawings import PaperDrawings
from .tasks import PAPER_TASKS, Protocol, Setup, level, read_protocol

TABLES = ("approaches", "data", "lambda")
_TRUSTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # the paper's figure

OnCell = Callable[[ResultCell, int, int], None]  # the cell just finished, how many are, of how many


@dataclass(frozen=True)
class Study:
    """What one command computes."""

    table: str  # approaches, data or lambda
    dataset: str  # covtype or fmnist
    protocol: str  # the name of a shipped protocol or the path of a TOML
    ranges: tuple[str, ...] = ()  # none: all of the protocol's
    seeds: int = 5

    def __post_init__(self) -> None:
        if self.table not in TABLES:
            raise ConfigError(unknown("table", self.table, TABLES))
        if self.dataset not in PAPER_TASKS:
            raise ConfigError(unknown("data set", self.dataset, PAPER_TASKS))
        if self.seeds < 1:
            raise ConfigError(f"seeds must be at least 1, got {self.seeds}")
        for kind in self.ranges:
            level(kind)

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.table}-{self.dataset}-{Path(self.protocol).stem}"


def run_study(study: Study, out: Path, *, on_cell: OnCell | None = None) -> list[Row]:
    """Compute what is not finished yet and give the rows of every cell of the study.

    Rows go to NAME.jsonl in `out`; scores over rounds and confusions of the first seed go to
    rounds-*.jsonl and confusion-*.jsonl beside it. Cells that another table's file in the same
    folder has are taken from there.
    """
    protocol = read_protocol(study.protocol)
    setup: Setup = getattr(protocol, study.dataset)
    work = list(cells(study, protocol))
    where = study.name.removeprefix(study.table)
    borrow = [out / f"{table}{where}.jsonl" for table in TABLES if table != study.table]
    ledger = ResultLedger(out / f"{study.name}.jsonl", borrow=borrow)
    task = PAPER_TASKS[study.dataset]
    data = None
    drawings: PaperDrawings | None = None
    rows: list[Row] = []
    for done, (cell, approach) in enumerate(work, 1):
        settings = (setup, repr(replace(approach, trust=cell.trust)), cell.range)
        config = (
            settings_fingerprint(*settings, "lore 2")
            if approach.chosen
            else settings_fingerprint(*settings)
        )
        # the first seed also tells its history, which other tables do not keep
        watch = study.table == "approaches" and cell.seed == 0
        found = ledger.find(cell, config, borrow=not watch)
        if not found:
            data = data or task.load()
            if drawings is None or drawings.seed != cell.seed:
                drawings = PaperDrawings(task, setup, data, cell.seed, watch=watch)
            scored, history, mistakes = drawings.measure(approach, cell.range, cell.share)
            if watch:
                _side(out / f"rounds{where}.jsonl", cell, history)
                _side(out / f"confusion{where}.jsonl", cell, mistakes)
            own = {"config": config, "versions": package_versions()}
            found = [{**cell.tags, **row, **own} for row in scored]
            ledger.add(cell, found)
        rows += found
        if on_cell is not None:
            on_cell(cell, done, len(work))
    return rows


def cells(study: Study, protocol: Protocol) -> Iterable[tuple[ResultCell, Approach]]:
    """Every cell of a study with its approach, seed after seed."""
    setup: Setup = getattr(protocol, study.dataset)
    for seed in range(study.seeds):
        for kind in study.ranges or setup.ranges:
            for approach, share in _lines(study.table, setup):
                where = (study.dataset, Path(study.protocol).stem, kind)
                trust = trust_of(approach, setup.trust)
                yield ResultCell(*where, approach.name, seed, share, trust), approach


def _lines(table: str, setup: Setup) -> Sequence[tuple[Approach, float]]:
    least = setup.shares[0]
    if table == "approaches":
        return [(approach, least) for approach in APPROACHES]
    if table == "data":
        return [(FLWKM, share) for share in setup.shares]
    return [
        (replace(approach, trust=trust), least)
        for trust in _TRUSTS
        for approach in (FLWKM, FL_MASK)
    ]


def _side(path: Path, cell: ResultCell, rows: Sequence[Row]) -> None:
    replace_rows(path, [{**cell.tags, **row} for row in rows], cell.belongs)
