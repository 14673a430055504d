"""Rounds of many sites on one machine: a real server, gate and training, and thin clients.

A thin client has a site's key, door, messages and half of secure aggregation, and signs and masks
as a site does. It neither learns nor keeps books: its upload is the model it was sent, made small.
Many of them share a process, so that two cores can hold hundreds. Beside the time of a round
stands the processor time of the coordinator's three processes and of the clients, a round with its
share of the scores at the end (an exchange more), which other work on the machine does not
lengthen. All cases stand in a table of Markdown at the end. Cases are numbers of sites, with m
under masks, and with /k where a round asks one in k:

    python benchmarks/thin.py --cases 4,4m,20,20m,50,50m,200,200m,200/4,200/4m
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path

import torch
from federation import resident
from setting import machine, write_csv

from fedlore.core.tree import scale
from fedlore.core.wire import Reply, Task
from fedlore.federation.coordinator.server import healthy, link_of
from fedlore.federation.coordinator.training import Reports, train_federation
from fedlore.federation.flower.node import door
from fedlore.federation.flower.transport import Answerer, Link
from fedlore.federation.household import start_server
from fedlore.federation.kits.certificates import read_site_key
from fedlore.federation.kits.kit import add_local_site, init
from fedlore.federation.processes import free_port
from fedlore.federation.remote import attend
from fedlore.federation.site.folder import read_kit
from fedlore.federation.terms import Terms, read_terms
from fedlore.privacy.filters import Placement, apply_halves, half_for
from fedlore_coke.experts import COKE

HERE = Path(__file__).parent
PROCESSES = 2
MEASURED = {
    "sites": "sites", "asked": "asked", "masked": "masked", "seconds": "round, s",
    "slowest": "slowest, s", "processor_server": "coordinator, processor s",
    "processor_clients": "clients, processor s", "server_mb": "SuperLink, MB",
    "gate_mb": "gate, MB", "training_mb": "training, MB", "load": "load before",
}  # fmt: skip
SHORT = 1e-3  # of the model: what is sent back is a difference, and a model that doubles explodes


def thin_client(name: str) -> Answerer:
    """Answers every task at once."""
    halves: dict[str, list] = {}  # by run

    def answer(task: Task, text: str) -> Reply:
        terms = parsed(text)
        if terms.run not in halves:
            place = Placement("site", None, site=name, run=terms.run)
            filters = terms.filters(terms.recipe(), place)
            halves[terms.run] = [one.site(name) for one in filters]
        half = half_for(halves[terms.run], task)
        if half is not None:
            return half.answer(task)
        upload = {"model": scale(task.sent["model"], SHORT)} if task.kind == "train" else {}
        reply = Reply(name, task.round, upload, 1)
        return apply_halves(halves[terms.run], task, reply, hides=bool(halves[terms.run]))

    return answer


@cache
def parsed(text: str) -> Terms:
    return read_terms(text)


def serve_clients(folder: Path, part: int) -> None:
    """One process's share of the sites, a thread each, until it is stopped."""
    torch.set_num_threads(1)
    stop = threading.Event()
    for home in sorted((folder / "sites").iterdir())[part::PROCESSES]:
        kit = read_kit(home)
        key, link = read_site_key(home / "site.key"), Link(kit.file.address, kit.authority())
        way_in = door(link, kit.file.name, key, thin_client(kit.file.name))
        threading.Thread(target=attend, args=(way_in, stop), daemon=True).start()
    stop.wait()


def make_folder(folder: Path, sites: int, rounds: int, share: float, masked: bool) -> None:
    address = f"127.0.0.1:{free_port()}"
    init(
        folder, name="thin", address=address, schema=COKE, rounds=rounds, secure=masked,
        recipe="none",
    )  # fmt: skip
    path = folder / "federation.toml"
    text = re.sub(r'name = "fedper".*\nsettings = .*', 'name = "fedavg"', path.read_text())
    text = text.replace("scale = true", f"scale = false\nsample = {share}")
    path.write_text(text.replace("hears = true", "hears = false"))
    for number in range(sites):
        add_local_site(folder, f"site-{number:04d}", paths={})


