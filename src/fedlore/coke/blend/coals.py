"""The coals on offer: properties, prices, stock and how much of each a blend may hold."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...errors import FedloreError, unknown

Array = NDArray[np.float64]

NAME, PRICE, STOCK, LEAST, MOST = "coal", "price", "stock", "min", "max"


@dataclass(frozen=True, eq=False)
class Coals:
    """c coals. Prices are per tonne as bought; shares are of the mass as charged, 0 to 1."""

    names: tuple[str, ...]
    price: Array  # (c,)
    properties: Mapping[str, Array]  # name -> (c,)
    stock: Array | None = None  # (c,) tonnes; none: as much as wanted
    least: Array | None = None  # (c,) the share that a blend must hold at least
    most: Array | None = None  # (c,) and at most

    def __post_init__(self) -> None:
        if not self.names:
            raise FedloreError("there must be at least one coal")
        twice = {name for name in self.names if self.names.count(name) > 1}
        if twice:
            raise FedloreError(f"coal '{min(twice)}' is named twice")
        c = len(self.names)
        low, high = self.bounds
        columns = {PRICE: self.price, LEAST: low, MOST: high, **self.properties}
        if self.stock is not None:
            columns[STOCK] = self.stock
        for name, values in columns.items():
            if values.shape != (c,):
                raise FedloreError(f"'{name}' must have {c} values, got shape {values.shape}")
            self._refuse(name, values, ~np.isfinite(values), "must be a finite number")
        for name in (PRICE, STOCK):
            if name in columns:
                self._refuse(name, columns[name], columns[name] < 0, "must not be negative")
        for name, values in ((LEAST, low), (MOST, high)):
            self._refuse(name, values, (values < 0) | (values > 1), "must lie in [0, 1] (100 %)")
        self._refuse(LEAST, low, low > high, "must not be above the largest share")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Smallest and largest share of each coal, stock left aside."""
        c = len(self.names)
        low = np.zeros(c) if self.least is None else self.least
        return low, np.ones(c) if self.most is None else self.most

    def place(self, name: str) -> int:
        """The position of a coal."""
        if name not in self.names:
            raise FedloreError(unknown("coal", name, self.names))
        return self.names.index(name)

    def without(self, name: str) -> "Coals":
        """The same list where this coal may not be used."""
        low, high = (bound.copy() for bound in self.bounds)
        low[self.place(name)] = high[self.place(name)] = 0.0
        return replace(self, least=low, most=high)

    def _refuse(self, column: str, values: Array, wrong: NDArray[np.bool_], rule: str) -> None:
        if wrong.any():
            i = int(wrong.argmax())
            raise FedloreError(f"coal '{self.names[i]}': {column} {rule}, got {values[i]:g}")


def read_coals(path: str | Path) -> Coals:
    """A CSV file with one coal a row.

    Columns: `coal` and `price` (per tonne), optional `stock` (tonnes), `min` and `max` (% of the
    blend; a blank is no bound), and every other column that holds numbers in all its rows is a
    property. A column of text, such as a class or a remark, is passed over.
    """
    header, rows = _rows(Path(path))
    for needed in (NAME, PRICE):
        if needed not in header:
            raise FedloreError(f"'{path}': {unknown('column', needed, header)}")
    cells = {name: [row[i].strip() for row in rows] for i, name in enumerate(header)}
    names = tuple(cells.pop(NAME))
    for i, name in enumerate(names):
        if not name:
            raise FedloreError(f"'{path}' row {i + 1} has no name in the column '{NAME}'")

    def column(name: str, blank: float | None = None) -> Array | None:
        text = cells.pop(name, None)
        return None if text is None else _numbers(path, name, text, names, blank)

    price = column(PRICE)
    stock, least, most = column(STOCK, None), column(LEAST, 0.0), column(MOST, 100.0)
    assert price is not None
    properties = {
        name: _numbers(path, name, text, names, None)
        for name, text in cells.items()
        if any(_is_number(cell) for cell in text)
    }
    return Coals(
        names,
        price,
        properties,
        stock,
        None if least is None else least / 100.0,
        None if most is None else most / 100.0,
    )


def _rows(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            header, *rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except OSError as error:
        raise FedloreError(f"cannot read '{path}': {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise FedloreError(f"'{path}' is not a CSV file: {error}") from None
    except ValueError:
        raise FedloreError(f"'{path}' is empty") from None
    # a unit in brackets is for people: "Ad [%]" is the column Ad
    header = [name.split("[")[0].strip() for name in header]
    twice = {name for name in header if header.count(name) > 1}
    if twice:
        raise FedloreError(f"'{path}' has the column '{min(twice)}' twice")
    if not rows:
        raise FedloreError(f"'{path}' has no coals below its header")
    for i, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise FedloreError(
                f"'{path}' row {i} has {len(row)} cells, the header has {len(header)}"
            )
    return header, rows


def _numbers(
    path: str | Path, name: str, text: Sequence[str], coals: Sequence[str], blank: float | None
) -> Array:
    values = []
    for coal, cell in zip(coals, text, strict=True):
        if not cell and blank is not None:
            values.append(blank)
        elif not cell:
            raise FedloreError(f"'{path}': coal '{coal}' has no {name}")
        elif not _is_number(cell):
            raise FedloreError(f"'{path}': coal '{coal}', {name}: '{cell}' is not a finite number")
        else:
            values.append(float(cell))
    return np.array(values)


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False
