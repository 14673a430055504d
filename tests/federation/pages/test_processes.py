"""Watching real processes: a number is learned, one site is stopped, one is killed."""

import os
import signal
import time

import httpx
import pytest

from fedlore.federation.coordinator.training import train_federation
from fedlore.federation.pages.overview import Watcher
from fedlore.federation.processes import free_port
from fedlore.federation.remote import BEAT

from ..inside import wait_until
from ..test_numbers import SITES, deployed
from ..test_processes import running

pytestmark = pytest.mark.slow


def states(watcher):
    return {site.name: site.state for site in watcher.look().sites}


def test_regression_over_processes_and_who_is_lost_is_told_in_time(tmp_path):
    folder = deployed(tmp_path, address=f"127.0.0.1:{free_port()}")
    slow, stopped, killed = SITES
    with running(folder) as federation:
        run = train_federation(folder)
        rows = [row for row in run.rows if "rmse" in row]
        assert {row["client"] for row in rows} == set(SITES)
        watcher = Watcher(folder)
        wait_until(lambda: set(states(watcher).values()) == {"waiting"}, 20.0)
        log = (folder / "logs" / "server.log").read_text()
        page = log.partition("status page at ")[2].split()[0]
        assert (
            f'fedlore_site_score{{score="rmse",site="{slow}"}}' in httpx.get(f"{page}metrics").text
        )
        began = time.monotonic()
        os.kill(federation.sites[stopped].pid, signal.SIGSTOP)
        federation.sites[killed].kill()
        wait_until(lambda: states(watcher)[killed] == "lost", 30.0)
        dead = time.monotonic() - began
        wait_until(lambda: states(watcher)[stopped] == "lost", 30.0)
        silent = time.monotonic() - began
        print(f"killed: lost after {dead:.1f} s; stopped: lost after {silent:.1f} s")
        assert silent <= BEAT + 5.0 and dead < silent
        assert states(watcher)[slow] == "waiting"
        os.kill(federation.sites[stopped].pid, signal.SIGCONT)
        wait_until(lambda: states(watcher)[stopped] == "waiting", 30.0)
    assert set(states(Watcher(folder, lambda: time.time() + 10)).values()) == {"unknown"}
