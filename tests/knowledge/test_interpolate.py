"""Limits from a table of numbers: written once, and then behind every door."""

import numpy as np
import onnxruntime
import pytest
import torch

from fedlore import Knowledge, KnowledgeError, Personal
from fedlore.bundle import bundle_of, write_bundle
from fedlore.bundle.certify import certify, write_certificate
from fedlore.bundle.explain import reasons
from fedlore.bundle.onnx import to_onnx
from fedlore.checker import check, outcome_of
from fedlore.core.nets import mlp
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.findings.checkup import check_file
from fedlore.knowledge.formulas import Formula
from fedlore.studio.checks import judge
from fedlore.studio.grids import read_grids
from fedlore.studio.verdict import judge_row

ASH = Schema((Feature("ash", "%", 0.0, 40.0),), ("A", "B", "C"))
CLASSES = """features = [{name = "ash", unit = "%", low = 0, high = 40}]
classes = ["A", "B", "C"]
edges = [10.0, 20.0]
[[range.sources]]
interpolate = "limits.csv"
"""
NUMBER = CLASSES.replace(
    'classes = ["A", "B", "C"]\nedges = [10.0, 20.0]', "[target]\nlower = 0\nupper = 50\nbins = 5"
)
LIMITS = "ash [%],lower,upper\n0,2,12\n10,8,\n20,8,22\n40,25,40\n"
X = torch.linspace(-5, 45, 101).unsqueeze(1)
LOWER = np.interp(X[:, 0], [0, 10, 20, 40], [2, 8, 8, 25])
UPPER = np.interp(X[:, 0], [0, 20, 40], [12, 22, 40])


def files(text=CLASSES, limits=LIMITS):
    return {"knowledge.toml": text.encode(), "limits.csv": limits.encode()}


def test_a_formula_goes_from_point_to_point_and_is_level_beyond():
    formula = Formula.parse("interpolate(ash, 0, -2, 10, 8, 20, 8, 40, 25)", ASH)
    wanted = np.interp(X[:, 0], [0, 10, 20, 40], [-2, 8, 8, 25])
    np.testing.assert_allclose(formula(X).numpy(), wanted, rtol=1e-6)
    assert formula(torch.tensor([[40.0], [10.0], [0.0]])).tolist() == [25.0, 8.0, -2.0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("interpolate(ash, 1, 2)", "takes 5 or more"),
        ("interpolate(ash, 1, 2, 1, 3)", "a larger x"),
        ("interpolate(ash, 1, 2, 3, 3, 4)", "a larger x"),
        ("interpolate(ash, 1, ash, 3, 3)", "is two numbers"),
    ],
)
def test_points_that_are_none_are_refused(text, reason):
    with pytest.raises(KnowledgeError, match=reason):
        Formula.parse(text, ASH)


def test_a_table_limits_classes():
    allowed = Knowledge.read(files()).range(X)
    grades = [np.searchsorted([10, 20], ends, side="right") for ends in (LOWER, UPPER)]
    wanted = (grades[0][:, None] <= np.arange(3)) & (np.arange(3) <= grades[1][:, None])
    assert (allowed.numpy() == wanted).all()


def test_a_table_limits_numbers():
    sets = Knowledge.read(files(NUMBER)).range(X)
    np.testing.assert_allclose(sets.lower[:, 0], LOWER, rtol=1e-6)
    np.testing.assert_allclose(sets.upper[:, 0], UPPER, rtol=1e-6)


def test_reading_what_was_written_gives_the_same(tmp_path):
    known = Knowledge.read(files())
    known.write(tmp_path / "knowledge.toml")
    assert Knowledge.read(tmp_path / "knowledge.toml") == known
    assert 'lower = "interpolate(ash, 0, 2, 10, 8' in (tmp_path / "knowledge.toml").read_text()


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ("ash,lower\n0,1\n", "2 to 100 points, got 1"),
        ("ash,lower\n3,1\n2,1\n", "row 3, column 'ash': must be larger"),
        ("ash,lower\n0,1\n2,much\n", "row 3, column 'lower': a number is due, got 'much'"),
        ("ash,note\n0,1\n", "'lower', 'upper' or both"),
        ("ask,lower\n0,1\n2,3\n", "unknown column 'ask'; did you mean 'ash'"),
        ("ash [t],lower\n0,1\n2,3\n", "declared in"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(limits, reason):
    with pytest.raises(KnowledgeError, match=reason):
        Knowledge.read(files(limits=limits))


def test_lint_finds_limits_that_cross():
    found = check_file(files(limits="ash,lower,upper\n0,2,5\n40,25,20\n")).findings
    assert [finding.kind for finding in found if finding.severity == "error"] == ["empty-range"]
    assert not [f for f in check_file(files()).findings if f.severity == "error"]


def test_it_is_predicted_explained_drawn_and_certified(tmp_path):
    known = Knowledge.read(files())
    x = torch.tensor([[15.0], [30.0]])
    personal = Personal(mlp(1, 3, hidden=(4,), seed=0), known)
    bundle = bundle_of(personal, "plant", schema=known.schema)
    assert "interpolate(ash, 0, 2, 10, 8, 20, 8, 40, 25) = 8" in str(reasons(bundle, x)[0])
    told = judge_row(judge(files()), x[1:], read_grids(files()))
    assert told["allowed"] == ["B", "C"] and not told["refused"]
    session = onnxruntime.InferenceSession(to_onnx(personal).SerializeToString())
    got = session.run(["allowed"], {"rows": X.double().numpy()})[0]
    assert (got == known.range(X).numpy()).all()
    certificate = certify(bundle)
    assert {claim["status"] for claim in certificate["claims"]} == {"proved"}
    write_certificate(certificate, tmp_path / "plant.json")
    write_bundle(bundle, tmp_path / "plant.lore")
    assert outcome_of(check(tmp_path / "plant.json", tmp_path / "plant.lore")).code in (0, 3)
