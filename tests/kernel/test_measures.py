"""Another measure of the same thing: limits and rules are wider by its error, exactly once."""

import csv
import re

import numpy as np
import onnxruntime as ort
import pytest
import torch
from typer.testing import CliRunner

from fedlore.bundle import bundle_of, read_bundle, write_bundle
from fedlore.bundle.files import predict_file
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.predict import answer_rows, read_rows_checked
from fedlore.bundle.serve import make_app
from fedlore.checker.bundles import knowledge_texts
from fedlore.cli.app import app
from fedlore.core.nets import mlp
from fedlore.core.scaler import Scaler
from fedlore.data.rows import as_examples
from fedlore.errors import FedloreError
from fedlore.kernel.answers import said_of
from fedlore.kernel.expressions import parse
from fedlore.kernel.knowledge import read_knowledge
from fedlore.kernel.measures import find_slope, widen_limit
from fedlore.kernel.schema import Feature
from fedlore.knowledge import Knowledge
from fedlore.knowledge.files import describe
from fedlore.knowledge.sources.catalog import plain as plain_values
from fedlore.models.classifier import Personal

from ..bundle.serve.asking import predict

FEATURES = """
[[features]]
name = "ash"
low = 0
high = 20
[[features]]
name = "logMF"
unit = "log10 ddpm"
low = 0
high = 5
"""
MEASURE = """
[[features]]
name = "ddpm_b"
unit = "ddpm"
equals = "logMF"
by = "0.93*log10(ddpm_b) + 0.2"
within = 0.15
"""
RANGE = """
[[range.sources]]
lower = "10*logMF - ash"
upper = "10*logMF - ash + 8"
edges = [5.0, 15.0]
[[range.sources]]
table = "range.csv"
"""
TOML = 'classes = ["A", "B", "C"]\nordered = true\nlabel = "grade"\n'


def known_in(folder, *, measure=MEASURE, ranges=RANGE, table="logMF,then\n>= 3,B..C\n"):
    folder.mkdir(exist_ok=True)
    (folder / "range.csv").write_text(table)
    (folder / "knowledge.toml").write_text(TOML + FEATURES + measure + ranges)
    return folder / "knowledge.toml"


def test_what_is_allowed_is_what_any_value_within_the_error_allows(tmp_path):
    """Held against the plain file on a fine grid of values: nothing missing, little too much."""
    plain = Knowledge.read(known_in(tmp_path / "plain", measure=""))
    wide = Knowledge.read(known_in(tmp_path / "wide"))
    draw = torch.Generator().manual_seed(1)
    x = torch.rand(400, 2, generator=draw) * torch.tensor([20.0, 4.0]) + torch.tensor([0.0, 0.5])
    union = torch.zeros(400, 3, dtype=torch.bool)
    for step in torch.linspace(-0.15, 0.15, 61):
        union |= plain.range(x + torch.stack([torch.zeros(400), step.expand(400)], 1))
    found = wide.range(x)
    assert (found | ~union).all()
    assert float((found & ~union).float().mean()) < 0.02
    assert (found != plain.range(x)).any()


def test_the_error_is_counted_once_in_file_bundle_graph_and_kernel(tmp_path):
    known = Knowledge.read(known_in(tmp_path / "a"))
    assert known.schema.features[1].own.counted
    known.write(tmp_path / "b" / "knowledge.toml")
    again = Knowledge.read(tmp_path / "b" / "knowledge.toml")
    assert again == known and again.fingerprint == known.fingerprint
    x = torch.tensor([[3.0, 2.95], [3.0, 3.1], [3.0, 3.2], [12.0, 1.0]])
    made = bundle_of(Personal(mlp(2, 3, hidden=(4,), seed=1), known, scaler=Scaler.of(x)), "here")
    wanted = known.range(x).tolist()
    assert answer_rows(made, x).allowed.tolist() == wanted
    assert "- another measure: logMF from ddpm_b, 0.93*log10(ddpm_b) + 0.2, within 0.15" in (
        made.card
    )
    kernel = read_knowledge(knowledge_texts(made.members))
    assert said_of(kernel, x.numpy()).allowed.tolist() == wanted
    graph = ort.InferenceSession(bundle_to_onnx(made).SerializeToString())
    names = [one.name for one in graph.get_outputs()]
    said = dict(zip(names, graph.run(None, {"rows": x.double().numpy()}), strict=True))
    assert said["allowed"].astype(bool).tolist() == wanted
    write_bundle(made, tmp_path / "a.lore")
    assert read_bundle(tmp_path / "a.lore").schema.features[1].own.by.startswith("0.93")


