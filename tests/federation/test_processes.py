"""Real processes on loopback, with TLS and keys: faults, strangers, signals."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from fedlore.core.wire import Task
from fedlore.federation.coordinator.server import link_of
from fedlore.federation.coordinator.training import Reports, train_federation
from fedlore.federation.flower.transport import Link, Mail
from fedlore.federation.household import Household, run_household, start_site, wait_for_sites
from fedlore.federation.journal import Journal, read_state
from fedlore.federation.kits.certificates import new_server, raw_key
from fedlore.federation.kits.kit import add_site, enrolled_keys, init, remove_site, unpack
from fedlore.federation.processes import Child, fedlore_command, free_port
from fedlore.federation.remote import LinkLost, Remote
from fedlore.federation.settings import read_deployed
from fedlore.federation.terms import terms_of
from fedlore_coke.starter import make_trial

from ..laws.test_algorithms import assert_close
from .inside import allow_all, edited, reference, wait_until
from .test_contract import hostile

pytestmark = pytest.mark.slow


def trial(folder: Path, *changes, sites=3, rounds=3) -> Path:
    address = f"127.0.0.1:{free_port()}"
    settings = {"rounds": rounds, "test_rows": 50, "secure": False}
    make_trial(folder, sites=sites, address=address, **settings)
    allow_all(folder)
    edited(folder / "federation.toml", *changes)
    return folder


@contextmanager
def running(folder: Path):
    with run_household(folder, say=print) as federation:
        yield federation
    assert left_behind(folder) == []


def left_behind(folder: Path) -> list[str]:
    """Processes whose command line names this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and int(path.parent.name) != os.getpid():
            found.append(words)
    return found


def start_training(folder: Path, *options: str) -> Child:
    return Child(fedlore_command("train", str(folder), *options), log=folder / "logs" / "train.log")


def said(child: Child) -> str:
    """What it printed last, however it was wrapped."""
    return " ".join(child.tail(40).split())


def rounds_done(folder: Path) -> int:
    files = Journal(folder / "journal").files()
    return int(files[0].name[6:12]) if files else -1


def crowded() -> float:
    """How many times as long a machine that others use as well may take."""
    return max(1.0, os.getloadavg()[0])


def test_without_tls_on_loopback(tmp_path):
    folder = trial(tmp_path / "fed", sites=2, rounds=1)
    for home in (folder / "sites").iterdir():
        edited(home / "site.toml", ("\n[policy]", "insecure = true\n[policy]"))
    (folder / "logs").mkdir()
    server = Child(
        fedlore_command("server", str(folder), "--insecure"), log=folder / "logs" / "server.log"
    )
    sites = {home.name: start_site(home) for home in sorted((folder / "sites").iterdir())}
    federation = Household(folder, server, sites)
    try:
        wait_for_sites(federation)
        assert link_of(folder).ca is None
        assert_close(train_federation(folder).state, reference(folder).state)
    finally:
        federation.stop()


def test_a_training_that_is_killed_before_its_first_round_resumes(tmp_path):
    """Killed as soon as it has begun, again and again, it comes to the same weights."""
    folder = trial(tmp_path / "fed", sites=3, rounds=2)
    with running(folder):
        for number in range(4):
            child = start_training(folder, *(["--resume"] if number else []))
            begun = folder / "journal" / "start.journal"
            wait_until(begun.exists)
            time.sleep(0.4 * number)
            child.kill()
        child = start_training(folder, "--resume")
        wait_until(lambda: child.code() is not None)
        assert child.code() == 0 and "resuming run" in said(child)
    assert_close(Journal(folder / "journal").last()[0].run.state, reference(folder).state)


SLOWER = ("epochs = 5", "epochs = 40")  # so that a kill falls into a round


