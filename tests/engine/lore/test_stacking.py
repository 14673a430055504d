"""A site's weights are weights to the last bit, whoever has none of them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore import ConfigError
from fedlore.core.examples import Examples
from fedlore.engine.lore.one_shot import pays
from fedlore.engine.lore.report import StackMember
from fedlore.engine.lore.start import (
    CORRECTED,
    NUMBER_STARTS,
    ONE_SHOT,
    SMALL,
    STARTS,
    first_weights,
    prune_members,
    read_starts,
)
from fedlore.engine.lore.temperature import EXPERT, NETWORK
from fedlore.models.ensemble import Ensemble, with_expert
from fedlore.models.own.members import mask_logits


class Even:
    """A member that finds all classes of the range alike."""

    def log_probs(self, known):
        return mask_logits(torch.zeros(len(known), 3), known.allowed)


ROWS = Examples(torch.zeros(2, 1), None, None, torch.tensor([[True, True, False]] * 2))
LEAST = st.one_of(st.just(0.0), st.floats(SMALL, 1.0))


@given(LEAST, st.lists(st.floats(SMALL, 1.0), min_size=1, max_size=8), LEAST, st.floats(0, 1))
def test_no_share_of_a_mixture_leaves_its_bounds_by_an_ulp(network, own, expert, trust):
    """A network without any weight was once given -2e-16 of it."""
    raw = torch.tensor([network, *own, expert], dtype=torch.float64)
    names = [NETWORK, *(str(place) for place in range(len(own))), EXPERT]
    voices = [StackMember(name, torch.zeros(2, 3), shared=False, model=name) for name in names]
    kept, shares = prune_members(voices, raw / raw.sum())
    share = dict(zip((voice.name for voice in kept), shares, strict=True))
    members = tuple(Even() for name in share if name not in (NETWORK, EXPERT))
    weights = tuple(w for name, w in share.items() if name not in (NETWORK, EXPERT))
    ensemble = Ensemble(
        members, weights, share[NETWORK], share.get(EXPERT, 0.0)
    )  # checks its weights
    other = with_expert(ensemble, trust)
    assert other.expert == trust
    for one in (ensemble, other, with_expert(other, 0.0)):
        found = one.without_expert(one.speak(torch.zeros(2, 3), ROWS), ROWS).exp()
        assert torch.allclose(found, torch.tensor([[0.5, 0.5, 0.0]] * 2))


def members(*names):
    return [StackMember(name, torch.zeros(1, 3), shared=name in SHARED_NAMES) for name in names]


SHARED_NAMES = (NETWORK, ONE_SHOT)


def test_weights_begin_as_the_sites_voted_or_as_usual():
    voted = (0.2, 0.5, 0.3)
    some = members(NETWORK, ONE_SHOT, "ridge", "trees", EXPERT)
    assert first_weights(some, voted).tolist() == pytest.approx([0.2, 0.5, 0.15, 0.15, 0], abs=1e-3)
    assert first_weights(some).tolist() == pytest.approx([0.25] * 4 + [0], abs=1e-3)
    assert STARTS[0] == (0.25, 0.25, 0.5)  # at a tie the usual one wins
    assert all(one_shot >= 0.5 for _, one_shot, _ in NUMBER_STARTS)
    # where a site lacks one kind, the others share its part
    assert first_weights(members(ONE_SHOT, "ridge"), voted).tolist() == pytest.approx(
        [0.625, 0.375]
    )
    assert first_weights(members("ridge", "trees"), (0.5, 0.5, 0.0)).tolist() == [0.5, 0.5]
    # what corrects the one-shot model begins with most of its share, and cannot do without it
    corrected = members(NETWORK, ONE_SHOT, CORRECTED, "ridge")
    assert first_weights(corrected, voted).tolist() == pytest.approx([0.2, 0.2, 0.3, 0.3])
    for weight, kept in ((0.5, 4), (0.0, 2)):
        weights = torch.tensor([0.5 - weight, 0.0, weight, 0.5], dtype=torch.float64)
        assert len(prune_members(corrected, weights)[0]) == kept


@pytest.mark.parametrize(
    ("shares", "reason"),
    [
        (torch.ones(3) / 3, "rows of 3 shares"),
        (torch.ones(11, 3) / 3, "rows of 3 shares"),
        (torch.tensor([[0.5, 0.6, -0.1]]), "must not be negative"),
        (torch.tensor([[0.5, 0.6, 0.1]]), "sum to 1"),
        (torch.tensor([[torch.nan, 0.6, 0.1]]), "must not be negative"),
    ],
)
def test_what_are_no_shares_is_refused(shares, reason):
    with pytest.raises(ConfigError, match=reason):
        read_starts({"shares": shares})
    assert read_starts({"shares": torch.tensor(STARTS, dtype=torch.float64)}) == [*STARTS]


def test_what_pays_is_worth_more_than_its_standard_error():
    """Gains of 1 and -0.5 by turns: 0.25 on average, with an error of 0.75 / √n."""
    before = torch.tensor([1.0, -0.5] * 20)
    after = torch.zeros(40)
    assert pays(before[:8].abs() * 0 + 0.1, after[:8])  # the same gain everywhere has no error
    assert not pays(before[:8], after[:8]) and pays(before[:10], after[:10])
    assert not pays(before[:36], after[:36], errors=2.0) and pays(before, after, errors=2.0)
    assert not pays(after, before)
