"""λ on cached logits: the closed forms are those of the transformation itself."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from fedlore import Examples, FedloreError, inject
from fedlore.core.metrics import nll
from fedlore.core.rng import stream
from fedlore.engine.tuning import GRID, Cached, hits, least_loss, loss, most_hits, trust_slope


def some(seed: int, n: int = 40, k: int = 4, *, soft: bool = False) -> Cached:
    """Random logits, an expert who is silent now and then, ranges that hold the label."""
    g = stream("curves", seed)
    y = torch.randint(k, (n,), generator=g)
    allowed = one_hot(y, k).bool() | (torch.rand(n, k, generator=g) < 0.5)
    said = torch.where(allowed, torch.rand(n, k, generator=g).double(), 0.0)
    prior = said / said.sum(1, keepdim=True) if soft else one_hot(said.argmax(1), k).double()
    prior[torch.rand(n, generator=g) < 0.2] = 0.0
    logits = 3 * torch.randn(n, k, generator=g)
    return Cached(logits.double(), Examples(torch.zeros(n, 1), y, prior, allowed))


def by_inject(cached: Cached, trust: float) -> float:
    known = cached.known
    return nll(inject(cached.logits, known.prior, known.allowed, trust), cached.y)


@given(st.integers(0, 10_000), st.floats(0, 0.95), st.booleans())
def test_the_loss_is_that_of_the_transformation(seed, trust, soft):
    cached = some(seed, soft=soft)
    assert float(loss(cached, [trust])) == pytest.approx(by_inject(cached, trust), abs=1e-9)


@given(st.integers(0, 10_000), st.floats(0.01, 0.9), st.booleans())
def test_slope_and_curvature_are_those_of_the_loss(seed, trust, soft):
    cached = some(seed, soft=soft)
    first, second = trust_slope(cached, trust)
    h = 1e-5
    below, at, above = loss(cached, [trust - h, trust, trust + h])
    assert first == pytest.approx(float(above - below) / (2 * h), rel=1e-3, abs=1e-3)
    assert second == pytest.approx(float(above - 2 * at + below) / h**2, rel=2e-2, abs=2e-2)
    assert second >= 0


def test_at_zero_the_closed_form_is_right_where_autograd_is_not():
    cached = some(1)
    trust = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
    known = cached.known
    log_probs = inject(cached.logits, known.prior, known.allowed, trust)
    torch.nn.functional.nll_loss(log_probs, cached.y).backward()
    h = 1e-6
    low, high = loss(cached, [0.0, h])
    true = float(high - low) / h
    assert trust_slope(cached, 0.0)[0] == pytest.approx(true, rel=1e-3)
    assert abs(float(trust.grad) - true) > 0.01 * abs(true)


@given(st.integers(0, 10_000), st.booleans())
def test_least_loss_is_least_on_a_fine_grid(seed, soft):
    cached = some(seed, soft=soft)
    best = least_loss(cached)
    fine = loss(cached, [i / 200 for i in range(191)])
    assert float(loss(cached, [best])) <= float(fine.min()) + 1e-9


def test_an_expert_who_is_always_right_is_trusted_and_one_who_never_is_is_not():
    y = torch.tensor([0, 1, 2] * 10)
    logits = torch.zeros(30, 3).double()
    right = Cached(logits, Examples(torch.zeros(30, 1), y, one_hot(y, 3).double()))
    wrong = Cached(logits, Examples(torch.zeros(30, 1), y, one_hot((y + 1) % 3, 3).double()))
    assert least_loss(right) == 0.95
    assert least_loss(wrong) == 0.0
    assert most_hits(wrong) == 0.0
    assert float(hits(right, [most_hits(right)]).double().mean()) == 1.0


def test_the_middle_of_a_good_region_beats_a_lucky_point():
    # 3 rows right from λ = .2 to .4, one more at .5 alone; by hand: margins of the network
    def row(margin, expert_right):
        s = torch.tensor([0.5 + margin / 2, 0.5 - margin / 2])
        return s.log(), 0 if not expert_right else 1

    rows = [row(m, r) for m, r in ((0.2, True), (0.2, True), (0.2, True), (0.9, False))]
    y = torch.tensor([label for _, label in rows])
    logits = torch.stack([values for values, _ in rows]).double()
    prior = torch.tensor([[0.0, 1.0]] * 4).double()
    cached = Cached(logits, Examples(torch.zeros(4, 1), y, prior))
    assert 0.15 <= most_hits(cached, GRID) <= 0.45
    assert most_hits(cached) == most_hits(cached)


def test_without_an_expert_lambda_is_nought_and_nothing_changes():
    cached = some(3)
    bare = Cached(cached.logits, Examples(cached.known.x, cached.y))
    assert least_loss(bare) == 0.0
    assert most_hits(bare) == 0.0
    assert trust_slope(bare, 0.3) == (0.0, 0.0)


def test_a_label_that_the_range_excludes_says_nothing_about_lambda():
    cached = some(5)
    known = cached.known
    shut = known.allowed.clone()
    shut[0] = ~one_hot(cached.y[0], 4).bool()
    silent = known.prior.clone()
    silent[0] = 0
    missed = Cached(cached.logits, Examples(known.x, known.y, silent, shut))
    rest = Cached(cached.logits[1:], known[slice(1, None)])
    assert float(loss(missed, [0.2])) == pytest.approx(float(loss(rest, [0.2])))
    assert least_loss(missed) == pytest.approx(least_loss(rest))


def test_folds_join_and_rows_without_labels_are_refused():
    a, b = some(1), some(2)
    both = Cached.join([a, b])
    assert len(both) == 80
    assert torch.equal(hits(both, [0.3])[0], torch.cat([hits(a, [0.3])[0], hits(b, [0.3])[0]]))
    shaped = [Cached(c.logits, replace(c.known, signs=torch.ones(40, 3))) for c in (a, b)]
    medians = torch.cat([hits(c, [0.3])[0] for c in shaped])  # as rows with shapes are answered
    assert torch.equal(hits(Cached.join(shaped), [0.3])[0], medians)
    assert not torch.equal(medians, hits(both, [0.3])[0])
    with pytest.raises(FedloreError, match="a label for each"):
        Cached(torch.zeros(2, 3), Examples(torch.zeros(2, 1)))
