"""Classes at a site: the local baseline, how an approach predicts its test rows, and the scores."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..answers.axis import find_favoured, name_class, share_right
from ..core.examples import Examples
from ..core.history import Row, tell_step
from ..core.metrics import (
    accuracy,
    brier,
    class_scores,
    decide,
    nll,
    ranked_score,
    reliability,
    violation,
    write_bins,
)
from ..core.scaler import from_moments
from ..engine import Client, Fitted
from ..engine.lore.train import count_classes
from ..errors import ConfigError, FedloreError
from ..knowledge.views import reread_rows
from ..models.classifier import Personal
from ..models.own.ahead import make_ahead
from ..models.own.baseline import LocalBest, own_classes, own_order
from .approaches import Approach, trust_client

_BATCH = 8192  # test rows at a time: enough to be quick, few enough for the cache
Said = tuple[Tensor, Tensor | None, Tensor | None]  # log-probabilities, prior, signs


@dataclass(frozen=True)
class ClassJudge:
    """Scores the test rows of clients with classes."""

    ordered: bool | None = None  # whether they are, where no schema says so
    metric: str = ""  # by which a site chooses; "": as is usual

    def local_best(self, clients: Sequence[Any], *, seed: int) -> dict[str, LocalBest]:
        """Each site's local best model, by client, weighed by cross-validation on its own rows.

        With and without the expert's word as input, behind the same range as everything else.
        """
        make = own_order if ordered_classes(clients, self.ordered) else own_classes
        classes = count_classes(clients)
        rows = {client.id: _learned(client) for client in clients}
        calls: LocalCalls = {
            name: ((data, classes), {"seed": seed, "site": name}) for name, data in rows.items()
        }
        return make_local_best(make, calls, {n: data.y for n, data in rows.items()}, self.metric)

    def score(
        self,
        approach: Approach,
        fitted: Fitted[Personal] | None,
        client: Any,
        best: LocalBest | None,
    ) -> tuple[dict[str, float | str], list[Row]]:
        """The scores of classes and of probabilities, and which class was taken for which.

        An expert alone names classes, no probabilities: of him the latter are not known.
        """
        y = labels_of(client)
        if approach.silent:
            predicted = predict_expert(client)
            found: dict[str, float | str] = {**score_approach(approach, client, predicted)}
            return found, confusion(predicted, y)
        if approach.alone:
            assert best is not None
            said = foresee_local(best, client)
        else:
            assert fitted is not None
            said = foresee_approach(approach, fitted, client)
        log_probs, predicted = said[0], decide(*said)
        chances, loss = log_probs.double().exp(), nll(log_probs, y)
        scores: dict[str, float | str] = {**score_approach(approach, client, predicted)}
        if math.isfinite(loss):  # it is infinite where a range misses a label
            scores["nll"] = loss
        scores["brier"] = brier(chances, y)
        if ordered_classes([client], self.ordered):
            scores["crps"] = ranked_score(chances, y)
        scores["diagram"] = write_bins(reliability(chances, y))
        return scores, confusion(predicted, y)


LocalCalls = Mapping[str, tuple[tuple[Any, ...], dict[str, Any]]]  # site -> what makes its models


def make_local_best(
    make: Callable[..., Any], calls: LocalCalls, labels: Mapping[str, Any], metric: str
) -> dict[str, LocalBest]:
    """The best of each site's own models by the metric; all are made ahead where that pays."""
    make_ahead(make, list(calls.values()))
    found: dict[str, LocalBest] = {}
    for name, (args, named) in calls.items():
        found[name] = make(*args, **named).local_best(metric, labels[name])
        tell_step(f"own models of {name}", done=len(found), total=len(calls))
    return found


def ordered_classes(clients: Sequence[Client], said: bool | None = None) -> bool:
    """Whether the classes have an order: as is said, else as the sites' schemas agree."""
    if said is not None:
        return said
    schemas = [c.knowledge.schema for c in clients if c.knowledge.schema is not None]
    found = {schema.ordered for schema in schemas}
    if len(found) > 1:
        raise ConfigError("the sites' schemas differ in whether classes are ordered")
    return found == {True}


def _encode_alone(client: Client) -> Client:
    """The client with rows as learners take them; its own means stand for what is missing."""
    inputs = client.inputs
    return client if inputs is None else client.encode(from_moments(client.sums(), inputs))


def _learned(client: Client) -> Examples:
    """The rows that a client's own models learn from."""
    data = _encode_alone(client).data
    return data if client.injected else Examples(data.x, data.y, place=data.place)


@torch.no_grad()
def foresee_local(best: LocalBest, client: Client) -> Said:
    """Log-probabilities of the test rows by a local model, (n, k), and the expert for a tie."""
    labels_of(client)
    test = _encode_alone(client).test
    assert test is not None
    known = test if client.injected else Examples(test.x, test.y)
    parts = [known[start : start + _BATCH] for start in range(0, len(known), _BATCH)]
    said = torch.cat([best.log_probs(p) for p in parts])
    return said, known.prior, None


@torch.no_grad()
def foresee_approach(approach: Approach, fitted: Fitted[Personal], client: Client) -> Said:
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


def predict_approach(approach: Approach, fitted: Fitted[Personal] | None, client: Client) -> Tensor:
    """The class of each of the client's test rows, (n,); -1 where an expert alone abstains."""
    if fitted is None:
        return predict_expert(client)
    return decide(*foresee_approach(approach, fitted, client))


def predict_expert(client: Client) -> Tensor:
    """The expert by himself; -1 where he abstains or holds several classes equally likely."""
    return name_class(_favoured(client))


def _favoured(client: Client) -> Tensor:
    """The classes that the expert holds to be most likely, (n, k) bool."""
    test = client.test
    if test is None or test.prior is None:
        raise FedloreError(
            f"client '{client.id}' has no expert's prediction, or no test rows to score it on"
        )
    return find_favoured(test.prior)


def labels_of(client: Client) -> Tensor:
    """The classes of a client's test rows."""
    if client.test is None or client.test.y is None:
        raise FedloreError(f"client '{client.id}' has no test rows to score")
    return client.test.y


def score_approach(approach: Approach, client: Client, predicted: Tensor) -> dict[str, float]:
    """Accuracy and violations; of an expert alone a silent row counts as wrong, and is counted."""
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
        favoured = _favoured(client)
        scores["ta"] = float(
            share_right(favoured, y).double().mean()
        )  # as lint and the studio count
        scores["abstained"] = float((~favoured.any(1)).double().mean())
    return scores


def confusion(predicted: Tensor, y: Tensor) -> list[Row]:
    """How often each label met each prediction, one row per pair that occurred; -1 abstains.

    >>> from torch import tensor
    >>> confusion(tensor([1, 1, -1]), tensor([1, 1, 0]))
    [{'label': 0, 'predicted': -1, 'count': 1}, {'label': 1, 'predicted': 1, 'count': 2}]
    """
    pairs = Counter(zip(y.tolist(), predicted.tolist(), strict=True))
    return [
        {"label": label, "predicted": guess, "count": count}
        for (label, guess), count in sorted(pairs.items())
    ]
