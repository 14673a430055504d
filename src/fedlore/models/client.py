"""A site as it comes to a federation: its rows, and what its expert knows about them.

There is a kind of client for each kind of label. `Member` is what they share, and all that `fit`
asks for: the personal model that belongs to such rows says what the task is.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar

import torch
from torch import Tensor

from ..answers import Line, Measured
from ..answers.measured import all_scores
from ..core.examples import Examples
from ..core.metrics import accuracy, decide, nll, violation
from ..core.scaler import Inputs, Scaler, moments
from ..core.tree import Params
from ..errors import FedloreError
from ..kernel.schema import Schema
from ..knowledge import Audit, Knowledge
from ..knowledge.audit import count
from ..knowledge.missing import check_values, hide_others
from ..knowledge.rowtrust import find_trust
from ..knowledge.scope import inputs_of
from ..knowledge.shapes.turns import place_turns
from ..knowledge.views import reread_rows
from .classifier import Personal
from .regressor import PersonalRegressor

Measure = Callable[[Tensor], dict[str, float]]  # logits of the test rows (n, k) -> scores


PersonalModel = Personal | PersonalRegressor


class Predictor(Protocol):
    """What training asks of a personal model, whatever its task."""

    @property
    def knowledge(self) -> Knowledge: ...

    def predict(self, x: Tensor, /) -> Tensor:
        """The answer for each row in raw units, (n,)."""


P = TypeVar("P", bound=Predictor)
P_co = TypeVar("P_co", bound=Predictor, covariant=True)


class Member(Protocol[P]):
    """One site, whatever its labels are."""

    @property
    def id(self) -> str: ...

    @property
    def knowledge(self) -> Knowledge: ...

    @property
    def injected(self) -> bool: ...

    @property
    def predictor(self) -> type[P]: ...

    def score(self, personal: P, /) -> dict[str, float]:
        """How a personal model does on the client's test rows; nothing where there are none."""

    def with_knowledge(self, known: Knowledge, /) -> Self:
        """The site with another λ of the same expert."""


def score_rows(log_probs: Tensor, heard: Examples, test: Examples) -> dict[str, float]:
    """TA and negative log-likelihood of test rows, and POV where they have a range."""
    assert test.y is not None
    predicted = decide(log_probs, heard.prior, heard.signs)
    scores = {"ta": accuracy(predicted, test.y), "nll": nll(log_probs, test.y)}
    if test.allowed is not None:
        scores["pov"] = violation(predicted, test.allowed)
    return scores


@dataclass(frozen=True, eq=False)
class Client:
    """One site. `data` and `test` come in raw units and leave the constructor annotated.

    Examples that carry knowledge already are taken as they are. With `injected` off the
    knowledge only measures violations; training and prediction do not see it.
    """

    id: str
    data: Examples
    knowledge: Knowledge = field(default_factory=Knowledge)
    test: Examples | None = None
    injected: bool = True
    measure: Measure | None = None  # scores other than TA, negative log-likelihood and POV
    heard_inputs: int = 0  # how many of the last columns are what the expert says, ready to be used
    given: Params | None = None  # sums of the rows as they were before they were encoded
    numeric: bool = False  # levels reach the network as one number
    audit: Audit = field(init=False)
    predictor: ClassVar[type[Personal]] = Personal  # what is trained for such rows

    def __post_init__(self) -> None:
        try:
            holes = self._holes()
            self.data.check(holes=holes)
            placed = place_turns(self.knowledge, self.data.x, self.data.y)
            object.__setattr__(self, "knowledge", placed)
            if not _is_annotated(self.data):
                object.__setattr__(self, "data", self.knowledge.annotate(self.data))
            object.__setattr__(self, "audit", count(self.data))
            if self.test is not None:
                self.test.check(holes=holes)
                if not _is_annotated(self.test):
                    # policies speak of training labels; a test label outside is simply missed
                    shown = self.knowledge.annotate(self.test, training=False)
                    object.__setattr__(self, "test", shown)
        except FedloreError as error:
            raise type(error)(f"client '{self.id}': {error}") from None

    @property
    def inputs(self) -> Inputs | None:
        """How its rows reach a network, where features are not plain numbers."""
        return (
            None if self.numeric else _inputs(self.knowledge.schema, self.data.x, self.heard_inputs)
        )

    def encode(self, scaler: Scaler | None) -> "Client":
        """The same client with rows as a network takes them, before any scaling."""
        if scaler is None or scaler.inputs is None or self.inputs is None:
            return self
        data = replace(self.data, x=scaler.encode(self.data.x))
        test = None if self.test is None else replace(self.test, x=scaler.encode(self.test.x))
        return replace(self, data=data, test=test, given=self.sums())

    def _holes(self) -> tuple[int, ...]:
        """The columns in which values may be missing."""
        schema, x = self.knowledge.schema, self.data.x
        if (
            self.numeric
            or schema is None
            or x.ndim != 2
            or x.shape[1] != len(schema.features) + self.heard_inputs
        ):
            return ()
        return tuple(i for i, feature in enumerate(schema.features) if feature.may_miss)

    def sums(self, inputs: Inputs | None = None) -> Params:
        """What the client gives away for a common scaling; of what its expert says, nothing.

        `inputs` are those of all clients, where their scopes differ.
        """
        if self.given is not None:
            return self.given
        inputs = inputs or self.inputs
        found = moments(self.data.x) if inputs is None else inputs.moments(self.data.x)
        if self.heard_inputs:  # a mean of 0 and a spread of 1, whatever the rows hold
            found["sum"][-self.heard_inputs :] = 0.0
            rows = found["rows"]  # one count, or one for each column
            found["squares"][-self.heard_inputs :] = (
                rows[-self.heard_inputs :] if rows.ndim else rows
            )
        return found

    @torch.no_grad()
    def score(self, personal: Personal) -> dict[str, float]:
        """TA, negative log-likelihood and POV of a personal model on the client's test rows."""
        test = self.test
        if test is None or test.y is None:
            return {}
        known = Examples(test.x, test.y)
        if self.injected:
            known = reread_rows(personal.knowledge.prediction, test)
        return score_rows(personal.log_probs(known), known, test)

    def bare(self) -> "Client":
        """The same client without its knowledge in training or prediction."""
        return replace(self, injected=False)

    def without(self, column: int) -> "Client":
        """The client as if it did not measure a column that may be missing; no rows to test on."""
        data = self.data
        x = _empty(data.x, column, self.knowledge.schema)
        return replace(self, data=Examples(x, data.y, place=data.place), test=None, given=None)

    def with_knowledge(self, known: Knowledge) -> Self:
        """The client with another λ of the same expert, also in the rows that are told already."""

        def again(rows: Examples) -> Examples:
            x = hide_others(rows.x, known.schema)
            return replace(rows, trust=find_trust(known.row_trust, known.orders, x))

        test = None if self.test is None else again(self.test)
        return replace(self, knowledge=known, data=again(self.data), test=test)

    def select(self, rows: Tensor, test: Tensor | None = None) -> "Client":
        """The client with these of its training rows, and those to test on."""
        return replace(self, data=self.data[rows], test=None if test is None else self.data[test])


