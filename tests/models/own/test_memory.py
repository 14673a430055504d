"""Own models are made once in a block that remembers, and anew for anything that differs."""

import torch

from fedlore.core.examples import Examples
from fedlore.models.own.baseline import once, own_order, remembering


def rows(shift: float = 0.0) -> Examples:
    draw = torch.Generator().manual_seed(1)
    x = torch.rand(10, 2, generator=draw) + shift
    return Examples(x, (x[:, 0] * 3).long())


def counted() -> tuple[list[int], object]:
    calls: list[int] = []

    @once
    def make(known: Examples, classes: int, *, seed: int = 0, site: str = "") -> object:
        calls.append(1)
        return object()

    return calls, make


def test_outside_a_block_every_call_works_anew():
    calls, make = counted()
    assert make(rows(), 3) is not make(rows(), 3)
    assert len(calls) == 2


def test_inside_a_block_equal_rows_seed_and_site_are_one_call():
    calls, make = counted()
    with remembering():
        assert make(rows(), 3, seed=1, site="a") is make(rows(), 3, seed=1, site="a")
        assert len(calls) == 1
        for other in (
            lambda: make(rows(0.5), 3, seed=1, site="a"),
            lambda: make(rows(), 4, seed=1, site="a"),
            lambda: make(rows(), 3, seed=2, site="a"),
            lambda: make(rows(), 3, seed=1, site="b"),
        ):
            other()
        assert len(calls) == 5
    make(rows(), 3, seed=1, site="a")
    assert len(calls) == 6  # nothing outlives its block


def test_the_makers_of_own_models_remember():
    with remembering():
        assert own_order(rows(), 3) is own_order(rows(), 3)
        assert own_order(rows(), 3) is own_order(rows(), 3, seed=0, signs=None)  # as usual
