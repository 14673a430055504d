"""The approaches that are compared, as values.

The paper's five (Fan et al. 2022, section 6.1); FL+mask, which its authors' code contains and
the paper leaves out; and lore, our own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from ..algorithms import Algorithm, Alone, FedAvg, Plan
from ..engine import Client, Fitted, Row, fit
from ..errors import FedloreError
from ..metrics import accuracy, violation


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


ML = Approach("ML", "own", Alone())
PKM = Approach("P-KM", "expert", None, guarded=True)
MLWKM = Approach("MLwKM", "own", Alone(), trained=True, guarded=True)
FL = Approach("FL", "shared", FedAvg())
FLWKM = Approach("FLwKM", "shared", FedAvg(), trained=True, guarded=True)
FL_MASK = Approach("FL+mask", "shared", FedAvg(), guarded=True)
#: Our own first recipe, one fixed combination chosen beforehand: the network hears the expert,
#: half of the loss is ordinary cross-entropy, the range guards the output, and λ is 0, since
#: what the P-KM says is learned from rather than mixed in.
LORE = Approach(
    "lore", "shared", FedAvg(), trained=True, guarded=True, hears=True, plain=0.5, trust=0.0
)

APPROACHES = (ML, PKM, MLWKM, FL, FLWKM, FL_MASK, LORE)

ModelMaker = Callable[[bool], nn.Module]  # hears -> a fresh server model


def compare(
    clients: Sequence[Client],
    make_model: ModelMaker,
    *,
    plan: Plan,
    rounds: int,
    seed: int,
    approaches: Sequence[Approach] = APPROACHES,
    on_done: Callable[[str], None] | None = None,
) -> list[Row]:
    """Train and score approaches on the same clients, start and number of local steps.

    One row per approach and client. FL+mask scores the very weights that FL trained.
    """
    rows: list[Row] = []
    trained: dict[Approach, Fitted] = {}
    for approach in approaches:
        if approach.algorithm is not None:
            # what does not touch training is not part of what is trained
            key = replace(approach, name="", guarded=approach.trained)
            if key not in trained:
                trained[key] = _train(approach, clients, make_model, plan, rounds, seed)
            scored = [_score(approach, trained[key], client) for client in clients]
        else:
            scored = [_expert(client) for client in clients]
        for client, scores in zip(clients, scored, strict=True):
            rows.append(
                {
                    "approach": approach.name,
                    "client": client.id,
                    "seed": seed,
                    "model": approach.model,
                    **scores,
                }
            )
        if on_done is not None:
            on_done(approach.name)
    return rows


def _train(
    approach: Approach,
    clients: Sequence[Client],
    make_model: ModelMaker,
    plan: Plan,
    rounds: int,
    seed: int,
) -> Fitted:
    if approach.trained:
        clients = [_trusting(client, approach.trust) for client in clients]
    else:
        clients = [client.bare() for client in clients]
    return fit(
        clients,
        make_model(approach.hears),
        algorithm=approach.algorithm,
        plan=replace(plan, plain=approach.plain),
        rounds=rounds,
        seed=seed,
    )


def _trusting(client: Client, trust: float | None) -> Client:
    if trust is None:
        return client
    return replace(client, knowledge=replace(client.knowledge, trust=trust))


def _score(approach: Approach, fitted: Fitted, client: Client) -> dict[str, float]:
    test = client.test
    if test is None or test.y is None:
        raise FedloreError(f"client '{client.id}' has no test rows to score")
    personal = fitted.model(client.id)
    if approach.guarded:
        personal = personal.with_knowledge(_trusting(client, approach.trust).knowledge)
    predicted = personal.predict(test.x)
    return _ta_pov(client, predicted)


def _expert(client: Client) -> dict[str, float]:
    """The P-KM by itself: an abstaining row counts as wrong, and their share is shown."""
    test = client.test
    if test is None or test.prior is None:
        raise FedloreError(f"client '{client.id}' has no P-KM or no test rows to score it on")
    silent = (test.prior == 0).all(1)
    predicted = test.prior.argmax(1).masked_fill(silent, -1)
    return _ta_pov(client, predicted) | {"abstained": float(silent.double().mean())}


def _ta_pov(client: Client, predicted: torch.Tensor) -> dict[str, float]:
    test = client.test
    assert test is not None and test.y is not None
    scores = {"ta": accuracy(predicted, test.y)}
    if test.allowed is not None:
        scores["pov"] = violation(predicted, test.allowed)
    return scores
