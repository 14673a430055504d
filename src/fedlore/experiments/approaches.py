"""The approaches that are compared, as values.

First what a site would do without anybody, its own best model; then the paper's five (Fan et al.
2022, section 6.1); FL+mask, which its authors' code contains and the paper leaves out; and lore,
our own recipe.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import torch

from ..algorithms import Algorithm, Alone, FedAvg, Plan
from ..answers import Bins
from ..core.examples import Examples
from ..core.lipschitz import Lipschitz
from ..core.marks import class_scores
from ..core.metrics import accuracy, decide, violation
from ..core.scaler import Scaler
from ..engine import Client, Fitted, NumberClient, Training, fit
from ..engine.loop import Weights
from ..engine.lore import train_lore
from ..engine.lore.agreement import ModelMaker
from ..errors import FedloreError
from ..knowledge.confusion import reread_rows
from ..personal.classifier import Personal
from ..personal.client import Member, trust_anew
from ..privacy import Privacy


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


def training(approach: Approach) -> Approach:
    """The part of an approach that its weights depend on: FL and FL+mask share theirs."""
    trust = approach.trust if approach.trained else None
    return replace(approach, name="", guarded=approach.trained, trust=trust)


def train_approach(
    approach: Approach,
    clients: Sequence[Client] | Sequence[NumberClient],
    make_model: ModelMaker,
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
    shaped: bool | None = None,
) -> Fitted[Any]:
    """The weights of one approach; with `every` = e its history has scores after each e rounds.

    `bins` are those of a number; then lore's networks are perceptrons with `hidden` layers. With
    `shaped` they keep shapes, see `train_lore`.
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
            return train_lore(clients, training, bins=bins, hidden=hidden, shaped=shaped)
        return train_lore(clients, training, model=make_model, ordered=ordered, shaped=shaped)
    asked: list[Member[Any]] = [
        trust_client(client, approach.trust) if approach.trained else client.bare()
        for client in clients
    ]
    alone = isinstance(approach.algorithm, Alone)
    model = make_model(approach.hears)
    return fit(
        asked,
        model,
        bins=bins,
        hears=approach.hears and bins is not None and not isinstance(model, Lipschitz),
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
    """The client with another λ, where one is said: the same for all rows."""
    if trust is None:
        return client
    if isinstance(client, NumberClient):
        numbers = replace(client.knowledge, trust=trust, row_trust=None)
        return replace(client, knowledge=numbers)
    return trust_anew(client, replace(client.knowledge, trust=trust, row_trust=None))


def labels_of(client: Client) -> torch.Tensor:
    """The classes of a client's test rows."""
    if client.test is None or client.test.y is None:
        raise FedloreError(f"client '{client.id}' has no test rows to score")
    return client.test.y


def predict_approach(
    approach: Approach, fitted: Fitted[Personal] | None, client: Client
) -> torch.Tensor:
    """The class of each of the client's test rows, (n,); -1 where an expert alone abstains."""
    if fitted is None:
        return _expert(client)
    return decide(*foresee_approach(approach, fitted, client))


@torch.no_grad()
def foresee_approach(
    approach: Approach, fitted: Fitted[Personal], client: Client
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """Log-probabilities of the client's test rows, (n, k), and what `decide` needs beside them.

    What the knowledge says of these rows was worked out when the client was made.
    """
    labels_of(client)
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
    said = torch.cat([personal.log_probs(part) for part in parts])
    return said, known.prior, known.signs


def _expert(client: Client) -> torch.Tensor:
    """The P-KM by itself; -1 where it abstains."""
    test = client.test
    if test is None or test.prior is None:
        raise FedloreError(f"client '{client.id}' has no P-KM or no test rows to score it on")
    silent = (test.prior == 0).all(1)
    return test.prior.argmax(1).masked_fill(silent, -1)


def score_approach(approach: Approach, client: Client, predicted: torch.Tensor) -> dict[str, float]:
    """TA and POV; of an expert alone a silent row counts as wrong, and their share is shown."""
    y = labels_of(client)
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


def trust_of(approach: Approach, clients: float) -> float | None:
    """λ of an approach whose clients trust their expert so far; None where it has no use for it."""
    if not approach.guarded or approach.algorithm is None or approach.chosen:
        return None
    return clients if approach.trust is None else approach.trust
