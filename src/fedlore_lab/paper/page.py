"""The page of `fedlore paper`: everything that a folder holds about one data set."""

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from fedlore.core.history import Row, read_rows
from fedlore.report import write_report

from .protocol import Setup, read_protocol
from .study import TABLES, Study

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