def test_one_row_in_every_way_in(tmp_path):
    """By the measure's name or by the feature's: the same number, from file, frame and HTTP."""
    known = Knowledge.read(known_in(tmp_path / "a"))
    ddpm = [100.0, 1000.0, 5000.0]
    come_to = [0.93 * np.log10(value) + 0.2 for value in ddpm]
    made = bundle_of(Personal(mlp(2, 3, hidden=(4,), seed=1), known), "here")
    frame = {"ash": [3.0] * 3, "ddpm_b": ddpm}
    x = read_rows_checked(frame, made)
    assert x[:, 1].tolist() == pytest.approx(come_to, abs=1e-6)
    assert as_examples({"ddpm_b [ddpm]": ddpm, "ash": [3.0] * 3}, made.schema).x.equal(x)
    wanted = answer_rows(made, x).probabilities
    service = make_app(made)
    for row, value in enumerate(ddpm):
        said = predict(service, {"ash": 3.0, "ddpm_b": value}).json()["answers"][0]
        assert list(said["probabilities"].values()) == pytest.approx(wanted[row].tolist(), abs=1e-6)
    with open(tmp_path / "rows.csv", "w") as lines:
        csv.writer(lines).writerows([["ddpm_b", "ash"], *([v, 3] for v in ddpm)])
    found = predict_file(made, tmp_path / "rows.csv", tmp_path / "out.csv", keep=["ddpm_b"])
    assert found.passed_over == ()
    with open(tmp_path / "out.csv") as lines:
        got = [[float(row[f"p_{c}"]) for c in "ABC"] for row in csv.DictReader(lines)]
    assert np.allclose(got, wanted, atol=1e-5)
    kept = [line.split(",")[0] for line in (tmp_path / "out.csv").read_text().splitlines()]
    assert [float(cell.strip('"')) for cell in kept[1:]] == ddpm


BAD_ROWS = {
    "-3": "row 2, column 'logMF': '0.93.log10.ddpm_b. [+] 0.2' has no value of ddpm_b = -3",
    "many": "row 2, column 'logMF': 'many' is not a number",
    "": "row 2, column 'logMF' is missing",
}


@pytest.mark.parametrize("cell", BAD_ROWS)
def test_what_comes_to_nothing_is_refused_with_its_row(tmp_path, cell):
    known = Knowledge.read(known_in(tmp_path / "a"))
    (tmp_path / "rows.csv").write_text(f"ash,ddpm_b\n3,{cell}\n4,100\n")
    with pytest.raises(FedloreError, match=BAD_ROWS[cell]):
        as_examples(tmp_path / "rows.csv", known.schema)
    with pytest.raises(FedloreError, match=r"'ddpm_b' is in \[%\], knowledge.toml says \[ddpm\]"):
        as_examples({"ash": [3.0], "ddpm_b [%]": [100.0]}, known.schema)


def test_the_service_refuses_both_and_what_has_no_value(tmp_path):
    known = Knowledge.read(known_in(tmp_path / "a"))
    service = make_app(bundle_of(Personal(mlp(2, 3, hidden=(4,), seed=1), known), "here"))
    for row, said in (
        ({"ash": 3.0, "ddpm_b": 100.0, "logMF": 2.0}, "give 'logMF' or 'ddpm_b', which is another"),
        ({"ash": 3.0, "ddpm_b": -1.0}, "column 'ddpm_b': '0.93*log10(ddpm_b) + 0.2' has no value"),
        ({"ash": 3.0}, "the column 'logMF' is missing"),
    ):
        answer = predict(service, row)
        assert answer.status_code == 422 and said in answer.json()["error"]


