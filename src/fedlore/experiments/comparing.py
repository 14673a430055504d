"""Approaches tried on the same clients: how each does, and whether its probabilities are right."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from ..algorithms import Plan
from ..core.history import Row
from ..core.metrics import decide, nll
from ..core.reliability import brier, ranked_score, reliability, write_bins
from ..core.scaler import Scaler
from ..engine import Client, Fitted
from ..engine.lore.agreement import ModelMaker
from ..personal.classifier import Personal
from ..personal.own.best import OwnModel
from ..personal.own.memory import remembering
from .approaches import (
    APPROACHES,
    Approach,
    foresee_approach,
    labels_of,
    predict_approach,
    say_chosen,
    score_approach,
    train_approach,
    training,
)
from .confusion import confusion
from .ownbest import foresee_own, ordered_classes, own_best

RowSink = Callable[[list[Row]], None]  # takes rows as they come, a list's extend for one


@remembering()  # own best and the mixture of lore need the same models of every site
def compare(
    clients: Sequence[Client],
    make_model: ModelMaker,
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
            predicted, scores = judge_classes(approach, fitted, client, best, ordered=ordered)
            where = {"approach": approach.name, "client": client.id, "seed": seed}
            picked = (
                {"chosen": best[client.id].member.name} if approach.alone else say_chosen(fitted)
            )
            rows += _tag([{"model": approach.model, **scores, **picked}], **where)
            if on_confusion is not None:
                on_confusion(_tag(confusion(predicted, labels_of(client)), **where))
        if on_done is not None:
            on_done(approach.name)
    return rows


def _tag(rows: Sequence[Row], **where: Any) -> list[Row]:
    """The rows, each saying where it comes from."""
    return [{**where, **row} for row in rows]


def judge_classes(
    approach: Approach,
    fitted: Fitted[Personal] | None,
    client: Client,
    best: Mapping[str, OwnModel],
    *,
    ordered: bool | None = None,
) -> tuple[Tensor, dict[str, float | str]]:
    """The class of each test row of a client, and the scores of classes and of probabilities.

    An expert alone names classes, no probabilities: of him the latter are not known.
    """
    if not approach.alone and fitted is None:
        predicted = predict_approach(approach, None, client)
        return predicted, dict(score_approach(approach, client, predicted))
    signs = None
    if approach.alone:
        log_probs, prior = foresee_own(best[client.id], client)
    else:
        assert fitted is not None
        log_probs, prior, signs = foresee_approach(approach, fitted, client)
    predicted, y = decide(log_probs, prior, signs), labels_of(client)
    said, loss = log_probs.double().exp(), nll(log_probs, y)
    scores: dict[str, float | str] = {**score_approach(approach, client, predicted)}
    if math.isfinite(loss):  # it is infinite where a range misses a label
        scores["nll"] = loss
    scores["brier"] = brier(said, y)
    if ordered_classes([client], ordered):
        scores["crps"] = ranked_score(said, y)
    return predicted, scores | {"diagram": write_bins(reliability(said, y))}
