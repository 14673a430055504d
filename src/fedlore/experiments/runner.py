"""The one loop behind every experiment: approaches on the same clients, each scored at each client.

A drawing is one seed of a case: its clients, the start that all networks have in common and the
local steps that all approaches get. `fedlore run`, the demo and the paper's tables, of classes and
of numbers, are drawings times approaches times sites.
"""

import math
import time
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..algorithms import Alone, FedAvg, Plan
from ..answers import Bins
from ..core.history import Row
from ..core.lipschitz import Lipschitz
from ..core.metrics import check_metric
from ..core.scaler import Scaler
from ..engine import Client, Fitted, NumberClient, Training, fit
from ..engine.loop import Weights
from ..engine.lore import SearchSpace, train_lore
from ..engine.lore.space import ModelMaker
from ..models.client import Member
from ..models.own.baseline import LocalBest
from ..models.own.limits import remembering
from ..privacy import Privacy
from .approaches import APPROACHES, Approach, chosen_in, training, trust_client
from .classes import ClassJudge
from .numbers import NumberJudge

POINTS = 20  # of a history: enough for a curve
RowSink = Callable[[list[Row]], None]  # takes rows as they come, a list's extend for one


@dataclass(frozen=True, eq=False)
class Drawing:
    """The clients of one seed, and what all approaches have in common there."""

    clients: Sequence[Client | NumberClient]
    make_model: ModelMaker  # hears -> a fresh network
    plan: Plan
    rounds: int
    seed: int
    scale: bool | Scaler = True
    bins: Bins | None = None  # of a number
    ordered: bool | None = None  # whether classes are, where no schema says so
    every: int = 0  # rounds between two scores of the history; 0: none
    sample: float = 1.0
    weights: Weights = "equal"
    privacy: Privacy | None = None
    device: str | None = None
    search_space: SearchSpace | None = None  # what lore chooses from; None: the usual
    metric: str = ""  # what lore and local best choose by; "": as the search space says
    hidden: tuple[int, ...] = (64, 64)  # of lore's networks for a number
    shaped: bool | None = None  # whether lore's networks keep shapes; None: where a site has some
    name: str = ""  # of what the clients know, where weights without knowledge are kept beyond it

    @property
    def class_clients(self) -> list[Client]:
        """The clients, where they have classes."""
        return [client for client in self.clients if isinstance(client, Client)]

    def judge(self) -> ClassJudge | NumberJudge:
        """What scores its clients."""
        metric = self.metric or ("" if self.search_space is None else self.search_space.metric)
        check_metric(metric, numbers=self.bins is not None)
        if self.bins is None:
            return ClassJudge(self.ordered, metric)
        return NumberJudge(self.bins, metric)


@dataclass(frozen=True, eq=False)
class Trained:
    """Weights, and what it took to get them."""

    fitted: Fitted[Any] | None
    model: str  # whose weights they are
    drawing: str  # the name of the drawing that they were trained on
    rounds: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Outcome:
    """One approach on one drawing."""

    rows: list[Row]  # a row per client
    history: list[Row]  # scores over rounds, where these weights are the approach's own
    confusion: list[Row]  # of classes: which was taken for which, at each client
    trained: Trained
    seconds: float  # of training and scoring, as if nothing had been kept


def train_approach(approach: Approach, drawing: Drawing) -> Fitted[Any]:
    """The weights of one approach that learns."""
    one, alone = drawing, isinstance(approach.algorithm, Alone)
    common: dict[str, Any] = {
        "rounds": one.rounds,
        "scale": one.scale,
        "seed": one.seed,
        "evaluate": one.every,
        "sample": 1.0 if alone else one.sample,
        "weights": one.weights,
        "privacy": None if alone else one.privacy,  # nobody uploads anything
        "device": one.device,
    }
    if approach.chosen:
        algorithm = approach.algorithm or FedAvg()
        how = Training(algorithm=algorithm, plan=one.plan, **common)
        made: dict[str, Any] = {"model": one.make_model, "ordered": one.ordered}
        if one.bins is not None:
            made = {"bins": one.bins, "hidden": one.hidden}
        made |= {"search_space": one.search_space, "metric": one.metric}
        return train_lore(one.clients, how, shaped=one.shaped, **made)
    members: list[Member[Any]] = [
        trust_client(client, approach.trust) if approach.trained else client.bare()
        for client in one.clients
    ]
    model = one.make_model(approach.hears)
    return fit(
        members,
        model,
        bins=one.bins,
        hears=approach.hears and one.bins is not None and not isinstance(model, Lipschitz),
        algorithm=approach.algorithm,
        plan=replace(one.plan, plain=approach.plain or one.plan.plain),
        **common,
    )


