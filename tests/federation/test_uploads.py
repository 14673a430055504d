"""What the coordinator looks at before an upload touches the model."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore.core.one_shot import sum_rows
from fedlore.core.scaler import moments
from fedlore.core.wire import Reply, Task, wanted_of
from fedlore.engine.one_shot import sum_replies
from fedlore.federation.coordinator.uploads import find_odd, flaw

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
        assert (judged(sums, kind="gram", terms=terms, rows=9) is None) == fits
    sums["gram"]["energy"] = torch.tensor(float("nan"), dtype=torch.float64)
    assert judged(sums, kind="gram", terms=3) == "values that are not finite"


def test_sums_that_no_rows_can_have_are_rejected():
    """Whatever they are: else one site turns everybody's one-shot model or scaling over."""
    torch.manual_seed(0)
    good = sum_rows(torch.randn(9, 3).double(), torch.randn(9).double())[1]
    assert judged({"gram": good}, kind="gram", terms=3, rows=9) is None
    assert "sums of 9 rows from a site that" in judged({"gram": good}, kind="gram", terms=3)
    for name, value in (("energy", -5.0), ("squares", -100.0), ("cross", 1e6)):
        bad = good | {name: torch.full_like(good[name], value)}
        assert "that no rows have" in judged({"gram": bad}, kind="gram", terms=3, rows=9)
    sums = moments(torch.randn(9, 4))
    assert judged({"moments": sums}, kind="moments") is None
    bad = sums | {"sum": sums["sum"] + 1e3}
    assert "that no rows have" in judged({"moments": bad}, kind="moments")
    assert "-9 rows" in judged({"moments": sums | {"rows": -sums["rows"]}}, kind="moments")
    one = moments(torch.ones(1, 4))  # a single row, whose square is the mean of squares
    assert judged({"moments": one}, kind="moments") is None
    nobody = {name: torch.zeros_like(part) for name, part in one.items()}
    assert judged({"moments": nobody}, kind="moments") is None


def test_a_metric_has_a_name_that_was_asked_for():
    for name in ("ta\n", "anything", 'ta"} 1\nother{a="'):
        assert "not asked for" in judged({}, kind="evaluate", metrics={name: 0.5})


def test_a_vote_of_more_rows_than_a_site_has_is_rejected():
    vote = {"loss": torch.tensor([9.0]).double(), "rows": torch.tensor([9.0]).double()}
    trial = Task("vote", 3, trial="0/0/3")
    for rows, wrong in ((9, None), (8, "a vote of 9 rows from a site that says it has 8")):
        reply = Reply("a", 3, {"vote": vote}, rows)
        assert flaw(trial, reply, wanted_of(trial, (), 4), largest=10.0) == wrong


def test_histograms_count_no_more_than_there_are_rows():
    sums = moments(torch.randn(9, 4)) | {"histograms": torch.ones(1, 9)}
    reply = Reply("a", 0, {"moments": sums}, 9)
    assert flaw(Task("moments", 0), reply, {"moments": sums}, largest=10.0) is None
    for counts in (torch.full((1, 9), 1e5), torch.tensor([[-1e5, 1e5]])):
        bad = {"moments": sums | {"histograms": counts}}
        assert "a histogram of" in flaw(
            Task("moments", 0), Reply("a", 0, bad, 9), bad, largest=10.0
        )


def given_sums(rows, scale):
    torch.manual_seed(rows)
    sums = sum_rows(scale * torch.randn(rows, 3).double(), scale * torch.randn(rows).double())[1]
    return {"gram": sums}


@pytest.mark.parametrize(("rows", "scale", "words"), [(5000, 1, "rows"), (20, 100, "mean square")])
def test_sums_far_from_those_of_all_others_are_rejected_and_named(rows, scale, words):
    replies = [Reply(n, 0, given_sums(20 + i, 1.0), 20 + i) for i, n in enumerate("abc")]
    asked = Task("gram", 0)
    assert find_odd(asked, replies, 8.0) == {}
    odd = find_odd(asked, [*replies, Reply("d", 0, given_sums(rows, scale), rows)], 8.0)
    assert list(odd) == ["d"] and words in odd["d"]


def test_no_single_site_decides_a_vote_by_its_rows():
    """A thousand times the rows count for three times those of the middle site."""

    class Votes:
        def clients(self):
            return ["a", "b", "c", "d"]

        def exchange(self, task, to):
            for name, rows in zip(to, (10.0, 20.0, 20.0, 20_000.0), strict=True):
                vote = {"loss": torch.tensor([2.0 * rows]), "rows": torch.tensor([rows])}
                yield Reply(name, 3, {"vote": {k: v.double() for k, v in vote.items()}}, int(rows))

    total = sum_replies(Votes(), Task("vote", 3, trial="0/0/3"))
    assert (float(total["rows"]), float(total["loss"])) == (110.0, 220.0)
