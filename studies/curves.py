"""Every algorithm on Covtype with knowledge: accuracy against rounds and against bytes.

`python -m studies.curves --out docs/explain/img` makes the figures and the table of
docs/explain/algorithms.md; `--tune` shows how the settings below were chosen.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

from fedlore.algorithms import Algorithm, make
from fedlore.core.history import Row, read_rows, write_rows
from fedlore.core.tree import Payload
from fedlore.engine import Client, Recipe, federate
from fedlore.engine.stacked import Stacked
from fedlore_lab.paper.tasks import PAPER_TASKS, Setup, experts, know, read_protocol, share_out

from .curve_figures import draw, table

SHARE = 0.01  # of the training part, as in the paper's main table
SEEDS = (0, 1, 2)
TUNING = (100, 101)  # drawings that no figure shows
RANGES = ("oracle", "conformal99")
EVERY = 3  # rounds between two scores
TEST_ROWS = 4000  # per client

Grid = dict[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Entry:
    """One curve: an algorithm, what was chosen for it, and among what."""

    label: str
    name: str
    settings: dict[str, Any] = field(default_factory=dict)  # of the algorithm
    personal: bool = False  # a model per client
    plan: dict[str, Any] = field(default_factory=dict)  # what differs from the protocol's plan
    grid: Grid = field(default_factory=dict)  # values tried; plan.X is a setting of the plan

    def algorithm(self) -> Algorithm:
        return make(self.name, **self.settings)

    def with_(self, name: str, value: Any) -> "Entry":
        """This entry with another value of a setting; plan.X is a setting of the plan."""
        if name.startswith("plan."):
            return replace(self, plan=self.plan | {name.removeprefix("plan."): value})
        return replace(self, settings=self.settings | {name: value})


RATES: Grid = {"plan.lr": (0.1, 0.3)}  # of the clients; the paper's authors used 0.1
SERVER: Grid = {"lr": (0.01, 0.03, 0.1)}
FAST = {"lr": 0.3}

#: What `--tune` chose, but for SCAFFOLD and Scaffnew, which get the next smaller step size: the
#: best one (0.3 and 1.0, half a point more in tuning) was so near the edge that rounding alone
#: decided whether a run broke down. Every client takes about 20 local steps in a round.
ENTRIES = (
    Entry("FedAvg", "fedavg", plan=FAST, grid=RATES),
    Entry("FedProx", "fedavg", {"prox": 0.01}, plan=FAST, grid={"prox": (0.01, 0.1, 1.0)} | RATES),
    Entry(
        "FedAvgM",
        "fedopt",
        {"kind": "momentum", "lr": 1.0, "beta1": 0.9},
        grid={"beta1": (0.5, 0.9)} | RATES,
    ),
    Entry("FedAdagrad", "fedopt", {"kind": "adagrad", "lr": 0.03}, grid=SERVER | RATES),
    Entry("FedAdam", "fedopt", {"kind": "adam", "lr": 0.1}, plan=FAST, grid=SERVER | RATES),
    Entry("FedYogi", "fedopt", {"kind": "yogi", "lr": 0.1}, grid=SERVER | RATES),
    Entry("SCAFFOLD", "scaffold", grid={"plan.momentum": (0.0, 0.9)} | RATES),
    Entry(
        "Scaffnew",
        "scaffnew",
        {"chance": 0.05},
        plan={"momentum": 0.0, "lr": 0.3},
        grid={"plan.lr": (0.3, 1.0, 2.0)},
    ),
    Entry("alone", "alone", personal=True, plan=FAST, grid=RATES),
    Entry(
        "Ditto",
        "ditto",
        {"pull": 0.3},
        personal=True,
        plan=FAST,
        grid={"pull": (0.1, 0.3, 1.0)} | RATES,
    ),
    Entry("APFL", "apfl", {"adapt": 0.1}, personal=True, grid={"adapt": (0.1, 1.0)} | RATES),
    Entry("APFL, α = ½", "apfl", {"adapt": 0.0}, personal=True, grid=RATES),
    Entry("FedPer", "fedper", personal=True, plan=FAST, grid=RATES),
    Entry("FedAvg + finish", "fedavg", personal=True, plan=FAST | {"finish": 40}),
)


def traffic(algorithm: Algorithm, state: Payload) -> int:
    """Bytes that one client gets and returns in a round; uploads are shaped like what was sent."""
    sent = algorithm.send(state)
    return _bytes(sent) + _bytes({key: sent[key] for key in algorithm.uploads})


def drawing(seed: int, kind: str) -> tuple[Setup, list[Client]]:
    """The clients of one seed, each with its share of rows, its expert and its ranges."""
    task = PAPER_TASKS["covtype"]
    setup = replace(read_protocol("fair").covtype, test_rows=TEST_ROWS)
    sites = share_out(setup, *task.load(), seed=seed)
    known = experts(task, setup, sites, honest=kind != "oracle", seed=seed)
    pairs = zip(sites, known, strict=True)
    return setup, [know(setup, s, e, kind=kind, share=SHARE, seed=seed) for s, e in pairs]


def curve(entry: Entry, setup: Setup, clients: Sequence[Client], *, seed: int) -> list[Row]:
    """One run: the clients' mean accuracy and the bytes sent so far, every few rounds."""
    algorithm, model = entry.algorithm(), PAPER_TASKS["covtype"].server(False, seed)
    recipe = Recipe(model, algorithm, replace(setup.plan, **entry.plan), seed)
    with Stacked(clients, recipe) as transport:
        run = federate(transport, recipe, setup.rounds_at(SHARE), evaluate=EVERY)
    each = traffic(algorithm, run.state) * len(clients)
    scored: dict[int, list[float]] = {}
    for row in run.rows:
        if isinstance(row.get("ta"), float):
            scored.setdefault(int(row["round"] or 0), []).append(float(row["ta"] or 0.0))
    return [
        {"round": round, "bytes": each * round, "ta": float(f"{sum(ta) / len(ta):.5f}")}
        for round, ta in scored.items()
    ]


