"""A column of dates is three numbers behind the door, whichever door a row comes through."""

import csv
import json
from datetime import date, datetime, timedelta

import numpy as np
import pytest
import torch

from fedlore import FedloreError
from fedlore.bundle.serve.rows import Reader, row_schema
from fedlore.data import as_examples, read_table
from fedlore.data.draft import draft_knowledge, read_cells
from fedlore.data.rows.table import number_rows
from fedlore.knowledge import Knowledge
from fedlore.studio.verdict import read_row

from ..cli.spoken import refused, typed

DAYS = [date(2024, 1, 30) + timedelta(days=3 * i) for i in range(40)]
PARTS = ("came_day", "came_month", "came_weekday")


def numbers(day):
    return [float((day - date(1970, 1, 1)).days), float(day.month), float(day.isoweekday())]


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.csv"
    lines = [f"{day},{i / 4},{'late' if day.month > 2 else 'early'}" for i, day in enumerate(DAYS)]
    path.write_text("\n".join(["came,ash,grade", *lines]) + "\n")
    return path


@pytest.fixture
def known(rows):
    path = rows.with_name("knowledge.toml")
    path.write_text(draft_knowledge(read_cells(rows), "grade", name="rows.csv").text)
    return Knowledge.read(path)


def test_a_drafted_date_is_its_day_month_and_weekday(known, rows):
    features = known.schema.features
    assert [(f.name, f.column, f.date) for f in features[:3]] == [
        (name, "came", name.removeprefix("came_")) for name in PARTS]  # fmt: skip
    assert [(f.low, f.high) for f in features[1:3]] == [(1, 12), (1, 7)]
    x = read_table(rows, known.schema, label="grade").x
    assert x[:, :3].tolist() == [numbers(day) for day in DAYS]
    assert x[0].tolist() == [19752.0, 1.0, 2.0, 0.0]  # a Tuesday


def test_every_kind_of_row_gives_the_same_numbers(known, rows):
    schema, want = known.schema, torch.tensor([[*numbers(DAYS[5]), 1.25]])
    by_parts = dict(zip(PARTS, numbers(DAYS[5]), strict=True)) | {"ash": 1.25}
    for came in (str(DAYS[5]), f"{DAYS[5]}T08:15", DAYS[5], datetime(2024, 2, 14, 8)):
        assert torch.equal(as_examples([{"came": came, "ash": 1.25}], schema).x, want)
    for data in (
        {"came": np.array([DAYS[5]], dtype="datetime64[ns]"), "ash": [1.25]},
        {name: [value] for name, value in by_parts.items()},
        want.numpy(),
    ):
        assert torch.equal(as_examples(data, schema).x, want)
        assert np.array_equal(number_rows(data, schema), want.numpy())
    reader = Reader(schema, 10)
    for row in ({"came": str(DAYS[5]), "ash": 1.25}, by_parts):
        assert torch.equal(reader.read(json.dumps(row).encode()).float(), want)
    for row in ({"came": f" {DAYS[5]}", "ash": "1,25"}, {k: str(v) for k, v in by_parts.items()}):
        assert torch.equal(read_row(row, schema), want)  # as a person types it in the studio
    form = row_schema(schema)
    assert form["properties"]["came"]["format"] == "date" and form["required"] == ["ash"]
    assert form["allOf"] == [{"oneOf": [{"required": list(PARTS)}, {"required": ["came"]}]}]


def test_a_workbook_has_dates_of_its_own(tmp_path, known):
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.append(["came", "ash", "grade"])
    for i, day in enumerate(DAYS):
        book.active.append([day, i / 4, "early"])
    book.save(tmp_path / "rows.xlsx")
    assert read_table(tmp_path / "rows.xlsx", known.schema).x[:, :3].tolist() == [
        numbers(day) for day in DAYS]  # fmt: skip
    assert read_cells(tmp_path / "rows.xlsx").columns[0][0] == "2024-01-30"


@pytest.mark.parametrize("bad", ["2024-13-05", "05.03.2024", "20240305", "soon"])
def test_a_bad_date_is_one_sentence_with_row_and_remedy(rows, known, bad):
    rows.write_text(rows.read_text().replace("2024-02-05", bad))
    with pytest.raises(FedloreError) as caught:
        read_table(rows, known.schema)
    text = f"'{rows}': row 4, column 'came': '{bad}' is not a date: write it as 2024-03-05"
    assert str(caught.value) == text
    with pytest.raises(FedloreError, match="row 1, column 'came': must be a date such as 2024-03"):
        Reader(known.schema, 10).read(json.dumps({"came": bad, "ash": 1.0}).encode())


def test_a_request_without_its_date_is_told_the_column_that_a_person_knows(known):
    for record, said in (
        ({"ash": 1.0}, "row 1: the column 'came' is missing"),
        ({"came": 2024, "ash": 1.0}, "got a number"),
        ({"came": None, "ash": 1.0}, "got null"),
    ):
        with pytest.raises(FedloreError, match=said):
            Reader(known.schema, 10).read(json.dumps(record).encode())


def test_dates_that_are_no_iso_dates_and_dates_of_one_month(tmp_path):
    lines = [f"{d}.03.2024,2024-03-{d:02},{i % 2}" for i, d in enumerate(range(1, 31))]
    (tmp_path / "r.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    draft = draft_knowledge(read_cells(tmp_path / "r.csv"), "y", name="r.csv")
    assert draft.left_out == {"a": "it holds dates in another form: write them as 2024-03-05"}
    assert 'date = "month"' not in draft.text and draft.features == 2


def test_from_draft_to_a_served_answer(rows, known, tmp_path):
    """lint, run, export, predict, ONNX: a rule on the month decides."""
    home = tmp_path / "made"
    typed("new", home, "--like", rows, "--label", "grade", "--sites", 2)
    for site in (home / "sites").iterdir():
        with open(site / "knowledge.toml", "a") as file:
            file.write('[[range.sources]]\ntable = "range.csv"\n')
        (site / "range.csv").write_text("came_month,then\n> 2,late\n<= 2,early\n")
        assert "0 errors, 0 warnings" in typed("lint", site / "knowledge.toml", "--data", rows)
    (home / "federation.toml").write_text(
        'rounds = 1\n[run]\nsites = "sites"\napproaches = ["FLwKM"]\n[model]\nhidden = [4]\n'
    )
    typed("run", home / "federation.toml", "--out", home / "out")
    typed("export", home / "out", "--client", "site-1", "--out", home / "a.lore")
    typed("export", home / "a.lore", "--onnx", home / "a.onnx")
    typed("predict", home / "a.lore", rows, "--out", home / "answers.csv", "--why")
    answers = list(csv.DictReader((home / "answers.csv").read_text().splitlines()))
    assert [a["grade"] for a in answers] == ["late" if d.month > 2 else "early" for d in DAYS]
    assert "came_month" in answers[0]["why"]
    rows.write_text(rows.read_text().replace("2024-02-05", "2024-02-31"))
    assert "row 4: column 'came': '2024-02-31' is not a date" in refused(
        "predict", home / "a.lore", rows
    )
    session = pytest.importorskip("onnxruntime").InferenceSession(home / "a.onnx")
    graph = session.get_inputs()
    assert graph[0].shape[-1] == 4 or len(graph) == 4  # numbers alone
