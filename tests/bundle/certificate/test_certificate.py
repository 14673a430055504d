"""Certificates: what is claimed, and that every change to what was certified is found."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from typer.testing import CliRunner

from fedlore import checker, errors, kernel, words
from fedlore.bundle import bundle_of, read_bundle, write_bundle
from fedlore.bundle.certificate import certify, write_certificate
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.checker import check
from fedlore.checker.verdict import seal
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
from fedlore.knowledge.views import Recalibrated
from fedlore.personal.classifier import Personal

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
        graph = bundle_to_onnx(bundle)
        (tmp_path / f"{name}.onnx").write_bytes(graph.SerializeToString())
        return tuple(tmp_path / f"{name}.{end}" for end in ("json", "lore", "onnx"))

    return stored


def failures(certificate, subject):
    return [line for line in check(certificate, subject) if not line.holds]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"hears": True},
        {"range": LIMITS},
        {"range": AllOf((LIMITS, RANGE), "first"), "conflict": "restrict"},
        {"prediction": None},
        {"range": None},
        {"prediction": SoftFormula(Formula.parse("ash / 4", SCHEMA), EDGES, 2.0)},
        {"prediction": Recalibrated(EXPERT, torch.full((4, 4), 0.25, dtype=torch.float64))},
        {"conflict": "error"},
    ],
    ids=lambda settings: "-".join(settings) or "plain",
)
def test_bundle_and_graph_hold_against_their_certificate(site, settings):
    certificate, bundle, graph = site(personal(**settings))
    assert json.loads(certificate.read_text())["verdict"] == "proved"
    assert failures(certificate, bundle) == []
    assert failures(certificate, graph) == []


def test_the_certificate_says_what_and_how(site):
    said = json.loads(site(personal())[0].read_text())
    assert {claim["claim"]: claim["status"] for claim in said["claims"]} == {
        "inside-range": "proved",
        "finite-weights": "proved",
        "never-empty": "proved",
        "prediction-inside": "proved",
    }
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
        assert "the range is never empty" in [line.what for line in failures(certificate, subject)]


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
        assert [line.what for line in failures(certificate, subject)] == [
            "the prediction never disagrees"
        ]


def test_a_changed_threshold_is_found(site):
    certificate, _, graph = site(personal())
    moved = table_of([RULES[0] | {"ash": "> 7.75"}, *RULES[1:]], SCHEMA, kind="range")
    _, bundle, other = site(personal(range=moved), "other")
    found = {line.what for line in failures(certificate, bundle)}
    assert {"knowledge as certified", "files as certified"} <= found
    assert "knowledge as certified" in {line.what for line in failures(certificate, other)}
    # in the graph alone, with the knowledge it claims to hold left as it was
    model = onnx.load(graph)
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        cut = np.nextafter(np.float32(7.7), np.float32(99))
        if values.dtype == np.float32 and (values == cut).any():
            moved = np.where(values == cut, np.float32(7.75), values).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(moved, tensor.name))
    graph.write_bytes(model.SerializeToString())
    found = {line.what for line in failures(certificate, graph)}
    assert "graph as certified" in found
    assert "graph computes what the knowledge says" in found


def test_a_graph_without_its_mask_is_found(site):
    certificate, _, graph = site(personal())
    model = onnx.load(graph)
    last = next(node for node in model.graph.node if "probabilities" in node.output)
    free = onnx.helper.make_node("Identity", [last.input[1]], ["probabilities"])
    last.CopyFrom(free)
    graph.write_bytes(model.SerializeToString())
    found = {line.what: line.found for line in failures(certificate, graph)}
    assert "comes from Identity" in found["graph keeps the range by its structure"]


def test_a_graph_that_forgets_the_range_altogether_is_found(site):
    certificate, _, graph = site(personal())
    model = onnx.load(graph)
    for node in model.graph.node:  # every choice by the range takes its first option
        if node.op_type == "Where" and node.input[0] == "allowed":
            node.CopyFrom(onnx.helper.make_node("Identity", [node.input[1]], list(node.output)))
    graph.write_bytes(model.SerializeToString())
    found = {line.what: line.found for line in failures(certificate, graph)}
    assert "graph keeps the range by its structure" in found
    assert "outside the range" in found["graph run beside the knowledge"]


def test_a_mask_that_hears_the_network_is_found(site):
    certificate, _, graph = site(personal())
    model = onnx.load(graph)
    nodes = list(model.graph.node)
    place = next(i for i, node in enumerate(nodes) if "allowed" in node.output)
    late = next(i for i, node in enumerate(nodes) if node.op_type == "Clip")
    mask = nodes[place].input[0]
    nodes[place].input[0] = "tampered"
    high = onnx.helper.make_node("Greater", [nodes[late].output[0], "far"], ["high"])
    wide = onnx.helper.make_node("Or", [mask, "high"], ["tampered"])
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(1e9), "far"))
    model.graph.ClearField("node")
    model.graph.node.extend([*nodes[: late + 1], high, wide])
    model.graph.node.extend(nodes[late + 1 :])
    graph.write_bytes(model.SerializeToString())
    found = {line.what: line.found for line in failures(certificate, graph)}
    assert "depends on the network" in found["graph keeps the range by its structure"]


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


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(site, bad):
    certificate, bundle, graph = site(personal())
    model = onnx.load(graph)
    for tensor in model.graph.initializer:
        if tensor.name.endswith("bias"):
            values = onnx.numpy_helper.to_array(tensor).copy()
            values[0] = bad
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    graph.write_bytes(model.SerializeToString())
    wrong = {line.what: line.found for line in failures(certificate, graph)}
    assert "not finite" in wrong["weights finite and as certified"]
    from fedlore.checker.bundles import faults

    declared = {"w": {"shape": [1], "sha256": ""}}
    assert faults({"w": np.array([bad], np.float32)}, declared) == ["'w' is not finite"]
    net = mlp(4, 4)
    with torch.no_grad():
        next(iter(net.parameters()))[0, 0] = bad
    with pytest.raises(FedloreError, match="finite"):
        certify(replace(read_bundle(bundle), personal=broken(net)))


def broken(net):
    model = personal()
    model.model = net  # past the door that would have refused it
    return model


def test_other_weights_and_an_edited_certificate_are_found(site):
    certificate, bundle, _ = site(personal())
    _, other, graph = site(personal(net=mlp(4, 4, hidden=(8,), seed=2)), "other")
    for subject in (other, graph):
        found = {line.what: line.found for line in failures(certificate, subject)}
        assert "other values than certified" in found["weights finite and as certified"]
    said = json.loads(certificate.read_text())
    said["scope"][0]["high"] = 50.0
    certificate.write_text(json.dumps(said))
    found = {line.what for line in failures(certificate, bundle)}
    assert found == {"certificate's own hash", "scope"}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"classes": ["IV", "III", "II", "I"]}, "scope"),
        ({"conflict": "error"}, "scope"),
        ({"bundle": "0" * 64}, "files as certified"),
    ],
)
def test_a_certificate_that_tells_of_something_else_is_found(site, change, line):
    """Whoever issues it can hash it too, so every word in it is held against the bundle."""
    certificate, bundle, _ = site(personal())
    said = json.loads(certificate.read_text()) | change
    certificate.write_text(json.dumps(said | {"sha256": seal(said)}))
    assert [one.what for one in failures(certificate, bundle)] == [line]
    said = json.loads(certificate.read_text())
    said["scope"][0]["feature"], said["scope"][1]["feature"] = "sulfur", "ash"
    certificate.write_text(json.dumps(said | {"sha256": seal(said)}))
    assert "scope" in {one.what for one in failures(certificate, bundle)}


def test_a_graph_with_numbers_in_other_files_is_refused(site, monkeypatch):
    certificate, _, graph = site(personal())
    monkeypatch.chdir(graph.parent)
    onnx.save(onnx.load(graph), graph, save_as_external_data=True, size_threshold=100)
    (line,) = [one for one in failures(certificate, graph) if one.what == "readable"]
    assert "in other files" in line.found


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
    shutil.copy(errors.__file__, tmp_path / "elsewhere")
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
    for subject, number, end in ((graph, 0, ""), (bundle, 3, tested)):
        done = run(subject)
        assert (done.returncode, done.stderr) == (number, "")
        assert done.stdout.splitlines()[-1] == end_words + end
    write_bundle(bundle_of(personal(range=None), "north"), bundle)
    done = run(bundle)
    assert done.returncode == 1 and "FAIL   knowledge as certified" in done.stdout


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
