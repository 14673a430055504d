"""What a training leaves behind: a personal model for every client, and what happened."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic

from torch import Tensor

from ..core.conformal import Holding
from ..core.history import Row
from ..core.tree import Payload
from ..data.rows import as_examples
from ..errors import FedloreError, unknown
from ..kernel.schema import Schema
from ..personal.beside import Beside, NumberBeside
from ..personal.brought import Brought
from ..personal.client import Known, P
from ..personal.tasks import TaskKind
from .loop import Recipe, Run, own_params, recall


@dataclass(frozen=True, eq=False)
class Fitted(Generic[P]):
    """A trained federation of any task: P is the personal model that its clients get."""

    task: TaskKind[P]
    recipe: Recipe
    run: Run
    knowledge: Mapping[str, Known]  # by client; one that says nothing where it stayed outside
    memories: dict[str, Payload]
    privacy: tuple[str, ...] = ()  # what was spent and lost, in words
    besides: Mapping[str, Beside | NumberBeside] = field(default_factory=dict)  # by client
    tables: Mapping[str, Brought] = field(default_factory=dict)  # what it brought, by client
    holdings: Mapping[str, tuple[Holding, ...]] = field(default_factory=dict)  # by client

    @property
    def history(self) -> list[Row]:
        """One row per round, and one per client and round that was evaluated."""
        return self.run.rows

    def model(self, client: str) -> P:
        """This client's own model f^m."""
        if client not in self.knowledge:
            raise FedloreError(unknown("client", client, self.knowledge))
        algorithm = self.recipe.algorithm
        sent = algorithm.send(self.run.state)
        memory = recall(self.recipe, sent, self.memories[client])
        return self.task.build(
            self.recipe.model,
            self.knowledge[client],
            scaler=self.recipe.scaler,
            weights=own_params(algorithm, sent, memory),
            beside=self.besides.get(client),
        )

    def brought(self, client: str) -> Brought:
        """What taking part brought this client, on its own rows; recipe = lore finds it out."""
        if client not in self.tables:
            raise FedloreError(unknown("client with a table", client, self.tables))
        return self.tables[client]

    def predict(self, client: str, x: Any) -> Tensor:
        """This client's class or number for each row in raw units, (n,).

        Rows may be a tensor, or anything with columns that the knowledge's schema names: a frame,
        columns by name, records, an array.
        """
        model = self.model(client)
        if isinstance(x, Tensor):
            return model.predict(x)
        schema = model.knowledge.schema
        if schema is None:
            raise FedloreError("rows by name need knowledge with a schema: give a tensor")
        return model.predict(as_examples(x, schema).x)

    def scores(self, client: str) -> dict[str, float]:
        """The last scores of a client, where it was evaluated."""
        rows = [row for row in self.history if row.get("client") == client]
        last = {} if not rows else rows[-1]
        return {k: v for k, v in last.items() if isinstance(v, float)}

    def save(
        self,
        client: str,
        path: str | Path,
        *,
        schema: Schema | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Write this client's bundle: a zip where the name ends in .lore, else a folder.

        Without `schema` it is the one of the client's knowledge, where that was read from a file.
        Without `metrics` they are its last scores.
        """
        from ..bundle import save_bundle  # upstairs: training itself needs no archive

        held = self.holdings.get(client, ())
        save_bundle(self, client, path, schema=schema, metrics=metrics, holdings=held)