def test_a_killed_site_is_done_without_and_takes_part_again(tmp_path):
    quick = ("deadline = 120.0", "deadline = 8.0")
    steady = ('"fedavg"', '"scaffold"'), ("lr = 0.05", "lr = 0.01\nmomentum = 0.0")
    folder = trial(tmp_path / "fed", SLOWER, quick, *steady, rounds=8)
    told = []
    with running(folder) as federation:
        thread = threading.Thread(
            target=train_federation, args=(folder,), kwargs={"reports": Reports(notice=told.append)}
        )
        thread.start()
        wait_until(lambda: rounds_done(folder) >= 2)
        federation.sites["plant-2"].kill()
        wait_until(lambda: any(n.what == "silent" for n in told))
        federation.restart_site("plant-2")
        thread.join(600)
        assert not thread.is_alive()
    run = Journal(folder / "journal").last()[0].run
    merged = [row["merged"] for row in run.rows if "merged" in row]
    assert run.round == 8 and min(merged) == 2 and merged[-1] == 3
    assert run.accepted == dict.fromkeys(("plant-1", "plant-2", "plant-3"), 8)
    assert {n.what for n in told} <= {"reply", "silent", "late"}


def test_twenty_random_kills_lose_nothing(tmp_path):
    """Sites, server and training in turn, each killed at a random moment after some progress.

    The result is that of one process, bit by bit.
    """
    dice, killed = random.Random(8), set()
    # everybody's answer is waited for, however long a site takes to come back
    folder = trial(tmp_path / "fed", SLOWER, ("quorum = 0.5", "quorum = 1.0"), rounds=240)
    with running(folder) as federation:
        training = start_training(folder)
        for _ in range(20):
            before = rounds_done(folder)
            wait_until(lambda before=before: rounds_done(folder) > before)
            time.sleep(dice.uniform(0.0, 1.5))
            assert training.code() is None, "the run was over too soon"
            victim = dice.choice([*federation.sites, "server", "train"])
            killed.add(victim)
            if victim == "train":
                training.kill()
                training = start_training(folder, "--resume")
            elif victim == "server":
                federation.server.kill()
                federation.restart_server()
            else:
                federation.sites[victim].kill()
                federation.restart_site(victim)
        assert training.wait(900) == 0, training.tail()
    assert killed == {*federation.sites, "server", "train"}
    (about, shared), local = read_state(folder / "shared.weights"), reference(folder)
    assert about["round"] == 240
    assert_close(shared, {"model": local.state["model"]})
    assert Journal(folder / "journal").last()[0].run.rows == local.rows


def test_strangers_stay_outside(tmp_path):
    """A key that was never enrolled, a revoked one, another authority, an expired certificate."""
    folder = trial(tmp_path / "fed", sites=2)
    with running(folder) as federation:
        home = folder / "sites" / "plant-1"
        stranger = shutil.copytree(home, tmp_path / "stranger")
        shutil.rmtree(stranger / "state")
        elsewhere = tmp_path / "elsewhere"
        settings = read_deployed(folder)
        init(elsewhere, name="other", address=settings.address, schema=settings.schema)
        other = unpack(add_site(elsewhere, "plant-1"))
        shutil.copy(other / "site.key", stranger / "site.key")
        child = start_site(stranger)
        assert child.wait(200) == 2
        assert "does not know this key" in said(child) and "federation enrol" in said(child)

        shutil.copy(other / "ca.crt", stranger / "ca.crt")
        child = start_site(stranger)
        assert child.wait(200) == 2
        assert "certificate is not accepted" in said(child)

        remove_site(folder, "plant-2")
        assert federation.sites["plant-2"].wait(200) == 2
        assert "revoked" in said(federation.sites["plant-2"])
    new_server(folder, ["localhost", "127.0.0.1"], days=-1)
    late = Child(fedlore_command("server", str(folder)), log=tmp_path / "late.log")
    assert late.wait(200) == 2
    assert "expired on" in said(late) and "fedlore federation renew" in said(late)


def test_code_that_comes_with_a_run_is_never_executed(tmp_path):
    folder, canary = trial(tmp_path / "fed", sites=2), tmp_path / "canary"
    with running(folder):
        link, secret = link_of(folder), (folder / "runner.secret").read_bytes()
        keys = {name: raw_key(key) for name, key in enrolled_keys(folder).items()}
        terms = terms_of(read_deployed(folder), run="x", participants=2)
        with link.run(secret, app=hostile(canary)) as grid:
            remote = Remote(Mail(grid, keys, terms.text()), sorted(keys), 2)
            replies = list(remote.exchange(Task("moments", 0), sorted(keys)))
        assert len(replies) == 2  # the sites did answer a message of that run
        with pytest.raises(LinkLost), link.run(b"a guess"):
            pass
        time.sleep(5.0)  # the run that could not be claimed is still there: nobody starts it
        assert not canary.exists()


