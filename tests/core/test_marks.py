"""Scores that count every class alike, against scikit-learn and by hand."""

import math

import pytest
import torch

from fedlore.core.metrics import class_scores, count_pairs, grade_error, per_class, quadratic_kappa


def drawn(seed: int, k: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(0, k - 1, (50,), generator=draw)  # the last class is never there
    return torch.randint(0, k, (50,), generator=draw), y


@pytest.mark.parametrize("seed", range(5))
def test_they_are_those_of_scikit_learn(seed):
    metrics = pytest.importorskip("sklearn.metrics")
    said, y = drawn(seed)
    found = class_scores(said, y, 4, ordered=True)
    # scikit-learn warns of a class that is named and never there: it does the same as here
    recall = [float((said[y == c] == c).double().mean()) for c in y.unique()]
    assert found["balanced"] == pytest.approx(sum(recall) / len(recall))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(y, said, average="macro"))
    assert found["kappa"] == pytest.approx(metrics.cohen_kappa_score(y, said, weights="quadratic"))
    assert found["grade_error"] == pytest.approx(float((said - y).abs().double().mean()))


def test_a_silent_row_is_not_found_and_has_no_grade():
    counts = count_pairs(torch.tensor([0, -1]), torch.tensor([0, 0]), 2)
    precision, recall = per_class(counts)
    assert precision[0] == 1.0 and recall[0] == 0.5
    assert grade_error(counts) == 0.0
    assert class_scores(torch.tensor([0, -1]), torch.tensor([0, 0]), 2)["macro_f1"] == (
        pytest.approx(2 / 3)
    )


def test_nobody_speaks_and_nothing_can_be_missed_by_chance():
    silent = count_pairs(torch.tensor([-1]), torch.tensor([0]), 2)
    assert grade_error(silent) is None and quadratic_kappa(silent) is None
    assert quadratic_kappa(count_pairs(torch.tensor([1]), torch.tensor([1]), 2)) is None
    assert math.isnan(per_class(silent)[0][0])


def test_only_ordered_classes_have_grades():
    assert set(class_scores(*drawn(0), 4)) == {"balanced", "macro_f1"}
