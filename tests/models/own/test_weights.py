"""Weights from few rows: the one answer of their problem, near the start unless rows object."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore.core.rng import stream
from fedlore.errors import FedloreError
from fedlore.models.own import class_weights, number_weights, start_weights
from fedlore.models.own.mixture import onto_simplex


def members(seed, rows=40, count=4, errors=(1.0, 1.0, 1.0, 1.0)):
    draw = stream("weights", seed)
    y = 5 * torch.randn(rows, generator=draw, dtype=torch.float64)
    held = [y + e * torch.randn(rows, generator=draw, dtype=torch.float64) for e in errors[:count]]
    return held, y


def shares(seed, rows=40, skill=(1.0, 1.0, 1.0)):
    draw = stream("shares", seed)
    y = torch.randint(3, (rows,), generator=draw)
    held = []
    for s in skill:
        logits = torch.randn(rows, 3, generator=draw, dtype=torch.float64)
        held.append((logits + s * torch.nn.functional.one_hot(y, 3)).log_softmax(1))
    return held, y


@given(st.integers(0, 1000))
def test_number_weights_solve_their_problem(seed):
    held, y = members(seed)
    start = start_weights(1, 3)
    w = number_weights(held, y, start)
    assert float(w.sum()) == pytest.approx(1.0) and (w >= 0).all()
    missed = torch.stack([h - y for h in held])
    gram = missed @ missed.T
    slope = gram @ w + 30 * gram.diagonal().min() / len(y) * (w - start)
    # at the best point no weight can be moved to a member with a smaller slope
    assert float(slope[w > 1e-6].max() - slope.min()) < 1e-4 * float(gram.diagonal().max())


@given(st.integers(0, 1000))
def test_class_weights_solve_their_problem(seed):
    held, y = shares(seed, skill=(1.0, 0.5, 2.0))
    start = start_weights(1, 2)
    w = class_weights(held, y, start)
    assert float(w.sum()) == pytest.approx(1.0) and (w >= 0).all()
    likely = torch.stack([h.gather(1, y.unsqueeze(1)).squeeze(1).exp() for h in held])
    slope = (likely / (w @ likely)).sum(1) + 30 * start / w
    assert float(slope.max() - slope.min()) < 1e-3 * float(slope.max())


def test_no_rows_worth_mentioning_leave_the_start():
    start = start_weights(1, 3)
    assert torch.allclose(number_weights(*members(1), start, strength=1e9), start, atol=1e-6)
    start = start_weights(1, 2)
    assert torch.allclose(class_weights(*shares(1), start, strength=1e9), start, atol=1e-6)


def test_a_member_that_is_far_better_gets_nearly_all():
    held, y = members(2, rows=200, errors=(0.1, 3.0, 3.0, 3.0))
    assert number_weights(held, y, start_weights(0, 4))[0] > 0.95
    likely, y = shares(2, rows=300, skill=(9.0, 0.0, 0.0))
    assert class_weights(likely, y, start_weights(0, 3))[0] > 0.85


def test_forty_rows_do_not_overfit():
    """Sixteen members that are alike: shrunk weights predict new rows better than free ones."""
    gain = 0.0
    for seed in range(12):
        held, y = members(seed, rows=400, count=16, errors=(1.0,) * 16)
        few = [h[:40] for h in held]
        start = start_weights(0, 16)
        new = torch.stack(held)[:, 40:]

        def error(w, new=new, y=y):
            return float((w @ new - y[40:]).square().mean())

        free = error(number_weights(few, y[:40], start, strength=0.0))
        gain += free - error(number_weights(few, y[:40], start))
    assert gain > 0


def test_a_label_outside_its_range_is_nobodys_fault():
    held, y = shares(3)
    barred = [h.clone() for h in held]
    for h in barred:
        h[0, y[0]] = -torch.inf
    start = start_weights(1, 2)
    with_it, without = (
        class_weights(barred, y, start),
        class_weights([h[1:] for h in barred], y[1:], start),
    )
    assert torch.allclose(with_it, without, atol=0.02)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8))
def test_onto_the_simplex_is_the_nearest_point(values):
    point = torch.tensor(values, dtype=torch.float64)
    found = onto_simplex(point)
    assert float(found.sum()) == pytest.approx(1.0) and (found >= 0).all()
    for corner in torch.eye(len(values), dtype=torch.float64):
        # the angle to every corner is at least a right one
        assert float((point - found) @ (corner - found)) < 1e-9


def test_the_start():
    assert start_weights(0, 4).tolist() == [0.25] * 4
    assert start_weights(2, 0).tolist() == [0.5, 0.5]
    assert start_weights(2, 2).tolist() == [0.25] * 4


def test_what_cannot_be_weighed():
    held, y = members(0)
    with pytest.raises(FedloreError, match="4 members have"):
        number_weights(held, y, start_weights(0, 3))
    with pytest.raises(FedloreError, match="at least one member"):
        start_weights(0, 0)
    with pytest.raises(FedloreError, match="strength must not be negative, got -1"):
        number_weights(held, y, start_weights(0, 4), strength=-1.0)
    with pytest.raises(FedloreError, match="need rows"):
        number_weights([h[:0] for h in held], y[:0], start_weights(0, 4))
    with pytest.raises(FedloreError, match="something finite"):
        number_weights([h + torch.nan for h in held], y, start_weights(0, 4))