def test_both_sides_say_that_versions_differ(tmp_path):
    folder = trial(tmp_path / "fed", sites=2, rounds=1)
    with running(folder):
        code = (
            "import fedlore.federation.terms as a, sys; a.fedlore_version = lambda: '9.9'\n"
            "from fedlore.cli import main; sys.argv[1:] = ['train', sys.argv[1]]; main()"
        )
        child = Child([sys.executable, "-c", code, str(folder)], log=folder / "logs" / "train.log")
        assert child.wait(300) == 2
    assert "the coordinator 9.9: install the same version" in said(child)
    assert "9.9" in (folder / "sites" / "plant-1" / "audit.jsonl").read_text()
    assert "quorum" in said(child)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_a_signal_to_the_parent(tmp_path, sign):
    folder = trial(tmp_path / "fed", SLOWER, sites=2, rounds=100)
    (folder / "logs").mkdir()
    whole = Child(fedlore_command("up", str(folder)), log=tmp_path / "up.log")
    wait_until(lambda: rounds_done(folder) >= 1)
    os.kill(whole.pid, sign)
    assert whole.wait(180) not in (0, None), said(whole)
    if sign == signal.SIGKILL:  # it could end nobody: the kernel does
        wait_until(lambda: left_behind(folder) == [], 60.0)
    assert left_behind(folder) == []


def unshared(what: str, script: str) -> list[str]:
    """A command line that does something to a network or a disk of its own, before a command."""
    inside = ["unshare", what, "sh", "-c", script + ' && exec "$@"', "sh"]
    try:
        subprocess.run([*inside, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine does not let us make a network or a disk of our own")
    return inside


def test_it_needs_no_network_beyond_loopback(tmp_path):
    inside = unshared("--net", "ip link set lo up")
    folder = trial(tmp_path / "fed", sites=2, rounds=2)
    (folder / "logs").mkdir()
    routes = subprocess.run([*inside, "ip", "route"], check=True, capture_output=True)
    assert routes.stdout == b""
    child = Child([*inside, *fedlore_command("up", str(folder))], log=tmp_path / "up.log")
    assert child.wait(600) == 0, said(child)
    assert json.loads((folder / "status.json").read_text())["state"] == "finished"


def test_a_full_disk_ends_the_training_cleanly(tmp_path):
    folder = trial(tmp_path / "fed", sites=2, rounds=8)
    (folder / "journal").mkdir()
    inside = unshared("--mount", f"mount -t tmpfs -o size=100k none {folder / 'journal'}")
    with running(folder):
        command = [*inside, *fedlore_command("train", str(folder))]
        child = Child(command, log=folder / "logs" / "train.log")
        assert child.wait(300) == 2
    assert "No space left on device; what was written before is safe" in said(child)
    assert json.loads((folder / "status.json").read_text())["state"] == "stopped"


def test_without_a_server_a_site_says_so_once_and_goes_on_trying(tmp_path):
    folder = trial(tmp_path / "fed", sites=2)
    site = start_site(next((folder / "sites").iterdir()))
    try:
        wait_until(lambda: "trying again" in said(site))
        time.sleep(3.0)  # it tries each second
        assert said(site).count("no connection to 127.0.0.1:") == 1, said(site)
        assert site.code() is None
    finally:
        site.stop()


def test_without_a_server_the_training_does_not_hang(tmp_path, monkeypatch):
    folder = trial(tmp_path / "fed", sites=2)
    monkeypatch.setattr("fedlore.federation.coordinator.training.PATIENCE", 2.0)
    lines = []
    with pytest.raises(Exception, match="is fedlore server running"):
        train_federation(folder, reports=Reports(line=lines.append))
    (waiting,) = [line for line in lines if line.startswith("waiting for the server at 127.0.0.1:")]
    assert waiting.endswith("2 s at most: is fedlore server running?")
    with pytest.raises((LinkLost, httpx.HTTPError)):
        Link(read_deployed(folder).address, (folder / "ca.crt").read_bytes()).online()
