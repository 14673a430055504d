"""A column that a site does not have answers exactly as that column empty in every row."""

import csv
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings

from fedlore.bundle import bundle_of
from fedlore.bundle.files import predict_file
from fedlore.bundle.predict import read_rows_checked
from fedlore.bundle.serve import make_app
from fedlore.data.rows import as_examples
from fedlore.errors import FedloreError

from ..bundle.onnx.worlds import HOLED, thin
from ..bundle.serve.asking import ask_all
from .test_missing import TASKS, ask_certificate, ask_graph, ask_python, named

GONE = ("ash", "mine")  # a number and levels
LENIENT = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "database": None,
    "phases": (Phase.generate,),
}


@pytest.mark.parametrize("task", TASKS)
def test_a_sample_of_the_law(task, tmp_path):
    over(task, 4, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_thousand_cases_of_the_law(task, tmp_path):
    over(task, 50, tmp_path)


def over(task, cases, folder):
    reading, strategy = TASKS[task]
    settings(max_examples=cases, **LENIENT)(
        given(strategy)(lambda world: compare(world, reading, folder))
    )()


def compare(world, reading, folder):
    """What a bundle that has the columns says of blanks, and what one says that has none."""
    x = world.x[:20].clone()
    x[:, [HOLED.column(name) for name in GONE]] = torch.nan
    x = x[~thin(world.personal.knowledge.prediction, x)]
    whole, lacking = bundle_of(world.personal, "site"), bundle_of(without(world.personal), "site")
    assert "- not measured: ash, mine; a row may leave them out" in lacking.card
    wanted = [ask_python(whole, row, reading) for row in x.unsqueeze(1)]
    assert [ask_python(lacking, row, reading) for row in x.unsqueeze(1)] == wanted
    records = [{k: v for k, v in named(row).items() if k not in GONE} for row in x.tolist()]
    frame = {name: [one[name] for one in records] for name in records[0]}
    assert torch.equal(read_rows_checked(frame, lacking).isnan(), x.isnan())
    assert [ask_python(lacking, read_rows_checked([one], lacking), reading) for one in records] == (
        wanted
    )
    ways = {
        "file": ask_file(lacking, records, reading, folder),
        "http": ask_http(lacking, records, reading),
        "graph": ask_graph(lacking, x, reading),
        "certificate": ask_certificate(lacking, x, reading),
    }
    for way, said in ways.items():
        for one, other in zip(wanted, said, strict=True):
            assert (one is None) == (other is None), way
            if one is not None:
                assert one[: len(other)] == pytest.approx(other, abs=2e-5, nan_ok=True), way


def without(personal):
    """The same model at a site that does not measure two of its columns."""
    features = (replace(f, have=f.name not in GONE) for f in HOLED.features)
    schema = replace(personal.knowledge.schema, features=tuple(features))
    made = personal.__class__.__new__(personal.__class__)
    made.__dict__.update(personal.__dict__)
    made.knowledge = replace(personal.knowledge, schema=schema)
    return made


def ask_file(made, records, reading, folder):
    source, out = folder / "rows.csv", folder / "answers.csv"
    with open(source, "w") as lines:
        writer = csv.DictWriter(lines, ["sulfur", "heat"])
        writer.writeheader()
        writer.writerows(records)
    predict_file(made, source, out, on_error="mark")
    with open(out) as lines:
        rows = list(csv.DictReader(lines))
    return [None if row.get("error") else reading.file(row) for row in rows]


def ask_http(made, records, reading):
    asked = [("POST", "/predict", {"json": one}) for one in records]
    return [
        None if answer.status_code in (409, 422) else reading.http(answer.json()["answers"][0])
        for answer in ask_all(make_app(made), asked)
    ]


def test_a_value_that_comes_all_the_same_is_used():
    """As where a feature begins later: by row, whatever was there before."""
    features = (replace(HOLED.features[0], have=False), *HOLED.features[1:])
    schema = replace(HOLED, features=features)
    rows = {"heat": [1.0, 1.0], "mine": ["north"] * 2, "sulfur": [2.0] * 2, "ash": [None, 7.0]}
    assert as_examples(rows, schema).x[:, 0].nan_to_num(-1.0).tolist() == [-1.0, 7.0]


def test_a_column_that_the_site_has_must_be_there():
    """Only what the file says it does not have may be left out, so a misspelt title is found."""
    features = (replace(HOLED.features[0], have=False), *HOLED.features[1:])
    schema = replace(HOLED, features=features)
    with pytest.raises(FedloreError, match="'sulfur' is missing.*say have = false of its feature"):
        as_examples({"heat": [1.0], "mine": ["north"]}, schema)
    rows = as_examples({"heat": [1.0], "mine": ["north"], "sulfur": [2.0]}, schema)
    assert rows.x[0].isnan().tolist() == [True, False, False, False]
