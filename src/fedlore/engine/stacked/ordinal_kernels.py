"""The logistic bell of an ordinal head in two kernels; imported where Triton works, on a card."""

# mypy: ignore-errors
# kernels are written in Python and are none

import triton
from triton import language as tl


@triton.jit
def _edges(moved, start, shift, width, client, rows, j, inside, c, centre, unit, first,
           STARTED: tl.constexpr):  # fmt: skip
    """Edges of the classes c for the rows j, one over the width, and its part in inner classes."""
    m = tl.load(moved + client * rows + j, mask=inside, other=0.0) + tl.load(shift + client)
    if STARTED:
        m += tl.load(start + client * rows + j, mask=inside, other=0.0)
    rate = tl.exp(first - tl.load(width + client))
    middle = (c - centre - unit * m[None, :]) * rate
    # by a series where 1 - e^-r would cancel
    series = rate * (1.0 - rate * (0.5 - rate * (0.16666667 - rate * 0.041666668)))
    between = tl.log(tl.where(rate < 0.05, series, 1.0 - tl.exp(-rate)))
    return middle - 0.5 * rate, middle + 0.5 * rate, rate, between


@triton.jit
def _log_sigmoid(z):
    return tl.minimum(z, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(z)))


@triton.jit
def forward(moved, start, shift, width, out, rows, k, centre, unit, first,
            STARTED: tl.constexpr, KP: tl.constexpr, BB: tl.constexpr):  # fmt: skip
    """Logits of k classes."""
    client = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BB + tl.arange(0, BB)
    inside = j < rows
    c = tl.arange(0, KP)[:, None]
    low, high, _, between = _edges(
        moved, start, shift, width, client, rows, j, inside, c, centre, unit, first, STARTED
    )
    bottom, top = c == 0, c == k - 1
    found = tl.where(top, 0.0, _log_sigmoid(high)) + tl.where(bottom, 0.0, _log_sigmoid(-low))
    found += tl.where(bottom | top, 0.0, between)
    tl.store(out + (client * k + c) * rows + j[None, :], found, mask=(c < k) & inside[None, :])


@triton.jit
def backward(delta, moved, start, shift, width, slope, shift_grad, width_grad, rows, k, centre,
             unit, first, keep, share, by_client, by_class, by_row,
             STARTED: tl.constexpr, KP: tl.constexpr, BB: tl.constexpr):  # fmt: skip
    """The slope in what the network gave, and the gradients of shift and width added up."""
    client = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, KP)[:, None]
    bottom, top = c == 0, c == k - 1
    pushed = tl.zeros([BB], dtype=tl.float32)
    spread = tl.zeros([BB], dtype=tl.float32)
    for begin in range(0, rows, BB):
        j = begin + tl.arange(0, BB)
        inside = j < rows
        low, high, rate, _ = _edges(
            moved, start, shift, width, client, rows, j, inside, c, centre, unit, first, STARTED
        )
        here = (c < k) & inside[None, :]
        where = client * by_client + c * by_class + j[None, :] * by_row
        d = tl.load(delta + where, mask=here, other=0.0)
        # what an upper edge adds, 1 - σ, and what a lower one takes away, σ
        rises = tl.where(top, 0.0, d * tl.sigmoid(-high))
        falls = tl.where(bottom, 0.0, d * tl.sigmoid(low))
        own = -unit * rate * tl.sum(rises - falls, 0)
        tl.store(slope + client * rows + j, own, mask=inside)
        pushed += tl.where(inside, own, 0.0)
        decay = tl.exp(-rate)
        inner = tl.where(bottom | top, 0.0, d * (rate * decay / (1.0 - decay)))
        spread += tl.sum(high * rises - low * falls + inner, 0)
    before = tl.load(shift_grad + client)
    tl.store(shift_grad + client, keep * before + share * tl.sum(pushed, 0))
    before = tl.load(width_grad + client)
    tl.store(width_grad + client, keep * before - share * tl.sum(spread, 0))
