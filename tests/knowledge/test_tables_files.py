"""Tables in CSV and XLSX: read, written, and every complaint at its cell."""

import io
import zipfile
from datetime import date

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fedlore.errors import KnowledgeError
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.tables.sheets import read_rules, table_of, write_sheet, write_table

openpyxl = pytest.importorskip("openpyxl")

SCHEMA = Schema(
    (Feature("ash", "%", 0, 40), Feature("coal", levels=("A", "B")), Feature("sulphur", "%")),
    ("I", "II", "III"),
)
HEADER = ["ash [%]", "coal", "sulphur", "then", "rule", "note"]
RULES = [
    ["> 12", "A", "", "II", "hot", "seen often"],
    ["[8..12)", "in A, B", "<= 0.9", "I", "", ""],
    ["-", "not B", "= 3", "III", "", ""],
]


def written(tmp_path, rows, name="rules.csv"):
    write_sheet(rows, tmp_path / name)
    return tmp_path / name


@pytest.mark.parametrize("name", ["rules.csv", "rules.xlsx"])
def test_a_table_reads_the_same_from_csv_and_xlsx(tmp_path, name):
    table = read_rules(written(tmp_path, [HEADER, *RULES], name), SCHEMA, kind="predict")
    rows = [dict(zip(HEADER, row, strict=True)) for row in RULES]
    assert table == table_of(rows, SCHEMA, kind="predict")
    assert [rule.place.row for rule in table.rules] == [2, 3, 4]
    x = torch.tensor([[13.0, 0, 0], [8.0, 1, 0.9], [9.0, 0, 3.0], [9.0, 1, 3.0]])
    assert table(x).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("name", ["rules.csv", "rules.xlsx"])
def test_read_write_read_gives_an_equal_table(tmp_path, name):
    first = read_rules(written(tmp_path, [HEADER, *RULES]), SCHEMA, kind="predict")
    write_table(first, tmp_path / name)
    again = read_rules(tmp_path / name, SCHEMA, kind="predict")
    assert again == first
    assert again.cells() == first.cells()


@pytest.mark.parametrize(
    ("name", "where"),
    [("rules.csv", "rules.csv, row 17"), ("rules.xlsx", "rules.xlsx, sheet 'Sheet', row 17")],
)
def test_an_error_in_row_17_column_ash_is_reported_as_such(tmp_path, name, where):
    rows = [["coal", "ash", "then"]] + [["A", "> 12", "I"]] * 20
    rows[16] = ["A", "12,5", "I"]
    with pytest.raises(KnowledgeError) as error:
        read_rules(written(tmp_path, rows, name), SCHEMA, kind="predict")
    assert str(error.value).startswith(f"{where}, column 'ash': cannot tell in '12,5'")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (["ahs", "then"], "column 'ahs': unknown column 'ahs'; did you mean 'ash'"),
        (["ash [mg]", "then"], r"the unit is \[mg\], but 'ash' is declared in \[%\]"),
        (["ash", "ash", "then"], "'ash' is there twice"),
        (["ash", "coal"], "one outcome column"),
        (["ash", "then", "outcome"], "one outcome column"),
        (["ash", "then", "priority"], "has a column 'priority', but the hit policy is first"),
        (["__class__", "then"], "unknown column"),
    ],
)
def test_a_wrong_header_is_refused(tmp_path, header, message):
    rows = [header, ["> 1"] * len(header)]
    with pytest.raises(KnowledgeError, match=message):
        read_rules(written(tmp_path, rows), SCHEMA, kind="predict", policy="first")


def test_the_outcome_column_may_have_any_name(tmp_path):
    path = written(tmp_path, [["ash", "grade"], ["> 1", "II"]])
    assert read_rules(path, SCHEMA, kind="predict", outcome="grade").rules[0].outcome == (1,)
    with pytest.raises(KnowledgeError, match="unknown column 'grade'"):
        read_rules(path, SCHEMA, kind="predict")


