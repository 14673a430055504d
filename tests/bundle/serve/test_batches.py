"""Requests that wait share a pass, and still get their own answers."""

import asyncio

import pytest
import torch

from fedlore.bundle.serve.answer import DIRECT, Answerer, Batcher, NoAnswer

from .sites import crossing, grades


class Counting:
    """An answering that notes how many rows each pass had."""

    def __init__(self, bundle):
        self.inner, self.passes = Answerer.of(bundle), []

    def __call__(self, x):
        self.passes.append(len(x))
        return self.inner(x)


def rows(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    scale = torch.tensor([20.0, 1500.0, 0.0], dtype=torch.float64)
    return torch.rand(n, 3, generator=g, dtype=torch.float64) * scale


def gathered(answering, asked):
    async def talk():
        together = Batcher(answering)
        return await asyncio.gather(*map(together, asked), return_exceptions=True)

    return asyncio.run(talk())


def plain(values):
    return [
        (v["predicted"], v["allowed"], v["in_scope"], v["reasons"], v["probabilities"])
        for v in values
    ]


def test_requests_at_once_share_passes_and_get_their_own_answers():
    asked = [rows(n, seed=n) for n in (1, 2, 20, 9, 1, 32, 1)]
    counting = Counting(grades())
    found = gathered(counting, asked)
    assert counting.passes == [32, 1, 32, 1]  # filled up in order, never above the most
    assert DIRECT == 32
    for x, (values, scope) in zip(asked, found, strict=True):
        alone, columns = counting.inner(x)
        assert [p[:4] for p in plain(values)] == [p[:4] for p in plain(alone)]
        assert scope == columns.in_scope.tolist()
        for one, other in zip(plain(values), plain(alone), strict=True):
            assert list(one[4].values()) == pytest.approx(list(other[4].values()), abs=1e-6)


def test_a_request_alone_is_answered_alone():
    counting = Counting(grades())
    gathered(counting, [rows(3)])
    assert counting.passes == [3]


def test_many_rows_do_not_wait_in_the_queue():
    counting = Counting(grades())
    found = gathered(counting, [rows(DIRECT + 1), rows(1)])
    assert sorted(counting.passes) == [1, DIRECT + 1]
    assert [len(values) for values, _ in found] == [DIRECT + 1, 1]


def test_one_bad_row_spoils_no_other_request():
    good, bad = (torch.tensor([[0.0, b]], dtype=torch.float64) for b in (-1.0, 1.0))
    found = gathered(Answerer.of(crossing()), [good, bad, good])
    assert [isinstance(f, NoAnswer) for f in found] == [False, True, False]
    assert found[1].row == 1


def test_a_failure_reaches_everybody_and_the_queue_goes_on():
    calls = []

    def breaking(x):
        calls.append(len(x))
        if len(calls) == 1:
            raise RuntimeError("broken")
        return Answerer.of(grades())(x)

    async def talk():
        together = Batcher(breaking)
        first = await asyncio.gather(*map(together, [rows(1), rows(1)]), return_exceptions=True)
        return first, await together(rows(1))

    failed, (values, _) = asyncio.run(talk())
    assert [str(f) for f in failed] == ["broken", "broken"]
    assert len(values) == 1


def test_whoever_leaves_early_holds_nobody_up():
    async def talk():
        together = Batcher(Answerer.of(grades()))
        gone = asyncio.create_task(together(rows(1)))
        await asyncio.sleep(0)
        gone.cancel()
        return await asyncio.wait_for(together(rows(2)), 30)

    assert len(asyncio.run(talk())[0]) == 2
