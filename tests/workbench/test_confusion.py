"""What compare() tells besides its scores: history and confusion, without changing them."""

import pytest

from fedlore.experiments.approaches import APPROACHES, FL, FL_MASK, PKM
from fedlore.experiments.runner import compare

from .test_approaches import drawn, run, with_models


def watched(chosen, rounds=2):
    history, confusion = [], []
    rows = compare(
        drawn(with_models(), rounds),
        chosen,
        on_history=history.extend,
        on_confusion=confusion.extend,
    )
    return rows, history, confusion


def test_watching_does_not_change_the_scores():
    assert watched(APPROACHES)[0] == run(APPROACHES)


def test_the_diagonal_of_the_confusion_is_the_accuracy():
    rows, _, confusion = watched(APPROACHES)
    for row in rows:
        mine = [c for c in confusion if all(c[k] == row[k] for k in ("approach", "client", "seed"))]
        right = sum(c["count"] for c in mine if c["label"] == c["predicted"])
        assert right / sum(c["count"] for c in mine) == pytest.approx(row["ta"], abs=1e-12)


def test_the_history_ends_at_the_score_and_the_mask_has_none():
    rows, history, _ = watched((FL, FL_MASK, PKM))
    assert {(h["approach"], h["seed"]) for h in history} == {("FL", 0)}
    last = {h["client"]: h["ta"] for h in history if h["round"] == 2}
    assert last == {r["client"]: r["ta"] for r in rows if r["approach"] == "FL"}


def test_a_long_training_is_scored_at_no_more_than_20_points():
    _, history, _ = watched((FL,), rounds=41)
    assert sorted({h["round"] for h in history}) == [*range(3, 41, 3), 41]
