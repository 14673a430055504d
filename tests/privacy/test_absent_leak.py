"""Which sites lack a column: what sums over all of them tell, and what they do not."""

from itertools import combinations

import pytest
import torch

from fedlore.core.one_shot import Basis, sum_rows
from fedlore.core.scaler import from_moments
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.scope import inputs_of

SCHEMA = Schema((Feature("ash"), Feature("b", missing="mean")), ("I", "II"))
INPUTS = inputs_of(SCHEMA)


def sites(sizes, lacking, seed):
    """Rows of sites alike, of which some have no second column."""
    draw = torch.Generator().manual_seed(seed)
    rows = [torch.randn(n, 2, generator=draw) for n in sizes]
    for place in lacking:
        rows[place][:, 1] = torch.nan
    return rows


def summed(parts):
    return {name: sum(part[name] for part in parts) for name in parts[0]}


def test_with_sites_of_a_size_the_counts_are_the_same_whoever_lacks_it():
    pairs = list(combinations(range(5), 2))
    found = [summed([INPUTS.moments(x) for x in sites((40,) * 5, pair, 1)])["rows"].tolist()
             for pair in pairs]  # fmt: skip
    assert found == [found[0]] * len(pairs)


def test_from_the_sums_of_sites_alike_a_guesser_is_at_chance():
    """He simulates what sums each choice of two sites would give, and names the nearest."""
    pairs, right, tries = list(combinations(range(5), 2)), 0, 300
    for seed in range(tries):
        truth = pairs[seed % len(pairs)]
        seen = summed([INPUTS.moments(x) for x in sites((40,) * 5, truth, seed)])
        seen = torch.cat([t.flatten() for t in seen.values()])
        distances = []
        for pair in pairs:
            drawn = summed([INPUTS.moments(x) for x in sites((40,) * 5, pair, 10_000 + seed)])
            distances.append(
                float((torch.cat([t.flatten() for t in drawn.values()]) - seen).norm())
            )
        right += pairs[distances.index(min(distances))] == truth
    assert abs(right / tries - 0.1) < 3 * (0.1 * 0.9 / tries) ** 0.5


def test_who_knows_the_rows_of_all_sites_works_out_who_lacks_it():
    """What docs/how-to/columns.md says: the count of values is a sum of rows, and names sites."""
    sizes, lacking = (40, 60, 80, 110), (0, 2)
    there = summed([INPUTS.moments(x) for x in sites(sizes, lacking, 3)])["rows"][1]
    fits = [pair for pair in combinations(range(4), 2)
            if sum(sizes) - sum(sizes[p] for p in pair) == int(there)]  # fmt: skip
    assert fits == [lacking]


def test_an_absent_column_is_a_constant_in_the_sums_of_the_one_shot_model():
    """A site's rows are centred: neither its fill nor its sign is in what it sends."""
    rows = sites((40, 60, 80), (1,), 5)
    scaler = from_moments(summed([INPUTS.moments(x) for x in rows]), INPUTS)
    basis = Basis("linear")
    phi = basis(scaler(rows[1].double()))
    _, sums = sum_rows(phi, torch.randn(60).double())
    width = phi.shape[1]
    gram = torch.zeros(width, width).double()
    gram[tuple(torch.triu_indices(width, width))] = sums["squares"]
    assert gram[1:].abs().max() == pytest.approx(0.0, abs=1e-18)
    assert gram[0, 1:].abs().max() == pytest.approx(0.0, abs=1e-18)
