"""A soft target: what exactly is minimised, and what happens to it at the range."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore import Examples
from fedlore.core.inject import inject, odds_of, pair_of, slope, teach

from ...strategies import cases


def soft(case) -> torch.Tensor:
    """A random target inside the range."""
    g = torch.Generator().manual_seed(len(case.y))
    raw = torch.rand(case.logits.shape, generator=g, dtype=torch.float64) * case.allowed
    return raw / raw.sum(1, keepdim=True)


@given(
    cases(dtypes=(torch.float64,), trusts=(0.0, 1e-6, 0.3, 0.9), least_rows=1),
    st.sampled_from((0.0, 0.5)),
)
def test_slope_is_the_gradient_of_the_cross_entropy_with_a_soft_target(case, plain):
    target = soft(case)
    f = (case.logits / 50).requires_grad_(True)  # moderate: the plain way must not underflow
    told = inject(f, case.prior, case.allowed, case.trust)
    ours = -torch.where(target > 0, target * told, 0.0).sum()
    usual = -(target * f.log_softmax(1)).sum()
    (plain * usual + (1 - plain) * ours).backward()
    wall = torch.zeros_like(target).masked_fill(~case.allowed, -torch.inf)
    odds = odds_of(case.prior, None, case.trust) if case.trust else None
    found = slope(f.detach(), target, wall=wall, odds=odds, plain=plain)
    assert torch.allclose(found, f.grad, atol=1e-10)


@given(cases(dtypes=(torch.float64,), trusts=(0.3, 0.9), least_rows=1))
def test_a_target_that_is_one_hot_gives_the_slope_of_the_label(case):
    y = case.y.unsqueeze(1)
    hard = torch.zeros_like(case.logits).scatter_(1, y, 1.0)
    wall = torch.zeros_like(hard).masked_fill(~case.allowed, -torch.inf)
    each = slope(case.logits, hard, wall=wall, odds=odds_of(case.prior, None, case.trust))
    one = slope(case.logits, hard, pair=pair_of(hard, odds_of(case.prior, y, case.trust), wall))
    assert torch.allclose(each, one, atol=1e-12)


def lesson(target, allowed, outside="error"):
    x = torch.zeros(len(target), 1)
    data = Examples(x, torch.tensor([1]), allowed=allowed, target=target)
    return teach(data, 3, outside=outside)


def test_teaching_restricts_the_target_to_the_range():
    told = lesson(torch.tensor([[0.2, 0.6, 0.2]]), torch.tensor([[False, True, True]]))
    assert told.target.tolist() == [[0.0, pytest.approx(0.75), pytest.approx(0.25)]]


def test_a_widened_range_lets_the_target_reach_the_label():
    allowed = torch.tensor([[False, False, True]])
    told = lesson(torch.tensor([[0.2, 0.6, 0.2]]), allowed, outside="widen")
    assert told.target.tolist() == [[0.0, pytest.approx(0.75), pytest.approx(0.25)]]


def test_where_nothing_is_left_of_the_target_the_label_stands():
    told = lesson(torch.tensor([[0.5, 0.0, 0.5]]), torch.tensor([[False, True, False]]))
    assert told.target.tolist() == [[0.0, 1.0, 0.0]]
