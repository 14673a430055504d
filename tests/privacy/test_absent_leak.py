"""Which sites lack a column: what sums over all of them tell, and what they do not."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch

from fedlore.core.one_shot import Basis, OneShot, solve, sum_rows, unpack_gram
from fedlore.core.scaler import from_moments
from fedlore.engine.lore.space import MOST_FEATURES, default_space
from fedlore.federation.settings import Federation
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.scope import inputs_of

SCHEMA = Schema((Feature("ash"), Feature("Ro"), Feature("b", missing="mean")), ("I", "II"))
INPUTS = inputs_of(SCHEMA)
SIZES = (40, 60, 80, 110, 150)
PAIRS = list(combinations(range(5), 2))


def sites(sizes, lacking, seed):
    """Rows of sites alike, of which some have no last column."""
    draw = torch.Generator().manual_seed(seed)
    rows = [torch.randn(n, 3, generator=draw) for n in sizes]
    for place in lacking:
        rows[place][:, 2] = torch.nan
    return rows


def summed(parts):
    return {name: sum(part[name] for part in parts) for name in parts[0]}


def scaled(lacking, seed, sizes=SIZES):
    """The sum over all sites for a common scaling: what a coordinator sees under masks."""
    return summed([INPUTS.moments(x) for x in sites(sizes, lacking, seed)])


def test_a_single_upload_tells_who_lacks_it():
    told = [INPUTS.moments(x)["rows"][2] for x in sites(SIZES, (0, 3), 1)]
    assert [place for place, rows in enumerate(told) if rows == 0] == [0, 3]


def test_from_the_sums_of_rows_nobody_works_out_who_lacks_it():
    """A count of values, 300 of 440, would name the first and the fourth site."""
    for name, places in (("rows", [2, 3]), ("sum", [3]), ("squares", [3])):
        found = [scaled(pair, 1)[name][places].tolist() for pair in PAIRS]
        assert found == [found[0]] * len(PAIRS)
    assert scaled((0, 3), 1)["rows"].tolist() == [440, 440, 3, 5]  # sites that have it, sites


@pytest.mark.parametrize("sizes", [SIZES, (40,) * 5])
def test_from_the_sums_for_scaling_a_guesser_is_at_chance(sizes):
    """He knows the rows of all sites, simulates each choice of two, and names the nearest."""
    right, tries = 0, 300
    for seed in range(tries):
        truth = PAIRS[seed % len(PAIRS)]
        seen = torch.cat([t.flatten() for t in scaled(truth, seed, sizes).values()])
        distances = []
        for pair in PAIRS:
            drawn = scaled(pair, 10_000 + seed, sizes)
            distances.append(
                float((torch.cat([t.flatten() for t in drawn.values()]) - seen).norm())
            )
        right += PAIRS[distances.index(min(distances))] == truth
    assert abs(right / tries - 0.1) < 3 * (0.1 * 0.9 / tries) ** 0.5


def grams(one_shot, lacking):
    """By site its sums for the one-shot model, and its centred rows."""
    rows = sites(SIZES, lacking, 5)
    scaler = from_moments(summed([INPUTS.moments(x) for x in rows]), INPUTS)
    found = []
    for x in rows:
        told = torch.ones(len(x), 2, dtype=torch.bool)
        phi, _, _ = one_shot.rows(scaler(x), None, told, classes=2)
        found.append(sum_rows(phi, x[:, 0].double())[1])
    inside = [scaler(x).double()[:, :2] for x in rows]
    return found, [x - x.mean(0) for x in inside]


def test_products_with_a_flag_would_be_the_rows_of_a_single_site_behind_masks():
    """One site lacks it: its sums of products stood in the sum over all, to the last digit."""
    one_shot, lacking = OneShot(Basis("quadratic"), hears=False), 3
    uploads, rows = grams(one_shot, (lacking,))
    size = len(one_shot.groups(4))
    products = [4 + 4 + place for place in (2, 4)]  # of ash and Ro with the flag
    own = rows[lacking].T @ rows[lacking]
    seen = unpack_gram(summed(uploads), size)[products][:, products]
    assert torch.allclose(seen, own, rtol=1e-6)
    uploads, _ = grams(replace(one_shot, flags=INPUTS.flags), (lacking,))
    assert not unpack_gram(summed(uploads), size)[products].any()
    for upload in uploads:  # all that is left of the flag is a constant, which is centred away
        assert unpack_gram(upload, size)[3].abs().max() == pytest.approx(0.0, abs=1e-18)


def test_a_feature_that_is_not_summed_has_no_weight_and_no_variance():
    one_shot = OneShot(Basis("quadratic"), hears=False, flags=INPUTS.flags)
    uploads, _ = grams(one_shot, (0, 3))
    groups = one_shot.groups(4)
    found, used = solve(summed(uploads), groups), groups >= 0
    assert int((~used).sum()) == 3
    assert not found.mean[~used].any() and not found.covariance[~used].any()
    assert not found.covariance[:, ~used].any() and len(found.prior) == 3
    assert found.mean[0] == pytest.approx(found.mean.abs().max())  # ash is what was learned


def test_every_search_space_of_a_federation_leaves_them_out():
    usual = Federation(schema=SCHEMA).offered(replace(SCHEMA, ordered=True))
    assert usual.one_shot.flags == INPUTS.flags == (3,)
    wide = default_space(10, numbers=True, flags=(8, 9)).one_shot
    assert wide.basis.curves > default_space(10, numbers=True).one_shot.basis.curves
    assert int((wide.groups(10) >= 0).sum()) <= MOST_FEATURES
