"""Cells of a workbook replaced: every member that was not touched keeps its very bytes."""

import io
import re
import zipfile

import pytest

from fedlore.errors import KnowledgeError
from fedlore.studio.grids import grid_bytes, read_grids, replace_cells

from .books import HEAD, RULES, _chart, _format, _remark, by_openpyxl, pack
from .sites import TOML

openpyxl = pytest.importorskip("openpyxl")


def workbook(**about):
    """A book with formats, comments, charts and formulas, some cells of its rules replaced."""

    def put(book, page):
        for place, value in about.items():
            page[place] = value

    return by_openpyxl(_format, _remark, _chart, put)


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as book:
        assert book.testzip() is None
        return {name: book.read(name) for name in book.namelist()}


def files(data):
    toml = TOML.replace('table = "range.csv"', 'table = "book.xlsx"\nsheet = "rules"')
    return {"knowledge.toml": toml.encode(), "predict.csv": b"ash,then\n,II\n", "book.xlsx": data}


def edited(rows, **about):
    data = workbook(**about)
    return data, grid_bytes(files(data), "book.xlsx", "rules", HEAD, rows)


def test_one_cell_changes_one_member_and_in_it_one_cell():
    before, after = edited([["> 13", "III..II"], RULES[1]])
    old, new = members(before), members(after)
    assert list(old) == list(new)  # in their order
    assert [name for name in old if old[name] != new[name]] == ["xl/worksheets/sheet1.xml"]
    page = openpyxl.load_workbook(io.BytesIO(after))["rules"]
    assert page["A2"].value == "> 13" and page["A2"].comment.text.startswith("since 2019")
    assert page["A2"].fill.fgColor.rgb == "00FFEE88" and page.column_dimensions["A"].width == 31
    assert read_grids(files(after))[1].rows == (("> 13", "III..II"), ("< 8", "II..I"))


@pytest.mark.parametrize(
    "rows",
    [
        [*RULES, ["= 3 & <b>", 'in "a", b']],
        RULES[:1],
        [RULES[1], RULES[0]],
        [["", ""], *RULES],
        [[" spaced ", "II"], ["ä 良", "I"]],
    ],
)
def test_rows_are_added_removed_and_moved(rows):
    _, after = edited(rows)
    kept = [row for row in read_grids(files(after))[1].rows if any(row)]
    assert kept == [tuple(row) for row in rows if any(row)]


def test_nothing_changed_is_the_same_file():
    before, after = edited(RULES)
    assert before == after


def test_a_number_stays_a_number():
    _, after = edited([["12", "II"], RULES[1]], A2=11)
    cell = openpyxl.load_workbook(io.BytesIO(after))["rules"]["A2"]
    assert (cell.value, cell.data_type) == (12, "n")


def test_a_formula_is_replaced_by_what_was_typed_and_a_shared_one_is_refused():
    _, after = edited([["> 1", "II"], RULES[1]], A2="=1+1")
    assert openpyxl.load_workbook(io.BytesIO(after))["rules"]["A2"].value == "> 1"
    shared = members(workbook())
    name = "xl/worksheets/sheet1.xml"
    text = re.sub(r"<(v|is)>", r'<f t="shared" si="0">A1</f><\1>', shared[name].decode(), count=1)
    made = pack({**shared, name: text.encode()})
    with pytest.raises(KnowledgeError, match="shares its formula"):
        replace_cells(made, "rules", [HEAD, *RULES], [["x", "then"], *RULES], 1)


def test_a_sheet_that_is_not_there_is_said():
    with pytest.raises(KnowledgeError, match="no sheet 'gone'"):
        replace_cells(workbook(), "gone", [["a"]], [["b"]], 1)
