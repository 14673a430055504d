"""One law of rows: the same table in every format is the same tensors, or the same errors."""

import csv
import gzip
import io
import json
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlore.data.rows import FileForm, as_examples, files, read_table
from fedlore.errors import FedloreError
from fedlore.kernel.schema import Feature, Schema

SCHEMA = Schema(
    (
        Feature("ash", "%"),
        Feature("volatile", column="volatile matter"),
        Feature("oven", levels=("alt", "für Koks", "NA")),
    ),
    ("poor", "good"),
    "grade",
)
TITLES = ("sample", "grade", "volatile matter", "oven", "ash [%]")
NUMBERS = (2, 4)


def mixed(cell):
    """A cell as a value of JSON or a frame: numbers as numbers, a blank as none."""
    if re.fullmatch(r"-?\d+(\.\d+)?(e\d+)?", cell):
        return float(cell)
    return cell or None


def values(table):
    return [[mixed(c) if i in NUMBERS else c for i, c in enumerate(row)] for row in table]


def lines(table, separator=",", decimal="."):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator)
    writer.writerow(TITLES)
    for row in table:
        cells = list(row)
        for i in NUMBERS:
            cells[i] = cells[i].replace(".", decimal) if mixed(cells[i]) != cells[i] else cells[i]
        writer.writerow(cells)
    return out.getvalue()


class Pandas:
    """As much of a frame as the reader asks for."""

    def __init__(self, columns):
        self.frame = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        return np.array(self.frame[name], dtype=object)


def columns(table):
    return {t: [row[i] for row in values(table)] for i, t in enumerate(TITLES)}


def as_text(name, encoding="utf-8", separator=",", decimal=".", pack=bytes):
    def write(table, folder):
        path = folder / name
        path.write_bytes(pack(lines(table, separator, decimal).encode(encoding)))
        return path

    return write


def as_xlsx(table, folder):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "notes"
    page = book.create_sheet("lab")
    for row in [list(TITLES), *values(table)]:
        page.append(row)
    book.save(folder / "rows.xlsx")
    return folder / "rows.xlsx"


def as_parquet(table, folder):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    found = columns(table)
    for name, cells in found.items():
        if any(isinstance(cell, str) for cell in cells):
            found[name] = [None if c is None else str(c) for c in cells]
    parquet.write_table(pyarrow.table(found), folder / "rows.parquet")
    return folder / "rows.parquet"


def as_json(table, folder):
    records = [dict(zip(TITLES, row, strict=True)) for row in values(table)]
    (folder / "rows.json").write_text(json.dumps(records), encoding="utf-8")
    return folder / "rows.json"


