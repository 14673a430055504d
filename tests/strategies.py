"""Random logits, ranges, experts and labels for property tests."""

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

TRUSTS = (0.0, 1e-6, 0.3, 0.5, 1.0)


@dataclass(frozen=True)
class Case:
    logits: Tensor  # (n, k)
    prior: Tensor  # (n, k)  one-hot inside the range, or zero
    allowed: Tensor  # (n, k)
    y: Tensor  # (n,)    inside the range
    trust: float


@st.composite
def cases(draw, *, dtypes=(torch.float32, torch.float64), trusts=TRUSTS, least_rows=0) -> Case:
    """Rows of any width: abstaining experts, single-class ranges, logits up to ±1e4."""
    k = draw(st.integers(2, 50))
    n = draw(st.integers(least_rows, 6))
    dtype = draw(st.sampled_from(dtypes))
    scale = draw(st.sampled_from((0.0, 1.0, 50.0, 1e4)))
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    logits = (2 * torch.rand(n, k, generator=g, dtype=torch.float64) - 1) * scale
    y = torch.randint(k, (n,), generator=g)
    width = draw(st.sampled_from((0.0, 0.2, 1.0)))  # 0: only the label is allowed
    allowed = torch.rand(n, k, generator=g) < width
    allowed[torch.arange(n), y] = True
    said = torch.where(allowed, torch.rand(n, k, generator=g), -1.0).argmax(1)
    prior = torch.nn.functional.one_hot(said, k).to(dtype)
    prior[torch.rand(n, generator=g) < 0.25] = 0  # some experts abstain
    return Case(logits.to(dtype), prior, allowed, y, draw(st.sampled_from(trusts)))