@dataclass(frozen=True, eq=False)
class NumberClient:
    """One site with measured numbers in raw units, and what its expert knows about them.

    With `injected` off the knowledge only measures violations; training and prediction do not
    see it.
    """

    id: str
    data: Measured
    knowledge: Knowledge = field(default_factory=Knowledge)
    test: Measured | None = None
    injected: bool = True
    numeric: bool = False  # levels reach the network as one number
    predictor: ClassVar[type[PersonalRegressor]] = PersonalRegressor

    def __post_init__(self) -> None:
        known = self.knowledge.of_number(self.knowledge.bins)
        for what, rows in (("training", self.data), ("test", self.test)):
            try:
                if rows is not None:
                    check_values(rows.x, self.knowledge.schema)
            except FedloreError as error:
                raise type(error)(f"client '{self.id}': {what} rows: {error}") from None
        try:
            object.__setattr__(self, "knowledge", place_turns(known, self.data.x, self.data.y))
        except FedloreError as error:
            raise type(error)(f"client '{self.id}': {error}") from None

    @property
    def inputs(self) -> Inputs | None:
        """How its rows reach a network, where features are not plain numbers."""
        return None if self.numeric else _inputs(self.knowledge.schema, self.data.x)

    def encode(self, scaler: Scaler | None) -> "NumberClient":
        """The same: its rows are encoded where they enter a task."""
        return self

    def score(self, personal: PersonalRegressor) -> dict[str, float]:
        """The scores of a personal model's numbers on the client's test rows."""
        if self.test is None or self.test.y is None:
            return {}
        known = self.knowledge.annotate(self.test, Line(personal.bins), training=False)
        return all_scores(personal.predict(self.test.x), self.test.y, known.sets)

    def bare(self) -> "NumberClient":
        """The same client without its knowledge in training or prediction."""
        return replace(self, injected=False)

    def without(self, column: int) -> "NumberClient":
        """The client as if it did not measure a column that may be missing; no rows to test on."""
        x = _empty(self.data.x, column, self.knowledge.schema)
        return replace(self, data=Measured(x, self.data.y), test=None)

    def with_knowledge(self, known: Knowledge) -> Self:
        """The client with another λ of the same expert."""
        return replace(self, knowledge=known)

    def select(self, rows: Tensor, test: Tensor | None = None) -> "NumberClient":
        """The client with these of its training rows, and those to test on."""
        return replace(self, data=self.data[rows], test=None if test is None else self.data[test])


def knowledge_within(member: Member[Any]) -> Knowledge:
    """What a site's model is seen through: the names of columns alone where it stays outside."""
    known = member.knowledge
    return known if member.injected else Knowledge(schema=known.schema, line=known.line)


def _inputs(schema: Schema | None, x: Tensor, heard: int = 0) -> Inputs | None:
    """How rows of a schema reach a network; None where x has other columns than those."""
    found = inputs_of(schema)
    if found is None or x.ndim != 2 or x.shape[1] != len(found.features) + heard:
        return None
    return found


def raw_rows(x: Tensor, schema: Schema | None) -> Tensor:
    """Rows as they were before they were encoded, if they were."""
    inputs = inputs_of(schema)
    return x if inputs is None else inputs.decode(x)


def _empty(x: Tensor, column: int, schema: Schema | None) -> Tensor:
    """Raw rows without the values of one column."""
    x = raw_rows(x, schema).clone()
    x[:, column] = torch.nan
    return x


def _is_annotated(data: Examples) -> bool:
    return any(part is not None for part in (data.prior, data.allowed, data.signs))
