"""Random bins, sets and distributions, with the cases that hurt: ends on edges and beside them."""

import math
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from fedlore.answers import Bins, Sets

Ends = list[tuple[float, float]]  # the intervals of one row, as an expert might write them


@dataclass(frozen=True)
class Case:
    bins: Bins
    rows: list[Ends]
    sets: Sets
    probabilities: Tensor  # (n, k), zero outside the touched bins


@st.composite
def bins(draw, most: int = 12) -> Bins:
    """Equal or random edges, large and small numbers, bins one float wide."""
    scale = draw(st.sampled_from((1e-300, 1e-3, 1.0, 1e6, 1e300)))
    if draw(st.booleans()):
        low = draw(st.floats(-1, 1)) * scale
        return Bins(low, low + draw(st.floats(0.1, 2)) * scale, draw(st.integers(2, most)))
    edge = st.floats(-scale, scale, allow_subnormal=False)
    edges = draw(st.lists(edge, min_size=3, max_size=most + 1, unique=True))
    if draw(st.booleans()):  # two neighbouring floats as edges
        edges.append(math.nextafter(edges[0], math.inf))
    return Bins.at(sorted(set(edges)))


@st.composite
def ends(draw, cut: Bins, *, within: bool = True) -> Ends:
    """A few intervals, some of them single numbers, in any order."""
    near = [math.nextafter(e, way) for e in cut.edges for way in (-math.inf, math.inf)]
    special = st.sampled_from([*cut.edges, *near])
    inside = st.floats(cut.lower, cut.upper)
    number = st.one_of(special, inside)
    found = []
    for _ in range(draw(st.integers(1, 4))):
        a, b = draw(number), draw(number)
        if draw(st.integers(0, 3)) == 0:
            b = a
        found.append((min(a, b), max(a, b)))
    if within:
        found = [(max(a, cut.lower), min(b, cut.upper)) for a, b in found]
        found = [(a, b) for a, b in found if a <= b] or [(cut.upper, cut.upper)]
    return found


def as_sets(rows: list[Ends]) -> Sets:
    width = max(len(row) for row in rows)
    padded = [[*row, *[(math.nan, math.nan)] * (width - len(row))] for row in rows]
    both = torch.tensor(padded, dtype=torch.float64)  # (n, s, 2)
    return Sets.of(both[:, :, 0], both[:, :, 1])


@st.composite
def cases(draw) -> Case:
    """Rows of sets within random bins, and probabilities of the bins they touch."""
    cut = draw(bins())
    rows = draw(st.lists(ends(cut), min_size=1, max_size=4))
    sets = as_sets(rows)
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    sharp = draw(st.sampled_from((0.0, 1.0, 30.0, 1e4)))  # 1e4: most bins underflow to 0
    logits = sharp * torch.randn(len(rows), cut.k, generator=g, dtype=torch.float64)
    p = logits.masked_fill(~cut.touched(sets), -torch.inf).softmax(1)
    return Case(cut, rows, sets, p.to(draw(st.sampled_from((torch.float32, torch.float64)))))
