"""A round through a filter against the plain round: what benchmarks of filters share.

10 sites, an MLP 54-1000-935-7 of about 1 M parameters. The plain round is real training: each site
takes 5 epochs of its 581 rows (Covertype 1 % over ten sites) in batches of 32, FedAvg. Rounds of
the variants are interleaved. Times are processor time of one process.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from gpu import clients_of

from fedlore import FedAvg, Plan
from fedlore.core import tree
from fedlore.core.nets import mlp
from fedlore.core.wire import Reply, Task, Transport
from fedlore.engine import Local, Recipe, Stacked
from fedlore.privacy.filters import Filter, guard_transport

SITES, ROWS, HIDDEN = 10, 581, (1000, 935)
Run = Callable[[int], object]


class Given:
    """Sites that answer at once: what remains is the protocol."""

    def __init__(self, replies: list[Reply]) -> None:
        self._replies = {reply.client: reply for reply in replies}

    def clients(self) -> list[str]:
        return list(self._replies)

    def exchange(self, task: Task, to: list[str]):
        return [replace(self._replies[name], round=task.round) for name in to]


class Bench:
    """The sites, what each uploads, and rounds with and without a filter."""

    def __init__(self, new_filter: Callable[[], Filter], name: str) -> None:
        torch.set_num_threads(1)
        model = mlp(54, 7, hidden=HIDDEN)
        self.size = sum(p.numel() for p in model.parameters())
        recipe = Recipe(model, FedAvg(), Plan(epochs=5, lr=0.01))
        clients = clients_of(SITES, ROWS, "mlp")
        self._names = [c.id for c in clients]
        self._sent = {"model": {n: p.detach().clone() for n, p in model.named_parameters()}}
        stacked, local = Stacked(clients, recipe, workers=1), Local(clients, recipe)
        self.kept = list(local.exchange(Task("train", 1, self._sent), self._names))
        double = torch.zeros((), dtype=torch.float64)
        uploads = ({"model": tree.to(r.upload["model"], double)} for r in self.kept)
        self.mean = tree.mean((upload, 1.0) for upload in uploads)["model"]
        self.alone = f"{name} alone"
        self._protocol = self._round(guard_transport(Given(self.kept), [new_filter()]))
        self.variants: dict[str, Run] = {
            "plain round, stacked": self._round(stacked, sums=True),
            f"{name} round, stacked": self._round(guard_transport(stacked, [new_filter()])),
            "plain round, one by one": self._round(local),
            f"{name} round, one by one": self._round(guard_transport(local, [new_filter()])),
            self.alone: self._protocol,
        }

    def _round(self, transport: Transport, sums: bool = False) -> Callable[[int], list[Reply]]:
        """A round as the loop has it, the mean of the replies included."""

        def run(number: int) -> list[Reply]:
            task = Task("train", number, self._sent, sums=sums)
            replies = list(transport.exchange(task, self._names))
            tree.mean((r.upload, float(len(r.names))) for r in replies)
            return replies

        return run

    def error(self) -> str:
        """How far the filter's mean is from the plain one."""
        (reply,) = self._protocol(99)
        return self.gap(reply.upload["model"])

    def gap(self, found: tree.Params) -> str:
        return f"{tree.norm(tree.sub(found, self.mean)) / tree.norm(self.mean):.1e}"

    def times(self, repeats: int) -> dict[str, list[float]]:
        """Seconds of every variant in every round but the first."""
        found: dict[str, list[float]] = {name: [] for name in self.variants}
        for number in range(1, repeats + 2):
            for name, run in self.variants.items():
                began = time.process_time()
                run(number)
                spent = time.process_time() - began
                print(f"{number} {name:32}{spent:8.2f} s", flush=True)
                if number > 1:
                    found[name].append(spent)
        return found

    def row(self, name: str, times: dict[str, list[float]]) -> dict[str, object]:
        """What every benchmark of a filter says of a variant."""
        base = "plain round, one by one" if "one by one" in name else "plain round, stacked"
        return {
            "variant": name, "sites": SITES, "parameters": self.size, "rows": ROWS,
            "seconds": round(statistics.median(times[name]), 3),
            "over_plain": ratio(times[name], times[base]),
        }  # fmt: skip


def ratio(values: list[float], base: list[float]) -> float:
    """The median of the ratios of rounds that ran next to each other."""
    return round(statistics.median(a / b for a, b in zip(values, base, strict=True)), 3)
