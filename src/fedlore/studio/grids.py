"""Decision tables as grids of text, and back into the files they came from."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from ..core.textfiles import HEAD_BYTES, find_separator, marked_encoding
from ..errors import KnowledgeError
from ..kernel.cells import LONGEST
from ..kernel.sheets import MOST_RULES, Broken, SheetCell
from ..knowledge.content import files_at, toml_in
from ..knowledge.tables.sheets import parse_sheet
from .workbooks import TextRows, replace_cells

MOST_COLUMNS = 200


@dataclass(frozen=True)
class RuleGrid:
    """One table as the page shows it: the first filled row is the header."""

    side: str  # predict, range, or examples
    source: int  # its place among the sources of that side
    file: str
    sheet: str  # of a workbook
    hit: str  # as the file says, empty where it does not
    outcome: str  # the name of the outcome column, where the file says so
    first: int  # the row of the header, as the spreadsheet numbers it
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    broken: tuple[tuple[int, int, str], ...] = ()  # row, column and why a cell cannot be read
    fault: str = ""  # why the file cannot be read at all

    def as_row(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def read_grids(members: Mapping[str, bytes]) -> list[RuleGrid]:
    """Every table that the knowledge names: predictions, ranges, and at last its examples."""
    values = toml_in(*files_at(members))
    found = []
    for side in ("predict", "range"):
        part = values.get(side)
        sources = part.get("sources", []) if isinstance(part, dict) else []
        for place, source in enumerate(sources if isinstance(sources, list) else []):
            if isinstance(source, dict) and isinstance(source.get("table"), str):
                found.append(_grid(members, side, place, source))
    if isinstance(values.get("examples"), str):
        found.append(_grid(members, "examples", 0, {"table": values["examples"]}))
    return found


def _grid(members: Mapping[str, bytes], side: str, place: int, said: Mapping[str, Any]) -> RuleGrid:
    hit, outcome = (str(said.get(key) or "") for key in ("hit", "outcome"))
    name, sheet = said["table"], str(said.get("sheet") or "")
    make = partial(RuleGrid, side, place, name, hit=hit, outcome=outcome)
    try:
        page = parse_sheet(members[name], name, sheet=sheet or None)
    except KnowledgeError as error:
        return make(sheet=sheet, first=1, header=(), rows=(), fault=str(error))
    rows = [cells for _, cells in page.rows]
    head = next((i for i, cells in enumerate(rows) if any(map(_shown, cells))), 0)
    width = max((len(cells) for cells in rows[head:]), default=0)
    texts = [(*map(_shown, cells), *[""] * (width - len(cells))) for cells in rows[head:]]
    broken = tuple(
        (i, j, cell.reason)
        for i, cells in enumerate(rows[head:])
        for j, cell in enumerate(cells)
        if isinstance(cell, Broken)
    )
    header, body = (texts[0], tuple(texts[1:])) if texts else ((), ())
    return make(sheet=page.name, first=head + 1, header=header, rows=body, broken=broken)


def _shown(cell: SheetCell) -> str:
    return cell.shown if isinstance(cell, Broken) else cell


def check_cells_fit(header: Sequence[str], rows: TextRows) -> None:
    """Refuse what no table can be, before anything is written."""
    if not header or len(header) > MOST_COLUMNS:
        raise KnowledgeError(f"a table has 1 to {MOST_COLUMNS} columns, got {len(header)}")
    if len(rows) > MOST_RULES:
        raise KnowledgeError(f"a table has at most {MOST_RULES} rules, got {len(rows)}")
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise KnowledgeError(
                f"rule {number} has {len(row)} cells, the header has {len(header)}"
            )
        for cell in row:
            if len(cell) > 10 * LONGEST:  # a little too long is for the linter to say
                raise KnowledgeError(f"rule {number}: a cell has {len(cell)} characters")


def grid_bytes(
    members: Mapping[str, bytes], file: str, sheet: str, header: Sequence[str], rows: TextRows
) -> bytes:
    """The file with this table in it; whatever else it holds stays as it is."""
    check_cells_fit(header, rows)
    kind = PurePosixPath(file).suffix.lower()
    before = members[file] if file in members else None
    if kind in (".csv", ".tsv"):
        return _text_bytes(before, [header, *rows], "\t" if kind == ".tsv" else ",")
    if before is None:
        raise KnowledgeError(f"there is no workbook '{file}': a new table is a .csv file")
    grid = next(g for g in read_grids(members) if g.file == file and g.sheet == sheet)
    return replace_cells(before, sheet, [grid.header, *grid.rows], [header, *rows], grid.first)


def _text_bytes(before: bytes | None, rows: TextRows, separator: str) -> bytes:
    """Rows as text in the writing of the old file; a row it had already keeps its very bytes."""
    encoding, end = "utf-8", "\n"
    known: dict[tuple[str, ...], str] = {}
    lead: list[str] = []
    if before is not None:
        encoding = marked_encoding(before) or "utf-8"
        text = before.decode(encoding)
        first = text[:HEAD_BYTES].splitlines(keepends=True)[:1]
        separator = find_separator(first) if first else separator
        end = "\r\n" if first and first[0].endswith("\r\n") else "\n"
        known, lead = _records(text, separator)
    made = io.StringIO(newline="")
    writer = csv.writer(made, delimiter=separator, lineterminator=end)
    made.write("".join(lead))
    for row in rows:
        raw = known.get(tuple(row))
        if raw is None:
            writer.writerow(row)
        else:
            made.write(raw if raw.endswith(("\n", "\r")) else raw + end)
    return made.getvalue().encode(encoding)


def _records(text: str, separator: str) -> tuple[dict[tuple[str, ...], str], list[str]]:
    """The records of a text by their cells, as they are written, and blank ones before them."""
    lines = io.StringIO(text, newline="").readlines()
    reader = csv.reader(iter(lines), delimiter=separator)
    found: dict[tuple[str, ...], str] = {}
    lead: list[str] = []
    began = 0
    for cells in reader:
        raw = "".join(lines[began : reader.line_num])
        began = reader.line_num
        if not found and not any(cell.strip() for cell in cells):
            lead.append(raw)
        else:
            found.setdefault(tuple(cells), raw)
    return found, lead


def new_table(names: Sequence[str]) -> bytes:
    """A table with these columns and no rules."""
    return _text_bytes(None, [list(names)], ",")
