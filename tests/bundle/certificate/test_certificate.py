"""Certificates: what is claimed, and that every change to what was certified is found."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fedlore import checker, config, errors, kernel, words
from fedlore.bundle import bundle_of, read_bundle, write_bundle
from fedlore.bundle.certify import certify, write_certificate
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.checker import check
from fedlore.checker.certificate import seal
from fedlore.cli.app import app
from fedlore.core.nets import mlp
from fedlore.core.rng import stream
from fedlore.core.scaler import Scaler
from fedlore.errors import FedloreError, KnowledgeError
from fedlore.knowledge import (
    AllOf,
    ConformalRange,
    Formula,
    FormulaRange,
    Knowledge,
    SoftFormula,
    table_of,
)
from fedlore.models.classifier import Personal

from ..onnx.worlds import EDGES, SCHEMA, rows

RULES = [
    {"ash": "> 7.7", "then": "I, II"},
    {"sulfur": "<= 0.3", "mine": "not south", "then": "II..IV"},
    {"heat": "[0.1..3)", "then": "all"},
]
RANGE = table_of(RULES, SCHEMA, kind="range")
EXPERT = table_of([{"ash": "> 7.7", "then": "II"}], SCHEMA, kind="predict")
EMPTY = table_of([{"ash": "> 39", "then": "I"}], SCHEMA, kind="range")
LIMITS = FormulaRange(
    Formula.parse("ash / 10 - 1", SCHEMA), Formula.parse("ash / 10 + 9", SCHEMA), EDGES
)


def personal(prediction=EXPERT, range=RANGE, *, net=None, hears=False, **settings):
    net = net or mlp(4, 4, hidden=(8,), hears=hears, seed=1)
    scaler = Scaler.of(rows(np.random.default_rng(0)))
    return Personal(
        net, Knowledge(prediction, range, 0.4, schema=SCHEMA, **settings), scaler=scaler
    )


@pytest.fixture
def site(tmp_path):
    """A function that stores a model, and gives the paths of certificate, bundle and graph."""

    def stored(model, name="north"):
        bundle = bundle_of(model, name)
        write_bundle(bundle, tmp_path / f"{name}.lore")
        write_certificate(certify(bundle), tmp_path / f"{name}.json")
        (tmp_path / f"{name}.onnx").write_bytes(bundle_to_onnx(bundle).SerializeToString())
        return tuple(tmp_path / f"{name}.{end}" for end in ("json", "lore", "onnx"))

    return stored


def failures(certificate, subject):
    return [line for line in check(certificate, subject) if not line.holds]


def test_the_certificate_says_what_and_how(site):
    said = json.loads(site(personal())[0].read_text())
    assert {claim["claim"]: claim["status"] for claim in said["claims"]} == {
        "inside-range": "proved",
        "finite-weights": "proved",
        "never-empty": "proved",
        "prediction-inside": "proved",
    }
    hows = {claim["claim"]: claim["how"] for claim in said["claims"]}
    assert "each of 76 numbers was looked at" in hows["finite-weights"]  # 4 · 8 + 8 + 8 · 4 + 4
    assert all("boxes" in hows[name] for name in ("never-empty", "prediction-inside"))
    assert said["scope"][0] == {"feature": "ash", "low": 0.0, "high": 40.0}
    assert said["scope"][3] == {"feature": "mine", "low": 0.0, "high": 2.0}
    assert said["sha256"] == seal(said)
    assert set(said["knowledge"]) == {"knowledge.toml", "table-1.csv", "table-2.csv"}


@pytest.mark.parametrize(
    "range",
    [
        table_of([*RULES, {"ash": "> 39", "then": "IV"}], SCHEMA, kind="range"),
        AllOf((LIMITS, table_of([{"ash": "> 39", "then": "I"}], SCHEMA, kind="range"))),
        FormulaRange(Formula.parse("ash", SCHEMA), Formula.parse("20", SCHEMA), EDGES),
    ],
    ids=["rules", "a rule and formulas", "limits that cross"],
)
def test_an_empty_range_is_refuted_by_a_row(site, range):
    model = personal(None, range)
    certificate, bundle, graph = site(model)
    said = json.loads(certificate.read_text())
    claim = next(claim for claim in said["claims"] if claim["claim"] == "never-empty")
    assert (said["verdict"], claim["status"]) == ("refuted", "refuted")
    with pytest.raises(KnowledgeError):
        model.predict(torch.tensor([claim["example"]]))
    for subject in (bundle, graph):
        assert "never-empty" in [line.what for line in failures(certificate, subject)]


def test_what_intervals_cannot_decide_is_unknown(site):
    lower = Formula.parse("heat * heat - heat * heat * 0.9999999", SCHEMA)
    upper = Formula.parse("(heat + 1) * (heat - 1) - heat * heat + 1.0000001", SCHEMA)
    certificate, bundle, _ = site(personal(None, FormulaRange(lower, upper, EDGES)))
    assert json.loads(certificate.read_text())["verdict"] in ("unknown", "refuted")
    assert failures(certificate, bundle)


def test_rules_that_disagree_are_refuted(site):
    rules = [{"ash": "> 5", "then": "I"}, {"ash": "> 7.7", "then": "II"}]
    unique = table_of(rules, SCHEMA, kind="predict", policy="unique")
    certificate, bundle, graph = site(personal(unique, None))
    assert json.loads(certificate.read_text())["verdict"] == "refuted"
    for subject in (bundle, graph):
        assert [line.what for line in failures(certificate, subject)] == ["prediction-agrees"]


@pytest.mark.parametrize("size", [1e30, -1e30])
@pytest.mark.parametrize("hears", [False, True])
def test_adversarial_weights_stay_in_the_range(site, size, hears):
    net = mlp(4, 4, hidden=(8, 8), hears=hears)
    draw = stream("adversary")
    with torch.no_grad():
        for values in net.parameters():
            values.copy_(size * torch.sign(torch.rand(values.shape, generator=draw) - 0.4))
    certificate, bundle, graph = site(personal(net=net))
    assert failures(certificate, bundle) == []
    assert failures(certificate, graph) == []


def test_weights_that_are_no_numbers_are_not_certified(site):
    _, bundle, _ = site(personal())
    model = personal()
    model.model = mlp(4, 4)  # past the door that would have refused it
    with torch.no_grad():
        next(iter(model.model.parameters()))[0, 0] = torch.nan
    with pytest.raises(FedloreError, match="finite"):
        certify(replace(read_bundle(bundle), personal=model))


def test_who_only_edits_a_certificate_fails_by_its_hash_as_well(site):
    certificate, bundle, _ = site(personal())
    certificate.write_text(certificate.read_text().replace('"sulfur"', '"sulphur"'))
    found = {one.what for one in failures(certificate, bundle)}
    assert found == {"certificate's own hash", "certificate's fields"}


def test_what_is_no_bundle_is_refused_in_a_line(site, tmp_path):
    certificate, bundle, _ = site(personal())
    whole = bundle.read_bytes()
    at = whole.index(b"ash [%]")
    bundle.write_bytes(whole[:at] + b"Ash" + whole[at + 3 :])
    assert [line.what for line in failures(certificate, bundle)] == ["readable"]
    (tmp_path / "odd.onnx").write_bytes(b"no graph")
    assert failures(certificate, tmp_path / "odd.onnx")[0].what == "readable"
    assert failures(tmp_path / "none.json", bundle)[0].what == "readable"
    (tmp_path / "list.json").write_text("[]")
    assert failures(tmp_path / "list.json", bundle)[0].what == "readable"


def test_only_tables_and_formulas_are_certified():
    soft = SoftFormula(Formula.parse("ash / 4", SCHEMA), EDGES, 2.0)
    statistical = ConformalRange(soft, (0.9,) * 4, 0.1)
    with pytest.raises(KnowledgeError, match="kind 'conformal' is neither a table"):
        certify(bundle_of(personal(None, statistical), "north"))


def test_the_folders_run_alone_without_fedlore(site, tmp_path):
    certificate, bundle, graph = site(personal())
    for room in (checker, kernel, words):
        folder = Path(room.__file__).parent
        shutil.copytree(folder, tmp_path / "elsewhere" / folder.name)
    for module in (errors, config):
        shutil.copy(module.__file__, tmp_path / "elsewhere")
    code = (
        "import runpy, sys; sys.modules['fedlore'] = sys.modules['torch'] = None; "
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )

    def run(subject):
        command = [sys.executable, "-I", "-c", code, "elsewhere/checker", certificate, subject]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    # a graph is read node by node; of a bundle the checker can only compute rows
    end_words = "the certificate holds"
    tested = " as far as it was tested, on 3000 rows"
    for subject, end in ((graph, ""), (bundle, tested)):
        done = run(subject)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1] == end_words + end
    write_bundle(bundle_of(personal(range=None), "north"), bundle)
    done = run(bundle)
    assert done.returncode == 1 and "FAIL   certificate's fields" in done.stdout


def test_certify_on_the_command_line(site, tmp_path):
    _, bundle, _ = site(personal())
    done = CliRunner().invoke(app, ["certify", str(bundle)])
    assert done.exit_code == 0 and "verdict: proved" in done.stdout
    assert failures(tmp_path / "north.certificate.json", bundle) == []
    _, bad, _ = site(personal(None, AllOf((LIMITS, EMPTY))), "bad")
    asked = ["certify", str(bad), "--out", str(tmp_path / "other.json")]
    done = CliRunner().invoke(app, asked)
    assert "the knowledge of 'bad' has 1 error and is not used" in str(done.exception)
    assert not (tmp_path / "other.json").exists()
    done = CliRunner().invoke(app, [*asked, "--accept-conflicts"])
    assert done.exit_code == 1 and "for example ash = " in done.stdout
