"""The paper's properties are of single rows: they hold for any λ(x)."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlore.answers import Bins, Measured, Sets
from fedlore.core.examples import Examples
from fedlore.core.inject import inject
from fedlore.core.metrics import decide
from fedlore.core.rng import stream
from fedlore.models.ensemble import Ensemble
from fedlore.models.regressor import decode_logits


def drawn(seed, n=40, k=5):
    """Rows with what an expert says inside a range, logits, and any λ from the ends inwards."""
    draw = stream("row trust", seed)
    logits = 20 * torch.randn(n, k, generator=draw)
    allowed = torch.rand(n, k, generator=draw) < 0.6
    said = torch.randint(k, (n,), generator=draw)
    allowed[torch.arange(n), said] = True
    prior = torch.nn.functional.one_hot(said, k).float()
    prior[torch.rand(n, generator=draw) < 0.2] = 0.0
    trust = torch.rand(n, generator=draw, dtype=torch.float64)
    trust = torch.where(torch.rand(n, generator=draw) < 0.2, trust.round(), trust)
    return logits, prior, allowed, trust


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_trust_of_a_row_keeps_the_properties(seed, mixed):
    logits, prior, allowed, trust = drawn(seed)
    if mixed:
        own = trust.clone()
        own[::4] = torch.nan
        trust = torch.where(own.isnan(), 0.25, own)
        known = Examples(torch.zeros(len(logits), 1), None, prior, allowed, trust=own)
        ensemble = Ensemble((), (), 0.75, 0.25)
        log_probs = ensemble.log_probs(ensemble.speak(logits, known), known)
    else:
        log_probs = inject(logits, prior, allowed, trust)
    p = log_probs.exp()
    assert (p >= 0).all() and torch.allclose(p.sum(1), torch.ones(len(p)), atol=1e-5)  # (a)
    assert (p[~allowed] == 0).all()  # (c)
    spoken = prior.sum(1) > 0
    own = (p * prior).sum(1)
    assert (own[spoken] >= trust[spoken] - 1e-5).all()  # (b), row by row
    wins = spoken & (trust > 0.5001)
    assert (decide(log_probs, prior)[wins] == prior.argmax(1)[wins]).all()
    # and it is what one number would be in that row
    for row in range(0, len(p), 7):
        one = inject(
            logits[row : row + 1], prior[row : row + 1], allowed[row : row + 1], float(trust[row])
        )
        assert torch.allclose(p[row], one.exp()[0], atol=1e-6)


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_a_number_stays_in_its_set_for_any_trust_of_its_row(seed):
    draw = stream("row trust number", seed)
    n, bins = 30, Bins(0.0, 10.0, 5)
    ends = 10 * torch.rand(n, 2, generator=draw, dtype=torch.float64)
    sets = Sets.of(ends.amin(1), ends.amax(1))
    said = ends.amin(1) + (ends.amax(1) - ends.amin(1)) * torch.rand(n, generator=draw).double()
    said[::5] = torch.nan
    trust = torch.rand(n, generator=draw, dtype=torch.float64)
    told = Measured(torch.zeros(n, 1), None, said, sets, bins)
    found = decode_logits(torch.randn(n, 5, generator=draw), told, trust)
    assert sets.holds(found.mean()).all() and sets.holds(found.quantile(0.5)).all()
    assert torch.equal(found.weight, torch.where(said.isnan(), 0.0, trust))
