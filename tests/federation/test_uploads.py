"""What the coordinator looks at before an upload touches the model."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore.core.one_shot import sum_rows
from fedlore.core.scaler import moments
from fedlore.core.wire import Reply, Task, wanted_of
from fedlore.federation.coordinator.uploads import flaw

SENT = {"model": {"w": torch.zeros(2, 3), "b": torch.zeros(3)}}


def judged(upload, *, kind="train", rows=5, metrics=None, sent=SENT, terms=0):
    task, reply = Task(kind, 1, sent), Reply("a", 1, upload, rows, metrics or {})
    return flaw(task, reply, wanted_of(task, list(sent), 4, terms=terms), largest=10.0)


def filled(value):
    return {"model": {n: torch.full_like(t, value) for n, t in SENT["model"].items()}}


@given(st.floats(width=32))
def test_exactly_the_finite_and_small_uploads_pass(value):
    norm = (9 * value * value) ** 0.5 if abs(value) < 1e18 else float("inf")
    if abs(norm - 10.0) > 1e-3:
        assert (judged(filled(value)) is None) == (norm <= 10.0)


@pytest.mark.parametrize(
    ("upload", "reason"),
    [
        ({}, "names, shapes"),
        ({"model": {"w": torch.zeros(2, 3)}}, "names, shapes"),
        ({**filled(0.0), "more": {}}, "names, shapes"),
        ({"model": {"w": torch.zeros(3, 2), "b": torch.zeros(3)}}, "names, shapes"),
        ({"model": {"w": torch.zeros(2, 3).long(), "b": torch.zeros(3)}}, "names, shapes"),
    ],
)
def test_other_tensors_than_the_models_are_rejected(upload, reason):
    assert reason in judged(upload)


@pytest.mark.parametrize("huge", ["model", "control"])
def test_a_huge_bundle_is_not_hidden_by_a_small_one(huge):
    sent = {key: SENT["model"] for key in ("model", "control")}
    upload = {key: filled(5.0 if key == huge else 0.1)["model"] for key in sent}
    assert judged(upload, sent=sent) == "norm 15 is above 10"


def test_rows_and_metrics_must_make_sense():
    assert judged(filled(0.0), rows=0) == "a count of 0 rows"
    assert judged(filled(0.0), metrics={"ta": float("nan")}) == "a metric is not finite"
    assert judged({}, kind="evaluate", metrics={"ta": 0.5}) is None
    assert "none were asked" in judged(filled(0.0), kind="evaluate")


def test_sums_of_features_are_checked_too():
    assert judged({"moments": moments(torch.randn(7, 4))}, kind="moments") is None
    assert "names or shapes" in judged({"moments": moments(torch.randn(7, 5))}, kind="moments")
    assert "not finite" in judged(
        {"moments": moments(torch.full((2, 4), torch.inf))}, kind="moments"
    )


def test_sums_of_rows_have_the_size_of_the_model_that_was_agreed_on():
    sums = {"gram": sum_rows(torch.randn(9, 3), torch.randn(9))[1]}
    for terms, fits in ((3, True), (4, False), (0, False)):
        assert (judged(sums, kind="gram", terms=terms) is None) == fits
    sums["gram"]["energy"] = torch.tensor(float("nan"), dtype=torch.float64)
    assert judged(sums, kind="gram", terms=3) == "values that are not finite"


def test_sums_that_no_rows_can_have_are_rejected():
    """Whatever they are: else one site turns everybody's one-shot model or scaling over."""
    torch.manual_seed(0)
    good = sum_rows(torch.randn(9, 3).double(), torch.randn(9).double())[1]
    assert judged({"gram": good}, kind="gram", terms=3) is None
    for name, value in (("energy", -5.0), ("squares", -100.0), ("cross", 1e6)):
        bad = good | {name: torch.full_like(good[name], value)}
        assert "that no rows have" in judged({"gram": bad}, kind="gram", terms=3)
    sums = moments(torch.randn(9, 4))
    assert judged({"moments": sums}, kind="moments") is None
    bad = sums | {"sum": sums["sum"] + 1e3}
    assert "that no rows have" in judged({"moments": bad}, kind="moments")
    assert "-9 rows" in judged({"moments": sums | {"rows": -sums["rows"]}}, kind="moments")


def test_a_metric_has_a_plain_name():
    for name in ("ta\n", "x" * 41, "a b", 'ta"} 1\nother{a="'):
        assert "no plain word" in judged({}, kind="evaluate", metrics={name: 0.5})


def test_sums_of_leaves_are_those_of_some_rows():
    rows = torch.tensor([[[3.0, 0.0]]], dtype=torch.float64)
    sent = {"boost": {"drawn feature": torch.zeros(1, 1, 1), "value": torch.zeros(1, 0, 2, 1)}}

    def found(left, rows):
        left = torch.tensor(left, dtype=torch.float64).view(1, 1, 2, 1)
        return judged({"leaves": {"left": left, "rows": rows}}, kind="leaves", sent=sent)

    assert found([0.5, 0.0], rows) is None
    assert "more is left to learn" in found([0.5, 4.0], rows)  # in a leaf without rows
    assert "a count of -3 rows" in found([0.0, 0.0], -rows)
    assert "names or shapes" in found([0.5, 0.0], rows[..., :1])