def as_json_lines(table, folder):
    records = [dict(zip(TITLES, row, strict=True)) for row in values(table)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return folder / "rows.jsonl"


def as_json_columns(table, folder):
    (folder / "columns.json").write_text(json.dumps(columns(table)), encoding="utf-8")
    return folder / "columns.json"


def as_arrow(table, folder):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    return pyarrow.table(parquet.read_table(as_parquet(table, folder)))


def as_array(table, folder):
    rows = [[row[4], row[2], row[3], row[1]] for row in values(table)]
    return np.array(rows, dtype=object).reshape(len(rows), 4)


FORMATS = {
    "csv": as_text("rows.csv"),
    "csv, slowly": as_text("rows.csv"),
    "mark": as_text("rows.csv", "utf-8-sig"),
    "utf-16": as_text("rows.csv", "utf-16", ";", ","),
    "latin-1": as_text("rows.csv", "latin-1"),
    "packed": as_text("rows.csv.gz", pack=gzip.compress),
    "tsv": as_text("rows.tsv", separator="\t"),
    "european": as_text("rows.csv", separator=";", decimal=","),
    "tab and comma": as_text("rows.txt", separator="\t", decimal=","),
    "bars": as_text("rows.csv", separator="|"),
    "xlsx": as_xlsx,
    "parquet": as_parquet,
    "json": as_json,
    "json lines": as_json_lines,
    "json columns": as_json_columns,
    "columns": lambda table, folder: columns(table),
    "records": lambda table, folder: [dict(zip(TITLES, r, strict=True)) for r in values(table)],
    "pandas": lambda table, folder: Pandas(columns(table)),
    "arrow": as_arrow,
}
RECORDS = ("json", "json lines", "records")  # without a header: the first is row 1
number = st.integers(-99_999, 99_999).map(lambda i: f"{i / 100:.2f}")
good = st.tuples(
    st.sampled_from(["k-1", "k, 2", "k;3"]),
    st.sampled_from(SCHEMA.classes),
    number,
    st.sampled_from(SCHEMA.features[2].levels),
    number,
)
WRONG = {
    1: ("", "god"),
    2: ("", "ca. 24", "1_000", "inf", "1e300"),
    3: ("", "new"),
    4: ("", "NA", "nan", "x"),
}


def read(name, table, folder):
    form = FileForm(sheet="lab") if name == "xlsx" else None
    return as_examples(FORMATS[name](table, folder), SCHEMA, "grade", form=form)


def complaints(name, table):
    """Every fault by row, a header being row 1, without the name of the file."""
    with tempfile.TemporaryDirectory() as folder:
        with pytest.raises(FedloreError) as caught:
            read(name, table, Path(folder))
    found = re.findall(r"row (\d+), (column .*)", str(caught.value))
    shift = 1 if name in RECORDS else 0
    return sorted((int(row) + shift, text) for row, text in found)


@pytest.fixture(autouse=True, scope="module")
def small_files_too():
    """These files are small, and pyarrow reads large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "CELL_BY_CELL", 0)
        yield


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=8, deadline=None)
@given(table=st.lists(good, min_size=1, max_size=6))
def test_the_same_table_is_the_same_tensors(name, table):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "ROWS_AT_ONCE", 2)
        if name == "csv, slowly":
            patch.setattr(files, "arrow", lambda part: None)
        found = read(name, table, Path(folder))
    levels = SCHEMA.features[2].levels
    wanted = [[float(r[4]), float(r[2]), float(levels.index(r[3]))] for r in table]
    assert torch.equal(found.x, torch.tensor(wanted))
    assert found.y.tolist() == [SCHEMA.classes.index(r[1]) for r in table]


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=8, deadline=None)
@given(
    table=st.lists(good, min_size=2, max_size=5),
    faults=st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(list(WRONG)), st.integers(0, 9)), min_size=1
    ),
)
def test_the_same_faults_are_the_same_errors(name, table, faults):
    cells = [list(row) for row in table]
    for row, column, which in faults:
        options = WRONG[column]
        cells[row][column] = options[which % len(options)]
    wanted = complaints("csv, slowly", cells)
    assert {(row - 2, text.split("'")[1]) for row, text in wanted} == {
        (row, {1: "grade", 2: "volatile", 3: "oven", 4: "ash"}[column]) for row, column, _ in faults
    }
    assert complaints(name, cells) == wanted


def test_an_array_without_names_has_the_columns_of_the_schema(tmp_path):
    table = [("k", "good", "28.5", "alt", "9.5"), ("k", "poor", "24", "für Koks", "11")]
    wanted = read_table(FORMATS["csv"](table, tmp_path), SCHEMA, label="grade")
    found = as_array(table, tmp_path)
    named = as_examples(found[:, :3], SCHEMA, found[:, 3].tolist())
    coded = as_examples(wanted.x.numpy(), SCHEMA, ["good", "poor"])  # levels as positions
    for rows in (named, coded):
        assert torch.equal(rows.x, wanted.x) and torch.equal(rows.y, wanted.y)
    with pytest.raises(FedloreError, match="row 2, column 'oven': unknown level '7'"):
        as_examples(np.array([[1.0, 2.0, 7.0]]), SCHEMA)
    with pytest.raises(FedloreError, match="1 labels for 2 rows"):
        as_examples(wanted.x, SCHEMA, ["good"])
