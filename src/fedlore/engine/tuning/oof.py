"""Out-of-fold rows of a client: what networks that had not seen them say, and λ by them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from ...core.examples import Examples
from ...core.inject import fill_trust, inject
from ...core.metrics import decide
from ...core.rng import stream
from ...errors import ConfigError, FedloreError
from ...knowledge.views import Recalibrated, reread_rows
from ...models.classifier import Personal
from ...models.client import Client, NumberClient
from ..training import Fitted

T = TypeVar("T")

#: Above 1/2 the word of an expert who says one class is final; soft experts have further to go.
GRID = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.7, 0.85)


@dataclass(frozen=True, eq=False)
class Cached:
    """Rows of one client that a network did not learn from, and what it said of them."""

    logits: Tensor  # (n, k)
    known: Examples  # the same rows with their labels and what the expert says

    def __post_init__(self) -> None:
        if self.known.y is None or len(self.known) != len(self.logits):
            raise FedloreError("cached logits need a label for each of their rows")

    @property
    def y(self) -> Tensor:
        assert self.known.y is not None
        return self.known.y

    def __len__(self) -> int:
        return len(self.logits)

    @staticmethod
    def join(parts: Sequence["Cached"]) -> "Cached":
        """The rows of several folds together."""
        logits = torch.cat([part.logits for part in parts])
        return Cached(logits, Examples.join([part.known for part in parts]))


@torch.no_grad()
def hits(cached: Cached, trust: Sequence[float]) -> Tensor:
    """Which rows are predicted right under each trust, (g, n)."""
    known = cached.known
    rows = []
    for at in trust:
        own = fill_trust(known.trust, at)  # the owner's word stands
        log_probs = inject(cached.logits, known.prior, known.allowed, own)
        rows.append(decide(log_probs, known.prior, known.signs) == cached.y)
    return torch.stack(rows)


def most_hits(cached: Cached, grid: Sequence[float] = GRID, *, resamples: int = 40) -> float:
    """The trust of most right predictions, averaged over resamples of the rows (bagging).

    A client has few rows to choose by, and the count of right predictions is a jagged curve.
    So it is smoothed over neighbours on the grid (1, 2, 1), the best λ is found for each of many
    bootstrap samples, and their mean is taken. Where λ changes nothing it is the first one.
    """
    values = torch.tensor(list(grid), dtype=torch.float64).unsqueeze(1)  # (g, 1)
    right = hits(cached, grid).double()  # (g, n)
    if (right == right[0]).all():
        return grid[0]
    n = right.shape[1]
    drawn = torch.randint(n, (resamples, n), generator=stream("resample", n))
    times = torch.zeros(resamples, n, dtype=torch.float64)
    times.scatter_add_(1, drawn, torch.ones(resamples, n, dtype=torch.float64))
    counts = right @ times.T  # (g, resamples)
    wide = torch.cat([counts[:1], counts, counts[-1:]])
    smooth = wide[:-2] + 2 * wide[1:-1] + wide[2:]
    best = (smooth == smooth.max(0).values).double()
    return float(((values * best).sum(0) / best.sum(0)).mean())


Train = Callable[[Sequence[Any]], Fitted[Any]]
Cache = Callable[[Any, Any, Tensor], T]  # a model, its client, which rows (n,) -> what is kept


def fold_of(client: Client | NumberClient, folds: int, seed: int) -> Tensor:
    """The fold of each of the client's training rows, (n,); labels are dealt out evenly."""
    n = len(client.data)
    order = torch.randperm(n, generator=stream(seed, "fold", client.id))
    if client.data.y is not None:
        order = order[client.data.y[order].argsort(stable=True)]
    fold = torch.empty(n, dtype=torch.int64)
    fold[order] = torch.arange(n) % folds
    return fold


def out_of_fold_parts(
    clients: Sequence[Any],
    train: Train,
    cache: Cache[T],
    *,
    folds: int,
    seed: int,
    who: Callable[[Any], bool] = lambda client: True,
) -> dict[str, list[T]]:
    """Of each client what models say of rows that were held out, fold by fold.

    Costs one training for each fold, on 1 - 1/folds of the rows. A client with fewer rows than
    folds, or that is not one of those `who` do, holds nothing back and is not in the result.
    """
    check_folds(folds)
    places = {c.id: fold_of(c, folds, seed) for c in clients if len(c.data) >= folds and who(c)}
    found: dict[str, list[T]] = {name: [] for name in places}
    for fold in range(folds):
        none = {c.id: torch.zeros(len(c.data), dtype=torch.bool) for c in clients}
        away = none | {name: place == fold for name, place in places.items()}
        fitted = train([c.select(~away[c.id]) for c in clients])
        for client in clients:
            if client.id in places:
                kept = cache(fitted.model(client.id), client, away[client.id])
                found[client.id].append(kept)
    return found


@torch.no_grad()
def cache_logits(model: Personal, client: Client, rows: Tensor) -> Cached:
    """What a client's network says of some of its rows."""
    held = client.data[rows]
    heard = held if client.injected else Examples(held.x, held.y)
    return Cached(model.logits(heard).float(), held)


def check_folds(folds: int) -> None:
    if folds < 2:
        raise ConfigError(f"folds must be at least 2, got {folds}")


def confusion_of(data: Examples, *, weight: float = 2.0) -> Tensor | None:
    """P(label | word of the expert) from training rows, (k, k), rows sum to 1; None without one.

    Each row starts with `weight` counts spread as the site's labels are, and one more for the
    word itself: an expert who spoke rarely is half believed, not half forgotten.
    """
    if data.prior is None or data.y is None:
        return None
    prior = data.prior.double()  # (n, k)
    k = prior.shape[1]
    labels = torch.eye(k, dtype=torch.float64)[data.y]  # (n, k)
    base = (labels.sum(0) + 1.0 / k) / (len(labels) + 1.0)
    counts = prior.T @ labels + weight * base + torch.eye(k, dtype=torch.float64)
    return counts / counts.sum(1, keepdim=True)


def recalibrate_client(client: Client, *others: Examples) -> tuple[Client, list[Examples]]:
    """A client, and other rows of it, with the expert as his confusion on `client.data` reads."""
    confusion = confusion_of(client.data)
    if confusion is None:
        return client, list(others)
    heard = Recalibrated(client.knowledge.prediction, confusion)
    known = replace(client.knowledge, prediction=heard, conflict="restrict")
    test = None if client.test is None else reread_rows(heard, client.test)
    changed = replace(client, data=reread_rows(heard, client.data), test=test, knowledge=known)
    return changed, [reread_rows(heard, rows) for rows in others]
