"""What a task is: all that differs between learning a class and learning a number.

The loop, the algorithms and the engines know classes alone. A task turns a site's rows into
those at the door, and what was learned back into a model that answers in the site's own terms.
A new task is a file beside these with an entry in `TASKS`, and where its rows are of a new type
a kind of client.
"""

from typing import Literal, Protocol, Self

from torch import Tensor, nn

from ...answers import Bins
from ...core.scaler import Scaler
from ...core.tree import Params
from ...errors import ConfigError
from ...kernel.schema import Schema
from ...knowledge.models import Knowledge
from ..answers import Answers
from ..beside import Beside, NumberBeside
from ..client import Client, Member, P, Predictor

TaskName = Literal["classification", "regression"]


class TaskKind(Protocol[P]):
    """What a federation learns, and how a personal model P of it is made, asked and stored."""

    @property
    def name(self) -> TaskName: ...

    @property
    def predictor(self) -> type[P]:
        """The personal model of this task; a client of this task names the same."""
        ...

    # the door

    def enter(self, client: Member[Predictor]) -> Client:
        """The client as the loop knows it, or an error if its rows are for another task."""
        ...

    def check(self, model: nn.Module, client: Client) -> None:
        """Refuse a network that cannot learn this task from a client's rows."""
        ...

    def suit(self, model: nn.Module) -> Self:
        """The task as this network reads its rows."""
        ...

    # the personal model

    def build(
        self,
        model: nn.Module,
        knowledge: Knowledge | None,
        *,
        scaler: Scaler | None = None,
        weights: Params | None = None,
        beside: Beside | NumberBeside | None = None,
    ) -> P:
        """A network seen through one site's knowledge; without any it is the network alone."""
        ...

    # answers and scores

    @property
    def chunk(self) -> int:
        """How many rows are answered at a time."""
        ...

    def answer(self, personal: P, schema: Schema, x: Tensor) -> Answers:
        """Answers for a chunk of rows in raw units and in the network's own shape."""
        ...

    def score(self, personal: P, schema: Schema, x: Tensor, y: Tensor) -> dict[str, float]:
        """Scores on labelled rows, (n, *features) and (n,)."""
        ...

    # the header of a bundle

    @property
    def bins(self) -> Bins | None:
        """How a number is cut, where there is one."""
        ...

    @property
    def told(self) -> int:
        """How many inputs beside the features the network has for what the expert says."""
        ...

    def listens(self, model: nn.Module) -> bool:
        """Whether this network is told what the expert says."""
        ...

    # how it is made

    @classmethod
    def chosen(cls, bins: Bins | None, *, ordinal: float, hears: bool) -> Self:
        """The task as `fit` was asked for it."""
        ...

    @classmethod
    def of(cls, personal: P) -> Self:
        """The task that a personal model answers."""
        ...

    @classmethod
    def stored(cls, bins: Bins | None, *, hears: bool) -> Self:
        """The task of a bundle, from what its header and its knowledge say."""
        ...


def wrong_client(task: TaskName, wanted: str, client: Member[Predictor]) -> ConfigError:
    """The error for rows of another task."""
    return ConfigError(
        f"{task} needs clients of type {wanted}: '{client.id}' is a {type(client).__name__}"
    )
