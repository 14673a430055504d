"""One seed of a case: rows, experts and weights, each made once and only when asked for."""

import math
from collections import Counter
from dataclasses import replace

import torch

from fedlore import Examples, Fitted, Personal
from fedlore.algorithms import Alone
from fedlore.core.history import Row
from fedlore.core.nets import mlp
from fedlore.engine import Client
from fedlore.errors import ConfigError
from fedlore.experiments import Approach, Drawing, Outcome, Runner, Trained, train_approach
from fedlore.knowledge import count
from fedlore_coke.demo import Demo, plants_of
from fedlore_coke.experts import COKE

from .tasks import (
    PAPER_TASKS,
    DataExpert,
    PaperTask,
    Setup,
    experts,
    know,
    read_protocol,
    share_out,
)

WATCHED = 500  # test rows per client that a history is scored on, again and again
CURVE = 12  # points of a history


class PaperDrawings:
    """Where approaches are tried on one drawing of clients, experts and ranges."""

    def __init__(
        self,
        task: PaperTask,
        setup: Setup,
        rows: tuple[Examples, Examples | None],
        seed: int,
        *,
        watch: bool = False,  # whether scores over rounds are wanted
    ) -> None:
        self.task, self.setup, self.seed, self.watch = task, setup, seed, watch
        self.sites = share_out(setup, *rows, seed=seed)
        self._experts: dict[bool, list[DataExpert]] = {}
        self._clients: dict[tuple[str, float], list[Client]] = {}
        self._runners: dict[tuple[str, float], Runner] = {}
        self._kept: dict[float, dict[object, Trained]] = {}

    def clients(self, kind: str, share: float) -> list[Client]:
        """The clients with one kind of range and a share of their training rows."""
        key = (kind, share)
        if key not in self._clients:
            honest = kind != "oracle"
            if honest not in self._experts:
                made = experts(self.task, self.setup, self.sites, honest=honest, seed=self.seed)
                self._experts[honest] = made
            self._clients[key] = [
                know(self.setup, site, expert, kind=kind, share=share, seed=self.seed)
                for site, expert in zip(self.sites, self._experts[honest], strict=True)
            ]
        return self._clients[key]

    def drawing(self, kind: str, share: float) -> Drawing:
        """The clients, and what all approaches have in common."""
        rounds = self.setup.rounds_at(share)
        return Drawing(
            self.clients(kind, share),
            lambda hears: self.task.server(hears, self.seed),
            self.setup.plan,
            rounds,
            self.seed,
            scale=False,  # both data sets come in [0, 1], as the paper's authors had them
            every=math.ceil(rounds / CURVE) if self.watch else 0,
            name=kind,
        )

    def runner(self, kind: str, share: float) -> Runner:
        """Weights without knowledge are the same for every kind of range."""
        if (kind, share) not in self._runners:
            kept = self._kept.setdefault(share, {})
            self._runners[kind, share] = Runner(self.drawing(kind, share), kept, self._train)
        return self._runners[kind, share]

    def _train(self, approach: Approach, drawing: Drawing) -> Trained:
        setup, rounds = self.setup, drawing.rounds
        alone = isinstance(approach.algorithm, Alone)
        tuned = setup.tuned and not alone and rounds > 1
        if alone and setup.alone:
            rounds = setup.alone
        if self.watch:
            drawing = replace(drawing, clients=[_thin(c) for c in drawing.class_clients])
        fitted = train_approach(approach, replace(drawing, rounds=rounds - tuned))
        if not tuned:
            return Trained(fitted, approach.model, drawing.name, rounds)
        own = self._tune(approach, drawing, fitted, rounds)
        return Trained(own, "tuned", drawing.name, rounds)

    def _tune(
        self, approach: Approach, drawing: Drawing, fitted: Fitted[Personal], rounds: int
    ) -> Fitted[Personal]:
        """The last local round, whose mean nobody gets back."""
        shared = fitted.model(drawing.clients[0].id).model
        plan = self.setup.plan
        last = replace(plan, lr=plan.lr * plan.rate(rounds, rounds), schedule="constant")
        once = replace(drawing, make_model=lambda _: shared, plan=last, rounds=1, every=0)
        own: Fitted[Personal] = train_approach(replace(approach, algorithm=Alone()), once)
        return replace(own, run=replace(own.run, rows=fitted.history))

    def measure(
        self, approach: Approach, kind: str, share: float
    ) -> tuple[list[Row], list[Row], list[Row]]:
        """Scores per client; where it watches also scores over rounds, and confusions."""
        found = self.runner(kind, share).run(approach)
        seconds = round(found.seconds / len(self.sites), 3)
        rows: list[Row] = []
        for client, scores in zip(self.clients(kind, share), found.rows, strict=True):
            assert client.test is not None
            ranges = count(client.test)
            rows.append(
                {
                    "model": scores["model"],
                    "client": client.id,
                    "ta": scores["ta"],
                    "pov": scores["pov"],
                    "abstained": scores.get("abstained"),
                    "coverage": 1 - ranges.outside / ranges.rows,
                    "width": round(ranges.width or 0.0, 4),
                    "train_rows": len(client.data),
                    "test_rows": ranges.rows,
                    "rounds": found.trained.rounds,
                    "seconds": seconds,
                }
            )
        if not self.watch:
            return rows, [], []
        return rows, _history(found, kind), _all_confusions(found)


def _history(found: Outcome, kind: str) -> list[Row]:
    """Scores over rounds; violations only of the range that these weights were watched with."""
    same = found.trained.drawing == kind
    names = ("round", "client", "ta")
    return [
        {**{n: row[n] for n in names}, "pov": row["pov"] if same else None} for row in found.history
    ]


def _all_confusions(found: Outcome) -> list[Row]:
    """The counts of all clients as one."""
    total: Counter[tuple[int, int]] = Counter()
    for row in found.confusion:
        total[int(row["label"] or 0), int(row["predicted"] or 0)] += int(row["count"] or 0)
    return [
        {"client": "all", "label": label, "predicted": guess, "count": number}
        for (label, guess), number in sorted(total.items())
    ]


def _thin(client: Client) -> Client:
    """The client with fewer test rows, evenly spaced."""
    assert client.test is not None
    step = max(1, math.ceil(len(client.test) / WATCHED))
    return replace(client, test=client.test[torch.arange(0, len(client.test), step)])


def draw(dataset: str, share: float, kind: str, seed: int, protocol: str = "fair") -> Drawing:
    """One seed of a case, as `fedlore paper`, the demo and the audit of leaks draw it."""
    if dataset in ("coke", "coke-measured"):  # learned from grades, or from CSR behind them
        demo = Demo(measured=dataset == "coke-measured")
        d, k = len(COKE.features), len(COKE.classes)
        return Drawing(
            plants_of(demo, seed),
            lambda hears: mlp(d, k, hidden=demo.hidden, hears=hears, seed=seed),
            demo.plan,
            demo.rounds,
            seed,
            ordered=COKE.ordered,
        )
    if dataset not in PAPER_TASKS:
        raise ConfigError(f"dataset must be covtype, fmnist or coke, got '{dataset}'")
    setup: Setup = getattr(read_protocol(protocol), dataset)
    task = PAPER_TASKS[dataset]
    return PaperDrawings(task, setup, task.load(), seed).drawing(kind, share)
