"""Strangers against real processes: what they can reach, and that a training goes on meanwhile."""

import json
import os
import shutil
import signal
import socket
import ssl
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.proto import control_pb2, fleet_pb2, runtime_pb2
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedlore.federation.coordinator.server import link_of
from fedlore.federation.coordinator.training import train_federation
from fedlore.federation.flower import superlink
from fedlore.federation.flower.transport import Link
from fedlore.federation.household import start_site
from fedlore.federation.kits.kit import renew_authority, renew_server
from fedlore.federation.pages.overview import Watcher
from fedlore.federation.processes import Child, fedlore_command
from fedlore.federation.settings import read_deployed

from .inside import check_undisturbed, wait_until
from .test_processes import crowded, rounds_done, running, start_training, trial, unshared

pytestmark = pytest.mark.slow

CONTROL = {
    "list-nodes": control_pb2.ListNodesRequest(),
    "unregister-node": control_pb2.UnregisterNodeRequest(node_id=1),
    "register-node": control_pb2.RegisterNodeRequest(public_key=b"x", name="x"),
    "list-runs": control_pb2.ListRunsRequest(),
    "stop-run": control_pb2.StopRunRequest(run_id=1),
    "start-run": control_pb2.StartRunRequest(),
}


def listening(folder: Path) -> set[tuple[str, int]]:
    """Where the processes of a folder listen, by the kernel's own book."""
    inodes = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(folder).encode() not in path.read_bytes():
                continue
            for link in (path.parent / "fd").iterdir():
                with suppress(OSError):
                    inodes.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                host, _, port = words[1].partition(":")
                found.add((host, int(port, 16)))
    return found


def outside() -> str:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        with suppress(OSError):
            probe.connect(("192.0.2.1", 9))
            found = probe.getsockname()[0]
            if not found.startswith("127."):
                return str(found)
    pytest.skip("this machine has no address but loopback")


def log_of(folder: Path) -> str:
    path = folder / "logs" / "gateway.log"
    return path.read_text() if path.exists() else ""  # it is begun with its first line


def test_nothing_but_the_gate_can_be_reached_from_elsewhere(tmp_path):
    host = outside()
    folder = trial(tmp_path / "fed", sites=2, rounds=2)
    text = (folder / "federation.toml").read_text()
    port = read_deployed(folder).port
    (folder / "federation.toml").write_text(text.replace(f"127.0.0.1:{port}", f"{host}:{port}"))
    renew_server(folder)
    with running(folder):
        loopback = "0100007F"
        assert {place for place in listening(folder) if place[0] != loopback} == {
            ("00000000", port)
        }
        inner = int(link_of(folder).address.rpartition(":")[2])
        with pytest.raises(OSError):
            socket.create_connection((host, inner), timeout=2.0)
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        with httpx.Client(base_url=f"https://{host}:{port}", verify=context) as client:
            assert client.get("/health").status_code == 200
            for path in ("/docs", "/openapi.json", "/", "/v1/control/list-nodes", "/metrics"):
                assert client.get(path).status_code == client.post(path).status_code == 404
        assert train_federation(folder).round == 2
    assert "POST /v1/control/list-nodes is not for the network" in log_of(folder)


def test_a_stranger_stops_nothing(tmp_path):
    """List, unregister, stop, submit, flood, dawdle, without TLS: the result is the undisturbed."""
    folder = trial(tmp_path / "fed", ("epochs = 5", "epochs = 20"), sites=3, rounds=8)
    federation = read_deployed(folder)
    gate = Link(federation.address, (folder / "ca.crt").read_bytes())
    over = threading.Event()
    found: list[int] = []

    def pester() -> None:
        key = ec.generate_private_key(ec.SECP384R1())
        with gate.open(ControlHttpClient) as control, gate.open(RuntimeHttpClient) as runtime:
            identity = NodeAuthHttpInterceptor(key, key.public_key())
            with gate.open(FleetHttpClient, identity) as fleet:
                calls = [
                    lambda: control.ListNodes(CONTROL["list-nodes"]),
                    lambda: control.UnregisterNode(CONTROL["unregister-node"]),
                    lambda: control.RegisterNode(CONTROL["register-node"]),
                    lambda: control.ListRuns(CONTROL["list-runs"]),
                    lambda: control.StopRun(CONTROL["stop-run"]),
                    lambda: control.StartRun(CONTROL["start-run"]),
                    lambda: runtime.AcquireTask(runtime_pb2.AcquireTaskRequest()),
                    lambda: fleet.PullMessages(fleet_pb2.PullMessagesRequest()),
                    lambda: fleet.ActivateNode(fleet_pb2.ActivateNodeRequest()),
                ]
                while not over.is_set():
                    for call in calls:
                        try:
                            call()
                            found.append(200)
                        except httpx.HTTPStatusError as error:
                            found.append(error.response.status_code)
                        except httpx.TransportError:
                            found.append(0)
                    over.wait(0.2)

    def crowd() -> None:
        lines: list[socket.socket] = []
        while not over.is_set():
            with suppress(OSError):
                lines.append(socket.create_connection((federation.host, federation.port), 1.0))
                lines[-1].sendall(
                    b"GET /health HTTP/1.1\r\n" if len(lines) % 2 else b"\x16\x03\x01"
                )
            if len(lines) > 400:
                lines.pop(0).close()
            over.wait(0.005)
        for line in lines:
            line.close()

    with running(folder):
        threads = [threading.Thread(target=work) for work in (pester, crowd)]
        for thread in threads:
            thread.start()
        try:
            child = start_training(folder)
            assert child.wait(600) == 0, child.tail()
        finally:
            over.set()
            for thread in threads:
                thread.join()
    assert set(found) <= {0, 403, 404} and {403, 404} <= set(found)
    check_undisturbed(folder)
    told = log_of(folder)
    for words in ("unregister-node", "stop-run", "start-run", "is not enrolled", "too many"):
        assert words in told, words


