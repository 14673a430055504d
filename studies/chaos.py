"""A deployed federation under random kills, stops and cut connections, against an undisturbed one.

Four plants. Every round must be finished, with a quorum of all of them with everybody's answer, and
each must have the bits of a training in one process in which the same sites answered and nothing
else happened. Sites reach the server through a relay of this script, which can cut all lines.
Written down: what was done, how long it took from the last disturbance to the next finished round,
and how many rounds have the same bits. As it stands that is 60 masked rounds with 100 disturbances
at quorum 1.0 and 0.5, twice each.
"""

import argparse
import itertools
import os
import random
import select
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch

from fedlore.core.scaler import Scaler
from fedlore.core.tree import Payload, flatten
from fedlore.core.wire import Reply, Task, Transport
from fedlore.engine import Local, Recipe, Run, federate
from fedlore.engine.loop import start_run
from fedlore.errors import FedloreError
from fedlore.federation.coordinator.training import coordinator_filters
from fedlore.federation.household import Household, local_sites, run_household
from fedlore.federation.journal import Journal, JournalEntry
from fedlore.federation.processes import Child, fedlore_command, free_port
from fedlore.federation.settings import read_deployed
from fedlore.federation.site.folder import read_kit
from fedlore.federation.terms import terms_of
from fedlore.privacy.filters import guard_transport
from fedlore_coke.starter import make_trial

DEADLINE, SITES = 20.0, 4
KINDS = ("kill a site", "kill the server", "kill the training", "stop a site", "stop the server",
         "stop the training", "cut all lines")  # fmt: skip


class Relay:
    """Carries bytes between sites and the server; cut, it hangs up on all and takes nobody in."""

    def __init__(self, port: int) -> None:
        self._to, self._cut = port, False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lines: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, seconds: float) -> None:
        self._cut = True
        for line in list(self._lines):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        time.sleep(seconds)
        self._cut = False

    def _accept(self) -> None:
        while True:
            line, _ = self._listener.accept()
            if self._cut:
                line.close()
            else:
                threading.Thread(target=self._carry, args=(line,), daemon=True).start()

    def _carry(self, line: socket.socket) -> None:
        with suppress(OSError), line, socket.create_connection(("127.0.0.1", self._to)) as other:
            self._lines |= {line, other}
            while True:
                for ready in select.select([line, other], [], [])[0]:
                    data = ready.recv(65_536)
                    if not data:
                        return
                    (other if ready is line else line).sendall(data)


