"""One seed of a case, as every study and the audit of leaks draw it."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from fedlore.algorithms import Plan
from fedlore.core.nets import mlp
from fedlore.engine import Client
from fedlore.errors import ConfigError
from fedlore_coke.demo import Demo
from fedlore_coke.experts import COKE
from fedlore_coke.plants import coking_plants

from .bench import PaperBench
from .protocol import Setup, read_protocol
from .tasks import PAPER_TASKS


@dataclass(frozen=True, eq=False)
class StudyDrawing:
    """One seed of one case: clients, networks and the budget that all approaches share."""

    clients: list[Client]
    make_model: Callable[[bool], nn.Module]
    plan: Plan
    rounds: int
    seed: int
    scale: bool
    ordered: bool = False  # whether classes have an order


def drawing(
    dataset: str, share: float, kind: str, seed: int, protocol: str = "fair"
) -> StudyDrawing:
    """The clients of one seed, as `fedlore paper` and the demo draw them."""
    if dataset == "coke":
        demo = Demo()
        plants = coking_plants(seed, rows=demo.rows, test_rows=demo.test_rows, trust=demo.trust)
        clients = [Client(p.id, p.train, p.knowledge, test=p.test) for p in plants]
        d, k = len(COKE.features), len(COKE.classes)
        return StudyDrawing(
            clients,
            lambda hears: mlp(d, k, hidden=demo.hidden, hears=hears, seed=seed),
            demo.plan,
            demo.rounds,
            seed,
            True,
            COKE.ordered,
        )
    if dataset not in PAPER_TASKS:
        raise ConfigError(f"dataset must be covtype, fmnist or coke, got '{dataset}'")
    task = PAPER_TASKS[dataset]
    setup: Setup = getattr(read_protocol(protocol), dataset)
    bench = PaperBench(task, setup, task.load(), seed)
    return StudyDrawing(
        bench.clients(kind, share),
        lambda hears: task.server(hears, seed),
        setup.plan,
        setup.rounds_at(share),
        seed,
        False,
    )