def wait_for(folder: Path, sites: int) -> None:
    end = time.monotonic() + 600
    while time.monotonic() < end:
        link = link_of(folder)
        if healthy(link.address, link.ca) is None and sum(link.online().values()) == sites:
            return
        time.sleep(0.5)
    raise SystemExit("not all clients came in")


def peak(pid: int) -> float:
    """Megabytes that a process held at most."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


def processor(pids: list[int]) -> float:
    """Seconds of processor time that these processes have taken: other work does not count."""
    ticks = 0
    for pid in pids:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(words[11]) + int(words[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def superlink(parent: int) -> int:
    """The process of Flower's server below ours."""
    found = subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True)
    return int(found.stdout.split()[0])


def measure(sites: int, every: int, masked: bool, rounds: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "fed"
        make_folder(folder, sites, rounds, 1 / every, masked)
        (folder / "logs").mkdir(exist_ok=True)
        server = start_server(folder)
        command = [sys.executable, __file__, "--serve", str(folder), "--part"]
        clients = [subprocess.Popen([*command, str(part)]) for part in range(PROCESSES)]
        ends = [0.0]
        try:
            wait_for(folder, sites)
            load = os.getloadavg()[0]
            ours = [superlink(server.pid), server.pid, os.getpid()]
            groups = [ours, *([pid] for pid in ours), [c.pid for c in clients]]
            spent = [processor(group) for group in groups]
            ends = [time.monotonic()]
            run = train_federation(
                folder,
                reports=Reports(round=lambda run, took: ends.append(time.monotonic()), line=print),
            )
            merged = [row["merged"] for row in run.rows if "merged" in row]
            assert merged == [-(-sites // every)] * rounds, merged
            now = [processor(group) for group in groups]
            used = [round((b - a) / rounds, 2) for a, b in zip(spent, now, strict=True)]
            print("superlink, gate, training:", used[1:4], flush=True)
            memory = {
                "processor_server": used[0],
                "processor_clients": used[4],
                "server_mb": round(peak(ours[0])),
                "gate_mb": round(peak(server.pid)),
                "training_mb": round(peak(os.getpid())),
                "clients_mb": round(sum(resident(c.pid) for c in clients)),
            }
        finally:
            for client in clients:
                client.kill()
                client.wait()
            server.stop()
    took = [after - before for before, after in zip(ends, ends[1:], strict=False)]
    row: dict[str, object] = {"sites": sites, "asked": -(-sites // every), "masked": masked}
    middle = took[1:-1]  # the last has the scores of all sites as well
    row |= {"seconds": round(statistics.median(middle), 2), "first": round(took[0], 2)}
    return row | {"slowest": round(max(middle), 2), **memory, "load": round(load, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default="4,4m,20,20m,50,50m,200,200m,200/4,200/4m")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", default=str(HERE / "results" / "thin.csv"))
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve_clients(options.serve, options.part)
        return
    rows = []
    for case in options.cases.split(","):
        sites, _, every = case.removesuffix("m").partition("/")
        row = measure(int(sites), int(every or 1), case.endswith("m"), options.rounds)
        rows.append(row | {"date": time.strftime("%Y-%m-%d"), **machine()})
        print(row, flush=True)
        write_csv(rows, options.out)
    print(table(rows))


def table(rows: list[dict[str, object]]) -> str:
    """All cases as Markdown."""
    shown = [key for key in rows[0] if key in MEASURED]
    lines = ["| " + " | ".join(MEASURED[key] for key in shown) + " |", "|---" * len(shown) + "|"]
    return "\n".join(
        [*lines, *("| " + " | ".join(str(row[key]) for key in shown) + " |" for row in rows)]
    )


if __name__ == "__main__":
    main()
