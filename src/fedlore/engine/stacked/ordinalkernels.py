"""The ordinal head on a card in three kernels; imported by ordinals alone, where Triton works."""

# mypy: ignore-errors
# kernels are written in Python and are none

import triton
from triton import language as tl

FARTHEST = tl.constexpr(1e12)
BROADEST = tl.constexpr(6.0)
HALF_LOG_TAU = tl.constexpr(0.9189385332046727)


@triton.jit
def hear(
    h, told, wide, start, rows, width, k, h_client, h_row, told_client, told_row, centre, unit,
    JOINED: tl.constexpr, START: tl.constexpr, KP: tl.constexpr, WIDE: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """Middle of the range and the expert's place; beside the trunk's numbers, and as a start."""
    client = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BB + tl.arange(0, BB)
    inside = j < rows
    c = tl.arange(0, KP)
    at = told + client * told_client + j[:, None] * told_row + c[None, :]
    here = inside[:, None] & (c[None, :] < k)
    prior = tl.load(at, mask=here, other=0.0)
    allowed = tl.load(at + k, mask=here, other=0.0)
    place = c[None, :].to(tl.float32)
    middle = tl.sum(allowed * place, 1) / tl.where(inside, tl.sum(allowed, 1), 1.0)
    said = tl.sum(prior, 1)
    spoken = said > 0
    expert = tl.where(spoken, tl.sum(prior * place, 1) / tl.where(spoken, said, 1.0), middle)
    if START == 1:
        tl.store(start + client * rows + j, middle, mask=inside)
    if START == 2:
        tl.store(start + client * rows + j, expert, mask=inside)
    if JOINED:
        own = wide + (client * rows + j) * (width + 3)
        for first in range(0, width, WIDE):
            i = first + tl.arange(0, WIDE)
            part = inside[:, None] & (i[None, :] < width)
            seen = tl.load(h + client * h_client + j[:, None] * h_row + i[None, :], mask=part)
            tl.store(own[:, None] + i[None, :], seen, mask=part)
        tl.store(own + width, (middle - centre) / unit, mask=inside)
        tl.store(own + width + 1, (expert - centre) / unit, mask=inside)
        tl.store(own + width + 2, expert - middle, mask=inside)


@triton.jit
def _ratio(z):
    """R(z); the coefficients of gauss.CURVE."""
    t = 1.0 / (1.0 + 0.35355339059327373 * tl.abs(z))
    p = 0.170884971 * t - 0.8222099
    p = p * t + 1.48863059
    p = p * t - 1.13532859
    p = p * t + 0.27894833
    p = p * t - 0.186319191
    p = p * t + 0.0967912412
    p = p * t + 0.374091104
    p = p * t + 1.00002373
    return p * t - 1.95865941 + tl.log(t)


@triton.jit
def _classes(moved, start, centre, shift, width, client, rows, j, inside, c, k, unit, first,
             STARTED: tl.constexpr):  # fmt: skip
    """Everything about the classes c of the rows j, in the letters of gauss."""
    begin = centre
    if STARTED:
        begin = tl.load(start + client * rows + j, mask=inside, other=0.0)
    own = tl.load(shift + client)
    place = begin + unit * (tl.load(moved + client * rows + j, mask=inside, other=0.0) + own)
    place = tl.minimum(tl.maximum(place, -FARTHEST), FARTHEST)[None, :]
    log = tl.load(width + client)
    rate = tl.exp(-tl.minimum(tl.maximum(log, -BROADEST), BROADEST)) / first
    middle = (c - place) * rate
    low, high = middle - 0.5 * rate, middle + 0.5 * rate
    bottom, top = c == 0, c == k - 1
    below, above = _ratio(low), _ratio(high)
    apart = middle * rate
    gap = tl.abs(apart + below - above)
    # by a series where 1 - e^-D would cancel
    series = gap * (1.0 - gap * (0.5 - gap * (0.16666667 - gap * 0.041666668)))
    lost = tl.where(gap < 0.05, series, 1.0 - tl.exp(-gap))
    share = tl.where(bottom | top, 0.0, tl.log(tl.maximum(lost, 1.2e-38)))
    none = float("-inf")
    tail_below = tl.where(bottom, none, below - 0.5 * low * low)
    tail_above = tl.where(top, none, above - 0.5 * high * high)
    near = tl.maximum(tl.where(bottom, none, below), tl.where(top, none, above)) + share
    held = tl.minimum(tl.maximum(tl.floor(place + 0.5), 0.0), k - 1.0)
    holds = c == held.to(tl.int32)
    sides = tl.exp(tail_below) + tl.exp(tail_above)
    around = tl.log(tl.maximum(1.0 - sides, 1.2e-38))
    out = tl.where(holds, around, tl.maximum(tail_below, tail_above) + share)
    base = -HALF_LOG_TAU - tl.where(holds, around, near)
    by_low = base - tl.where(holds, 0.5 * low * low, tl.maximum(-apart, 0.0))
    by_high = base - tl.where(holds, 0.5 * high * high, tl.maximum(apart, 0.0))
    at_low = tl.where(bottom, 0.0, tl.exp(by_low))
    at_high = tl.where(top, 0.0, tl.exp(by_high))
    return out, rate, log, low, high, at_low, at_high


@triton.jit
def forward(moved, start, shift, width, out, rows, k, centre, unit, first,
            STARTED: tl.constexpr, KP: tl.constexpr, BB: tl.constexpr):  # fmt: skip
    client = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BB + tl.arange(0, BB)
    inside = j < rows
    c = tl.arange(0, KP)[:, None]
    found, _, _, _, _, _, _ = _classes(
        moved, start, centre, shift, width, client, rows, j, inside, c, k, unit, first, STARTED
    )
    here = (c < k) & inside[None, :]
    tl.store(out + (client * k + c) * rows + j[None, :], found, mask=here)


@triton.jit
def backward(delta, moved, start, shift, width, slope, shift_grad, width_grad, rows, k, centre,
             unit, first, keep, share, delta_client, delta_class, delta_row,
             STARTED: tl.constexpr, KP: tl.constexpr, BB: tl.constexpr):  # fmt: skip
    """The slope in what the network gave, and the gradients of shift and width added up."""
    client = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, KP)[:, None]
    pushed = tl.zeros([BB], dtype=tl.float32)
    spread = tl.zeros([BB], dtype=tl.float32)
    log = tl.load(width + client)
    for begin in range(0, rows, BB):
        j = begin + tl.arange(0, BB)
        inside = j < rows
        _, rate, _, low, high, at_low, at_high = _classes(
            moved, start, centre, shift, width, client, rows, j, inside, c, k, unit, first, STARTED
        )
        here = (c < k) & inside[None, :]
        where = client * delta_client + c * delta_class + j[None, :] * delta_row
        d = tl.load(delta + where, mask=here, other=0.0)
        own = unit * rate * tl.sum(tl.where(here, d * (at_low - at_high), 0.0), 0)
        tl.store(slope + client * rows + j, own, mask=inside)
        pushed += tl.where(inside, own, 0.0)
        spread += tl.sum(tl.where(here, d * (low * at_low - high * at_high), 0.0), 0)
    free = tl.where(tl.abs(log) <= BROADEST, 1.0, 0.0)
    before = tl.load(shift_grad + client)
    tl.store(shift_grad + client, keep * before + share * tl.sum(pushed, 0))
    before = tl.load(width_grad + client)
    tl.store(width_grad + client, keep * before + share * free * tl.sum(spread, 0))
