"""Worker processes share the work and never outlive it."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from fedlore import FedAvg, FedloreError, Plan
from fedlore.algorithms import Scaffold
from fedlore.core.nets import mlp
from fedlore.engine import Recipe, Stacked, federate
from fedlore.engine.stacked.workers import Workers, can_fork, share_tensor

from .federation import CLASSES, FEATURES, federation

pytestmark = pytest.mark.skipif(not can_fork(), reason="workers are forked, on Linux only")


def test_every_ticket_is_taken_once():
    done = share_tensor(torch.zeros(1), 50)

    def job(message, ticket):
        done[ticket] += message["step"]

    workers = Workers(2, job)
    for _ in range(3):
        workers.run({"step": 2.0}, 50)
    assert done.tolist() == [6.0] * 50
    workers.close()
    workers.close()  # twice is once


def test_a_problem_in_a_worker_is_told_and_ends_them_all(capfd):
    here = os.getpid()

    def job(message, ticket):
        if os.getpid() != here:
            raise ValueError("no such thing")
        time.sleep(0.01)

    workers = Workers(1, job)
    with pytest.raises(FedloreError, match="a worker process failed: ValueError: no such thing"):
        workers.run({}, 100)
    assert "no such thing" in capfd.readouterr().err


def test_a_worker_that_is_killed_is_noticed():
    here = os.getpid()

    def job(message, ticket):
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)

    with pytest.raises(FedloreError, match="ended before its work was done"):
        Workers(1, job).run({}, 100)


@pytest.mark.parametrize("algorithm", [FedAvg(), Scaffold()], ids=repr)
@pytest.mark.parametrize("weights", ["equal", "size"])
def test_two_processes_give_what_one_gives(algorithm, weights):
    if weights == "size" and algorithm.facts.mean:
        pytest.skip("Scaffold counts clients equally")
    recipe = Recipe(
        mlp(FEATURES, CLASSES).double(), algorithm, Plan(epochs=2, batch=8), weights=weights
    )
    clients = federation((20, 33, 7, 47, 33, 12))
    states = []
    for workers in (1, 2):
        with Stacked(clients, recipe, workers=workers, stack=2) as engine:
            states.append(federate(engine, recipe, 3, sample=0.8).state)
    for key, bundle in states[0].items():
        for name, t in bundle.items():
            torch.testing.assert_close(t, states[1][key][name], rtol=0, atol=1e-12)


SCRIPT = """
import os, sys, time
from fedlore.engine.stacked.workers import Workers
def job(message, ticket):
    time.sleep(0.02)
workers = Workers(2, job)
print(os.getpid(), flush=True)
workers.run({}, 3000)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "blow", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_workers_end_with_their_parent_and_on_ctrl_c(blow):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    group = int(process.stdout.readline())
    time.sleep(0.3)
    if blow == signal.SIGINT:
        os.killpg(group, blow)  # as a terminal does: to all of them
    else:
        os.kill(group, blow)  # to the parent alone
    process.wait(30)
    process.stdout.close()
    until = time.monotonic() + 90
    while _alive(group) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _alive(group)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
