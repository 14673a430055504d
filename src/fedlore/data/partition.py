"""Who holds which rows: pure functions from labels to row numbers.

Each gives, per client, the rows it holds in increasing order. Together they are all rows, and no
row has two owners.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..core.rng import key, stream
from ..errors import FedloreError


def by_class(y: Tensor, clients: int, classes_each: int, *, seed: int) -> list[Tensor]:
    """The paper's split: clients draw classes, each row goes to a random owner of its class.

    A class nobody drew takes the place of a class that somebody holds with others, so that all
    rows have an owner.
    """
    owned = class_owners(y, clients, classes_each, seed=seed)  # (m, k)
    draw = stream(seed, "partition", "rows")
    weights = owned.double().t()  # (k, m)
    owner = torch.empty_like(y)
    for label in present(y).tolist():
        rows = (y == label).nonzero().squeeze(1)
        owner[rows] = torch.multinomial(weights[label], len(rows), True, generator=draw)
    return [(owner == client).nonzero().squeeze(1) for client in range(clients)]


def class_owners(y: Tensor, clients: int, classes_each: int, *, seed: int) -> Tensor:
    """Which classes each client holds in `by_class`, (m, k) bool."""
    labels = present(y)
    count = len(labels)
    _at_least("clients", clients, 1)
    if not 1 <= classes_each <= count:
        raise FedloreError(f"classes_each must lie in 1 to {count}, got {classes_each}")
    if clients * classes_each < count:
        raise FedloreError(
            f"{clients} clients with {classes_each} classes each cannot hold {count} classes"
        )
    draw = stream(seed, "partition", "classes")
    owned = torch.zeros(clients, count, dtype=torch.bool)
    for client in range(clients):
        owned[client, torch.randperm(count, generator=draw)[:classes_each]] = True
    while not owned.any(0).all():
        lost = int((~owned.any(0)).nonzero()[0])
        shared = (owned & (owned.sum(0) > 1)).nonzero()  # exists: more slots than classes held
        client, spare = shared[int(torch.randint(len(shared), (), generator=draw))].tolist()
        owned[client, spare], owned[client, lost] = False, True
    wide = torch.zeros(clients, int(labels.max()) + 1, dtype=torch.bool)
    wide[:, labels] = owned
    return wide


def dirichlet(
    y: Tensor, clients: int, *, concentration: float = 0.5, seed: int
) -> list[Tensor]:  # fmt: skip
    """Each class is shared out by Dirichlet proportions: the smaller, the more unlike the clients.

    Hsu, Qi, Brown (2019), Measuring the Effects of Non-Identical Data Distribution.
    """
    _at_least("clients", clients, 1)
    if not concentration > 0:
        raise FedloreError(f"concentration must be positive, got {concentration}")
    draw = np.random.Generator(np.random.PCG64(key(seed, "partition", "dirichlet")))
    owner = torch.empty_like(y)
    for label in present(y).tolist():
        rows = draw.permutation((y == label).nonzero().squeeze(1).numpy())
        shares = draw.dirichlet(np.full(clients, concentration))
        ends = np.round(np.cumsum(shares) * len(rows)).astype(np.int64)[:-1]
        for client, part in enumerate(np.split(rows, ends)):
            owner[torch.from_numpy(part)] = client
    return [(owner == client).nonzero().squeeze(1) for client in range(clients)]


def by_value(values: Sequence[str] | Sequence[int] | Tensor) -> dict[str, Tensor]:
    """One client for each value of a column, such as the plant that a row comes from."""
    items = values.tolist() if isinstance(values, Tensor) else list(values)
    rows: dict[str, list[int]] = {}
    for row, value in enumerate(items):
        rows.setdefault(str(value), []).append(row)
    return {name: torch.tensor(rows[name]) for name in sorted(rows)}


def iid(rows: int, clients: int, *, seed: int) -> list[Tensor]:
    """Rows dealt at random, as evenly as they go."""
    _at_least("clients", clients, 1)
    order = torch.randperm(rows, generator=stream(seed, "partition", "iid"))
    return [part.sort().values for part in order.tensor_split(clients)]


def stratify(y: Tensor, share: float, *, seed: int, of: str = "") -> tuple[Tensor, Tensor]:
    """Rows in two parts, about `share` of each class and the rest; `of` tells splits apart.

    The first part has round(share·n) rows; classes that lose most by rounding down get one more.
    """
    if not 0.0 <= share <= 1.0:
        raise FedloreError(f"share must lie in [0, 1], got {share}")
    labels, counts = torch.unique(y, return_counts=True)
    exact = share * counts.double()
    take = exact.floor().long()
    left = round(share * len(y)) - int(take.sum())
    if left > 0:
        take[(exact - take).argsort(descending=True, stable=True)[:left]] += 1
    draw = stream(seed, "partition", "stratified", of)
    chosen = torch.zeros(len(y), dtype=torch.bool)
    for label, count in zip(labels.tolist(), take.tolist(), strict=True):
        rows = (y == label).nonzero().squeeze(1)
        chosen[rows[torch.randperm(len(rows), generator=draw)[:count]]] = True
    return chosen.nonzero().squeeze(1), (~chosen).nonzero().squeeze(1)


def present(y: Tensor) -> Tensor:
    """The labels that occur, in order."""
    if len(y) == 0:
        raise FedloreError("there are no rows to share out")
    labels: Tensor = torch.unique(y)
    return labels


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise FedloreError(f"{name} must be at least {least}, got {value}")