@dataclass
class Disturbed:
    """The processes, and what was done to them."""

    folder: Path
    household: Household
    relay: Relay
    dice: random.Random
    training: Child = field(init=False)
    gave_up: int = 0  # times that the training ended by itself and was resumed

    def __post_init__(self) -> None:
        self.train()

    def train(self, *options: str) -> None:
        command = fedlore_command("train", str(self.folder), *options)
        self.training = Child(command, log=self.folder / "logs" / "train.log")

    def rounds(self) -> int:
        files = Journal(self.folder / "journal").files()
        return int(files[0].name[6:12]) if files else -1

    def over(self) -> bool:
        code = self.training.code()
        if code not in (None, 0):  # a round was void too often: its owner goes on
            self.gave_up += 1
            self.train("--resume")
        return code == 0

    def disturb(self, what: str) -> None:
        site = self.dice.choice(sorted(self.household.sites))
        child = {"site": self.household.sites[site], "server": self.household.server}.get(
            what.split()[-1], self.training
        )
        if what.startswith("kill"):
            child.kill()
            if child is self.training:
                self.train("--resume")
            elif child is self.household.server:
                self.household.restart_server()
            else:
                self.household.restart_site(site)
        elif what.startswith("stop"):
            self._signal(child, signal.SIGSTOP)
            time.sleep(self.dice.uniform(0.5, 6.0))
            self._signal(child, signal.SIGCONT)
        else:
            self.relay.cut(self.dice.uniform(0.1, 3.0))

    def _signal(self, child: Child, sign: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(child.pid, sign)


def make_folder(folder: Path, rounds: int, masked: bool, quorum: float) -> Relay:
    port = free_port()
    settings = {"rounds": rounds, "test_rows": 50, "secure": masked}
    make_trial(folder, sites=SITES, address=f"127.0.0.1:{port}", **settings)
    path = folder / "federation.toml"
    text = path.read_text().replace("quorum = 0.5", f"quorum = {quorum}")
    text = text.replace("epochs = 5", "epochs = 100")  # so that most of it falls into a round
    path.write_text(text.replace("deadline = 120.0", f"deadline = {DEADLINE}"))
    relay = Relay(port)
    for home in local_sites(folder):
        site = home / "site.toml"
        site.write_text(site.read_text().replace(f":{port}", f":{relay.port}"))
    return relay


class Kept:
    """Every round of the journal, which keeps the last few itself, and when it was finished."""

    def __init__(self, folder: Path) -> None:
        self.rounds: dict[tuple[str, int], tuple[float, JournalEntry]] = {}  # by run and round
        self._folder, self._seen = folder, set[float]()
        threading.Thread(target=self._watch, daemon=True).start()

    def look(self) -> None:
        with suppress(FileNotFoundError, FedloreError):
            for path in reversed(Journal(self._folder).files()):
                when = path.stat().st_mtime
                if when not in self._seen:
                    entry = _read(path)
                    self.rounds.setdefault((entry.about["run"], entry.run.round), (when, entry))
                    self._seen.add(when)

    def waits(self, events: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
        """Seconds from the last disturbance before a round to its end, and what it was."""
        ends = sorted(when for when, _ in self.rounds.values())
        found = []
        for before, end in zip(ends, ends[1:], strict=False):
            since = [(end - when, what) for when, what in events if before < when < end]
            found += since[-1:]
        return found

    def _watch(self) -> None:
        while True:
            self.look()
            time.sleep(0.2)


def _read(path: Path) -> JournalEntry:
    """One round of a journal, read alone."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / path.name).write_bytes(path.read_bytes())
        entry, wrong = Journal(Path(folder)).last()
    if entry is None:
        raise FedloreError(wrong[0])
    return entry


@dataclass
class Survivors:
    """Sites in this process of which only some answer, by rounds."""

    transport: Local
    names: dict[int, list[str]]

    def clients(self) -> Sequence[str]:
        return self.transport.clients()

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        return self.transport.exchange(task, [n for n in to if n in self.names[task.round]])


def compare(folder: Path, kept: Kept) -> dict[str, object]:
    """The rounds of the journal against those of one process in which the same sites answer."""
    federation, same, heard, unseen = read_deployed(folder), 0, [], 0
    for run in {run for run, _ in kept.rounds}:  # another one where a training began anew
        entries = {n: entry for (of, n), (_, entry) in kept.rounds.items() if of == run}
        names = {
            n: [site for site, last in entry.run.accepted.items() if last == n]
            for n, entry in entries.items()
        }
        unseen += max(entries) + 1 - len(entries)
        if 0 not in entries or unseen:
            continue
        first = entries[0]
        terms = terms_of(federation, run=run, participants=SITES)
        terms = terms.scaled(Scaler.read(first.common["scaler"], terms.inputs))
        clients = [read_kit(home).client(federation.schema) for home in local_sites(folder)]
        recipe = terms.recipe()
        sites = guard_transport(
            Survivors(Local(clients, recipe), names), coordinator_filters(terms)
        )
        same += _same_rounds(sites, recipe, federation.rounds, entries)
        heard += [len(names[n]) for n in entries if n]
    row: dict[str, object] = {"merged rounds": len(heard), "with the same bits": same}
    row |= {"with everybody": heard.count(SITES), "fewest in a round": min(heard, default=0)}
    return row | {"rounds not seen": unseen}


class Over(Exception):
    """A run was given up after this round."""


def _same_rounds(
    sites: Transport, recipe: Recipe, rounds: int, entries: dict[int, JournalEntry]
) -> int:
    equal = []

    def look(run: Run) -> None:
        equal.append(_equal(run.state, entries[run.round].run.state))
        if run.round == max(entries):
            raise Over

    with suppress(Over):
        federate(
            sites, recipe, rounds, start=start_run(recipe, entries[0].about["salt"]), on_round=look
        )
    return sum(equal)


def _equal(a: Payload, b: Payload) -> bool:
    one, other = flatten(a), flatten(b)
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def measure(
    options: argparse.Namespace, masked: bool, quorum: float, seed: int
) -> dict[str, object]:
    rounds = options.rounds
    dice, events = random.Random(seed), list[tuple[float, str]]()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "fed"
        relay = make_folder(folder, rounds, masked, quorum)
        kept = Kept(folder / "journal")
        if options.ahead:
            threading.Thread(target=_keep_ahead, daemon=True).start()
        with run_household(folder, say=print) as household:
            chaos, began = Disturbed(folder, household, relay, dice), time.monotonic()
            while len(events) < options.events and not chaos.over():
                what = dice.choice(KINDS)
                chaos.disturb(what)
                events.append((time.time(), what))
                print(
                    f"{time.monotonic() - began:.0f} s, round {chaos.rounds()}: {what}", flush=True
                )
                # on the way to the next round another disturbance may come, or not before it
                left = (rounds - chaos.rounds()) / max(1, options.events - len(events))
                calm, before = dice.random() < 0.6 * left, chaos.rounds()
                end = time.monotonic() + dice.uniform(0.0, 1.0)
                while not chaos.over() and (calm or time.monotonic() < end):
                    if chaos.rounds() > before:
                        break
                    time.sleep(0.05)
            while not chaos.over():
                time.sleep(0.1)
            took = time.monotonic() - began
        kept.look()
        compared = compare(folder, kept)
        if options.keep:
            shutil.copytree(folder, options.keep, dirs_exist_ok=True)
    longest, why = max(kept.waits(events), default=(0.0, ""))
    row: dict[str, object] = {"masked": masked, "quorum": quorum, "seed": seed}
    row |= {"events": len(events), **compared, "ended by itself": chaos.gave_up}
    row |= {"seconds": round(took), "longest wait": round(longest, 1), "after": why}
    return row | {kind: sum(what == kind for _, what in events) for kind in KINDS}


def _keep_ahead() -> None:
    """All processes of this study before others of a busy machine (Linux, root)."""
    while True:
        Path("/proc/self/autogroup").write_text("-20")
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if f"CHAOS={os.getpid()}".encode() in path.read_bytes():
                    (path.parent / "autogroup").write_text("-20")
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--seeds", default="0,1", help="one run each")
    parser.add_argument("--modes", default="masked", help="plain, masked or both")
    parser.add_argument("--quorums", default="1.0,0.5")
    parser.add_argument("--ahead", action="store_true", help=_keep_ahead.__doc__)
    parser.add_argument("--keep", help="a folder for the federation's files afterwards")
    parser.add_argument("--out", default="results/chaos.md")
    options = parser.parse_args()
    os.environ["CHAOS"] = str(os.getpid())
    rows = []
    lists = (getattr(options, name).split(",") for name in ("modes", "quorums", "seeds"))
    for mode, quorum, seed in itertools.product(*lists):
        rows.append(measure(options, mode == "masked", float(quorum), int(seed)))
        print(rows[-1], flush=True)
        _write(rows, Path(options.out))
    print(Path(options.out).read_text(encoding="utf-8"))


def _write(rows: list[dict[str, object]], path: Path) -> None:
    lines = ["# Chaos", "", str(__doc__).partition("\n\n")[2].strip(), ""]
    lines += [f"Deadline {DEADLINE:g} s, {SITES} sites. Made by `python studies/chaos.py`.", ""]
    lines += ["| |" + " | ".join("masked" if r["masked"] else "plain" for r in rows) + " |"]
    lines += ["|---|" + "---|" * len(rows)]
    for key in [key for key in rows[0] if key != "masked"]:
        lines += [f"| {key} | " + " | ".join(str(row[key]) for row in rows) + " |"]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
