"""A deployed federation under random kills, stops and cut connections, against an undisturbed one.

Four plants. With a quorum of all of them every round must be finished with everybody's answer, so
that the result has the bits of a training in one process in which nothing happened; with a smaller
one every round must be finished. Sites reach the server through a relay of this script, which can
cut all lines. Written down: what was done, how long it took from the last disturbance to the next
finished round, and whether the weights are the same.
"""

import argparse
import os
import random
import select
import signal
import socket
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from fedlore.core.tree import flatten
from fedlore.engine import Local, federate
from fedlore.engine.loop import scale_together
from fedlore.federation.coordinator.training import coordinator_filters
from fedlore.federation.household import Household, local_sites, run_household
from fedlore.federation.journal import Journal, read_state
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
            self.train("--resume" if self.rounds() >= 0 else "")
        return code == 0

    def disturb(self, what: str) -> None:
        site = self.dice.choice(sorted(self.household.sites))
        child = {"site": self.household.sites[site], "server": self.household.server}.get(
            what.split()[-1], self.training
        )
        if what.startswith("kill"):
            child.kill()
            if child is self.training:
                self.train("--resume" if self.rounds() >= 0 else "")
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


def undisturbed(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of the same training in one process."""
    federation = read_deployed(folder)
    clients = [read_kit(home).client(federation.schema) for home in local_sites(folder)]
    terms = terms_of(federation, run="", participants=SITES)
    filters = coordinator_filters(terms)
    recipe = terms.recipe()
    recipe = replace(
        recipe, scaler=scale_together(guard_transport(Local(clients, recipe), filters))
    )
    run = federate(guard_transport(Local(clients, recipe), filters), recipe, federation.rounds)
    return flatten(recipe.algorithm.send(run.state))


def measure(options: argparse.Namespace, masked: bool) -> dict[str, object]:
    rounds, quorum = options.rounds, options.quorum
    dice, waits, done = random.Random(options.seed), [], dict.fromkeys(KINDS, 0)
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "fed"
        relay = make_folder(folder, rounds, masked, quorum)
        if options.ahead:
            threading.Thread(target=_keep_ahead, daemon=True).start()
        with run_household(folder, say=print) as household:
            chaos, began = Disturbed(folder, household, relay, dice), time.monotonic()
            for _ in range(options.events):
                if chaos.over() or chaos.rounds() >= rounds - 1:
                    break
                what = dice.choice(KINDS)
                chaos.disturb(what)
                done[what] += 1
                # on the way to the next round another disturbance may come, or not before it
                calm, before, since = dice.random() < 0.5, chaos.rounds(), time.monotonic()
                pause = dice.uniform(0.0, 1.0)
                while not chaos.over() and (calm or time.monotonic() - since < pause):
                    if chaos.rounds() > before:
                        waits.append((time.monotonic() - since, what))
                        break
                    time.sleep(0.05)
            since, before = time.monotonic(), chaos.rounds()
            while not chaos.over():
                time.sleep(0.1)
            took = time.monotonic() - began
        found = flatten(read_state(folder / "shared.weights")[1])
        wanted = undisturbed(folder)
        rows = Journal(folder / "journal").last()[0].run.rows  # type: ignore[union-attr]
    same = found.keys() == wanted.keys() and all(torch.equal(found[n], wanted[n]) for n in wanted)
    merged = [row["merged"] for row in rows if "merged" in row]
    longest, why = max(waits, default=(0.0, ""))
    row: dict[str, object] = {"masked": masked, "quorum": quorum, "rounds": len(merged)}
    row |= {"events": sum(done.values()), "rounds with everybody": merged.count(SITES)}
    row |= {"fewest in a round": min(merged), "same bits": same}
    row |= {"seconds": round(took), "longest wait": round(longest, 1), "after": why}
    row |= {"given up and resumed": chaos.gave_up, **done}
    return row


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
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--modes", default="plain,masked")
    parser.add_argument("--quorum", type=float, default=1.0)
    parser.add_argument("--ahead", action="store_true", help=_keep_ahead.__doc__)
    parser.add_argument("--out", default="results/chaos.md")
    options = parser.parse_args()
    os.environ["CHAOS"] = str(os.getpid())
    rows = []
    for mode in options.modes.split(","):
        masked = mode == "masked"
        rows.append(measure(options, masked))
        print(rows[-1], flush=True)
        _write(rows, Path(options.out))


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
