"""Rows as people have them, by the names of their columns, into tensors in the schema's order."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import FedloreError, unknown
from ...knowledge.schema import Feature, Schema
from ...personal.classifier import Personal
from ..contents import Blanks, Bundle, Extra, Policies

_TITLE = re.compile(r"\s*([^\[\]]*?)\s*(?:\[([^\[\]]*)\])?\s*")

Floats = NDArray[np.float64]


def read_rows_checked(
    source: Any, bundle: Bundle, *, blanks: Blanks | None = None, extra: Extra | None = None
) -> Tensor:
    """Columns, records, one record or a frame as rows in raw units, (n, d) float32.

    Columns are found by name, in any order; a name may carry its unit, `ash [%]`, which must then
    be the declared one. Without `blanks` and `extra` the bundle's own policies hold. What is
    wrong is refused with its row (from 1) and column. A 2-d tensor or array has no names: its
    columns are taken to be the schema's.
    """
    if isinstance(source, Tensor | np.ndarray):
        return _nameless(source, bundle, blanks or bundle.policies.blanks)
    columns = _columns(source)
    policies = Policies(blanks or bundle.policies.blanks, extra or bundle.policies.extra)
    place = matched(list(columns), bundle.schema, policies.extra)
    return tensor_of([columns[name] for name in place], bundle, policies.blanks)


def matched(header: Sequence[str], schema: Schema, extra: Extra = "ignore") -> list[str]:
    """The title of each feature's column; absent, doubled or wrongly measured ones are refused."""
    found: dict[str, str] = {}
    for title in header:
        parts = _TITLE.fullmatch(title)
        name, unit = (parts[1], parts[2]) if parts else (title.strip(), None)
        if name not in schema.names:
            if extra == "error" and name != schema.label:
                raise FedloreError(
                    f"column {unknown('feature', name, schema.names)} (extra columns are refused)"
                )
            continue
        if name in found:
            raise FedloreError(f"the column '{name}' is there twice")
        feature = schema.features[schema.column(name)]
        if unit is not None and _unit(unit) != _unit(feature.unit):
            raise FedloreError(
                f"the column '{name}' is in [{unit}], the model takes it in [{feature.unit}]"
            )
        found[name] = title
    missing = [name for name in schema.names if name not in found]
    if missing:
        there = ", ".join(header[:8]) + (", ..." if len(header) > 8 else "")
        also = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise FedloreError(f"the column '{missing[0]}' is missing{also}; there are: {there}")
    return [found[name] for name in schema.names]


def tensor_of(columns: Sequence[Any], bundle: Bundle, blanks: Blanks, *, start: int = 0) -> Tensor:
    """Columns in the schema's order as rows, (n, d) float32; `start` rows came before."""
    features = bundle.schema.features
    ready = [
        _levels(feature, column, start) if feature.levels else _numbers(feature, column, start)
        for feature, column in zip(features, columns, strict=True)
    ]
    if len({len(column) for column in ready}) > 1:
        lengths = ", ".join(f"'{f.name}' {len(c)}" for f, c in zip(features, ready, strict=True))
        raise FedloreError(f"the columns differ in length: {lengths}")
    x = np.empty((len(ready[0]), len(ready)), dtype=np.float32)
    for place, column in enumerate(ready):
        x[:, place] = column
    rows = torch.from_numpy(x)
    bad = ~rows.isfinite()
    if bad.any():
        rows = _filled(rows, bad, ready, bundle, blanks, start)
    return rows


def _filled(
    rows: Tensor,
    bad: Tensor,
    columns: Sequence[Floats],
    bundle: Bundle,
    blanks: Blanks,
    start: int,
) -> Tensor:
    """Blanks by the policy; what is infinite, or too large for single precision, is refused."""
    for row, column in bad.nonzero().tolist():
        feature, value = bundle.schema.features[column], columns[column][row]
        if not np.isnan(value):
            raise FedloreError(
                f"row {row + start + 1}, column '{feature.name}': {value} is not a finite number "
                "of single precision"
            )
        if blanks == "error" or feature.levels:
            raise FedloreError(
                f"row {row + start + 1}, column '{feature.name}' is missing: fill it or leave the "
                "row out" + ("" if feature.levels else " (or blanks = mean)")
            )
    means = means_of(bundle)
    return torch.where(bad, means.to(rows.dtype), rows)


