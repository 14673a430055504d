"""Own models are made once in a block that remembers, and anew for anything that differs."""

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
import torch

from fedlore.answers import Bins, Measured
from fedlore.core.examples import Examples
from fedlore.models.own import ahead, baseline
from fedlore.models.own.baseline import own_numbers, own_order
from fedlore.models.own.limits import once, remembering


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


@pytest.mark.slow  # two processes load torch
@pytest.mark.parametrize("make", [own_order, own_numbers], ids=["classes", "numbers"])
def test_other_processes_make_the_same_models(make, monkeypatch):
    classes = (4,) if make is own_order else ()
    known = [rows(i / 10) for i in range(2)]
    if make is own_numbers:
        known = [Measured(one.x, one.x[:, 0].double(), cut=Bins(0.0, 3.0, 5)) for one in known]
    calls = [((one, *classes), {"seed": 1, "site": str(i)}) for i, one in enumerate(known)]
    monkeypatch.setattr(ahead, "_WORTH", 0)
    with remembering(), ahead.processes(2):
        ahead.make_ahead(make, calls)
        with monkeypatch.context() as patch:
            patch.setattr(baseline, "try_family", None)  # nothing is left to be made
            made = [make(*args, **named) for args, named in calls]
    for own, (args, named) in zip(made, calls, strict=True):
        alone = make(*args, **named)
        assert torch.equal(own.folds, alone.folds)
        for one, other in zip(own.candidates, alone.candidates, strict=True):
            assert (one.member.name, one.error) == (other.member.name, other.error)
            assert torch.equal(one.held, other.held)


KILLED = """
import os, signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from fedlore.models.own import ahead
with ProcessPoolExecutor(1, get_context("spawn"), ahead._begin, (1,)) as pool:
    print(pool.submit(os.getpid).result(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow  # two processes load torch
def test_processes_end_with_a_run_that_was_killed():
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE) as run:
        worker = int(run.stdout.readline())
        try:
            ended, _, _ = select.select([run.stdout], [], [], 100.0)  # its last writer is gone
            assert ended
        finally:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