BAD = {
    "a level": (
        MEASURE.replace("logMF", "seam") + '[[features]]\nname = "seam"\nlevels = ["a", "b"]\n',
        "feature 'ddpm_b': equals = 'seam' has levels, and a formula gives numbers",
    ),
    "a circle": (MEASURE.replace("log10(ddpm_b)", "logMF"), "by = '0.93.logMF .* is a circle"),
    "a chain": (
        MEASURE + '[[features]]\nname = "mm"\nequals = "ddpm_b"\nby = "mm"\n',
        "feature 'mm': equals = 'ddpm_b' names another measure, which is a circle or a chain",
    ),
    "nothing": (MEASURE.replace('"logMF"', '"logMf"'), "did you mean 'logMF'"),
    "twice": (MEASURE + MEASURE.replace("ddpm_b", "mm"), "equalled by 'ddpm_b' already"),
    "no arithmetic": (
        MEASURE.replace("log10(", "system("),
        "feature 'ddpm_b': by = '0.93.system.* unknown function 'system'.* over 'ddpm_b' alone",
    ),
    "another column": (
        MEASURE.replace("log10(ddpm_b)", "ash"),
        "feature 'ddpm_b': by = .* unknown feature 'ash'.* over 'ddpm_b' alone",
    ),
    "a constant": (
        MEASURE.replace("log10(ddpm_b)", "1"),
        "feature 'ddpm_b': by = .* gives the same number for every row: say how 'logMF' follows",
    ),
    "its own name": (MEASURE.replace("ddpm_b", "ash"), "feature 'ash' is named twice, as itself"),
    "an error as wide as the scope": (
        re.sub("within = .*", "within = 99.0", MEASURE),
        "feature 'ddpm_b': within = 99 is no less than the scope of 'logMF', .* say have = false",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_statement_is_one_sentence(tmp_path, name):
    measure, said = BAD[name]
    with pytest.raises(FedloreError, match=said):
        Knowledge.read(known_in(tmp_path / "a", measure=measure))


@pytest.mark.parametrize(
    ("ranges", "table", "said"),
    [
        (RANGE.replace('10*logMF - ash"', '(logMF - 2)*(logMF - 3)"'), None, "only rise or only"),
        (RANGE.replace('"range.csv"', '"range.csv"\nhit = "union"'), None, "hit = union cannot be"),
        (RANGE, "logMF,then\n[3..3.2],B..C\n", "no rule is left that holds for sure"),
    ],
)
def test_what_cannot_be_widened_says_what_to_do(tmp_path, ranges, table, said):
    more = {} if table is None else {"table": table}
    path = known_in(tmp_path / "a", ranges=ranges, **more)
    with pytest.raises(FedloreError, match=said):
        Knowledge.read(path)
    counted = known_in(tmp_path / "b", ranges=ranges, measure=MEASURE + "counted = true\n", **more)
    plain = known_in(tmp_path / "c", ranges=ranges, measure="", **more)
    found, same = Knowledge.read(counted), Knowledge.read(plain)
    assert plain_values(describe(found)["range"]) == plain_values(describe(same)["range"])


SLOPES = {
    "70.9*a + 7.8*b - 89*c*(100 - a)/(100*c)": 1,
    "3 - 2*b": -1,
    "-b/4 - max(b, 2)": -1,
    "b - b": None,
    "a*b": None,
    "2/b": None,
    "where(a > 1, b, 2)": None,
    "log10(b) + sqrt(b)": 1,
    "b*-2": -1,
    "a + c": 0,
}


@pytest.mark.parametrize("text", SLOPES)
def test_the_way_of_a_formula(text):
    features = tuple(map(Feature, "abc"))
    assert find_slope(parse(text, features), 1) == SLOPES[text]
    if SLOPES[text]:
        wide = widen_limit(text, features, {1: 0.5}, 1)
        assert ("(b + 0.5)" if SLOPES[text] > 0 else "(b - 0.5)") in wide


def test_lint_holds_a_measure_against_rows_that_have_both(tmp_path):
    path = known_in(tmp_path / "a", ranges="")
    logmf = [0.93 * np.log10(100 + i) + 0.2 + 0.01 * (i % 3) for i in range(40)]
    rows = [f"{i % 20},{one:.6f},{100 + i},{'ABC'[i % 3]}" for i, one in enumerate(logmf)]
    data = tmp_path / "rows.csv"
    data.write_text("\n".join(["ash,logMF,ddpm_b,grade", *rows]) + "\n")

    def said():
        found = CliRunner().invoke(app, ["lint", str(path), "--data", str(data)])
        return found.exit_code, " ".join(found.output.split())

    kept = "'logMF' computed from 'ddpm_b' is within 0.15 of the measured value in all 40 rows"
    assert kept in said()[1]
    path.write_text(path.read_text().replace("+ 0.2", "+ 0.6"))
    code, text = said()
    assert (
        code == 0 and "in 40 of the 40 rows that have both, 'logMF' computed from 'ddpm_b'" in text
    )
    assert "within = 0.15: +0.39 on average" in text
