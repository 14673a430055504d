"""The approaches that are compared, as values.

First what a site would do without anybody, its own best model; then the paper's five (Fan et al.
2022, section 6.1); FL+mask, which its authors' code contains and the paper leaves out; and lore,
our own recipe.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import torch
from torch import nn

from ..algorithms import Algorithm, Alone, FedAvg, Plan
from ..core.examples import Examples
from ..core.history import Row
from ..core.marks import class_scores
from ..core.metrics import accuracy, decide, violation
from ..core.scaler import Scaler
from ..engine import Client, Fitted, NumberClient, Training, fit
from ..engine.loop import Weights
from ..engine.lore import train_lore
from ..errors import FedloreError
from ..knowledge.confusion import reread_rows
from ..knowledge.numbers.bins import Bins
from ..personal.classifier import Personal
from ..personal.client import Member
from ..personal.own.memory import remembering
from ..privacy import Privacy
from .confusion import confusion
from .ownbest import own_best, predict_own


@dataclass(frozen=True)
class Approach:
    """Who learns, and where the knowledge enters."""

    name: str
    model: str  # whose weights are scored
    algorithm: Algorithm | None  # None: nobody learns
    trained: bool = False  # knowledge in the training loss
    guarded: bool = False  # knowledge at prediction
    hears: bool = False  # knowledge as input of the network
    plain: float = 0.0  # α: share of ordinary cross-entropy in the loss
    trust: float | None = None  # λ, where it is not the client's own
    # what is common is chosen by trials on training rows, the site's mixture by each client
    chosen: bool = field(default=False, repr=False)
    # each site alone makes several kinds of model and takes its best
    alone: bool = field(default=False, repr=False)

    @property
    def silent(self) -> bool:
        """Whether nobody learns: the expert by himself."""
        return self.algorithm is None and not self.alone


#: What a site gets without us: never left out because it wins.
OWN_BEST = Approach("own best", "own", None, guarded=True, alone=True)
ML = Approach("ML", "own", Alone())
PKM = Approach("P-KM", "expert", None, guarded=True)
MLWKM = Approach("MLwKM", "own", Alone(), trained=True, guarded=True)
FL = Approach("FL", "shared", FedAvg())
FLWKM = Approach("FLwKM", "shared", FedAvg(), trained=True, guarded=True)
FL_MASK = Approach("FL+mask", "shared", FedAvg(), guarded=True)
#: Our own recipe: a server model chosen by trials, and at each site a mixture of all it has.
LORE = Approach("lore", "mixture", FedAvg(), trained=True, guarded=True, chosen=True)
#: Our first recipe, one fixed combination chosen beforehand: the network hears the expert, half
#: of the loss is ordinary cross-entropy, the range guards the output, and λ is 0, since what the
#: P-KM says is learned from rather than mixed in.
LORE_1 = Approach(
    "lore 1", "shared", FedAvg(), trained=True, guarded=True, hears=True, plain=0.5, trust=0.0
)

APPROACHES = (OWN_BEST, ML, PKM, MLWKM, FL, FLWKM, FL_MASK, LORE)

_BATCH = 8192  # test rows at a time: enough to be quick, few enough for the cache

_ModelMaker = Callable[[bool], nn.Module]  # hears -> a fresh server model
RowSink = Callable[[list[Row]], None]  # takes rows as they come, a list's extend for one


@remembering()  # own best and the mixture of lore need the same models of every site
def compare(
    clients: Sequence[Client],
    make_model: _ModelMaker,
    *,
    plan: Plan,
    rounds: int,
    seed: int,
    scale: bool | Scaler = True,
    approaches: Sequence[Approach] = APPROACHES,
    ordered: bool | None = None,
    device: str | None = None,
    on_done: Callable[[str], None] | None = None,
    on_history: RowSink | None = None,
    on_confusion: RowSink | None = None,
) -> list[Row]:
    """Train and score approaches on the same clients, start and number of local steps.

    One row per approach and client. FL+mask scores the very weights that FL trained, so it has
    no history of its own. `ordered` says whether classes are, where no schema does; `own best` and
    lore ask. `on_history` takes scores at up to 20 points of each training,
    `on_confusion` the counts of label against prediction.
    """
    every = math.ceil(rounds / 20) if on_history is not None else 0
    rows: list[Row] = []
    trained: dict[Approach, Fitted[Personal]] = {}
    for approach in approaches:
        fitted = None
        best = own_best(clients, seed=seed, ordered=ordered) if approach.alone else {}
        if approach.algorithm is not None:
            key = training(approach)
            if key not in trained:
                trained[key] = train_approach(
                    approach,
                    clients,
                    make_model,
                    plan=plan,
                    rounds=rounds,
                    seed=seed,
                    scale=scale,
                    every=every,
                    ordered=ordered,
                    device=device,
                )
                if on_history is not None:
                    scored = [row for row in trained[key].history if "ta" in row]
                    on_history(_tag(scored, approach=approach.name, seed=seed))
            fitted = trained[key]
        for client in clients:
            if approach.alone:
                predicted = predict_own(best[client.id], client)
            else:
                predicted = predict_approach(approach, fitted, client)
            where = {"approach": approach.name, "client": client.id, "seed": seed}
            scores = score_approach(approach, client, predicted)
            picked = (
                {"chosen": best[client.id].member.name} if approach.alone else say_chosen(fitted)
            )
            rows += _tag([{"model": approach.model, **scores, **picked}], **where)
            if on_confusion is not None:
                on_confusion(_tag(confusion(predicted, _labels(client)), **where))
        if on_done is not None:
            on_done(approach.name)
    return rows


def training(approach: Approach) -> Approach:
    """The part of an approach that its weights depend on: FL and FL+mask share theirs."""
    trust = approach.trust if approach.trained else None
    return replace(approach, name="", guarded=approach.trained, trust=trust)


def _tag(rows: Sequence[Row], **where: Any) -> list[Row]:
    """The rows, each saying where it comes from."""
    return [{**where, **row} for row in rows]


def train_approach(
    approach: Approach,
    clients: Sequence[Client] | Sequence[NumberClient],
    make_model: _ModelMaker,
    *,
    plan: Plan,
    rounds: int,
    seed: int,
    scale: bool | Scaler = True,
    every: int = 0,
    sample: float = 1.0,
    weights: Weights = "equal",
    privacy: Privacy | None = None,
    ordered: bool | None = None,
    device: str | None = None,
    bins: Bins | None = None,
    hidden: tuple[int, ...] = (64, 64),
) -> Fitted[Any]:
    """The weights of one approach; with `every` = e its history has scores after each e rounds.

    `bins` are those of a number; then lore's networks are perceptrons with `hidden` layers.
    """
    if approach.chosen:
        training = Training(
            algorithm=approach.algorithm or FedAvg(),
            plan=plan,
            rounds=rounds,
            scale=scale,
            seed=seed,
            evaluate=every,
            sample=sample,
            weights=weights,
            privacy=privacy,
            device=device,
        )
        if bins is not None:
            return train_lore(clients, training, bins=bins, hidden=hidden)
        return train_lore(clients, training, model=make_model, ordered=ordered)
    asked: list[Member[Any]] = [
        trust_client(client, approach.trust) if approach.trained else client.bare()
        for client in clients
    ]
    alone = isinstance(approach.algorithm, Alone)
    return fit(
        asked,
        make_model(approach.hears),
        bins=bins,
        hears=approach.hears and bins is not None,
        algorithm=approach.algorithm,
        plan=replace(plan, plain=approach.plain),
        rounds=rounds,
        scale=scale,
        seed=seed,
        evaluate=every,
        sample=1.0 if alone else sample,
        weights=weights,
        privacy=None if alone else privacy,  # nobody uploads anything
        device=device,
    )


def say_chosen(fitted: Fitted[Any] | None) -> dict[str, str]:
    """What the trials of a training chose for all, where there were trials."""
    said = [] if fitted is None else [row["recipe"] for row in fitted.history if "recipe" in row]
    return {"chosen": str(said[-1])} if said else {}


@overload
def trust_client(client: Client, trust: float | None) -> Client: ...
@overload
def trust_client(client: NumberClient, trust: float | None) -> NumberClient: ...
def trust_client(client: Client | NumberClient, trust: float | None) -> Client | NumberClient:
    """The client with another λ, where one is said."""
    if trust is None:
        return client
    if isinstance(client, NumberClient):
        return replace(client, knowledge=replace(client.knowledge, trust=trust))
    return replace(client, knowledge=replace(client.knowledge, trust=trust))


def _labels(client: Client) -> torch.Tensor:
    if client.test is None or client.test.y is None:
        raise FedloreError(f"client '{client.id}' has no test rows to score")
    return client.test.y


@torch.no_grad()
def predict_approach(
    approach: Approach, fitted: Fitted[Personal] | None, client: Client
) -> torch.Tensor:
    """The class of each of the client's test rows, (n,); -1 where an expert alone abstains.

    What the knowledge says of these rows was worked out when the client was made.
    """
    if fitted is None:
        return _expert(client)
    _labels(client)
    assert client.test is not None
    personal = fitted.model(client.id)
    known = client.test
    if approach.chosen:
        known = reread_rows(personal.knowledge.prediction, known)
    elif approach.guarded:
        personal = personal.with_knowledge(trust_client(client, approach.trust).knowledge)
    else:
        known = Examples(known.x)
    parts = [known[start : start + _BATCH] for start in range(0, len(known), _BATCH)]
    return torch.cat([decide(personal.log_probs(part), part.prior) for part in parts])


def _expert(client: Client) -> torch.Tensor:
    """The P-KM by itself; -1 where it abstains."""
    test = client.test
    if test is None or test.prior is None:
        raise FedloreError(f"client '{client.id}' has no P-KM or no test rows to score it on")
    silent = (test.prior == 0).all(1)
    return test.prior.argmax(1).masked_fill(silent, -1)


def score_approach(approach: Approach, client: Client, predicted: torch.Tensor) -> dict[str, float]:
    """TA and POV; of an expert alone a silent row counts as wrong, and their share is shown."""
    y = _labels(client)
    assert client.test is not None
    known, schema = client.test, client.knowledge.schema
    counts = [t.shape[1] for t in (known.prior, known.allowed) if t is not None]
    tops = [int(t.max()) + 1 for t in (y, predicted) if len(t)]
    k = len(schema.classes) if schema is not None else max([2, *counts, *tops])
    ordered = schema is not None and schema.ordered
    scores = {"ta": accuracy(predicted, y), **class_scores(predicted, y, k, ordered=ordered)}
    if client.test.allowed is not None:
        scores["pov"] = violation(predicted, client.test.allowed)
    if approach.silent:
        scores["abstained"] = float((predicted < 0).double().mean())
    return scores
