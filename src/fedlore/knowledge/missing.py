"""What knowledge says of rows with missing values: it never sees an invented one.

A value that is missing is NaN, and a condition on it is unknown. A range is then what is possible
whether the rules in question fire or not, and a prediction speaks only where every value in the
hole would make it say the same. A model that does not tell which columns it looks at looks at all
of them, and is asked about whole rows only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ..answers.axis import Allowed, axis_of
from ..core.tensors import torch
from ..errors import KnowledgeError
from ..kernel.schema import Feature, Schema

if TYPE_CHECKING:
    from torch import Tensor


def list_columns(model: Any, width: int) -> tuple[int, ...]:
    """The columns that a model looks at, out of so many; all of them where it does not say."""
    looks = getattr(model, "looks_at", None)
    if looks is not None:
        return tuple(looks(width))
    if hasattr(model, "see") or not hasattr(model, "parts"):
        return tuple(range(width))
    return join_columns(model.parts, width)


def join_columns(models: Iterable[Any], width: int) -> tuple[int, ...]:
    """The columns that some models look at together."""
    return tuple(sorted({c for model in models for c in list_columns(model, width)}))


def knows_holes(model: Any) -> bool:
    """Whether a model can be asked about rows with missing values."""
    return hasattr(model, "looks_at") or hasattr(model, "parts")


def find_lacking(model: Any, x: Tensor) -> Tensor:
    """Rows in which a value that the model looks at is missing, (n, *features) -> (n,) bool."""
    flat = x.detach().flatten(1)
    columns = list_columns(model, flat.shape[1])
    if len(columns) < flat.shape[1]:
        flat = flat[:, list(columns)]
    return flat.isnan().any(1)


def hear(model: Any, x: Tensor) -> Tensor:
    """What a prediction says of rows that may have holes: (n, k), or (n,) of a number."""
    said, asked = _ask(model, x)
    return said if asked is None else axis_of(said).fill_silence(said, asked)


def has_prediction(model: Any, x: Tensor) -> Tensor:
    """Rows on which a prediction says something, (n,) bool."""
    said = hear(model, x)
    return axis_of(said).speaks(said)


def allow(model: Any, x: Tensor) -> Allowed:
    """What a range allows in rows that may have holes: (n, k), or `Sets` of numbers."""
    said, asked = _ask(model, x)
    return said if asked is None else axis_of(said).fill_whole(said, asked)


_Said = tuple[Any, "Tensor | None"]
#: Model and rows, by which both are kept alive, and what the one said of the other.
_SAID: ContextVar[dict[tuple[int, int], tuple[Any, Tensor, _Said]] | None] = ContextVar(
    "said", default=None
)


@contextmanager
def evaluate_once() -> Iterator[None]:
    """Inside, each model is evaluated once on the same rows: to answer, and to explain that."""
    token = _SAID.set({})
    try:
        yield
    finally:
        _SAID.reset(token)


def _ask(model: Any, x: Tensor) -> _Said:
    """The same, kept inside of `evaluate_once`."""
    kept = _SAID.get()
    if kept is None:
        return _evaluate(model, x)
    key = (id(model), x.data_ptr())
    before = kept.get(key)
    if before is None or before[1].shape != x.shape:
        before = kept[key] = (model, x, _evaluate(model, x))
    return before[2]


def _evaluate(model: Any, x: Tensor) -> _Said:
    """A model's answers; one that knows nothing of holes is asked about whole rows, (n,) bool."""
    see = getattr(model, "see", None)
    if see is not None:  # a view: what its model looks at is among what it sees
        return _ask(model.model, see(x))
    if knows_holes(model):
        return model(x), None
    lacking = find_lacking(model, x)
    if not lacking.any():
        return model(x), None
    return model(x[~lacking]), ~lacking


def check_values(x: Tensor, schema: Schema | None) -> None:
    """Refuse rows with what is no value: NaN where none may be missing, infinity, no level."""
    flat = x.detach().flatten(1)
    features: Sequence[Feature] = () if schema is None else schema.features
    if len(features) != flat.shape[1]:
        features = ()  # an image, or rows with more columns than the knowledge has names for
    good = flat.isfinite()
    for column, feature in enumerate(features):
        if feature.may_miss:
            good[:, column] |= flat[:, column].isnan()
        if feature.levels:
            values, count = flat[:, column], len(feature.levels) + feature.other
            level = (values >= 0) & (values < count) & (values == values.floor())
            good[:, column] &= level | values.isnan()
    if good.all():
        return
    row, column = (~good).nonzero()[0].tolist()
    value = float(flat[row, column])
    name = f"'{features[column].name}'" if features else str(column)
    found = "is missing" if value != value else f"has {value:g}, which is not one of its values"
    more = int((~good).any(1).sum()) - 1
    others = f" ({more} rows after it cannot be used either)" if more else ""
    raise KnowledgeError(f"data row {row}: column {name} {found}{others}", row=row)


def hide_others(x: Tensor, schema: Schema | None) -> Tensor:
    """Rows as knowledge sees them: a level that nobody named is as good as missing."""
    if schema is None or not any(feature.other for feature in schema.features):
        return x
    named = [len(f.levels) if f.other else torch.inf for f in schema.features]
    return torch.where(x >= x.new_tensor(named), torch.nan, x)
