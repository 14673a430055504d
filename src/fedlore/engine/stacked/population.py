"""Whom an engine can ask: clients that are all at hand, or very many that are made when needed."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch

from ...personal.client import Client
from ..loop import Recipe
from .fleet import Fleet, fleet_of


@runtime_checkable
class Population(Protocol):
    """Very many clients, of which a round sees few: each is made when it is asked."""

    @property
    def ids(self) -> Sequence[str]: ...

    def client(self, id: str, /) -> Client:
        """The client of this name, the same whenever it is asked for."""
        ...


class Crowd(Protocol):
    """The clients of an engine, by position."""

    @property
    def ids(self) -> Sequence[str]: ...

    def clients(self, members: Sequence[int]) -> list[Client]: ...

    def fleet(self, members: Sequence[int]) -> tuple[Fleet, list[int]]:
        """A fleet that holds the rows of these clients, and where they are in it."""
        ...

    def order(self, members: Sequence[int]) -> list[int]:
        """The same clients, similar sizes together, in an order that depends on nothing else."""
        ...


class AtHand:
    """Clients whose rows stay in memory, side by side."""

    def __init__(self, clients: Sequence[Client], recipe: Recipe, device: torch.device) -> None:
        self._clients = list(clients)
        self.ids = [c.id for c in clients]
        self._whole = fleet_of(clients, recipe.model, recipe.scaler, device)
        counts = self._whole.counts
        ranked = sorted(range(len(clients)), key=lambda i: (-counts[i], self.ids[i]))
        self._rank = {i: r for r, i in enumerate(ranked)}

    def clients(self, members: Sequence[int]) -> list[Client]:
        return [self._clients[i] for i in members]

    def fleet(self, members: Sequence[int]) -> tuple[Fleet, list[int]]:
        return self._whole, list(members)

    def order(self, members: Sequence[int]) -> list[int]:
        return sorted(members, key=self._rank.__getitem__)


class OnCall:
    """Clients of a population: made for a stack, forgotten after it."""

    def __init__(self, population: Population, recipe: Recipe, device: torch.device) -> None:
        self._population, self._recipe, self._device = population, recipe, device
        self.ids = list(population.ids)

    def clients(self, members: Sequence[int]) -> list[Client]:
        return [self._population.client(self.ids[i]) for i in members]

    def fleet(self, members: Sequence[int]) -> tuple[Fleet, list[int]]:
        recipe = self._recipe
        made = fleet_of(self.clients(members), recipe.model, recipe.scaler, self._device)
        return made, list(range(len(members)))

    def order(self, members: Sequence[int]) -> list[int]:
        return sorted(members, key=self.ids.__getitem__)
