"""Thirty workbooks of several programs: what the user did not touch keeps its very bytes."""

import io
import subprocess
import warnings
import zipfile

import pytest

from fedlore.errors import KnowledgeError
from fedlore.studio.grids import grid_bytes, read_grids

from .books import BOOKS, HEAD, _sheet, pack, parts
from .test_workbooks import files, members

openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("xlsxwriter")
LIBREOFFICE = ("openpyxl-formulas", "xlsxwriter-rich", "hand-extended", "openpyxl-merged")


def about(data):
    """All that a zip says of its members but where they lie, and its own remark."""
    with zipfile.ZipFile(io.BytesIO(data)) as book:
        kept = ("filename", "date_time", "compress_type")
        return [[getattr(i, key) for key in kept] for i in book.infolist()], book.comment


def styles(data, row):
    """The formats of a row, as numbers into the styles of the book."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what openpyxl itself cannot keep
        page = openpyxl.load_workbook(io.BytesIO(data))["rules"]
    return [page.cell(row, column).style_id for column in (1, 2)]


def survives(data):
    """One cell changed, a rule added: the rest is as it was, and the book reads back."""
    grid = read_grids(files(data))[1]
    assert not grid.fault and list(grid.header[:2]) == HEAD
    wide = [""] * (len(grid.header) - 2)
    rows = [list(row) for row in grid.rows]
    place = next(i for i, row in enumerate(rows) if row[0] == "> 12")
    rows[place][0] = '> 13 & "much"'
    rows.append(["[9..10)", "II", *wide])
    after = grid_bytes(files(data), "book.xlsx", "rules", grid.header, rows)
    old, new = members(data), members(after)
    touched = [name for name in old if old[name] != new[name]]
    assert list(old) == list(new) and about(data) == about(after)
    assert len(touched) == 1 and "/worksheets/" in touched[0]
    again = read_grids(files(after))[1]
    assert [list(row) for row in again.rows] == rows and again.header == grid.header
    assert styles(after, grid.first + 1 + place) == styles(data, grid.first + 1 + place)
    back = [list(row) for row in grid.rows] + [[""] * len(grid.header)]
    third = grid_bytes(files(after), "book.xlsx", "rules", grid.header, back)
    assert [row for row in read_grids(files(third))[1].rows if any(row)] == [
        row for row in grid.rows if any(row)
    ]
    assert [name for name in old if old[name] != members(third)[name]] in ([], touched)


@pytest.mark.parametrize("name", BOOKS)
def test_a_book_comes_back(name):
    survives(BOOKS[name]())


@pytest.mark.program("soffice")
@pytest.mark.parametrize("name", LIBREOFFICE)
def test_a_book_that_libreoffice_wrote_comes_back(name, tmp_path):
    (tmp_path / "in.xlsx").write_bytes(BOOKS[name]())
    home, out = f"-env:UserInstallation=file://{tmp_path}/home", tmp_path / "out"
    asked = ["soffice", home, "--headless", "--convert-to", "xlsx", "--outdir", str(out)]
    subprocess.run(
        [*asked, str(tmp_path / "in.xlsx")], check=True, timeout=180, capture_output=True
    )
    survives((out / "in.xlsx").read_bytes())


@pytest.mark.parametrize("coding", ["utf-16", "latin-1"])
def test_a_sheet_in_an_unusual_encoding_is_left_alone(coding):
    made = parts()
    text = f'<?xml version="1.0" encoding="{coding}"?>{_sheet()}'.replace("> 12", "ä")
    data = pack(made | {"xl/worksheets/sheet1.xml": (text + "<!-- ä -->").encode(coding)})
    with pytest.raises(KnowledgeError, match="encoding|cannot be|not readable"):
        grid = read_grids(files(data))[1]
        if grid.fault:
            raise KnowledgeError(grid.fault)
        grid_bytes(files(data), "book.xlsx", "rules", HEAD, [["> 1", "II"], ["< 8", "II..I"]])