def means_of(bundle: Bundle) -> Tensor:
    """The federation's mean of each feature, (d,), as the scaling has it."""
    personal = bundle.personal
    inner = personal if isinstance(personal, Personal) else personal.personal
    if inner.scaler is None:
        raise FedloreError("blanks = mean needs the federation's means, and it had no scaling")
    return inner.scaler.shift.flatten()[: len(bundle.schema.features)]


def _columns(source: Any) -> dict[str, Any]:
    """Columns by name, from whatever has names."""
    if isinstance(source, Mapping):
        single = not any(_is_column(v) for v in source.values())
        return {str(k): [v] if single else v for k, v in source.items()}
    if hasattr(source, "column_names") and hasattr(source, "column"):  # pyarrow
        return {n: source.column(n).to_numpy(zero_copy_only=False) for n in source.column_names}
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):  # pandas, polars
        return {str(name): np.asarray(source[name]) for name in source.columns}
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        return _records(source)
    raise FedloreError(
        f"rows must be records, columns by name, or a frame, got {type(source).__name__}"
    )


def _records(source: Sequence[Any]) -> dict[str, Any]:
    for row, record in enumerate(source, 1):
        if not isinstance(record, Mapping):
            raise FedloreError(f"row {row} must be a record of named values, got {record!r:.60}")
    names = list(dict.fromkeys(str(name) for record in source for name in record))
    for row, record in enumerate(source, 1):
        absent = [name for name in names if name not in record]
        if absent:
            raise FedloreError(f"row {row} has no '{absent[0]}', other rows have")
    return {name: [record[name] for record in source] for name in names}


def _is_column(value: Any) -> bool:
    return isinstance(value, Sequence | np.ndarray | Tensor) and not isinstance(value, str | bytes)


def _nameless(source: Tensor | NDArray[Any], bundle: Bundle, blanks: Blanks) -> Tensor:
    rows = np.asarray(source)
    d = len(bundle.schema.features)
    if rows.ndim != 2 or rows.shape[1] != d:
        raise FedloreError(f"rows must have {d} columns, got shape {tuple(rows.shape)}")
    return tensor_of(list(rows.T), bundle, blanks)


def _numbers(feature: Feature, cells: Any, start: int) -> Floats:
    """A column of numbers, (n,) float64; NaN where there is none."""
    column = np.asarray(cells)
    if column.ndim == 1 and column.dtype.kind in "fiu":
        return column.astype(np.float64, copy=False)
    if column.ndim != 1:
        raise FedloreError(f"the column '{feature.name}' must be a list of numbers")
    found = [_number(feature, cell, row) for row, cell in enumerate(column.tolist(), start + 1)]
    return np.array(found, dtype=np.float64)


def _number(feature: Feature, cell: Any, row: int) -> float:
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return float("nan")
    try:
        if isinstance(cell, bool) or not isinstance(cell, str | float | int):
            raise ValueError
        return float(cell)
    except (ValueError, OverflowError):
        raise FedloreError(
            f"row {row}, column '{feature.name}': {cell!r:.60} is not a number"
        ) from None


def _levels(feature: Feature, cells: Any, start: int) -> Floats:
    """A column of level names as their positions; NaN where there is none."""
    place = {level: float(i) for i, level in enumerate(feature.levels)}
    found = []
    for row, cell in enumerate(np.asarray(cells, dtype=object).tolist(), start + 1):
        blank = cell is None or cell == "" or cell != cell
        if not blank and str(cell) not in place:
            near = unknown("level", str(cell)[:60], feature.levels)
            raise FedloreError(f"row {row}, column '{feature.name}': {near}")
        found.append(float("nan") if blank else place[str(cell)])
    return np.array(found, dtype=np.float64)


def _unit(text: str) -> str:
    return " ".join(text.split())
