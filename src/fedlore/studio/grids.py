"""Decision tables as grids of text, and back into the files they came from, byte for byte.

An XLSX file is a zip of XML. Only the sheet's own member is touched, and in it only the cells that
say something else now; formats, comments, charts, pictures and other sheets are not looked at.
"""

import csv
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import PurePosixPath
from posixpath import join, normpath
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from ..core.textfiles import HEAD_BYTES, find_separator, marked_encoding
from ..errors import KnowledgeError
from ..kernel.cells import LONGEST
from ..kernel.sheets import MOST_RULES, Broken
from ..knowledge.content import files_at, toml_in
from ..knowledge.tables.sheets import parse_sheet

TextRows = Sequence[Sequence[str]]

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_LINK = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_DATA = re.compile(r"<(?P<p>(?:\w+:)?)sheetData\s*(?:/>|>(?P<in>.*?)</(?P=p)sheetData>)", re.DOTALL)
_ROW = re.compile(r"<(?:\w+:)?row\b(?P<at>[^>]*?)(?:/>|>(?P<in>.*?)</(?:\w+:)?row>)", re.DOTALL)
_CELL = re.compile(r"<(?:\w+:)?c\b(?P<at>[^>]*?)(?:/>|>(?P<in>.*?)</(?:\w+:)?c>)", re.DOTALL)
_AT = re.compile(r"""\b(\w+)=(?:"([^"]*)"|'([^']*)')""")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_CHAIN = "xl/calcChain.xml"


def replace_cells(data: bytes, sheet: str, old: TextRows, new: TextRows, first: int) -> bytes:
    """The workbook with other texts in some cells of a sheet; row 0 of both stands at `first`."""
    wanted: dict[tuple[int, int], str] = {}
    for i in range(max(len(old), len(new))):
        before = old[i] if i < len(old) else ()
        after = new[i] if i < len(new) else ()
        for j in range(max(len(before), len(after))):
            was = before[j] if j < len(before) else ""
            now = after[j] if j < len(after) else ""
            if was != now:
                wanted[first + i, j + 1] = now
    if not wanted:
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as book:
        parts = {info.filename: book.read(info) for info in book.infolist()}
        infos, comment = book.infolist(), book.comment
    member, number = _member(parts, sheet)
    if any(row == first for row, _ in wanted) and _has_tables(parts, member):
        raise KnowledgeError(
            f"the header of sheet '{sheet}' belongs to a table of the spreadsheet program: change "
            "its columns there"
        )
    try:
        before = parts[member].decode("utf-8")
    except UnicodeDecodeError:
        raise KnowledgeError(
            f"sheet '{sheet}' is written in an unusual encoding: save it in a spreadsheet program"
        ) from None
    text, formulas = _edit(before, wanted, sheet)
    changed = {member: text.encode(), **_without_formulas(parts, formulas, number)}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as out:
        out.comment = comment
        for info in infos:
            out.writestr(info, changed.get(info.filename, parts[info.filename]), info.compress_type)
    return made.getvalue()


def _member(parts: Mapping[str, bytes], sheet: str) -> tuple[str, str]:
    """The member that holds a sheet, and the number by which other members call it."""
    book = ElementTree.fromstring(parts["xl/workbook.xml"])
    links = ElementTree.fromstring(parts["xl/_rels/workbook.xml.rels"])
    targets = {link.get("Id"): link.get("Target", "") for link in links}
    for one in book.iter(f"{_MAIN}sheet"):
        if one.get("name") == sheet:
            target = targets[one.get(_LINK)]
            path = target.lstrip("/") if target.startswith("/") else normpath(join("xl", target))
            return path, one.get("sheetId", "")
    raise KnowledgeError(f"the workbook has no sheet '{sheet}'")


def _has_tables(parts: Mapping[str, bytes], member: str) -> bool:
    folder, _, name = member.rpartition("/")
    links = parts.get(f"{folder}/_rels/{name}.rels", b"")
    return b"/relationships/table" in links


def _edit(
    text: str, wanted: Mapping[tuple[int, int], str], sheet: str
) -> tuple[str, list[tuple[int, int]]]:
    """The sheet's XML with other cells, and which of them were formulas."""
    data = _DATA.search(text)
    if data is None:
        raise KnowledgeError(f"sheet '{sheet}' holds no cells that can be written to")
    prefix, formulas = data["p"], list[tuple[int, int]]()
    rows: dict[int, str] = {}
    ended = 0
    for found in _ROW.finditer(data["in"] or ""):
        ended = int(_attributes(found["at"]).get("r", ended + 1))
        rows[ended] = found[0]
    by_row: dict[int, dict[int, str]] = {}
    for (row, column), said in wanted.items():
        by_row.setdefault(row, {})[column] = said
    for row, cells in by_row.items():
        rows[row] = _edit_row(rows.get(row), row, cells, prefix, sheet, formulas)
    inner = "".join(rows[row] for row in sorted(rows))
    whole = f"<{prefix}sheetData>{inner}</{prefix}sheetData>"
    return text[: data.start()] + whole + text[data.end() :], formulas


