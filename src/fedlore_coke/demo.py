"""The first run: four simulated coking plants, each on its own and in a federation."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from torch import nn

from fedlore.algorithms import Plan
from fedlore.core.history import Row
from fedlore.core.nets import mlp
from fedlore.engine import Client
from fedlore.experiments import (
    APPROACHES,
    Approach,
    Drawing,
    MeanInterval,
    RowSink,
    compare,
    interval,
    pair_interval,
)

from .experts import COKE
from .plants import coking_plants


@dataclass(frozen=True)
class Demo:
    """What the demo runs. All approaches get the same start and the same local steps."""

    rounds: int = 40
    hidden: tuple[int, ...] = (64, 64)
    plan: Plan = field(default_factory=lambda: Plan(epochs=5, batch=32, lr=0.05, schedule="cosine"))
    rows: tuple[int, ...] = (40, 60, 80, 110)  # training rows of the four plants
    test_rows: int = 400
    trust: float = 0.3  # λ of every plant
    unseen: float = 3.6  # how much of CSR the experts cannot see, points
    blur: float = 0.0  # extra error of the experts, points of CSR
    slack: float = 1.0  # factor on the width of the ranges
    measured: bool = False  # whether plants learn from the measured CSR, not its grade alone


def plants_of(demo: Demo, seed: int) -> list[Client]:
    """The four simulated plants as clients."""
    plants = coking_plants(
        seed,
        rows=demo.rows,
        test_rows=demo.test_rows,
        trust=demo.trust,
        unseen=demo.unseen,
        blur=demo.blur,
        slack=demo.slack,
    )
    return [
        Client(p.id, p.measured_train, replace(p.knowledge, measured="CSR"), test=p.test)
        if demo.measured
        else Client(p.id, p.train, p.knowledge, test=p.test)
        for p in plants
    ]


def run_demo(
    demo: Demo,
    *,
    seed: int,
    clients: Sequence[Client] | None = None,
    approaches: Sequence[Approach] = APPROACHES,
    on_done: Callable[[str], None] | None = None,
    on_history: RowSink | None = None,
    on_confusion: RowSink | None = None,
) -> list[Row]:
    """Compare all approaches, one row per approach and plant: on simulated plants, or on others."""
    name = "coke" if clients is None else "sites"
    ordered = COKE.ordered if clients is None else None  # of other sites their schemas tell
    clients = plants_of(demo, seed) if clients is None else clients
    features = clients[0].data.x.shape[1]
    classes = clients[0].audit.classes or len(COKE.classes)

    def make_model(hears: bool) -> nn.Module:
        return mlp(features, classes, hidden=demo.hidden, hears=hears, seed=seed)

    drawing = Drawing(clients, make_model, demo.plan, demo.rounds, seed, ordered=ordered)
    rows = compare(
        drawing, approaches, on_done=on_done, on_history=on_history, on_confusion=on_confusion
    )
    return [{"dataset": name, "range": "expert", **row} for row in rows]


def means(rows: Iterable[Row], metric: str) -> dict[str, list[float]]:
    """Per approach, the mean of a metric over clients, one value for each seed in order."""
    cells: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        by_seed = cells.setdefault(str(row["approach"]), {})
        by_seed.setdefault(int(row["seed"] or 0), []).append(float(row[metric] or 0.0))
    return {
        name: [sum(values) / len(values) for _, values in sorted(by_seed.items())]
        for name, by_seed in cells.items()
    }


def margins(rows: Sequence[Row], of: str = "lore") -> dict[str, MeanInterval]:
    """TA of one approach minus every other's, paired by seed."""
    by_approach = means(rows, "ta")
    ours = by_approach[of]
    return {name: pair_interval(ours, theirs) for name, theirs in by_approach.items() if name != of}


def verdict(rows: Sequence[Row]) -> str:
    """What a site has on its own, and what knowledge and federation each add, win or lose."""
    ta = {name: 100 * interval(values).mean for name, values in means(rows, "ta").items()}
    pov = {name: 100 * interval(values).mean for name, values in means(rows, "pov").items()}
    alone, shared = ta["ML"], ta["FL"]
    changes = {"MLwKM": ta["MLwKM"] - alone}
    changes |= {name: ta[name] - shared for name in ("FLwKM", "FL+mask", "lore")}
    helped = [f"{name} ({gain:+.1f})" for name, gain in changes.items() if gain > 0]
    failed = [f"{name} ({gain:+.1f})" for name, gain in changes.items() if gain <= 0]
    parts = [
        f"Federation of the same network moved accuracy by {shared - alone:+.1f} points "
        f"(ML {alone:.1f} %, FL {shared:.1f} %)"
    ]
    if helped:
        parts.append(f"knowledge helped {_list_names(helped)}")
    if failed:
        parts.append(f"knowledge did not help {_list_names(failed)}")
    sentence = "; ".join(parts) + " against the same training without it"
    kept = all(pov[a.name] == 0.0 for a in APPROACHES if a.guarded)
    broke = f"without it {pov['ML']:.1f} % (ML) and {pov['FL']:.1f} % (FL) did"
    bound = "no prediction left the range" if kept else "predictions LEFT the range"
    return f"{_baseline(rows, ta)} {sentence}; with the range {bound}, {broke}."


def _baseline(rows: Sequence[Row], ta: dict[str, float]) -> str:
    """The honest baseline first: what each site gets alone, who is below it, and lore's place."""
    own, ours = ta["local best"], ta["lore"]
    gap = margins(rows)["local best"]
    chance = "" if math.isnan(gap.half) else f", {100 * gap.low:+.1f} to {100 * gap.high:+.1f}"
    below = [name for name, value in ta.items() if value < own]
    said = [
        f"On its own, a site's best model is right on {own:.1f} % of its test rows; with the "
        f"federation (lore) {ours:.1f} % ({ours - own:+.1f}{chance})"
    ]
    if below:
        verb = "does" if len(below) == 1 else "do"
        said.append(f"{_list_names(below)} {verb} worse than a site on its own")
    return "; ".join(said) + "."


def _list_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
