"""Secure aggregation between real processes on loopback, with TLS: a site is killed mid-round."""

import json
import threading
from dataclasses import replace

import pytest

from fedlore.engine import Local, federate
from fedlore.engine.loop import scale_together
from fedlore.federation.coordinator.status import Reports
from fedlore.federation.coordinator.training import train_federation
from fedlore.federation.household import local_sites
from fedlore.federation.journal import Journal
from fedlore.federation.settings import read_deployed
from fedlore.federation.site.folder import read_kit
from fedlore.federation.terms import terms_of
from fedlore.privacy.filters import SiteFilters
from fedlore.privacy.secagg.filter import SecureAggregation

from ..laws.test_algorithms import Post, assert_close
from .inside import wait_until
from .test_masked import HIDDEN
from .test_processes import running, trial

pytestmark = pytest.mark.slow


def last_asked(home) -> tuple[str, int]:
    """What a site answered last, from its own books."""
    path = home / "audit.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    found = json.loads(lines[-1]) if lines else {"kind": "", "round": -1}
    return found["kind"], found["round"]


def reference(folder, missed):
    """The same training in one process, masks and all; plant-2's uploads of some rounds get lost.

    Sums of whole numbers are exact whatever the masks, so not even the last bit may differ.
    """
    federation, homes = read_deployed(folder), local_sites(folder)
    clients = [read_kit(home).client(federation.schema) for home in homes]
    recipe = terms_of(federation, run="x", participants=len(homes)).recipe()
    masks = SecureAggregation()

    def lost(task, name):
        return task.kind == "train" and name == "plant-2" and task.round in missed

    def hidden(recipe):
        halves = {client.id: [masks.site(client.id)] for client in clients}
        return masks.over(Post(SiteFilters(Local(clients, recipe), halves, hides=True), lose=lost))

    recipe = replace(recipe, scaler=scale_together(hidden(recipe)))
    return federate(hidden(recipe), recipe, federation.rounds)


def test_four_sites_of_which_one_is_killed_equal_one_process(tmp_path):
    slower, quick = ("epochs = 5", "epochs = 60"), ("deadline = 120.0", "deadline = 25.0")
    folder = trial(tmp_path / "fed", slower, quick, HIDDEN, sites=4, rounds=6)
    homes = folder / "sites"
    told = []
    with running(folder) as federation:
        thread = threading.Thread(
            target=train_federation, args=(folder,), kwargs={"reports": Reports(notice=told.append)}
        )
        thread.start()
        # its key is in the directory of round 2, and it dies before, or while, its upload is made
        wait_until(lambda: last_asked(homes / "plant-2") in (("unmask", 1), ("train", 2)))
        federation.sites["plant-2"].kill()
        wait_until(lambda: any(n.what == "silent" for n in told))
        federation.restart_site("plant-2")
        thread.join(400)
        assert not thread.is_alive()
    run = Journal(folder / "journal").last()[0].run
    merged = {row["round"]: row["merged"] for row in run.rows if "merged" in row}
    assert run.round == 6 and set(merged.values()) == {3, 4} and merged[6] == 4
    missed = [round for round, sites in merged.items() if sites == 3]
    assert_close(run.state, reference(folder, missed).state)
    assert {n.what for n in told} <= {"reply", "silent", "late", "refused"}
    print(f"plant-2 missed rounds {missed}")
