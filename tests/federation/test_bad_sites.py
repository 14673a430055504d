"""A bad site among real processes: what it can do to the others, and what is said of it."""

import json
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedlore.federation.coordinator.status import read_status
from fedlore.federation.coordinator.training import Reports, train_federation
from fedlore.federation.household import wait_for_sites
from fedlore.federation.processes import Child

from .test_chosen import MENU
from .test_masked import HIDDEN
from .test_processes import running, start_training, trial
from .test_strangers import superlink_of

pytestmark = pytest.mark.slow
BAD = "plant-3"

#: What its process does before it joins like any other.
START = """
import sys, time, torch
from dataclasses import replace
from fedlore.federation.site import session
from fedlore.federation.flower import node
usual = node.respond
{attack}
from fedlore.cli import main
main()
"""
GIANT = """
def respond(message, site, answerer):
    def giant(task, terms):
        reply = answerer(task, terms)
        huge = {"w": {"w": torch.rand(32_000_000)}}  # 128 MB
        return replace(reply, upload=huge) if task.kind == "train" else reply
    return usual(message, site, giant)
node.respond = respond
"""
STALL = """
def respond(message, site, answerer):
    def stalling(task, terms):
        if task.kind == "unmask":
            time.sleep(10_000.0)
        return answerer(task, terms)
    return usual(message, site, stalling)
node.respond = respond
"""
BOAST = """
def respond(message, site, answerer):
    def boasting(task, terms):
        reply = answerer(task, terms)
        times = {k: {n: 1000 * t for n, t in b.items()} for k, b in reply.upload.items()}
        sums = task.kind in ("vote", "gram", "moments")
        return replace(reply, upload=times, rows=1000 * reply.rows) if sums else reply
    return usual(message, site, boasting)
node.respond = respond
"""
RUDE = """
from fedlore.federation.remote import Refusal
def respond(message, site, answerer):
    def rude(task, terms):
        if task.kind == "train":
            raise Refusal("\\x1b[2J\\n" + 100_000 * "x")
        reply = answerer(task, terms)
        return replace(reply, metrics={'ta"}\\n\\x1b[31m': 1.0})
    return usual(message, site, rude)
node.respond = respond
"""


@contextmanager
def bad_site(folder: Path, attack: str):
    """The federation with one of its sites replaced; the process is that of the server."""
    with running(folder) as federation:
        federation.sites[BAD].stop()
        home = folder / "sites" / BAD
        command = [sys.executable, "-c", START.replace("{attack}", attack), "join", str(home)]
        federation.sites[BAD] = Child(command, log=home / "join.log", env={"OMP_NUM_THREADS": "1"})
        wait_for_sites(federation)
        yield federation


def memory_of(process: int) -> int:
    """Megabytes that a process has in memory."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


def test_giant_answers_take_no_memory_of_the_server_and_none_is_kept(tmp_path):
    folder = trial(tmp_path / "fed", ("deadline = 120.0", "deadline = 60.0"), sites=3, rounds=5)
    most, over = [0], threading.Event()
    with bad_site(folder, GIANT) as federation:
        processes = [superlink_of(folder), federation.server.pid]

        def watch():
            while not over.wait(0.1):
                most[0] = max(most[0], *map(memory_of, processes))

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            run = train_federation(folder)
        finally:
            over.set()
            thread.join()
        left = memory_of(processes[0])
    print(f"at most {most[0]} MB, {left} MB in the end")
    assert most[0] < 600 and left < 300
    assert [row["merged"] for row in run.rows if "merged" in row] == [2] * 5
    assert "largest_answer" in (folder / "logs" / "gateway.log").read_text()


def test_a_site_that_hangs_while_masks_are_taken_off_is_left_out_and_named(tmp_path):
    quick = ("deadline = 120.0", "deadline = 10.0")
    folder = trial(tmp_path / "fed", quick, HIDDEN, sites=4, rounds=6)
    notices, times = [], []
    with bad_site(folder, STALL):
        reports = Reports(notice=notices.append, round=lambda run, took: times.append(took))
        run = train_federation(folder, reports=reports)
    assert run.round == 6
    named = [n for n in notices if "left out" in n.detail]
    assert [n.site for n in named] == [BAD]
    assert max(times[3:]) < 10.0, times  # the deadline is not paid for ever
    assert BAD in read_status(folder)["sites"]


def test_a_thousand_times_the_rows_turn_no_choice_and_are_named(tmp_path):
    """The sums and votes are consistent: only the other sites show that they cannot be."""
    changes = [("hidden = [64, 64]", "hidden = [6]"), ("epochs = 5", "epochs = 1")]
    changes += [('recipe = "none"', 'recipe = "lore"'), ("\n[model]", MENU)]
    folder = trial(tmp_path / "fed", *changes, sites=4, rounds=3)
    notices = []
    with bad_site(folder, BOAST):
        train_federation(folder, reports=Reports(notice=notices.append))
    rejected = [n for n in notices if n.what == "rejected"]
    assert {n.site for n in rejected} == {BAD} and {n.kind for n in rejected} >= {"gram", "vote"}
    assert all("rows" in n.detail for n in rejected), rejected


def test_what_a_site_says_does_nothing_to_a_screen_or_a_page(tmp_path):
    folder = trial(tmp_path / "fed", sites=3, rounds=2)
    with bad_site(folder, RUDE):
        child = start_training(folder)
        assert child.wait(300) == 0, child.tail()
    said = child.tail() + json.dumps(read_status(folder), ensure_ascii=False)
    assert "\\x1b[2J\\n" in said and "\x1b" not in said and 1000 * "x" not in said