def test_priorities_must_be_numbers_and_there_when_asked_for(tmp_path):
    rows = [["ash", "then", "priority"], ["> 1", "II", "high"]]
    with pytest.raises(KnowledgeError, match="row 2, column 'priority'"):
        read_rules(written(tmp_path, rows), SCHEMA, kind="predict")
    rows = [["ash", "then"], ["> 1", "II"]]
    with pytest.raises(KnowledgeError, match="has no column 'priority'"):
        read_rules(written(tmp_path, rows), SCHEMA, kind="predict", policy="priority")


@pytest.mark.parametrize(
    "text",
    ["ash;coal;then\n> 1;A;I\n", "ash\tcoal\tthen\n> 1\tA\tI\n", "\ufeffash,coal,then\n> 1,A,I"],
)
def test_separators_and_byte_order_marks_of_spreadsheets_are_understood(tmp_path, text):
    path = tmp_path / "rules.csv"
    path.write_text(text, encoding="utf-8")
    assert len(read_rules(path, SCHEMA, kind="predict").rules[0].conditions) == 2


def test_blank_rows_are_skipped_but_counted(tmp_path):
    path = tmp_path / "rules.csv"
    path.write_text('ash,then,note\n\n,,\n> 1,I,"two\nlines"\n> 2,X,\n', encoding="utf-8")
    with pytest.raises(KnowledgeError, match="rules.csv, row 5, column 'then'"):
        read_rules(path, SCHEMA, kind="predict")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no rules"),
        (b"ash,then\n", "no rules"),
        (b"ash,then\n> 1\n", "row 2: the row has 1 cells, the header 2"),
        (b"ash,then\n> 1,I,x\n", "row 2: the row has 3 cells"),
        (b"ash,then,\n> 1,I,x\n", "without a name"),
        (b"ash,then\n\xff\xfe,I\n", "not UTF-8"),
        (b'ash,then\n"> 1,I\n', "not readable as CSV"),
        (b"ash,then\n" + b"x" * 10**6 + b",I\n", "row 2: not readable as CSV: field larger"),
        (b"ash,then\n" + b"x" * 10**5 + b",I\n", "row 2, column 'ash': a cell may have 1000"),
        (b"ash,then,note\n> 1,I," + b"x" * 10**5, "column 'note': a cell may have 1000"),
    ],
)
def test_a_broken_csv_is_refused(tmp_path, content, message):
    path = tmp_path / "rules.csv"
    path.write_bytes(content)
    with pytest.raises(KnowledgeError, match=message):
        read_rules(path, SCHEMA, kind="predict")


def test_what_is_no_table_file_is_refused(tmp_path):
    for name, message in (("a.ods", "a .csv or .xlsx"), ("none.csv", "cannot be opened")):
        with pytest.raises(KnowledgeError, match=message):
            read_rules(tmp_path / name, SCHEMA, kind="predict")


def book(tmp_path, change):
    """A small workbook, changed."""
    made = openpyxl.Workbook()
    page = made.active
    for row in (["ash", "coal", "then"], [5, "A", "I"], ["> 12", "B", "II"], ["> 20", "B", "III"]):
        page.append(row)
    change(page)
    made.save(tmp_path / "rules.xlsx")
    return tmp_path / "rules.xlsx"


def set_cell(where, value, style=None):
    def change(page):
        page[where] = value
        if style:
            page[where].number_format = style

    return change


