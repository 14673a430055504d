"""Scores by hand."""

import torch

from fedlore.core.metrics import accuracy, decide, nll, violation


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
