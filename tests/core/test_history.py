"""Rows are written whole or not at all."""

import pytest

from fedlore import FedloreError
from fedlore.core.history import read_rows, write_rows


def test_rows_come_back_as_they_went(tmp_path):
    rows = [{"a": 1, "b": "x", "c": 0.5, "d": None}, {"a": 2}]
    write_rows(rows, tmp_path / "new" / "rows.jsonl")
    assert read_rows(tmp_path / "new" / "rows.jsonl") == rows


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_rows([{"a": 1}], path)

    def broken():
        yield {"a": 2}
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_rows(broken(), path)
    with pytest.raises(ValueError):
        write_rows([{"a": float("nan")}], path)
    assert read_rows(path) == [{"a": 1}]
    assert [p.name for p in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FedloreError, match="cannot write to .*file"):
        write_rows([], tmp_path / "file" / "rows.jsonl")