def test_numbers_in_a_workbook_are_conditions(tmp_path):
    table = read_rules(book(tmp_path, set_cell("A2", 5.25)), SCHEMA, kind="predict")
    assert table(torch.tensor([[5.25, 0, 0], [5.0, 0, 0]]))[:, 0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_cell("A3", "=1+2"), "row 3, column 'ash': .*formula without a stored result"),
        (set_cell("A3", "=cmd|'/c calc'!A1"), "row 3, column 'ash': .*formula"),
        (set_cell("A3", 0.12, "0%"), "row 3, column 'ash': .*percentage"),
        (set_cell("A3", date(2024, 8, 12)), "row 3, column 'ash': .*date"),
        (set_cell("A3", "#N/A"), "row 3, column 'ash': .*#N/A"),
        (set_cell("A3", True), "row 3, column 'ash': .*TRUE"),
        (set_cell("A3", "x" * 30_000), "row 3, column 'ash': a cell may have 1000"),
        (lambda page: page.merge_cells("B3:B4"), "row 4, column 'coal': .*merged"),
        (set_cell("XFD1048576", 1), "too many; a stray cell"),
    ],
)
def test_a_workbook_cell_that_may_mislead_is_refused(tmp_path, change, message):
    with pytest.raises(KnowledgeError, match=message):
        read_rules(book(tmp_path, change), SCHEMA, kind="predict")


def test_a_percent_sign_that_is_only_shown_is_fine(tmp_path):
    path = book(tmp_path, set_cell("A2", 12, '0"%"'))
    assert read_rules(path, SCHEMA, kind="predict")(torch.tensor([[12.0, 0, 0]]))[0, 0] == 1


def test_a_formula_counts_by_its_stored_result(tmp_path):
    path = book(tmp_path, set_cell("A2", "=3"))
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    stored = parts[sheet].replace(b"<f>3</f><v />", b"<f>3</f><v>3</v>")
    stored = stored.replace(b"<f>3</f><v></v>", b"<f>3</f><v>3</v>")
    assert stored != parts[sheet]
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in (parts | {sheet: stored}).items():
            packed.writestr(name, content)
    assert read_rules(path, SCHEMA, kind="predict")(torch.tensor([[3.0, 0, 0]]))[0, 0] == 1


def test_a_sheet_is_found_by_name(tmp_path):
    path = book(tmp_path, lambda page: page.parent.create_sheet("grades").append(["ash", "then"]))
    with pytest.raises(KnowledgeError, match="sheet 'grades': the table has no rules"):
        read_rules(path, SCHEMA, kind="predict", sheet="grades")
    with pytest.raises(KnowledgeError, match="no sheet 'x'; it has: Sheet, grades"):
        read_rules(path, SCHEMA, kind="predict", sheet="x")


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path):
    path = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("xl/workbook.xml", b" " * (40 * 2**20))
    with pytest.raises(KnowledgeError, match="larger than 32 MiB"):
        read_rules(path, SCHEMA, kind="predict")


def attempt(path):
    """Read a file; only a KnowledgeError may come out of it."""
    for kind in ("predict", "range"):
        try:
            read_rules(path, SCHEMA, kind=kind)
        except KnowledgeError:
            pass


NO_RESET = [HealthCheck.function_scoped_fixture]  # each example writes its own file


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@example(b"ash\r,then\n> 1,A\n")
@settings(suppress_health_check=NO_RESET)
def test_no_csv_crashes_the_reader(tmp_path, content):
    path = tmp_path / "fuzz.csv"
    path.write_bytes(content)
    attempt(path)
    path.write_bytes(b"ash,coal,then\n" + content)
    attempt(path)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=8), st.booleans())
@settings(suppress_health_check=NO_RESET, max_examples=60)
def test_no_damaged_workbook_crashes_the_reader(tmp_path, damage, packed):
    path = tmp_path / "fuzz.xlsx"
    made = openpyxl.Workbook()
    made.active.append(["ash", "coal", "then"])
    made.active.append([5, "A", "I"])
    made.save(path)
    if packed:  # damage the sheet itself, not the container
        with zipfile.ZipFile(path) as source:
            parts = {name: source.read(name) for name in source.namelist()}
        name = "xl/worksheets/sheet1.xml"
        parts[name] = damaged(parts[name], damage)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as target:
            for part, content in parts.items():
                target.writestr(part, content)
        path.write_bytes(out.getvalue())
    else:
        path.write_bytes(damaged(path.read_bytes(), damage))
    attempt(path)


def damaged(content, damage):
    changed = bytearray(content)
    for position, value in damage:
        changed[position % len(changed)] = value
    return bytes(changed)
