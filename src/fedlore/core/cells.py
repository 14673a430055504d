"""Log-probabilities of ordered classes from a place and a width: a bell cut at the class borders.

Class c of k covers [c - 1/2, c + 1/2], the first and the last are open. The bell is logistic,
where all is a sum of log-sigmoids, or normal. The normal is worked out from R(z) = log(Q(|z|)
e^{z²/2}), Q its upper tail: R is tame wherever z is, so that neither the values nor their slopes
overflow, underflow or cancel, however far out the place lies and however narrow the bell is.
"""

import math
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

Bell = Literal["logistic", "normal"]

STEEP = math.pi / math.sqrt(3.0)  # scales of a logistic in one standard deviation

_FARTHEST = 1e15  # widths: beyond it z² would leave float32
HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
BEND = math.sqrt(2.0) / 4.0  # t = 1 / (1 + BEND·|z|)
#: R(z) - log t as a polynomial in t, fitted at Chebyshev nodes: 1.1e-7 at most, all that a
#: float32 can hold. torch.special.erfcx is exact, and takes five times as long.
CURVE = (
    *(-1.95865941, 1.00002373, 0.374091104, 0.0967912412, -0.186319191),
    *(0.27894833, -1.13532859, 1.48863059, -0.8222099, 0.170884971),
)


def log_ratio(z: Tensor) -> Tensor:
    """R(z) = log(Q(|z|)·e^{z²/2}), element by element."""
    if z.dtype == torch.float64:
        exact: Tensor = torch.special.erfcx(z.abs() * math.sqrt(0.5))
        return exact.mul(0.5).log()
    t = 1.0 / (1.0 + BEND * z.abs())
    total = torch.full_like(t, CURVE[-1])
    for c in reversed(CURVE[:-1]):
        total = total * t + c
    return total + t.log()


def log_cells(place: Tensor, width: Tensor, classes: int, bell: Bell = "logistic") -> Tensor:
    """log[F((c + 1/2 - m)/s) - F((c - 1/2 - m)/s)] of every class, (...) -> (..., k).

    The width s is the standard deviation of either bell.

    >>> log_cells(torch.tensor([1.0]), torch.tensor([0.5]), 3, "normal").exp()
    tensor([[0.1587, 0.6827, 0.1587]])
    >>> log_cells(torch.tensor([1.0]), torch.tensor([0.5]), 3).exp()
    tensor([[0.1402, 0.7196, 0.1402]])
    """
    if bell == "logistic":
        return _logistic(place.unsqueeze(-1), STEEP / width.unsqueeze(-1), classes)
    shape = (place + width).shape
    found: Tensor = _Cells.apply(place.expand(shape), width.expand(shape), classes)  # type: ignore[no-untyped-call]
    return found


def _logistic(m: Tensor, rate: Tensor, classes: int) -> Tensor:
    """σ(b) - σ(a) = σ(b)·σ(-a)·(1 - e^{a-b}), and nothing cancels in the product."""
    at = torch.arange(classes - 1, dtype=m.dtype, device=m.device)
    z = (at + 0.5 - m) * rate
    below = logsigmoid(z)  # log of the share below each inner edge
    above = below - z
    open_ = torch.zeros_like(z[..., :1])
    between = (-torch.expm1(-rate)).log().expand(*z.shape[:-1], classes - 2)
    between = torch.cat([open_, between, open_], -1)
    return torch.cat([below, open_], -1) + torch.cat([open_, above], -1) + between


class _Cells(torch.autograd.Function):
    """Forward and its slope in closed form; see `_values` for the letters."""

    generate_vmap_rule = True

    @staticmethod
    def forward(place: Tensor, width: Tensor, classes: int) -> Tensor:
        return _values(place, width, classes).found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        place, width, ctx.classes = inputs
        ctx.save_for_backward(place, width)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, None]:
        place, width = ctx.saved_tensors
        z, low, high = _slopes(_values(place, width, ctx.classes))
        # what each inner edge adds: as the lower edge of one class, the upper one of another
        pushed = slope[..., 1:] * low[..., 1:].exp() - slope[..., :-1] * high[..., :-1].exp()
        return pushed.sum(-1) / width, (z * pushed).sum(-1) / width, None


class _Values(NamedTuple):
    """What the cells are made of, (..., k) each but for the inner edges z, (..., k-1)."""

    found: Tensor  # the log-probabilities p
    z: Tensor
    apart: Tensor  # (upper² - lower²) / 2 of every class
    share: Tensor  # log(1 - e^{-D})
    near: Tensor  # R at the nearer edge
    holds: Tensor  # the class that holds the place
    around: Tensor  # and its log-probability


def _values(place: Tensor, width: Tensor, classes: int) -> _Values:
    """On one side of the place, with n the edge nearer to it and f the farther,
    p = Q(n) - Q(f) = e^{R(n) - n²/2}·(1 - e^{-D}),  D = (f² - n²)/2 + R(n) - R(f).
    """
    m, rate = place.unsqueeze(-1), 1.0 / width.unsqueeze(-1)
    at = torch.arange(classes, dtype=m.dtype, device=m.device)
    z = ((at[:-1] + 0.5 - m) * rate).clamp(-_FARTHEST, _FARTHEST)
    middle = ((at - m) * rate).clamp(-_FARTHEST, _FARTHEST)
    ratio = log_ratio(z)
    tail = ratio - 0.5 * z.square()  # log Q(|z|)
    none = torch.full_like(m, -torch.inf)  # Q at the open ends
    ratio, tail = (torch.cat([none, t, none], -1) for t in (ratio, tail))
    apart = middle * rate
    inner = apart[..., 1:-1] + ratio[..., 1:-2] - ratio[..., 2:-1]
    open_ = torch.full_like(m, torch.inf)
    gap = torch.cat([open_, inner.abs(), open_], -1)  # D
    holds = torch.cat([-open_, z], -1).lt(0) & torch.cat([z, open_], -1).gt(0)
    share = (-torch.expm1(-torch.where(holds, 1.0, gap))).log()
    near = torch.maximum(ratio[..., :-1], ratio[..., 1:])  # R falls with |z|
    beside = torch.maximum(tail[..., :-1], tail[..., 1:]) + share
    # the class that holds the place: 1 - Q(|lower|) - Q(|upper|), never near 0 but for wide normals
    tiny = torch.finfo(m.dtype).tiny
    around = (1.0 - tail[..., :-1].exp() - tail[..., 1:].exp()).clamp(min=tiny).log()
    return _Values(torch.where(holds, around, beside), z, apart, share, near, holds, around)


def _slopes(of: _Values) -> tuple[Tensor, Tensor, Tensor]:
    """The inner edges, and of every class the log of φ(edge) / p at its lower and upper edge."""
    open_ = torch.full_like(of.z[..., :1], torch.inf)
    base = -HALF_LOG_TAU - torch.where(of.holds, of.around, of.near + of.share)
    square = torch.cat([open_, 0.5 * of.z.square(), open_], -1)
    low = base - torch.where(of.holds, square[..., :-1], (-of.apart).relu())
    high = base - torch.where(of.holds, square[..., 1:], of.apart.relu())
    return of.z, low, high
