"""The coals on offer: properties, prices, stock and how much of each a blend may hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlore.data.rows import (
    FileForm,
    Problems,
    name_and_unit,
    number_cells,
    open_file,
    refusal,
    text_cells,
)
from fedlore.errors import FedloreError, unknown

Array = NDArray[np.float64]

NAME, PRICE, STOCK, LEAST, MOST = "coal", "price", "stock", "min", "max"
_SCENARIO = f"{PRICE}:"  # before the name of a scenario in a title
_SHARE = "share"


@dataclass(frozen=True, eq=False)
class Coals:
    """c coals. Prices are per tonne as bought; shares are of the mass as charged, 0 to 1."""

    names: tuple[str, ...]
    price: Array  # (c,)
    properties: Mapping[str, Array]  # name -> (c,)
    stock: Array | None = None  # (c,) tonnes; none: as much as wanted
    least: Array | None = None  # (c,) the share that a blend must hold at least
    most: Array | None = None  # (c,) and at most
    scenarios: Mapping[str, Array] = field(default_factory=dict)  # other prices, by name

    def __post_init__(self) -> None:
        if not self.names:
            raise FedloreError("there must be at least one coal")
        twice = {name for name in self.names if self.names.count(name) > 1}
        if twice:
            raise FedloreError(f"coal '{min(twice)}' is named twice")
        c = len(self.names)
        low, high = self.bounds
        columns = {PRICE: self.price, LEAST: low, MOST: high, **self.properties}
        columns |= {_SCENARIO + name: values for name, values in self.scenarios.items()}
        if self.stock is not None:
            columns[STOCK] = self.stock
        for name, values in columns.items():
            if values.shape != (c,):
                raise FedloreError(f"'{name}' must have {c} values, got shape {values.shape}")
            self._refuse(name, values, ~np.isfinite(values), "must be a finite number")
        for name in columns:
            if name in (PRICE, STOCK) or name.startswith(_SCENARIO):
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

    def named(self, shares: Array) -> dict[str, float]:
        """Shares (c,) by name, of the coals that a blend holds, largest first."""
        return {self.names[i]: float(shares[i]) for i in held_places(shares)}

    def shares(self, named: Mapping[str, float]) -> Array:
        """The same as an array again, (c,)."""
        return np.array([named.get(name, 0.0) for name in self.names])

    def _refuse(self, column: str, values: Array, wrong: NDArray[np.bool_], rule: str) -> None:
        if wrong.any():
            i = int(wrong.argmax())
            raise FedloreError(f"coal '{self.names[i]}': {column} {rule}, got {values[i]:g}")


def held_places(shares: Array) -> list[int]:
    """The coals that a blend holds, largest first."""
    return sorted(np.flatnonzero(shares > 1e-9).tolist(), key=lambda i: -shares[i])


def read_coals(path: str | Path, *, form: FileForm | None = None) -> Coals:
    """A file of any kind with one coal a row.

    Columns: `coal` and `price` (per tonne), optional `stock` (tonnes), `min` and `max` (% of the
    blend; a blank is no bound), and every other column that holds numbers in all its rows is a
    property. A column of text, such as a class or a remark, is passed over. A unit in a title is
    for people: "Ad [%]" is the column Ad. `price:NAME` are prices in a scenario of that name.
    """
    cells, decimal, place = _read_cells(path, (NAME, PRICE), form)
    return _coals(cells, decimal, place)


def read_prices(path: str | Path, *, form: FileForm | None = None) -> dict[str, float]:
    """Prices by coal, from a file with the columns coal and price."""
    return _read_pairs(path, PRICE, form)


def read_shares(path: str | Path, *, form: FileForm | None = None) -> dict[str, float]:
    """Shares in % by coal, from a file with the columns coal and share."""
    return _read_pairs(path, _SHARE, form)


def _read_pairs(path: str | Path, column: str, form: FileForm | None) -> dict[str, float]:
    cells, decimal, place = _read_cells(path, (NAME, column), form)
    names = text_cells(cells[NAME])
    values, strange = number_cells(cells[column], decimal)
    wrong = []
    for i, name in enumerate(names):
        if i in strange:
            wrong.append(f"coal '{name}', {column}{strange[i]}")
        elif not np.isfinite(values[i]) or values[i] < 0.0:
            wrong.append(f"coal '{name}': {column} must be a number from 0 on, got {values[i]:g}")
        elif names.index(name) < i:
            wrong.append(f"coal '{name}' is named twice")
    if wrong:
        raise refusal(place, wrong)
    return dict(zip(names, values.tolist(), strict=True))


def _read_cells(
    path: str | Path, needed_ones: Sequence[str], form: FileForm | None
) -> tuple[dict[str, list[Any]], str, str]:
    """The cells of a file by column, its decimal sign, and what messages call it."""
    cells, lines, decimal, place = read_columns(path, form)
    for needed in needed_ones:
        if needed not in cells:
            raise FedloreError(f"{place}: {unknown('column', needed, cells)}")
    names = text_cells(cells[NAME])
    problems = Problems(place)
    nameless = {i: f" has no name in the column '{NAME}'" for i, n in enumerate(names) if not n}
    problems.add(nameless, lines)
    problems.check()
    if not names:
        raise FedloreError(f"{place} has no coals below its header")
    return cells, decimal, place


def read_columns(
    path: str | Path, form: FileForm | None
) -> tuple[dict[str, list[Any]], list[int], str, str]:
    """The cells of a file by column, their lines, its decimal sign, and what messages call it."""
    source = open_file(Path(path), form=form, fast=False)
    titles = [name_and_unit(title)[0] for title in source.titles]
    twice = {name for name in titles if titles.count(name) > 1}
    if twice:
        raise FedloreError(f"{source.place}: the column '{min(twice)}' is there twice")
    cells: dict[str, list[Any]] = {title: [] for title in titles}
    lines: list[int] = []
    problems = Problems(source.place)
    every = range(len(titles))
    for batch in source.batches(every, every, lambda share: None):
        problems.add(dict(enumerate(batch.odd.values())), list(batch.odd))
        for title, column in zip(titles, batch.columns, strict=True):
            cells[title] += list(column)
        lines += list(batch.lines)
    problems.check()
    return cells, lines, source.decimal, source.place


def _coals(cells: dict[str, list[Any]], decimal: str, place: str) -> Coals:
    names = tuple(text_cells(cells.pop(NAME)))
    wrong: list[str] = []

    def numbers(name: str, blank: float | None = None) -> Array:
        values, strange = number_cells(cells[name], decimal)
        for i in np.flatnonzero(~np.isfinite(values)).tolist():
            if i not in strange and np.isnan(values[i]) and blank is not None:
                values[i] = blank
            elif i not in strange and np.isnan(values[i]):
                wrong.append(f"coal '{names[i]}' has no {name}")
            else:
                reason = strange.get(i, f": {values[i]} is not a finite number")
                wrong.append(f"coal '{names[i]}', {name}{reason}")
        return values

    price = numbers(PRICE)
    stock = numbers(STOCK) if STOCK in cells else None
    least = numbers(LEAST, 0.0) / 100.0 if LEAST in cells else None
    most = numbers(MOST, 100.0) / 100.0 if MOST in cells else None
    known = (PRICE, STOCK, LEAST, MOST)
    named = [name for name in cells if name.startswith(_SCENARIO)]
    scenarios = {name.removeprefix(_SCENARIO).strip(): numbers(name) for name in named}
    others = [name for name in cells if name and name not in (*known, *named)]
    properties = {
        name: numbers(name)
        for name in others
        if np.isfinite(number_cells(cells[name], decimal)[0]).any()
    }
    if wrong:
        raise refusal(place, wrong)
    return Coals(names, price, properties, stock, least, most, scenarios)
