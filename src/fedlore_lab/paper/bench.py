"""One seed of one task: rows, experts and weights, each made once and only when asked for."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from fedlore import Examples, Personal
from fedlore.algorithms import Alone, FedAvg
from fedlore.core.history import Row
from fedlore.engine import Client, Fitted
from fedlore.experiments import (
    Approach,
    confusion,
    own_best,
    predict_approach,
    predict_own,
    score_approach,
    train_approach,
    training,
)
from fedlore.knowledge import count
from fedlore.personal.own import OwnModel

from .protocol import Setup
from .tasks import DataExpert, PaperTask, experts, know, share_out

WATCHED = 500  # test rows per client that a history is scored on, again and again


@dataclass(frozen=True, eq=False)
class TrainedTable:
    """Weights and what it took to get them."""

    fitted: Fitted[Personal] | None
    model: str  # whose weights they are
    kind: str  # the range their history was scored against
    rounds: int
    seconds: float


class PaperBench:
    """Where approaches are tried on one drawing of clients, experts and ranges."""

    def __init__(
        self, task: PaperTask, setup: Setup, rows: tuple[Examples, Examples | None], seed: int
    ) -> None:
        self.task, self.setup, self.seed = task, setup, seed
        self.sites = share_out(setup, *rows, seed=seed)
        self._experts: dict[bool, list[DataExpert]] = {}
        self._clients: dict[tuple[str, float], list[Client]] = {}
        self._trained: dict[tuple[object, ...], TrainedTable] = {}
        self._own: dict[tuple[str, float], dict[str, OwnModel]] = {}

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

    def trained(self, approach: Approach, kind: str, share: float, *, watch: bool) -> TrainedTable:
        """The weights of an approach; without knowledge they are the same for every range."""
        if approach.alone:
            start = time.perf_counter()
            if (kind, share) not in self._own:
                self._own[kind, share] = own_best(self.clients(kind, share), seed=self.seed)
            seconds = time.perf_counter() - start
            return TrainedTable(None, approach.model, kind, 0, seconds)
        if approach.algorithm is None:
            return TrainedTable(None, approach.model, kind, 0, 0.0)
        key = (training(approach), kind if approach.trained else "", share)
        if key not in self._trained:
            start = time.perf_counter()
            clients = self.clients(kind, share)
            if watch:
                clients = [_watch(client) for client in clients]
            fitted, model, rounds = self._train(approach, clients, share, watch=watch)
            seconds = time.perf_counter() - start
            self._trained[key] = TrainedTable(fitted, model, kind, rounds, seconds)
        return self._trained[key]

    def _train(
        self, approach: Approach, clients: Sequence[Client], share: float, *, watch: bool
    ) -> tuple[Fitted[Personal], str, int]:
        setup = self.setup
        rounds = setup.rounds_at(share)
        alone = isinstance(approach.algorithm, Alone)
        tuned = setup.tuned and isinstance(approach.algorithm, FedAvg) and rounds > 1
        if alone and setup.alone:
            rounds = setup.alone
        fitted = train_approach(
            approach,
            clients,
            lambda hears: self.task.server(hears, self.seed),
            plan=setup.plan,
            rounds=rounds - tuned,
            seed=self.seed,
            scale=False,  # both data sets come in [0, 1], as the paper's authors had them
            every=math.ceil(rounds / 12) if watch else 0,
        )
        if not tuned:
            return fitted, approach.model, rounds
        # the last local round, whose mean nobody gets back
        shared = fitted.model(clients[0].id).model
        last = replace(setup.plan, lr=setup.plan.lr * setup.plan.rate(rounds, rounds))
        own = train_approach(
            replace(approach, algorithm=Alone()),
            clients,
            lambda _: shared,
            plan=replace(last, schedule="constant"),
            rounds=1,
            seed=self.seed,
            scale=False,
        )
        return replace(own, run=replace(own.run, rows=fitted.history)), "tuned", rounds

    def measure(
        self, approach: Approach, kind: str, share: float, *, watch: bool = False
    ) -> tuple[list[Row], list[Row], list[Row]]:
        """Scores per client; with `watch` also scores over rounds and the counts of confusions."""
        got = self.trained(approach, kind, share, watch=watch)
        rows: list[Row] = []
        said, truth = [], []
        for client in self.clients(kind, share):
            start = time.perf_counter()
            if approach.alone:
                predicted = predict_own(self._own[kind, share][client.id], client)
            else:
                predicted = predict_approach(approach, got.fitted, client)
            scores = score_approach(approach, client, predicted)
            assert client.test is not None and client.test.y is not None
            ranges = count(client.test)
            seconds = got.seconds / len(self.sites) + time.perf_counter() - start
            rows.append(
                {
                    "model": got.model,
                    "client": client.id,
                    "ta": scores["ta"],
                    "pov": scores["pov"],
                    "abstained": scores.get("abstained"),
                    "coverage": 1 - ranges.outside / ranges.rows,
                    "width": round(ranges.width or 0.0, 4),
                    "train_rows": len(client.data),
                    "test_rows": ranges.rows,
                    "rounds": got.rounds,
                    "seconds": round(seconds, 3),
                }
            )
            said.append(predicted)
            truth.append(client.test.y)
        if not watch:
            return rows, [], []
        mistakes = confusion(torch.cat(said), torch.cat(truth))
        return rows, _history(got, approach, kind), [{"client": "all", **row} for row in mistakes]


def _history(got: TrainedTable, approach: Approach, kind: str) -> list[Row]:
    """Scores over rounds, where these weights are the approach's own."""
    if got.fitted is None or approach.guarded != approach.trained:
        return []
    same = got.kind == kind  # else the same weights, but violations of another range
    return [
        {
            "round": row["round"],
            "client": row["client"],
            "ta": row["ta"],
            "pov": row["pov"] if same else None,
        }
        for row in got.fitted.history
        if "ta" in row
    ]


def _watch(client: Client) -> Client:
    """The client with fewer test rows, evenly spaced."""
    assert client.test is not None
    step = max(1, math.ceil(len(client.test) / WATCHED))
    return replace(client, test=client.test[torch.arange(0, len(client.test), step)])
