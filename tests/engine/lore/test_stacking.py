"""A site's weights are weights to the last bit, whoever has none of them."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore.core.examples import Examples
from fedlore.engine.lore.stacking import (
    EXPERT,
    NETWORK,
    PARTS,
    SMALL,
    StackMember,
    cross_chosen,
    prune_members,
)
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
        found = one.without_expert(torch.zeros(2, 3), ROWS).exp()
        assert torch.allclose(found, torch.tensor([[0.5, 0.5, 0.0]] * 2))


def test_the_best_own_model_of_a_row_is_chosen_by_the_losses_of_the_others():
    """Two constants: the first is better but for the rows of one part, which it alone misses."""
    rows = 4 * PARTS
    first, second = torch.zeros(rows), torch.ones(rows)
    missed = torch.arange(rows) % PARTS == 2

    def losses(said):
        return torch.where(said == 0, 3.0 * missed, 1.0)

    found = cross_chosen([first, second], losses, rows)
    # the other parts lose 0.75 a row by the first where they see its miss, and 0 where they do not
    assert (found == 0).all()
    found = cross_chosen(
        [first, second], lambda said: torch.where(said == 0, 6.0 * missed, 1.0), rows
    )
    assert torch.equal(found == 0, missed)
