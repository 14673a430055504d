"""Tables and pages of the paper's experiments, beside the paper's own numbers."""

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from fedlore.core.history import Row, read_rows
from fedlore.look.tables import TextTable
from fedlore.report import percent_text, published, tables, write_report

from .realcoke import over_rows
from .study import TABLES, Study
from .tasks import Setup, read_protocol


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
