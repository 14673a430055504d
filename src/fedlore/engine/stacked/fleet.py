"""The rows of many clients side by side, so that a batch of a stack is one gather."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ...errors import FedloreError
from ...examples import Examples
from ...lesson import Lesson, teach
from ...rng import key
from ...scaler import Scaler
from ..client import Client, ready


@dataclass(frozen=True, eq=False)
class Fleet:
    """Training rows of m clients; those of client i start at starts[i] and are sizes[i] many."""

    ids: tuple[str, ...]
    keys: Tensor  # (m,)  the clients' own part of every random address
    starts: Tensor  # (m,)
    sizes: Tensor  # (m,)
    counts: tuple[int, ...]  # the same as sizes, for whoever must not wait for a device
    x: Tensor  # (n, *features), scaled
    facts: Tensor  # (n, c)  target, and where they are: wall, odds
    y: Tensor | None  # (n, 1)  with odds only
    told: Tensor | None  # (n, 2k)  what a hearing network gets
    classes: int
    walled: bool
    doubted: bool  # odds are there

    @property
    def row_bytes(self) -> int:
        """What one gathered row takes."""
        parts = [self.x, self.facts, *(t for t in (self.y, self.told) if t is not None)]
        return sum(t[0].numel() * t.element_size() for t in parts)


def fleet_of(
    clients: Sequence[Client],
    model: nn.Module,
    scaler: Scaler | None,
    device: torch.device | str | None = None,
) -> Fleet:
    """Clients made ready for one recipe; a client that does not fit is named."""
    lessons = _lessons(clients, model, scaler)
    start, total = [0] * len(clients), 0
    size = [0] * len(clients)
    for members, _, counts in lessons:
        for i, count in zip(members, counts, strict=True):
            start[i], size[i], total = total, count, total + count
    parts = [lesson for _, lesson, _ in lessons]
    classes = parts[0].target.shape[1]
    walled = any(p.wall is not None for p in parts)
    doubted = any(p.odds is not None for p in parts)
    columns = [torch.cat([p.target for p in parts])]
    if walled:
        columns.append(torch.cat([_or(p.wall, p.target, 0.0) for p in parts]))
    if doubted:
        # odds of every class where any target is soft; -inf where the expert is silent
        width = max(1 if p.odds is None else p.odds.shape[1] for p in parts)
        blank = [p.target[:, :width] for p in parts]
        odds = [_or(p.odds, b, -torch.inf) for p, b in zip(parts, blank, strict=True)]
        columns.append(torch.cat([o.expand(-1, width) for o in odds]))
    told = None
    if getattr(model, "hears", True):
        told = torch.cat([heard(p.prior, p.allowed, p.target) for p in parts])
    where = torch.device(device) if device is not None else parts[0].x.device
    return Fleet(
        tuple(c.id for c in clients),
        torch.tensor([key(c.id) for c in clients]).to(where),
        torch.tensor(start).to(where),
        torch.tensor(size).to(where),
        tuple(size),
        torch.cat([p.x for p in parts]).to(where),
        torch.cat(columns, 1).to(where),
        torch.cat([p.y for p in parts]).to(where) if doubted else None,
        None if told is None else told.to(where),
        classes,
        walled,
        doubted,
    )


def heard(prior: Tensor | None, allowed: Tensor | None, like: Tensor) -> Tensor:
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
        return [_together([clients[i] for i in g], g, model, scaler) for g in groups.values()]
    except (FedloreError, RuntimeError):
        for client in clients:
            ready(client, model, scaler)  # one by one: the first that does not fit is named
        raise


def _kind(i: int, client: Client) -> tuple[object, ...]:
    data, knowledge = client.data, client.knowledge
    parts = tuple(part is None for part in (data.y, data.prior, data.allowed, data.target))
    if not client.injected:
        return parts
    dropping = knowledge.outside == "drop" and data.allowed is not None  # rows are left out
    return (*parts, knowledge.trust, knowledge.floor, knowledge.outside, i if dropping else -1)


def _together(
    clients: Sequence[Client], members: list[int], model: nn.Module, scaler: Scaler | None
) -> Group:
    if len(clients) == 1:
        lesson = ready(clients[0], model, scaler).lesson
        return members, lesson, [len(lesson)]
    like = next(model.parameters())
    classes = ready(clients[0], model, scaler).lesson.target.shape[1]
    whole = joined([c.data for c in clients])
    whole.check(classes)
    for part in (whole.prior, whole.allowed, whole.target):
        if part is not None and part.shape[1] != classes:
            raise FedloreError(f"knowledge of {part.shape[1]} classes, a model of {classes}")
    for c in clients:
        if c.test is not None:
            c.test.check(classes)
    x = whole.x if scaler is None else scaler(whole.x)
    data = replace(whole, x=x.to(like.dtype)).to(like.device)
    if clients[0].injected:
        known, hears = clients[0].knowledge, getattr(model, "hears", True)
        lesson = teach(
            data,
            classes,
            trust=known.trust,
            outside=known.outside,
            heard=hears,
            floor=known.floor,
        )
    else:
        lesson = teach(replace(data, prior=None, allowed=None), classes)
    return members, lesson, [len(c.data) for c in clients]


def joined(parts: Sequence[Examples]) -> Examples:
    """Examples with the same parts, one after another."""

    def cat(name: str) -> Tensor | None:
        tensors = [getattr(p, name) for p in parts]
        return None if tensors[0] is None else torch.cat(tensors)

    x = cat("x")
    assert x is not None
    return Examples(x, cat("y"), cat("prior"), cat("allowed"), cat("target"))
