"""The clients of an engine, their rows side by side: a batch of a stack is one gather."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ...core.examples import Examples
from ...core.inject import Lesson, pair_of
from ...core.lipschitz import Lipschitz
from ...core.ordinal import Ordered
from ...core.rng import key
from ...core.scaler import Scaler
from ...errors import ConfigError, FedloreError
from ...models.client import Client
from ..client import check_rows, lesson_of, ready, see_rows
from ..loop import Recipe, check_distinct
from .lipschitz import spread_rows
from .nets import layers_by_hand


@dataclass(frozen=True, eq=False)
class StackedRows:
    """Training rows of m clients; those of client i start at starts[i] and are sizes[i] many."""

    ids: tuple[str, ...]
    keys: Tensor  # (m,)  the clients' own part of every random address
    starts: Tensor  # (m,)
    sizes: Tensor  # (m,)
    counts: tuple[int, ...]  # the same as sizes, for whoever must not wait for a device
    x: Tensor  # (n, *features), scaled
    facts: Tensor  # (n, c)  target, and then whatever `known` says
    heard: Tensor | None  # (n, 2k)  what a hearing network gets; less where it uses less
    classes: int
    known: tuple[str, ...]  # of wall, pair, odds: what of them there is

    @property
    def row_bytes(self) -> int:
        """What one gathered row takes."""
        parts = [self.x, self.facts, *(t for t in (self.heard,) if t is not None)]
        return sum(t[0].numel() * t.element_size() for t in parts)


def stack_rows(
    clients: Sequence[Client],
    model: nn.Module,
    scaler: Scaler | None,
    device: torch.device | str | None = None,
) -> StackedRows:
    """Clients made ready for one recipe; a client that does not fit is named."""
    lessons = _lessons(clients, model, scaler)
    start, total = [0] * len(clients), 0
    size = [0] * len(clients)
    for members, _, counts in lessons:
        for i, count in zip(members, counts, strict=True):
            start[i], size[i], total = total, count, total + count
    parts = [lesson for _, lesson, _ in lessons]
    classes = parts[0].target.shape[1]
    columns = {"target": torch.cat([p.target for p in parts]), **_knowledge(parts)}
    heard = None
    if getattr(model, "hears", True):
        listen = ears_of(model, parts[0].x[:1])
        heard = torch.cat([listen(p.prior, p.allowed, p.target) for p in parts])
    where = torch.device(device) if device is not None else parts[0].x.device
    return StackedRows(
        tuple(c.id for c in clients),
        torch.tensor([key(c.id) for c in clients]).to(where),
        torch.tensor(start).to(where),
        torch.tensor(size).to(where),
        tuple(size),
        _laid_out(model, torch.cat([p.x for p in parts])).to(where),
        torch.cat(list(columns.values()), 1).to(where),
        None if heard is None else heard.to(where),
        classes,
        tuple(columns)[1:],
    )


def _knowledge(parts: Sequence[Lesson]) -> dict[str, Tensor]:
    """What the loss needs beside the target, for all rows alike, (n, k) or (n, 2k) each."""
    if any(p.odds is not None for p in parts):  # a soft target somewhere: all go its way
        walls = [_or(p.wall if p.pair is None else p.pair[:, 0], p.target, 0.0) for p in parts]
        return {"wall": torch.cat(walls), "odds": torch.cat([_odds(p) for p in parts])}
    if any(p.pair is not None for p in parts):
        pairs = [pair_of(p.target, None, p.wall) if p.pair is None else p.pair for p in parts]
        return {"pair": torch.cat(pairs).flatten(1)}
    if any(p.wall is not None for p in parts):
        return {"wall": torch.cat([_or(p.wall, p.target, 0.0) for p in parts])}
    return {}


def _odds(part: Lesson) -> Tensor:
    """(n, k); of a hard label that of the label, since no other class is aimed at."""
    if part.pair is None:
        return _or(part.odds, part.target, 0.0)
    own = part.pair.gather(2, part.y.unsqueeze(1).expand(-1, 2, -1))  # (n, 2, 1)
    return (own[:, 1] - own[:, 0]).expm1().expand_as(part.target)


def _laid_out(model: nn.Module, x: Tensor) -> Tensor:
    """Rows as the model's hand-written layers take them, worked out once."""
    if isinstance(model, Lipschitz) and layers_by_hand(model, x[:1]):
        return spread_rows(x, model.options)
    return x


Ears = Callable[[Tensor | None, Tensor | None, Tensor], Tensor]


