"""Proposition 5.1 (a)-(d) of the paper, and the closed-form gradient, for any numbers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy, one_hot

from fedlore import Examples
from fedlore.core.inject import guard, inject, odds_of, pair_of, slope, teach
from fedlore.core.metrics import decide

from ..strategies import Case, cases


def formula(case: Case) -> torch.Tensor:
    """The definition, word for word, in float64 probabilities."""
    masked = case.logits.double().masked_fill(~case.allowed, -torch.inf)
    trust = case.trust * case.prior.double().sum(1, keepdim=True)
    return (1 - trust) * masked.softmax(1) + case.trust * case.prior.double()


def injected(case: Case) -> torch.Tensor:
    return inject(case.logits, case.prior, case.allowed, case.trust)


@given(cases())
def test_it_is_the_formula(case):
    tolerance = 1e-5 if case.logits.dtype == torch.float32 else 1e-12
    torch.testing.assert_close(injected(case).exp().double(), formula(case), atol=tolerance, rtol=0)


@given(cases())
def test_a_rows_are_probabilities(case):
    probabilities = injected(case).exp()
    assert (probabilities >= 0).all()
    torch.testing.assert_close(
        probabilities.sum(1), torch.ones(len(probabilities), dtype=probabilities.dtype)
    )


@given(cases())
def test_b_the_expert_is_trusted_at_least_as_far_as_told(case):
    speaks = case.prior.sum(1) > 0
    assert ((injected(case).exp() * case.prior).sum(1)[speaks] >= case.trust * (1 - 1e-6)).all()


@given(cases(trusts=(0.5, 0.500001, 0.7, 1.0)))
def test_b_above_one_half_the_expert_decides_and_wins_the_tie_at_one_half(case):
    speaks = case.prior.sum(1) > 0
    assert (decide(injected(case), case.prior) == case.prior.argmax(1))[speaks].all()


@given(cases())
def test_c_outside_the_range_probability_is_exactly_zero(case):
    assert (injected(case).exp()[~case.allowed] == 0.0).all()


@given(cases(dtypes=(torch.float64,), least_rows=1))
def test_d_the_jacobian_is_that_of_the_masked_softmax_times_one_minus_trust(case):
    logits, prior, allowed = case.logits[:1], case.prior[:1], case.allowed[:1]
    jacobian = torch.func.jacrev(lambda z: inject(z, prior, allowed, case.trust).exp())(logits)
    s = logits.masked_fill(~allowed, -torch.inf).softmax(1)[0]
    trust = case.trust * float(prior.sum())
    wanted = (1 - trust) * (torch.diag(s) - torch.outer(s, s))
    torch.testing.assert_close(jacobian[0, :, 0, :], wanted, atol=1e-10, rtol=0)


@given(cases(trusts=(0.0, 1e-6, 0.3, 0.5), least_rows=1))
def test_gradients_are_finite(case):
    logits = case.logits.clone().requires_grad_()
    log_probs = inject(logits, case.prior, case.allowed, case.trust)
    torch.nn.functional.nll_loss(log_probs, case.y).backward()
    assert logits.grad.isfinite().all()


@given(
    cases(dtypes=(torch.float64,), trusts=(0.0, 1e-6, 0.3, 0.5), least_rows=1),
    st.sampled_from((0.0, 0.2, 1.0)),
)
def test_the_slope_is_the_gradient_of_the_hybrid_loss(case, plain):
    logits = case.logits.clone().requires_grad_()
    inside = torch.nn.functional.nll_loss(
        inject(logits, case.prior, case.allowed, case.trust), case.y, reduction="sum"
    )
    (plain * cross_entropy(logits, case.y, reduction="sum") + (1 - plain) * inside).backward()
    y = case.y.unsqueeze(1)
    wall = torch.zeros_like(logits).masked_fill(~case.allowed, -torch.inf)
    target = one_hot(case.y, logits.shape[1]).to(logits.dtype)
    if case.trust:
        pair = pair_of(target, odds_of(case.prior, y, case.trust), wall)
        found = slope(case.logits, target, pair=pair, plain=plain)
    else:
        found = slope(case.logits, target, wall=wall, plain=plain)
    torch.testing.assert_close(found, logits.grad, atol=1e-10, rtol=0)


def test_a_row_that_the_network_gives_up_still_pulls_with_full_weight():
    # s_y underflows to 0, and the expert is wrong (o = 0) or right (o > 0)
    logits, label = torch.tensor([[0.0, -500.0]]), torch.tensor([[0.0, 1.0]])
    wrong, right = (torch.tensor([row]) for row in ([1.0, 0.0], [0.0, 1.0]))
    pairs = [pair_of(label, odds_of(e, torch.tensor([[1]]), 0.3)) for e in (wrong, right)]
    assert slope(logits, label, pair=pairs[0]).tolist() == [[1.0, -1.0]]
    assert slope(logits, label, pair=pairs[1]).tolist() == [[0.0, 0.0]]


@given(cases(trusts=(0.3, 1.0), least_rows=1))
def test_a_soft_expert_keeps_its_share_of_every_class(case):
    soft = torch.rand(case.logits.shape, dtype=case.logits.dtype) * case.allowed
    soft = soft / soft.sum(1, keepdim=True)
    probabilities = inject(case.logits, soft, case.allowed, case.trust).exp()
    assert (probabilities >= case.trust * soft * (1 - 1e-5)).all()
    assert (probabilities[~case.allowed] == 0.0).all()


def test_empty_batches_and_leading_axes_pass():
    assert inject(torch.zeros(0, 3), torch.zeros(0, 3), torch.ones(0, 3).bool(), 0.5).shape == (
        0,
        3,
    )
    stacked = inject(torch.zeros(2, 4, 3), one_hot(torch.zeros(2, 4).long(), 3).float(), None, 0.5)
    torch.testing.assert_close(stacked[1, 3].exp(), torch.tensor([4 / 6, 1 / 6, 1 / 6]))


def test_guarded_logits_are_finite():
    assert guard(torch.tensor([[torch.nan, torch.inf, -torch.inf]])).isfinite().all()


@given(
    st.sampled_from((0.3, 0.9, 0.99, 1 - 1e-4, 1 - 1e-6, 1 - 1e-7)),
    st.integers(2, 20),
    st.integers(0, 99),
    st.booleans(),
)
def test_slopes_in_single_precision_are_right_for_trust_near_one(trust, k, seed, soft):
    draw = torch.Generator().manual_seed(seed)
    size = torch.tensor([0.1, 1.0, 10.0, 50.0])[torch.randint(4, (50, 1), generator=draw)]
    logits = size * torch.randn(50, k, generator=draw)
    y = torch.randint(k, (50, 1), generator=draw)
    prior = one_hot(torch.randint(k, (50,), generator=draw), k).float()
    if soft:  # down to 1e-20: what is left to learn is then of the size of 1 - λ
        power = torch.tensor([1.0, 5.0, 20.0])[torch.randint(3, (50, 1), generator=draw)]
        prior = torch.rand(50, k, generator=draw, dtype=torch.float64).pow(power)
        prior = (prior / prior.sum(1, keepdim=True)).float()
    exact = logits.double().requires_grad_()
    told = trust * prior.double()
    made = (1 - told.sum(1, keepdim=True).clamp(max=1)) * exact.softmax(1) + told
    made.gather(1, y).log().sum().neg().backward()
    target = one_hot(y[:, 0], k).float()
    found = slope(logits, target, pair=pair_of(target, odds_of(prior, y, trust)))
    torch.testing.assert_close(found.double(), exact.grad, atol=1e-5, rtol=0)


@given(
    cases(dtypes=(torch.float64,), trusts=(0.0, 1e-6, 0.3, 0.5, 0.9), least_rows=1),
    st.sampled_from((0.0, 0.5)),
    st.integers(0, 99),
)
def test_slope_is_the_gradient_of_the_cross_entropy_with_a_soft_target(case, plain, seed):
    draw = torch.Generator().manual_seed(seed)
    target = torch.rand(case.logits.shape, generator=draw, dtype=torch.float64) * case.allowed
    target /= target.sum(1, keepdim=True)
    # moderate with a plain part, which must not underflow
    f = (case.logits / (50 if plain else 1)).requires_grad_(True)
    told = inject(f, case.prior, case.allowed, case.trust)
    ours = -torch.where(target > 0, target * told, 0.0).sum()
    usual = -(target * f.log_softmax(1)).sum()
    (plain * usual + (1 - plain) * ours if plain else ours).backward()
    wall = torch.zeros_like(target).masked_fill(~case.allowed, -torch.inf)
    odds = odds_of(case.prior, None, case.trust) if case.trust else None
    found = slope(f.detach(), target, wall=wall, odds=odds, plain=plain)
    torch.testing.assert_close(found, f.grad, atol=1e-10, rtol=0)


@given(cases(dtypes=(torch.float64,), trusts=(0.3, 0.9), least_rows=1))
def test_a_target_that_is_one_hot_gives_the_slope_of_the_label(case):
    y = case.y.unsqueeze(1)
    hard = torch.zeros_like(case.logits).scatter_(1, y, 1.0)
    wall = torch.zeros_like(hard).masked_fill(~case.allowed, -torch.inf)
    each = slope(case.logits, hard, wall=wall, odds=odds_of(case.prior, None, case.trust))
    one = slope(case.logits, hard, pair=pair_of(hard, odds_of(case.prior, y, case.trust), wall))
    assert torch.allclose(each, one, atol=1e-12)


@pytest.mark.parametrize(
    ("target", "allowed", "outside", "wanted"),
    [
        ([0.2, 0.6, 0.2], [0, 1, 1], "error", [0.0, 0.75, 0.25]),  # restricted to the range
        ([0.2, 0.6, 0.2], [0, 0, 1], "widen", [0.0, 0.75, 0.25]),  # and widened to the label
        ([0.5, 0.0, 0.5], [0, 1, 0], "error", [0.0, 1.0, 0.0]),  # nothing is left: the label stands
    ],
)
def test_a_target_is_taught_inside_the_range(target, allowed, outside, wanted):
    target, allowed = torch.tensor([target]), torch.tensor([allowed]).bool()
    data = Examples(torch.zeros(1, 1), torch.tensor([1]), allowed=allowed, target=target)
    assert teach(data, 3, outside=outside).target[0].tolist() == pytest.approx(wanted)
