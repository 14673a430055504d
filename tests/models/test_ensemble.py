"""Members beside the network: the paper's properties for any members and weights."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from fedlore import Examples, FedloreError, Knowledge, Personal, Schema
from fedlore.core.nets import mlp
from fedlore.kernel.schema import Feature
from fedlore.models.answers import DECIDED
from fedlore.models.ensemble import Ensemble

K = 4


class Fixed:
    """A member that says the same of every row, inside the range."""

    def __init__(self, logits):
        self.logits = logits

    def log_probs(self, known):
        rows = self.logits.expand(len(known), -1)
        if known.allowed is not None:
            rows = rows.masked_fill(~known.allowed, -torch.inf)
        return rows.double().log_softmax(1)


def rows(n=30, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(K, (n,), generator=g)
    allowed = one_hot(y, K).bool() | (torch.rand(n, K, generator=g) < 0.4)
    said = torch.where(allowed, torch.rand(n, K, generator=g), -1.0).argmax(1)
    prior = one_hot(said, K).float()
    prior[:5] = 0.0  # silent
    return Examples(torch.randn(n, 3, generator=g), y, prior, allowed)


def personal(network, own, expert, inverse_temperature=1.0):
    ensemble = Ensemble(
        (Fixed(torch.tensor([3.0, 0.0, 0.0, 0.0])),), (own,), network, expert, inverse_temperature
    )
    return Personal(mlp(3, K, hidden=(5,)), Knowledge(), ensemble=ensemble)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 4))
def test_it_is_a_distribution_inside_the_range_and_the_expert_keeps_his_weight(
    a, b, inverse_temperature
):
    expert, own = a * b, a * (1 - b)
    model, known = personal(1.0 - expert - own, own, expert, inverse_temperature), rows()
    found = model.log_probs(known).exp()
    assert torch.allclose(found.sum(1), torch.ones(len(found)), atol=1e-5)
    assert (found[~known.allowed] == 0).all()
    spoken = known.prior.sum(1) > 0
    his = found[known.prior.bool()]
    assert (his >= expert - 1e-6).all() and len(his) == int(spoken.sum())
    if expert > 0.5 + 1e-6:
        assert torch.equal(found.argmax(1)[spoken], known.prior.argmax(1)[spoken])


def test_two_members_are_the_papers_model():
    known = rows()
    network = mlp(3, K, hidden=(5,))
    plain = Personal(network, Knowledge(reliance=0.3))
    mixed = Personal(network, Knowledge(), ensemble=Ensemble((), (), 0.7, 0.3))
    assert torch.allclose(plain.log_probs(known).exp(), mixed.log_probs(known).exp(), atol=1e-6)
    assert torch.equal(plain.logits(known), mixed.logits(known))
    assert mixed.reliance == 0.3


def test_answers_name_who_decided():
    schema = Schema(tuple(Feature(n) for n in "abc"), ("w", "x", "y", "z"))
    known = rows()

    class Shown(Personal):
        def annotate(self, x):
            return known

    ensemble = personal(0.1, 0.2, 0.7).ensemble
    model = Shown(mlp(3, K, hidden=(5,)), Knowledge(), ensemble=ensemble)
    with torch.no_grad():
        found = model.answer(schema, known.x)
    spoken = known.prior.sum(1) > 0
    assert torch.allclose(found.trust, 0.7 * spoken.float())
    single = known.allowed.sum(1) == 1
    expert = torch.tensor([DECIDED[int(d)] == "expert" for d in found.decided])
    silent = ~spoken & ~single  # the network has a tenth of the say: no network decided
    assert {DECIDED[int(d)] for d in found.decided[silent]} == {"model"}
    assert torch.equal(found.predicted[spoken], found.expert[spoken])
    assert not (expert & single).any() and not (expert & ~spoken).any()
    assert torch.allclose(found.probabilities, model.log_probs(known).exp().detach(), atol=1e-6)


def test_bad_weights_are_named():
    with pytest.raises(FedloreError, match="weights must sum to 1, got 0.9"):
        personal(0.5, 0.3, 0.1)
    with pytest.raises(
        FedloreError, match="inverse_temperature must be positive and finite, got 0"
    ):
        personal(0.5, 0.4, 0.1, inverse_temperature=0)
    with pytest.raises(FedloreError, match="weights must sum to 1"):
        Ensemble((), (), 0.5)