def _edit_row(
    before: str | None,
    row: int,
    wanted: Mapping[int, str],
    prefix: str,
    sheet: str,
    formulas: list[tuple[int, int]],
) -> str:
    found = _ROW.fullmatch(before) if before else None
    about = found["at"] if found else f' r="{row}"'
    about = re.sub(
        r"""\s+spans=("[^"]*"|'[^']*')""", "", about
    )  # a hint that may no longer be true
    cells: dict[int, tuple[str, str, str]] = {}  # column -> whole, attributes, inside
    column = 0
    for cell in _CELL.finditer((found["in"] or "") if found else ""):
        place = _attributes(cell["at"]).get("r")
        column = column + 1 if place is None else column_number(place)
        cells[column] = (cell[0], cell["at"], cell["in"] or "")
    for column, said in wanted.items():
        _, at, inside = cells.get(column, ("", "", ""))
        if re.search(r"<(?:\w+:)?f\b", inside):
            if re.search(r'<(?:\w+:)?f\b[^>]*\b(ref|t=["\']shared)', inside):
                raise KnowledgeError(
                    f"sheet '{sheet}', cell {column_letters(column)}{row} shares its formula with "
                    "others: change it in the spreadsheet program"
                )
            formulas.append((row, column))
        cells[column] = (_cell(row, column, said, at, prefix), at, "")
    inner = "".join(cells[column][0] for column in sorted(cells))
    return f"<{prefix}row{about.rstrip()}>{inner}</{prefix}row>"


def _cell(row: int, column: int, said: str, about: str, prefix: str) -> str:
    old = _attributes(about)
    style = f' s="{old["s"]}"' if "s" in old else ""
    head = f'<{prefix}c r="{column_letters(column)}{row}"{style}'
    if not said:
        return f"{head}/>"
    if about and old.get("t", "n") == "n" and _NUMBER.fullmatch(said):
        return f"{head}><{prefix}v>{said}</{prefix}v></{prefix}c>"
    space = ' xml:space="preserve"' if said != said.strip() else ""
    p = prefix
    inside = f"<{p}is><{p}t{space}>{escape(said)}</{p}t></{p}is>"
    return f'{head} t="inlineStr">{inside}</{p}c>'


def _without_formulas(
    parts: Mapping[str, bytes], formulas: Sequence[tuple[int, int]], number: str
) -> dict[str, bytes]:
    """The order of calculation without cells that no longer calculate."""
    if not formulas or _CHAIN not in parts:
        return {}
    gone = {f"{column_letters(column)}{row}" for row, column in formulas}
    text, last = parts[_CHAIN].decode("utf-8"), ""

    def keep(entry: re.Match[str]) -> str:
        nonlocal last
        about = _attributes(entry["at"])
        last = about.get("i", last)
        if about.get("r") in gone and last == number:
            return ""
        return entry[0] if "i" in about else entry[0].replace("<c ", f'<c i="{last}" ', 1)

    return {_CHAIN: _CELL.sub(keep, text).encode()}


def _attributes(text: str) -> dict[str, str]:
    return {name: one or two for name, one, two in _AT.findall(text)}


def column_letters(column: int) -> str:
    """The letters of a column, from 1.

    >>> column_letters(1), column_letters(28)
    ('A', 'AB')
    """
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def column_number(place: str) -> int:
    """The column of a cell such as AB12, from 1.

    >>> column_number("AB12")
    28
    """
    number = 0
    for letter in place:
        if letter.isalpha():
            number = 26 * number + ord(letter.upper()) - 64
    return number


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
    found = [
        _grid(members, side, place, source)
        for side in ("predict", "range")
        for place, source in enumerate(sources_in(values, side))
        if isinstance(source.get("table"), str)
    ]
    if isinstance(values.get("examples"), str):
        found.append(_grid(members, "examples", 0, {"table": values["examples"]}))
    return found


def sources_in(values: Mapping[str, Any], side: str, key: str = "sources") -> list[dict[str, Any]]:
    """The sources of one side of a file under way, which may hold anything in their place."""
    part = values.get(side)
    found = part.get(key) if isinstance(part, dict) else None
    return [s if isinstance(s, dict) else {} for s in found] if isinstance(found, list) else []


def _grid(members: Mapping[str, bytes], side: str, place: int, said: Mapping[str, Any]) -> RuleGrid:
    hit, outcome = (str(said.get(key) or "") for key in ("hit", "outcome"))
    name, sheet = said["table"], str(said.get("sheet") or "")
    make = partial(RuleGrid, side, place, name, hit=hit, outcome=outcome)
    try:
        page = parse_sheet(members[name], name, sheet=sheet or None)
    except KnowledgeError as error:
        return make(sheet=sheet, first=1, header=(), rows=(), fault=str(error))
    rows = [cells for _, cells in page.rows]
    head = next((i for i, cells in enumerate(rows) if any(map(str, cells))), 0)
    width = max((len(cells) for cells in rows[head:]), default=0)
    texts = [(*map(str, cells), *[""] * (width - len(cells))) for cells in rows[head:]]
    broken = tuple(
        (i, j, cell.reason)
        for i, cells in enumerate(rows[head:])
        for j, cell in enumerate(cells)
        if isinstance(cell, Broken)
    )
    header, body = (texts[0], tuple(texts[1:])) if texts else ((), ())
    return make(sheet=page.name, first=head + 1, header=header, rows=body, broken=broken)


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
