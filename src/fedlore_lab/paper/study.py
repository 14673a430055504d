"""The paper's tables and figure, run again: approaches, share of data, λ; and their pages."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from fedlore.core.history import Row, read_rows
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
from fedlore.look.tables import TextTable
from fedlore.report import percent_text, published, tables, write_report

from .drawings import PaperDrawings
from .realcoke import over_rows
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
        config = settings_fingerprint(*settings, *(["lore 2"] if approach.chosen else []))
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


def paper_tables(rows: Sequence[Row], name: str) -> list[TextTable]:
    """Every table of `fedlore paper` that these rows have something to say in."""
    made = tables(rows)
    if any(row.get("coverage") is not None for row in rows):
        made.append(ranges(rows))
    if rows[0]["dataset"] == "coke-real":
        made.append(few_rows_table(rows))
    if name.startswith("case-"):
        made.append(private_case())
    return made


def ranges(rows: Sequence[Row]) -> TextTable:
    """How often the ranges held the true label of a test row, and how many classes they left."""
    body = []
    for kind in dict.fromkeys(str(row["range"]) for row in rows):
        mine = [row for row in rows if row["range"] == kind and row.get("coverage") is not None]
        if mine:
            share, wide = (_mean(mine, name) for name in ("coverage", "width"))
            least = min(float(row["coverage"] or 0.0) for row in mine)
            cells = (kind, f"{100 * share:.2f}", f"{100 * least:.2f}", f"{wide:.2f}")
            body.append(cells)
    head = ("range", "label inside, %", "least of a client, %", "classes allowed")
    note = "Counted on test rows, over clients and seeds. An oracle range is made from the label."
    return TextTable.of("What the ranges promise and hold", head, body, (note,))


def few_rows_table(rows: Sequence[Row]) -> TextTable:
    """Mean TA with the uncertainty of so few rows."""
    body = []
    for approach in dict.fromkeys(str(row["approach"]) for row in rows):
        found = over_rows([row for row in rows if row["approach"] == approach])
        body.append((approach, percent_text(found)))
    note = "± is half of the 95 % interval that the number of rows allows; seeds do not narrow it."
    return TextTable.of("Real cokes: mean TA over sources, %", ("approach", "TA"), body, (note,))


def private_case() -> TextTable:
    """What the paper reports of its own coking case."""
    body = []
    for approach, ta in published.TA["case"].items():
        pov = published.POV["case"].get(approach, (0.0,) * len(ta))
        cells = (approach, *(f"{value:g}" for value in ta), _plain(ta), _plain(pov))
        body.append(cells)
    plants = tuple(f"its plant {i}" for i in range(1, 5))
    note = (
        "Fan et al. 2022, table 1, on data that are private: other plants, other coals, other "
        "experts. It can stand beside the tables above, it cannot be compared with them."
    )
    head = ("approach", *plants, "mean TA", "mean POV")
    return TextTable.of("The paper's own coking case, TA in %", head, body, (note,))


def _plain(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.1f}"


def _mean(rows: Sequence[Row], name: str) -> float:
    return sum(float(row[name] or 0.0) for row in rows) / len(rows)


TAGS = ("dataset", "protocol", "range", "approach", "model", "client", "seed", "share", "trust")


def study_page(study: Study, out: Path) -> Path:
    """One page of all tables of this data set and protocol that the folder has rows of."""
    where = study.name.removeprefix(study.table)
    rows = distinct(row for table in TABLES for row in _read(out / f"{table}{where}.jsonl"))
    protocol = read_protocol(study.protocol)
    setup: Setup = getattr(protocol, study.dataset)
    facts = {
        "data": f"{study.dataset}, protocol {Path(study.protocol).stem}",
        "training": f"{setup.plan}",
        "rounds": ", ".join(f"{n} at {p} % of the rows" for p, n in setup.rounds.items()),
    }
    history, confusion = (_read(out / f"{side}{where}.jsonl") for side in ("rounds", "confusion"))
    return _page(rows, out / f"report{where}", facts, history=history, confusion=confusion)


def case_page(rows: Sequence[Row], name: str, out: Path, data: str) -> Path:
    """The page of the coking case, simulated or real."""
    return _page(rows, out / f"report-{name}", {"data": data})


def distinct(rows: Iterable[Row]) -> list[Row]:
    """Rows without those that a second table has borrowed."""
    return list({tuple(row.get(tag) for tag in TAGS): row for row in rows}.values())


def _page(
    rows: Sequence[Row],
    folder: Path,
    facts: dict[str, str],
    *,
    history: Sequence[Row] = (),
    confusion: Sequence[Row] = (),
) -> Path:
    return write_report(
        rows,
        folder,
        title=f"The paper again: {facts['data']}",
        facts=facts | {"date": date.today().isoformat()},
        history=history,
        confusion=confusion,
    )


def _read(path: Path) -> list[Row]:
    return read_rows(path) if path.exists() else []
