"""Cells of a workbook replaced in place: every other member of the file keeps its very bytes.

An XLSX file is a zip of XML. Only the sheet's own member is touched, and in it only the cells that
say something else now; formats, comments, charts, pictures and other sheets are not looked at.
"""

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from posixpath import join, normpath
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from ..errors import KnowledgeError

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
