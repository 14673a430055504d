"""Frames and labels with names, for whoever takes numbers only."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ...errors import ConfigError, FedloreError
from ...knowledge import Knowledge
from ...knowledge.schema import Schema
from .cells import place_cells

_Array = NDArray[np.generic]


def code_levels(frame: Any, schema: Schema | None) -> Any:
    """The same frame with the positions of levels in place of their names; arrays stay as are."""
    if schema is None or not hasattr(frame, "assign") or not hasattr(frame, "columns"):
        return frame
    for feature in schema.features:
        if not feature.levels or feature.name not in frame.columns:
            continue
        column = np.asarray(frame[feature.name])
        if column.dtype.kind in "fiub":
            continue
        values, wrong = place_cells(column, feature.levels, "level")
        gone = np.flatnonzero(np.isnan(values)).tolist()
        if gone:
            said = wrong.get(gone[0]) or " is missing"
            raise FedloreError(f"data row {gone[0]}, column '{feature.name}'{said}")
        frame = frame.assign(**{feature.name: values})
    return frame


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
