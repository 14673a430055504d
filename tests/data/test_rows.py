"""A user's own tables: found by name, refused with the place of what is wrong."""

import gzip

import pytest
import torch

from fedlore.data import by_value, read_column, read_table
from fedlore.errors import FedloreError
from fedlore.knowledge.schema import Feature, Schema

SCHEMA = Schema(
    (Feature("ash"), Feature("volatile"), Feature("oven", levels=("old", "new"))),
    ("poor", "good"),
)
GOOD = """plant,volatile,oven,grade,ash,note
A,28.5,new,good,9.5,"fine, dry"
B,24,old,poor,11,
A, 1e1 ,new,poor,8,x
"""


def written(tmp_path, text, name="coals.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_are_found_by_name_in_the_order_of_the_schema(tmp_path):
    data = read_table(written(tmp_path, GOOD), SCHEMA, label="grade")
    wanted = [[9.5, 28.5, 1.0], [11.0, 24.0, 0.0], [8.0, 10.0, 1.0]]
    assert torch.equal(data.x, torch.tensor(wanted))
    assert data.y is not None and data.y.tolist() == [1, 0, 0]


def test_rows_without_labels_and_packed_files_are_read(tmp_path):
    path = tmp_path / "coals.csv.gz"
    path.write_bytes(gzip.compress(("\ufeff" + GOOD).encode()))
    assert read_table(path, SCHEMA).y is None
    assert {k: v.tolist() for k, v in by_value(read_column(path, "plant")).items()} == {
        "A": [0, 2],
        "B": [1],
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("24,old", ",old", "row 3, column 'volatile' is missing"),
        ("24,old", "nan,old", "row 3, column 'volatile' is missing"),
        ("24,old", "inf,old", "row 3, column 'volatile': inf is not a finite number"),
        ("24,old", "ca. 24,old", "row 3, column 'volatile': 'ca. 24' is not a number"),
        ("B,24", "24", "row 3 has 5 cells, the header has 6"),
        ("old", "ald", "row 3, column 'oven': unknown level 'ald'; did you mean 'old'?"),
        ("good,9.5", ",9.5", "row 2, column 'grade' is missing"),
        ("good,9.5", "god,9.5", "row 2, column 'grade': unknown class 'god'"),
        ("ash,note", "Ash,note", "the column 'ash' is missing; did you mean 'Ash'?"),
        ("ash,note", "ash,ash", "the column 'ash' is there twice"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path, old, new, message):
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(FedloreError) as caught:
        read_table(path, SCHEMA, label="grade")
    assert message in str(caught.value) and "coals.csv" in str(caught.value)


@pytest.mark.parametrize("text", ["", GOOD.splitlines()[0] + "\n"])
def test_empty_files_are_refused(tmp_path, text):
    with pytest.raises(FedloreError, match="coals.csv"):
        read_table(written(tmp_path, text), SCHEMA, label="grade")


def test_a_file_that_is_not_there_is_one_error(tmp_path):
    with pytest.raises(FedloreError, match="cannot read '.*none.csv'"):
        read_table(tmp_path / "none.csv", SCHEMA)


def test_parquet_says_what_it_needs(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(FedloreError, match=r"pip install 'fedlore\[parquet\]'"):
        read_table(tmp_path / "x.parquet", SCHEMA)


def test_parquet_reads_as_csv_does(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "volatile": [28.5, 24.0, 10.0],
        "oven": ["new", "old", "new"],
        "grade": ["good", "poor", "poor"],
        "ash": [9.5, 11.0, 8.0],
        "plant": ["A", "B", "A"],
    }
    path = tmp_path / "coals.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    found = read_table(path, SCHEMA, label="grade")
    wanted = read_table(written(tmp_path, GOOD), SCHEMA, label="grade")
    assert torch.equal(found.x, wanted.x) and torch.equal(found.y, wanted.y)
    assert read_column(path, "plant") == ["A", "B", "A"]
    parquet.write_table(pyarrow.table({**columns, "ash": [9.5, None, 8.0]}), path)
    with pytest.raises(FedloreError, match="row 3, column 'ash' is missing"):
        read_table(path, SCHEMA)
    parquet.write_table(pyarrow.table({**columns, "ash": ["a", "b", "c"]}), path)
    with pytest.raises(FedloreError, match="row 2, column 'ash': 'a' is not a number"):
        read_table(path, SCHEMA)
    path.write_bytes(b"no table")
    with pytest.raises(FedloreError, match="cannot read"):
        read_table(path, SCHEMA)