def peak_of(process: int) -> int:
    """Megabytes that a process has had in memory at most."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def test_bare_connections_from_one_address_shut_out_nobody_else(tmp_path):
    """As many as go: visitors, a site that comes in meanwhile and a training all get through."""
    folder = trial(tmp_path / "fed", sites=3, rounds=4)
    federation, over = read_deployed(folder), threading.Event()
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    opened, seen = [0], list[int]()

    def flood() -> None:
        lines: deque[socket.socket] = deque()
        place, source = (federation.host, federation.port), ("127.0.0.2", 0)
        while not over.is_set():
            with suppress(OSError):
                lines.append(socket.create_connection(place, 1.0, source_address=source))
                opened[0] += 1
            if len(lines) > 200:
                lines.popleft().close()
        for line in lines:
            line.close()

    def visit() -> None:
        while not over.wait(0.2):
            with httpx.Client(verify=context, timeout=60.0) as client:  # each on a new line
                seen.append(client.get(f"https://{federation.address}/health").status_code)

    with running(folder) as household:
        threads = [threading.Thread(target=work) for work in (flood, flood, visit)]
        for thread in threads:
            thread.start()
        try:
            before = peak_of(household.server.pid)
            wait_until(lambda: "refused 127.0.0.2: too many" in log_of(folder))
            household.sites["plant-1"].stop()
            household.restart_site("plant-1")
            child = start_training(folder)
            assert child.wait(600) == 0, child.tail()
            wait_until(lambda: opened[0] > 1000)  # a busy machine floods more slowly
        finally:
            over.set()
            for thread in threads:
                thread.join()
        grown = peak_of(household.server.pid) - before
    print(f"{opened[0]} connections, the gate grew by {grown} MB to {before + grown} MB")
    assert before + grown < 600, (before, grown)
    assert len(seen) > 5 and set(seen) == {200}, (opened, seen)
    check_undisturbed(folder)


def test_sites_that_were_unregistered_come_back_by_themselves(tmp_path):
    """On loopback the control interface has no login: whoever is on the machine can do this."""
    folder = trial(tmp_path / "fed", ("epochs = 5", "epochs = 40"), sites=3, rounds=12)
    with running(folder) as federation:
        child = start_training(folder)
        wait_until(lambda: rounds_done(folder) >= 2)
        with link_of(folder).open(ControlHttpClient) as control:
            for node in control.ListNodes(control_pb2.ListNodesRequest()).nodes_info:
                control.UnregisterNode(control_pb2.UnregisterNodeRequest(node_id=node.node_id))
        assert child.wait(600) == 0, child.tail()
        assert all(site.code() is None for site in federation.sites.values())
    check_undisturbed(folder)
    told = (folder / "logs" / "server.log").read_text()
    assert "somebody has unregistered plant-1, plant-2, plant-3 at the server" in told


@pytest.mark.parametrize("victim", ["superlink", "plant-2"])
def test_who_is_stopped_and_not_dead_holds_up_nothing_for_long(tmp_path, victim):
    quick = ("deadline = 120.0", "deadline = 8.0")
    folder = trial(tmp_path / "fed", quick, sites=3, rounds=10)
    with running(folder) as federation:
        child = start_training(folder)
        wait_until(lambda: rounds_done(folder) >= 2)
        pid = federation.sites[victim].pid if victim in federation.sites else superlink_of(folder)
        os.kill(pid, signal.SIGSTOP)
        at, began = rounds_done(folder), time.monotonic()
        wait_until(lambda: rounds_done(folder) > at + 1)
        took = time.monotonic() - began
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        assert child.wait(600) == 0, child.tail()
    print(f"{victim} stopped: the next round was done after {took:.1f} s")
    assert took < 8.0 + 15.0 + 15.0 * crowded()  # the deadline, the silence, and to start anew
    if victim == "superlink":
        assert "has not answered for" in (folder / "logs" / "server.log").read_text()


def superlink_of(folder: Path) -> int:
    """The process of Flower's server in a folder."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes()
            if superlink.__name__.encode() in words and str(folder).encode() in words:
                return int(path.parent.name)
    raise AssertionError("no server is running")


