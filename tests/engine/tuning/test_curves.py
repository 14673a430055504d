"""λ by the right predictions that cached logits give under it."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import one_hot

from fedlore import Examples, FedloreError
from fedlore.core.rng import stream
from fedlore.engine.tuning import GRID, Cached, hits, most_hits


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


def test_an_expert_who_is_always_right_is_trusted_and_one_who_never_is_is_not():
    y = torch.tensor([0, 1, 2] * 10)
    logits = torch.zeros(30, 3).double()
    right = Cached(logits, Examples(torch.zeros(30, 1), y, one_hot(y, 3).double()))
    wrong = Cached(logits, Examples(torch.zeros(30, 1), y, one_hot((y + 1) % 3, 3).double()))
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
    assert most_hits(Cached(cached.logits, Examples(cached.known.x, cached.y))) == 0.0


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