@dataclass(eq=False)
class Runner:
    """Approaches on one drawing; weights that two of them share are trained once.

    `kept` may be shared by runners whose drawings differ in what the clients know: approaches that
    train without knowledge have the same weights in all of them.
    """

    drawing: Drawing
    kept: MutableMapping[object, Trained] = field(default_factory=dict)
    train: Callable[[Approach, Drawing], Trained] | None = None  # None: `train_approach`
    _best: dict[str, LocalBest] = field(default_factory=dict)

    def weights(self, approach: Approach) -> Trained:
        """The weights of an approach, trained or found again."""
        one = self.drawing
        if approach.algorithm is None:
            return Trained(None, approach.model, one.name)
        key = (training(approach), one.name if approach.trained else "")
        if key not in self.kept:
            start = time.perf_counter()
            if self.train is not None:
                found = self.train(approach, one)
            else:
                fitted = train_approach(approach, one)
                found = Trained(fitted, approach.model, one.name, one.rounds)
            self.kept[key] = replace(found, seconds=time.perf_counter() - start)
        return self.kept[key]

    def run(self, approach: Approach) -> Outcome:
        """Train what is not trained yet, and score every client."""
        one, judge, got = self.drawing, self.drawing.judge(), self.weights(approach)
        start = time.perf_counter()
        if approach.alone and not self._best:
            self._best = judge.local_best(one.clients, seed=one.seed)
        best = self._best if approach.alone else {}
        rows: list[Row] = []
        mistakes: list[Row] = []
        for client in one.clients:
            scores, confused = judge.score(approach, got.fitted, client, best.get(client.id))
            chosen = chosen_in(got.fitted)
            if approach.alone:
                chosen = {"chosen": best[client.id].name}
            rows.append({"model": got.model, "client": client.id, **scores, **chosen})
            mistakes += [{"client": client.id, **row} for row in confused]
        own = approach.guarded == approach.trained  # else these weights are another approach's
        history = scored_rounds(got.fitted) if own and got.fitted is not None else []
        seconds = got.seconds + time.perf_counter() - start
        return Outcome(rows, history, mistakes, got, seconds)


def scored_rounds(fitted: Fitted[Any]) -> list[Row]:
    """Scores over rounds; the log-loss is left out, it is infinite where a range misses a label."""
    names = ("round", "client", "ta", "rmse", "pov")
    scored = [row for row in fitted.history if "ta" in row or "rmse" in row]
    return [{n: row[n] for n in names if n in row} for row in scored]


@remembering()  # local best and lore's ensemble need the same models of every site
def compare(
    drawing: Drawing,
    approaches: Sequence[Approach] = APPROACHES,
    *,
    on_done: Callable[[str], None] | None = None,
    on_history: RowSink | None = None,
    on_confusion: RowSink | None = None,
) -> list[Row]:
    """Train and score approaches on one drawing: one row per approach and client.

    `on_history` takes scores at up to 20 points of each training, `on_confusion` the counts of
    label against prediction. FL+mask scores the very weights that FL trained, so it has no history
    of its own.
    """
    if on_history is not None and not drawing.every:
        drawing = replace(drawing, every=math.ceil(drawing.rounds / POINTS))
    runner, rows = Runner(drawing), list[Row]()
    for approach in approaches:
        where: Row = {"approach": approach.name, "seed": drawing.seed}
        found = runner.run(approach)
        rows += [{**where, **row} for row in found.rows]
        for sink, some in ((on_history, found.history), (on_confusion, found.confusion)):
            if sink is not None:
                sink([{**where, **row} for row in some])
        if on_done is not None:
            on_done(approach.name)
    return rows
