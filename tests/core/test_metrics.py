"""Scores by hand."""

import math

import pytest
import torch

from fedlore.answers.measured import quantile_score
from fedlore.core.metrics import (
    ReliabilityBin,
    accuracy,
    bins_error,
    bins_interval,
    brier,
    calibration_error,
    calibration_interval,
    class_reliability,
    class_scores,
    count_pairs,
    decide,
    grade_error,
    held_shares,
    merge_bins,
    nll,
    per_class,
    quadratic_kappa,
    ranked_score,
    read_bins,
    reliability,
    violation,
    write_bins,
)
from fedlore.core.rng import stream
from fedlore.errors import FedloreError


def test_accuracy_counts_hits():
    assert accuracy(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1])) == 2 / 3


def test_violation_counts_predictions_outside_and_spares_silence():
    allowed = torch.tensor([[True, False], [True, False], [False, True]])
    assert violation(torch.tensor([0, 1, -1]), allowed) == 1 / 3


def test_nll_is_minus_the_mean_log_probability_of_the_label():
    log_probs = torch.tensor([[0.5, 0.5], [0.25, 0.75]]).log()
    torch.testing.assert_close(
        nll(log_probs, torch.tensor([0, 0])), 0.5 * 3 * torch.tensor(2.0).log().item()
    )


def test_at_a_tie_the_expert_wins_and_without_one_the_lowest_class():
    even = torch.full((2, 3), 1 / 3).log()
    assert decide(even).tolist() == [0, 0]
    assert decide(even, torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])).tolist() == [2, 0]


def draw_classes(seed: int, k: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(0, k - 1, (50,), generator=draw)  # the last class is never there
    return torch.randint(0, k, (50,), generator=draw), y


@pytest.mark.parametrize("seed", range(5))
def test_they_are_those_of_scikit_learn(seed):
    metrics = pytest.importorskip("sklearn.metrics")
    said, y = draw_classes(seed)
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
    assert set(class_scores(*draw_classes(0), 4)) == {"balanced", "macro_f1"}


def draw_soft(rows, power):
    """Labels drawn from probabilities, and the same probabilities made too sure or too shy."""
    draw = stream("reliability", rows)
    p = torch.rand(rows, 4, generator=draw, dtype=torch.float64).square()
    p = p / p.sum(1, keepdim=True)
    y = torch.multinomial(p, 1, generator=draw).squeeze(1)
    said = p**power
    return said / said.sum(1, keepdim=True), y


def test_honest_probabilities_have_no_error_and_others_do():
    honest, sure, shy = (calibration_error(*draw_soft(40_000, power)) for power in (1.0, 3.0, 0.3))
    assert honest < 0.015 and sure > 0.1 and shy > 0.1


def test_the_diagram_has_bins_of_equal_mass_that_hold_all_rows():
    found = reliability(*draw_soft(1000, 1.0))
    assert len(found) == 15 and sum(b.rows for b in found) == 1000
    assert max(b.rows for b in found) - min(b.rows for b in found) <= 14
    confidences = [b.confidence for b in found]
    assert confidences == sorted(confidences)
    assert len(reliability(*draw_soft(3, 1.0), bins=15)) == 3  # fewer rows than bins
    for rows, bins in ((3, 1), (40, 4), (149, 14), (5000, 15)):  # a bin has ten rows at least
        assert len(reliability(*draw_soft(rows, 1.0))) == bins


def test_an_interval_holds_the_error_of_many_rows():
    error, low, high = calibration_interval(*draw_soft(4000, 2.0))
    assert low <= error <= high + 1e-9
    assert low <= calibration_error(*draw_soft(40_000, 2.0)) <= high + 0.01


def test_brier_and_ranked_scores_by_hand():
    p, y = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]), torch.tensor([0, 2])
    assert brier(p, y) == pytest.approx(0.25)  # (0.25 + 0.25 + 0) / 2
    assert ranked_score(p, y) == pytest.approx(0.125)  # 0.5² over two rows
    far, near = torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[0.0, 1.0, 0.0]])
    assert ranked_score(far, y[:1]) == 2.0 and ranked_score(near, y[:1]) == 1.0
    assert set(class_reliability(p, y, ordered=False)) == {"ece", "ece low", "ece high", "brier"}
    assert class_reliability(p, y, ordered=True)["crps"] == pytest.approx(0.125)


def test_crps_of_a_number_from_its_quantiles():
    """Of U(0, 1) at y the CRPS is y² - y + 1/3."""
    levels = [(i + 0.5) / 200 for i in range(200)]
    q = torch.tensor([levels])
    for y in (0.0, 0.3, 1.0):
        found = quantile_score(q, torch.tensor([y]), levels)
        assert found == pytest.approx(y * y - y + 1 / 3, abs=1e-3)


def test_bins_of_sites_merge_to_the_diagram_of_all_rows():
    said, y = draw_soft(3_000, 2.0)
    sites = [reliability(said[i::3], y[i::3]) for i in range(3)]
    merged = merge_bins([part for site in sites for part in site])
    assert sum(part.rows for part in merged) == 3_000 and 10 < len(merged) <= 15
    assert max(part.rows for part in merged) < 500  # about equal mass
    assert bins_error(merged) == pytest.approx(calibration_error(said, y), abs=0.005)
    low, high = bins_interval(merged)
    assert low < bins_error(merged) < high < low + 0.06


def test_a_row_keeps_its_diagram_as_text():
    bins = [ReliabilityBin(0.25, 0.5, 4), ReliabilityBin(0.75, 1.0, 2)]
    assert read_bins(write_bins(bins)) == bins and read_bins("") == []
    for wrong in ("0.5 0.5", "a b 3", "1.5 0.5 3", "0.5 0.5 0"):
        with pytest.raises(FedloreError, match="diagram|shares outside"):
            read_bins(wrong)


def test_intervals_are_held_against_what_they_promise():
    y = torch.tensor([1.0, 2.0, 3.0, 4.0])
    low, high = torch.zeros(4, 2), torch.tensor([[1.5, 3.0]]).expand(4, 2)
    assert held_shares(low, high, y, (0.5, 0.9)) == [
        ReliabilityBin(0.5, 0.25, 4),
        ReliabilityBin(0.9, 0.75, 4),
    ]