def run_all(entries: Sequence[Entry] = ENTRIES, seeds: Sequence[int] = SEEDS) -> list[Row]:
    """The rows of every entry, seed and kind of range."""
    rows: list[Row] = []
    for seed, kind in product(seeds, RANGES):
        setup, clients = drawing(seed, kind)
        for entry in entries:
            tags: Row = {"algorithm": entry.label, "range": kind, "seed": seed}
            rows += [{**tags, **row} for row in curve(entry, setup, clients, seed=seed)]
            print(f"seed {seed} {kind} {entry.label}: {rows[-1]['ta']}", flush=True)
    return rows


def tune(entries: Sequence[Entry] = ENTRIES) -> None:
    """Choose setting after setting on other drawings: oracle ranges, accuracy at the end."""
    drawings = [(seed, *drawing(seed, "oracle")) for seed in TUNING]

    def score(entry: Entry) -> float:
        ends = [curve(entry, setup, clients, seed=s)[-1]["ta"] for s, setup, clients in drawings]
        return sum(float(ta or 0.0) for ta in ends) / len(ends)

    for entry in entries:
        for name, values in entry.grid.items():
            scores = {value: score(entry.with_(name, value)) for value in values}
            entry = entry.with_(name, max(scores, key=lambda value: scores[value]))
            shown = ", ".join(f"{value:g}: {ta:.4f}" for value, ta in scores.items())
            print(f"{entry.label} {name} {{{shown}}}", flush=True)
        print(f"{entry.label} -> {entry.settings} {entry.plan}", flush=True)


def _bytes(payload: Payload) -> int:
    return sum(t.numel() * t.element_size() for b in payload.values() for t in b.values())


def main() -> None:
    """Command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/explain/img"))
    parser.add_argument("--tune", action="store_true", help="search the grids, make no figures")
    parser.add_argument("--only", nargs="*", help="these labels; rows of others are kept")
    options = parser.parse_args()
    torch.set_num_threads(1)
    wanted = [e for e in ENTRIES if not options.only or e.label in options.only]
    if options.tune:
        tune(wanted)
        return
    file = options.out / "curves.jsonl"
    kept = (
        [r for r in read_rows(file) if r["algorithm"] not in options.only] if options.only else []
    )
    rows = [*kept, *run_all(wanted)]
    write_rows(rows, file)
    shared, personal = ([e.label for e in ENTRIES if e.personal == p] for p in (False, True))
    (options.out / "curves.md").write_text(table(rows, [*shared, *personal]), encoding="utf-8")
    for path in draw(rows, shared, personal, options.out):
        print(path)


if __name__ == "__main__":
    main()
