"""A user's own tables: found by name, refused with the place of what is wrong."""

import gzip
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedlore.config import read_toml
from fedlore.data import FileForm, as_examples, by_value, read_column, read_table
from fedlore.data.rows import files, open_file, read_chunks, read_unhurried
from fedlore.data.rows.table import Stumbled
from fedlore.errors import ConfigError, FedloreError
from fedlore.kernel.schema import Feature, Schema, name_columns
from fedlore.knowledge import Knowledge

SCHEMA = Schema(
    (Feature("ash"), Feature("volatile"), Feature("oven", levels=("old", "new"))), ("poor", "good")
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
        ("24,old", "24,", "row 3, column 'oven' is missing"),
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


def test_a_column_of_parquet_and_a_file_that_is_none(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "coals.parquet"
    parquet.write_table(pyarrow.table({"plant": ["A", "B", "A"]}), path)
    assert read_column(path, "plant") == ["A", "B", "A"]
    path.write_bytes(b"no table")
    with pytest.raises(FedloreError, match="cannot read"):
        read_table(path, SCHEMA)


EUROPEAN = "Ofen;ash [%];volatile (%);oven;grade\nA;9,5;28,5;new;good\nB;11;24,0;old;poor\n"


def test_a_row_group_is_not_held_in_memory_beside_the_rows(tmp_path, monkeypatch):
    """One row group of 100,000 rows, as most programs write: at most 3 times the float32 array."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(files, "ROWS_AT_ONCE", 4096)
    n, names = 100_000, [f"f{i}" for i in range(16)]
    drawn = np.random.default_rng(0)
    table = pyarrow.table({name: drawn.normal(size=n) for name in names})
    parquet.write_table(table, tmp_path / "rows.parquet", use_dictionary=False)
    del table
    before, held = pyarrow.total_allocated_bytes(), []
    tracemalloc.start()
    try:
        chunks = read_chunks(
            open_file(tmp_path / "rows.parquet"),
            name_columns(names, ("a", "b")),
            on_progress=lambda share: held.append(pyarrow.total_allocated_bytes() - before),
        )
        assert sum(len(chunk.x) for chunk in list(chunks)) == n
        peak = max(held) + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(held) > 20 and peak < 3 * n * len(names) * 4


def test_units_in_titles_are_read_in_training_and_checked(tmp_path):
    schema = replace(SCHEMA, features=(Feature("ash", "%"), *SCHEMA.features[1:]))
    path = written(tmp_path, GOOD.replace("ash,note", "ash [%],note"))
    assert read_table(path, schema).x[0, 0] == 9.5
    assert read_table(path, SCHEMA).x[0, 0] == 9.5  # no unit was declared, so none is wrong
    path = written(tmp_path, GOOD.replace("ash,note", "ash (g/kg),note"))
    with pytest.raises(FedloreError, match=r"'ash' is in \[g/kg\], the model takes it in \[%\]"):
        read_table(path, schema)


def test_semicolons_and_decimal_commas_are_found_out_and_said(tmp_path):
    path = written(tmp_path, EUROPEAN)
    found = read_table(path, SCHEMA, label="grade")
    assert found.x.tolist() == [[9.5, 28.5, 1.0], [11.0, 24.0, 0.0]]
    assert open_file(path).said == "cells end at a semicolon, decimals follow a comma"
    with pytest.raises(FedloreError, match=r"'9,5' is not a number \(the decimal mark is taken"):
        read_table(path, SCHEMA, form=FileForm(decimal="."))
    with pytest.raises(FedloreError, match="the column 'ash' is missing"):
        read_table(path, SCHEMA, form=FileForm(separator=","))


def test_latin_1_is_read_and_said(tmp_path):
    path = tmp_path / "coals.csv"
    path.write_bytes(GOOD.replace("fine, dry", "für Öfen").encode("latin-1"))
    assert len(read_table(path, SCHEMA)) == 3
    assert open_file(path).said == "the text is LATIN-1, for it is not UTF-8"


def test_a_feature_may_be_read_from_a_column_with_any_title(tmp_path):
    schema = Schema((Feature("radius", column="mean radius"), Feature("b")), ("x", "y"))
    path = written(tmp_path, "b,mean radius [mm]\n1,2\n")
    assert read_table(path, schema).x.tolist() == [[2.0, 1.0]]
    assert read_table(written(tmp_path, "b,radius\n1,2\n"), schema).x.tolist() == [[2.0, 1.0]]
    with pytest.raises(FedloreError, match="the column 'mean radius' is missing; did you mean"):
        read_table(written(tmp_path, "b,mean_radius\n1,2\n"), schema)


def test_the_title_of_a_column_stands_in_the_knowledge_file(tmp_path):
    schema = Schema((Feature("radius", "mm", column="mean radius"), Feature("b")), ("x", "y"))
    Knowledge(schema=schema).write(tmp_path / "knowledge.toml")
    assert 'column = "mean radius"' in (tmp_path / "knowledge.toml").read_text()
    assert Knowledge.read(tmp_path / "knowledge.toml").schema == schema


def test_all_faults_are_told_together_and_the_rest_is_counted(tmp_path):
    lines = [f"{'x' if i % 2 else ''},{i},old,poor" for i in range(30)]
    path = written(tmp_path, "\n".join(["ash,volatile,oven,grade", *lines, "1,2", ""]))
    with pytest.raises(FedloreError) as caught:
        read_table(path, SCHEMA, label="grade")
    first, *shown, last = str(caught.value).splitlines()
    assert first.endswith("coals.csv' has 31 problems:") and last == "  and 11 more"
    assert shown[0] == "  row 2, column 'ash' is missing: fill it or leave the row out" + (
        ' (or say of the feature: missing = "mean")'
    )
    assert shown[1] == "  row 3, column 'ash': 'x' is not a number"
    assert len(shown) == 20


def test_rows_are_numbered_as_an_editor_does_blank_ones_included(tmp_path):
    path = written(tmp_path, "ash,volatile,oven\n1,2,old\n\n,,\n1,x,old\n")
    with pytest.raises(FedloreError, match="row 5, column 'volatile'"):
        read_table(path, SCHEMA)
    assert len(read_table(written(tmp_path, "ash,volatile,oven\n1,2,old\n\n,,\n"), SCHEMA)) == 1


def test_a_workbook_is_read_and_names_its_sheet(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["ash [%]", "volatile", "oven"], [9.5, 28, "new"], [0.11, None, "old"]):
        book.active.append(row)
    book.active["A3"].number_format = "0%"
    book.save(tmp_path / "coals.xlsx")
    with pytest.raises(FedloreError) as caught:
        read_table(tmp_path / "coals.xlsx", SCHEMA)
    assert "coals.xlsx', sheet 'Sheet' has 2 problems" in str(caught.value)
    assert "row 3, column 'ash': it is formatted as a percentage" in str(caught.value)
    assert "row 3, column 'volatile' is missing" in str(caught.value)
    with pytest.raises(FedloreError, match="there is no sheet 'lab'; it has: Sheet"):
        read_table(tmp_path / "coals.xlsx", SCHEMA, form=FileForm(sheet="lab"))


def test_a_byte_order_mark_in_a_toml_is_passed_over(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbfrounds = 3\n")
    assert read_toml(path) == {"rounds": 3}


def test_rows_in_memory_become_examples():
    found = as_examples(
        {"ash": [1.0, 2.0], "volatile": ["3", "4"], "oven": ["new", "old"]},
        SCHEMA,
        ["good", "poor"],
    )
    assert found.x.tolist() == [[1.0, 3.0, 1.0], [2.0, 4.0, 0.0]] and found.y.tolist() == [1, 0]
    with pytest.raises(FedloreError, match="row 3, column 'label': unknown class 'god'"):
        as_examples(found.x, SCHEMA, ["good", "god"])


@pytest.mark.parametrize("word", ["separator", "decimal"])
def test_forms_that_make_no_sense_are_refused(word):
    with pytest.raises(ConfigError, match=f"{word} must be"):
        FileForm(**{word: "x"})


def test_a_fault_in_a_later_part_has_the_row_of_the_whole_table(monkeypatch):
    monkeypatch.setattr(files, "ROWS_AT_ONCE", 2)
    columns = {"ash": [9.0] * 5 + [float("nan")], "volatile": [24.0] * 6, "oven": ["old"] * 6}
    with pytest.raises(FedloreError, match="row 7, column 'ash' is missing"):
        as_examples(columns, SCHEMA)


def test_where_a_fast_reader_stumbles_the_slow_one_is_asked():
    asked = []

    def read(fast):
        asked.append(fast)
        if fast:
            raise Stumbled("a cell")
        return "slow"

    assert read_unhurried(read) == "slow" and asked == [True, False]
    assert read_unhurried(read, fast=False) == "slow" and asked == [True, False, False]
    assert read_unhurried(lambda fast: fast) is True