def test_a_kit_that_was_copied_is_noticed(tmp_path):
    folder = trial(tmp_path / "fed", sites=2)
    with running(folder):
        home = folder / "sites" / "plant-1"
        copy = shutil.copytree(home, tmp_path / "copy", ignore=shutil.ignore_patterns("state"))
        twin = start_site(copy)
        try:
            wait_until(lambda: "speaks from two places" in log_of(folder))
            told = (folder / "logs" / "server.log").read_text()
            assert "speaks from two places" in " ".join(told.split())
            wait_until(lambda: [s.state for s in Watcher(folder).look().sites][0] == "copied")
        finally:
            twin.stop()


def test_a_full_disk_at_a_site_is_a_sentence_and_the_others_go_on(tmp_path):
    folder = trial(tmp_path / "fed", ("deadline = 120.0", "deadline = 20.0"), sites=3, rounds=2)
    home, kept = folder / "sites" / "plant-1", tmp_path / "kept"
    shutil.copytree(home, kept)
    small = f"mount -t tmpfs -o size=400k none '{home}' && cp -a '{kept}/.' '{home}' && "
    small += f"(dd if=/dev/zero of='{home}/fill' bs=1k 2>/dev/null || true)"
    inside = unshared("--mount", small)
    with running(folder) as federation:
        federation.sites["plant-1"].stop()
        full = Child([*inside, *fedlore_command("join", str(home))], log=tmp_path / "full.log")
        try:
            wait_until(lambda: "is in, at" in full.tail(), 300.0)
            train_federation(folder)
            told = " ".join(full.tail(60).split())
            assert full.code() is None, told
        finally:
            full.stop()
    assert "No space left on device; nothing leaves this site" in told, told
    assert "Traceback" not in told and told.count("site.log': No space left") == 1
    rows = [json.loads(x) for x in (folder / "rounds.jsonl").read_text().splitlines()]
    assert [row["merged"] for row in rows] == [2, 2]


def test_what_a_site_writes_is_its_owner_s_alone(tmp_path):
    """With the loosest mask that a machine can have."""
    folder = trial(tmp_path / "fed", sites=2, rounds=2)
    before = os.umask(0)
    try:
        with running(folder):
            train_federation(folder)
    finally:
        os.umask(before)
    homes = sorted((folder / "sites").iterdir())
    for home in homes:
        written = [home / name for name in ("audit.jsonl", "personal.weights", "receipts.json")]
        written += [home / "site.key", *(path for path in (home / "state").rglob("*"))]
        loose = {str(p) for p in written if p.stat().st_mode & 0o077}
        assert loose == set() and len(written) > 6


PATCHED = "import sys, fedlore.federation.site.session as j; j.LEARN = 1.0\n" \
    "from fedlore.cli import main; sys.argv[1:] = ['join', sys.argv[1]]; main()"  # fmt: skip


def test_a_running_site_learns_a_new_authority_before_the_server_needs_it(tmp_path):
    folder = trial(tmp_path / "fed", sites=2, rounds=2)
    home = folder / "sites" / "plant-1"
    with running(folder) as federation:
        federation.sites["plant-1"].stop()
        command = [sys.executable, "-c", PATCHED, str(home)]
        federation.sites["plant-1"] = Child(command, log=home / "join.log")
        old = (home / "ca.crt").read_bytes()
        assert renew_authority(folder)
        wait_until(lambda: (home / "ca.crt").read_bytes() != old)
        renew_server(folder)  # of the new one from here on
        federation.server.kill()
        federation.restart_server()  # so that everybody has to shake hands anew
        assert federation.sites["plant-2"].wait(300) == 2  # it had an hour to learn of it
        assert "certificate is not accepted" in " ".join(federation.sites["plant-2"].tail().split())
        (folder / "sites" / "plant-2" / "ca.crt").write_bytes((folder / "ca.crt").read_bytes())
        federation.restart_site("plant-2")  # by hand: its key and its history stay
        assert train_federation(folder).round == 2
        assert federation.sites["plant-1"].code() is None
