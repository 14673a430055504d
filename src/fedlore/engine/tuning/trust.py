"""Private choice of λ: every client picks its own, from its own rows, and tells nobody.

Held-out logits come from folds: a client keeps a part of its rows out of an ordinary federated
training and asks the resulting network about them. Then λ at prediction costs nothing but
arithmetic. λ in training is tried by trainings in which everybody uses the same public value;
which of them suited it better is again the client's secret.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from ...core.inject import inject
from ...knowledge.missing import hide_others
from ...knowledge.rowtrust import RowTrust
from ...personal.classifier import Personal
from ...personal.client import Client, Member, NumberClient, Predictor, trust_anew
from ..training import Fitted
from .curves import Cached, hits, least_loss, loss, most_hits
from .folds import Train, held_out
from .rowwise import class_costs, learn_rows
from .tpe import search_trust
from .ways import OnTraining, Trust, Tuning

Chooser = TypeVar("Chooser", bound=Member[Predictor])


def tune(
    clients: Sequence[Client],
    train: Train,
    *,
    tuning: Tuning | None = None,
    seed: int = 0,
    on_training: OnTraining | None = None,
) -> dict[str, Trust]:
    """Each client's own choice; `train` is the federated training that is going to be used.

    A client without an expert or with too few rows to hold any back keeps what it has and is
    not in the result.
    """
    tuning = tuning or Tuning()
    if tuning.method == "tpe":
        return search_trust(clients, train, tuning, seed=seed, on_training=on_training)
    total = tuning.folds * max(1, len(tuning.training))
    done = 0

    def counted(some: Sequence[Client]) -> Fitted[Personal]:
        nonlocal done
        fitted = train(some)
        done += 1
        if on_training is not None:
            on_training(done, total)
        return fitted

    found: dict[str, list[tuple[float, Cached]]] = {}
    for value in tuning.training or (None,):
        trial = [_trusting(client, value) for client in clients]
        cached = held_out(trial, counted, folds=tuning.folds, seed=seed)
        for client in trial:
            if client.id in cached and client.data.prior is not None and client.injected:
                entry = (client.knowledge.trust, cached[client.id])
                found.setdefault(client.id, []).append(entry)
    rows = {client.id: client.knowledge.row_trust for client in clients}
    return {name: pick(trials, tuning, rows[name], seed) for name, trials in found.items()}


def pick(
    trials: Sequence[tuple[float, Cached]],
    tuning: Tuning,
    rows: RowTrust | None = None,
    seed: int = 0,
) -> Trust:
    """One client's choice from (λ in training, held-out logits); the first wins a tie."""
    best: tuple[float, Trust, Cached] | None = None
    for trained, cached in trials:
        if tuning.method == "gradient":
            reliance = least_loss(cached)
            score = -float(loss(cached, [reliance]))
        else:
            reliance = most_hits(cached, tuning.grid)
            score = float(hits(cached, [reliance]).double().mean())
        ta = float(hits(cached, [reliance]).double().mean())
        if best is None or score > best[0]:
            best = (score, Trust(trained, reliance, ta, len(cached)), cached)
    assert best is not None  # there is at least one trial
    _, found, cached = best
    return replace(found, formula=_learn(cached, rows, found.reliance, seed))


def _learn(cached: Cached, rows: RowTrust | None, reliance: float, seed: int) -> str:
    """λ row by row, where the client's held-out rows say more than one number."""
    known = cached.known
    if rows is None or known.prior is None:
        return ""
    rest = inject(cached.logits.double(), None, known.allowed).exp()
    cost, loss = class_costs(rest, known.prior, cached.y)
    x, heard = hide_others(known.x, rows.schema), known.prior.sum(1) > 0
    return learn_rows(rows, x, cost, loss, reliance, heard=heard, seed=seed).formula


def trusting(clients: Sequence[Chooser], chosen: Mapping[str, Trust]) -> list[Chooser]:
    """The clients with the λ they chose."""
    return [_heeding(c, chosen[c.id]) if c.id in chosen else c for c in clients]


def _heeding(client: Chooser, own: Trust) -> Chooser:
    both: dict[str, Any] = {"trust": own.trust, "reliance": own.reliance}
    rows = client.knowledge.row_trust
    both |= {} if rows is None else {"row_trust": rows.with_formula(own.formula)}
    changed: Client | NumberClient
    if isinstance(client, NumberClient):
        changed = replace(client, knowledge=replace(client.knowledge, **both))
    else:
        assert isinstance(client, Client)  # nobody else chooses
        changed = trust_anew(client, replace(client.knowledge, **both))
    return cast(Chooser, changed)


def _trusting(client: Client, value: float | None) -> Client:
    if value is None:
        return client
    return replace(client, knowledge=replace(client.knowledge, trust=value))
