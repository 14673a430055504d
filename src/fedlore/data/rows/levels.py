"""Frames and labels with names, for whoever takes numbers only."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ...errors import ConfigError, FedloreError
from ...kernel.schema import Feature, Schema
from ...knowledge import Knowledge
from .cells import Floats
from .memory import Frame, frame_of
from .problems import Problems
from .reading import feature_cells, feature_faults
from .titles import find_columns, passed_over

_Array = NDArray[np.generic]
_NAMED = ("columns", "column_names", "__dataframe__", "__arrow_c_stream__")


def has_names(data: Any) -> bool:
    """Whether rows come with the names of their columns: frames, columns by name, records."""
    if isinstance(data, Sequence) and len(data):
        data = data[0]
    return _is_dict(data) or any(hasattr(data, word) for word in _NAMED)


def _is_dict(data: Any) -> bool:
    return isinstance(data, Mapping) and not hasattr(data, "shape")  # as some sparse matrices are


def add_columns(schema: Schema, data: Any) -> Schema:
    """The schema with what else a frame holds as further numbers; its label is none of them."""
    if not has_names(data):
        return schema
    titles = passed_over(frame_of(data, schema).titles, schema, ())
    word = "more"
    while any(name.startswith(word) for name in schema.names):
        word += "_"
    more = tuple(Feature(f"{word}{i}", column=title) for i, title in enumerate(titles))
    return replace(schema, features=(*schema.features, *more))


def number_rows(data: Any, schema: Schema | None) -> Any:
    """Rows as (n, d) float64 in the schema's order, NaN where a value may be missing and is.

    Levels become their positions. All that cannot be used is refused together. An array of
    numbers stays as it is, and so does everything without a schema.
    """
    if schema is None:
        if _is_dict(data):
            raise FedloreError("rows by name need knowledge with a schema: give an array")
        return data
    if not has_names(data):
        width = np.shape(data)[1:]
        if width and width != (len(schema.features),):
            raise FedloreError(
                f"the knowledge has {len(schema.features)} columns ({', '.join(schema.names)}), "
                f"X has {width[0]} without names: give a data frame, or just those columns"
            )
        if not width or np.asarray(data).dtype.kind in "fiub":
            return data
        data = np.asarray(data, dtype=object)
    return _numbers(frame_of(data, schema), schema)


def _numbers(frame: Frame, schema: Schema) -> Floats:
    places = find_columns(frame.titles, schema)
    problems = Problems("")
    columns = []
    for order, (feature, place) in enumerate(zip(schema.features, places, strict=True)):
        values, wrong = feature_cells(frame.cells[place], feature, frame.decimal)
        wrong = feature_faults(~np.isfinite(values), values, wrong, feature)
        problems.add(wrong, frame.lines, feature.column or feature.name, order)
        columns.append(values)
    problems.check()
    return np.column_stack(columns)


def order_labels(y: _Array, known: Knowledge, classes: ArrayLike | None) -> _Array:
    """The label of each of the knowledge's classes, in its order, (k,)."""
    if classes is not None:
        found = np.asarray(classes)
    elif known.schema is None:
        found = np.unique(y)
    elif y.dtype.kind in "OUS":
        found = np.asarray(known.schema.classes, dtype=y.dtype if y.dtype.kind == "O" else None)
    else:
        try:
            found = np.asarray(known.schema.classes).astype(y.dtype)
        except ValueError:
            names = ", ".join(known.schema.classes)
            raise ConfigError(
                f"the labels are numbers, the knowledge calls its classes {names}: "
                "give classes=, the labels in this order"
            ) from None
    for label in np.unique(y).tolist():
        if label not in found.tolist():
            known_ones = ", ".join(map(repr, found.tolist()))
            raise FedloreError(f"label {label!r} is none of {known_ones}")
    return found


def place_labels(y: _Array, spoken: _Array) -> Tensor:
    """Labels as positions in the knowledge's order, (n,) int64."""
    own, which = np.unique(y, return_inverse=True)
    place = {label: i for i, label in enumerate(spoken.tolist())}
    return torch.tensor([place[label] for label in own.tolist()])[torch.as_tensor(which)]