def ears_of(model: nn.Module, x: Tensor) -> Ears:
    """What turns prior and range, (..., k), into what the network gets of them at each step."""
    if isinstance(model, Ordered) and layers_by_hand(model, x):
        # few numbers, worked out once: a gather of them at each step costs less than of 2k
        return lambda prior, allowed, like: model.listen(prior, allowed, like[..., 0])
    return hear_rows


def hear_rows(prior: Tensor | None, allowed: Tensor | None, like: Tensor) -> Tensor:
    """What a hearing network gets, (..., 2k): no prior means zeros, no range means ones."""
    return torch.cat([_or(prior, like, 0.0), _or(allowed, like, 1.0)], -1)


def _or(part: Tensor | None, like: Tensor, otherwise: float) -> Tensor:
    return torch.full_like(like, otherwise) if part is None else part.to(like)


Group = tuple[list[int], Lesson, list[int]]  # clients, their rows together, rows of each


def _lessons(clients: Sequence[Client], model: nn.Module, scaler: Scaler | None) -> list[Group]:
    """Clients of the same kind are taught together: a thousand small calls take a second."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, client in enumerate(clients):
        groups.setdefault(_kind(i, client), []).append(i)
    try:
        return [_join_group([clients[i] for i in g], g, model, scaler) for g in groups.values()]
    except (FedloreError, RuntimeError):
        for client in clients:
            ready(client, model, scaler)  # one by one: the first that does not fit is named
        raise


def _kind(i: int, client: Client) -> tuple[object, ...]:
    data, knowledge = client.data, client.knowledge
    tensors = (data.y, data.prior, data.allowed, data.target, data.signs)
    parts = tuple(part is None for part in tensors)
    if data.signs is not None:  # what is withheld differs from site to site
        return (*parts, i)
    if not client.injected:
        return parts
    dropping = knowledge.outside == "drop" and data.allowed is not None  # rows are left out
    return (*parts, knowledge.trust, knowledge.floor, knowledge.outside, i if dropping else -1)


def _join_group(
    clients: Sequence[Client], members: list[int], model: nn.Module, scaler: Scaler | None
) -> Group:
    if len(clients) == 1:
        lesson = ready(clients[0], model, scaler).lesson
        return members, lesson, [len(lesson)]
    classes = ready(clients[0], model, scaler).lesson.target.shape[1]
    whole = Examples.join([c.data for c in clients])
    check_rows(whole, classes)
    for c in clients:
        if c.test is not None:
            c.test.check(classes)
    lesson = lesson_of(
        clients[0], see_rows(clients[0].injected, whole, scaler, model), classes, model
    )
    return members, lesson, [len(c.data) for c in clients]


@runtime_checkable
class Population(Protocol):
    """Very many clients, of which a round sees few: each is made when it is asked."""

    @property
    def ids(self) -> Sequence[str]: ...

    def client(self, id: str, /) -> Client:
        """The client of this name, the same whenever it is asked for."""


class ClientSource:
    """The clients of an engine, by position: their rows stay in memory, side by side.

    Those of a population are made for a stack and forgotten after it.
    """

    def __init__(
        self, clients: Sequence[Client] | Population, recipe: Recipe, device: torch.device
    ) -> None:
        self._recipe, self._device = recipe, device
        self._whole: StackedRows | None = None
        self._rank: Callable[[int], object]
        if isinstance(clients, Population):
            self.ids, self._client = list(clients.ids), clients.client
            self._rank = self.ids.__getitem__
        else:
            check_distinct(clients)
            if not clients:
                raise ConfigError("a federation needs at least one client, got none")
            self.ids, self._client = [c.id for c in clients], {c.id: c for c in clients}.__getitem__
            self._whole = stack_rows(clients, recipe.model, recipe.scaler, device)
            counts = self._whole.counts
            ranked = sorted(range(len(clients)), key=lambda i: (-counts[i], self.ids[i]))
            self._rank = {i: r for r, i in enumerate(ranked)}.__getitem__

    @property
    def lazy(self) -> bool:
        """Whether clients are made when they are asked."""
        return self._whole is None

    def clients(self, members: Sequence[int]) -> list[Client]:
        return [self._client(self.ids[i]) for i in members]

    def rows_of(self, members: Sequence[int]) -> tuple[StackedRows, list[int]]:
        """A table that holds the rows of these clients, and where they are in it."""
        if self._whole is not None:
            return self._whole, list(members)
        recipe = self._recipe
        made = stack_rows(self.clients(members), recipe.model, recipe.scaler, self._device)
        return made, list(range(len(members)))

    def order(self, members: Sequence[int]) -> list[int]:
        """The same clients, similar sizes together, in an order that depends on nothing else."""
        return sorted(members, key=self._rank)  # type: ignore[arg-type]
