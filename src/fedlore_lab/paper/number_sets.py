"""Five real data sets with a number to predict, dealt to five unlike clients, each with an expert.

CASP (UCI 265), California housing (Pace and Barry 1997), combined-cycle power plant (UCI 294),
concrete (Yeh 1998, UCI 165) and 4,540 coals with their calorific value. None of them ships:
FEDLORE_DATA names their folder.
"""

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedlore import Band, Bins, Knowledge, Measured, Sets
from fedlore.core.rng import stream
from fedlore.data import DataFile, content, first_found, missing, places
from fedlore.errors import ConfigError, FedloreError, unknown
from fedlore.knowledge import ConformalInterval, Formula, Lookup, Schema, name_columns

CLIENTS = 5
DULONG = "0.337*carbon + 1.442*(hydrogen - oxygen/8) + 0.093*sulfur"  # MJ/kg, as received
BAND = 1.2  # MJ/kg: three standard deviations of what Dulong's formula misses


@dataclass(frozen=True)
class Source:
    """A file, the bounds declared for its number, and what makes clients differ."""

    file: DataFile
    unit: str
    lower: float
    upper: float
    by: Callable[[dict[str, Tensor]], Tensor]  # columns -> what rows are sorted by, (n,)


def _column(name: str) -> Callable[[dict[str, Tensor]], Tensor]:
    return lambda columns: columns[name]


def _rank(columns: dict[str, Tensor]) -> Tensor:
    """Volatile matter, dry and ash-free: how young a coal is."""
    return columns["volatile_matter"] / (100 - columns["moisture"] - columns["ash"])


SOURCES = {
    "casp": Source(
        DataFile(
            "casp_protein.npz", "5c88d6487ef137d484f123036290e724afb33331baf63c2a4711f3cf42e713e3"
        ),
        "Å",
        0.0,
        21.0,
        _column("F1"),
    ),
    "california": Source(
        DataFile(
            "california_housing.npz",
            "d6f4268dc7d903b90af87deda214bc7fe4485615fa23b716846aa536cc9abfff",
        ),
        "$1000",
        0.0,
        500.001,  # the census cut values off there
        _column("longitude"),
    ),
    "ccpp": Source(
        DataFile(
            "ccpp_power_plant.npz",
            "7ec55f28ff6321a56ae25e3f64da7015e499f88a26e01cbc479f498b34cfeda5",
        ),
        "MW",
        420.0,
        500.0,
        _column("AT"),
    ),
    "concrete": Source(
        DataFile(
            "concrete.npz", "02b09c575809b0040a9e8901b1ec9f6e68b88c941b8c7ef887448eddb1a5300b"
        ),
        "MPa",
        0.0,
        85.0,
        _column("cement"),
    ),
    "coal": Source(
        DataFile(
            "coal_gcv_4540.csv.gz",
            "f47026eb22cf5460b38f16d784e163e9e61fddb71c346b910b3ea7483bb20ae4",
        ),
        "MJ/kg",
        0.0,
        40.0,
        _rank,
    ),
}


@dataclass(frozen=True, eq=False)
class NumberRows:
    """A data set, each row once."""

    name: str
    columns: tuple[str, ...]
    x: Tensor  # (n, d) float32
    y: Tensor  # (n,) float64
    key: Tensor  # (n,) what clients differ by


@dataclass(frozen=True, eq=False)
class NumberSite:
    """One client's rows: `train` for the network, `test` for scores, and what its expert knows.

    The expert was made from other rows of the same client.
    """

    id: str
    train: Measured
    test: Measured
    knowledge: dict[str, Knowledge]  # by kind of range
    spread: float  # what the P-KM misses on its calibration rows, root mean square


@dataclass(frozen=True)
class Shares:
    """How a client's rows are dealt; shares of its rows, and at most so many."""

    expert: tuple[float, int] = (0.25, 500)
    calibration: tuple[float, int] = (0.15, 300)
    train: tuple[float, int] = (0.30, 200)
    test: tuple[float, int] = (1.0, 2000)  # of what is left


def load_numbers(name: str, folder: str | Path | None = None) -> NumberRows:
    """A data set by name, duplicates dropped."""
    if name not in SOURCES:
        raise ConfigError(unknown("data set", name, SOURCES))
    source = SOURCES[name]
    folders = places(folder)
    path = first_found(source.file, folders)
    if path is None:
        get = "It does not ship: name its folder in FEDLORE_DATA"
        raise FedloreError(missing(f"The data set {name}", [source.file], folders, get))
    columns, table = _table(name, content(path, source.file))
    table = np.unique(table, axis=0)  # a row that is there twice must not be in train and test
    x = torch.from_numpy(table[:, :-1].astype(np.float32))
    key = source.by({c: torch.from_numpy(table[:, i]) for i, c in enumerate(columns)})
    return NumberRows(name, columns, x, torch.from_numpy(table[:, -1].copy()), key)


def _table(name: str, data: bytes) -> tuple[tuple[str, ...], np.ndarray]:
    """Column names, and all columns with the number to predict as the last."""
    if name == "coal":
        rows = list(csv.reader(data.decode().splitlines()))
        titles, values = rows[0], np.array(rows[1:], dtype=np.float64)
        moisture = values[:, titles.index("moisture")]
        values[:, -1] /= 1 - moisture / 100  # undo the factor in the published column
        return tuple(titles[:-1]), values
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        names = tuple(str(c).strip().replace(" ", "_") for c in stored["feature_names"])
        scale = 1000.0 if name == "california" else 1.0
        return names, np.column_stack([stored["X"], stored["y"] / scale])


def sites(
    rows: NumberRows, *, seed: int, shares: Shares | None = None, alpha: float = 0.01
) -> list[NumberSite]:
    """Five clients by quantiles of the key, each with an expert and both kinds of range."""
    parts = rows.key.argsort(stable=True).tensor_split(CLIENTS)
    return [
        _site(rows, own, f"site-{i + 1}", seed, shares or Shares(), alpha)
        for i, own in enumerate(parts)
    ]


def _site(
    rows: NumberRows, own: Tensor, name: str, seed: int, shares: Shares, alpha: float
) -> NumberSite:
    draw = stream(seed, "regression", "dealt", rows.name, name)
    order = own[torch.randperm(len(own), generator=draw)]
    dealt = []
    for share, most in (shares.expert, shares.calibration, shares.train, shares.test):
        whole = len(own) if share < 1.0 else len(order)
        count = min(int(share * whole), most)
        dealt.append(Measured(rows.x[order[:count]], rows.y[order[:count]]))
        order = order[count:]
    expert, calibration, train, test = dealt
    bins = Bins(SOURCES[rows.name].lower, SOURCES[rows.name].upper, 2)
    point = dulong(rows.columns) if rows.name == "coal" else linear(rows, expert, draw)
    bounded = Bounded(point, bins.lower, bins.upper)
    missed = calibration.numbers() - bounded(calibration.x)
    honest: Band | ConformalInterval = Band(bounded, BAND, BAND)
    if rows.name != "coal":
        least = round(1 / (len(calibration) + 1) + 5e-5, 4)  # what so few rows can promise
        honest = ConformalInterval.calibrate(bounded, calibration, alpha=max(alpha, least))
    x = torch.cat([train.x, test.x])
    y = torch.cat([train.numbers(), test.numbers()])
    oracle = Lookup.of(x, oracle_sets(y, bounded(x), bins, draw))
    known = partial(Knowledge, bounded, outside="widen", conflict="project")
    return NumberSite(
        name,
        train,
        test,
        {"oracle": known(oracle), "honest": known(honest)},
        float(missed.square().mean().sqrt()),
    )


def oracle_sets(y: Tensor, said: Tensor, bins: Bins, draw: torch.Generator) -> Sets:
    """The paper's oracle for numbers: three intervals, each a tenth of the bounds wide.

    One holds the label, one the P-KM's number, each at a random place inside; one is anywhere.
    It is made from the labels, test labels included, so it shows what a perfect range would
    bring, not what one has.
    """
    width = (bins.upper - bins.lower) / 10
    drawn = torch.rand(len(y), generator=draw, dtype=torch.float64)
    random = bins.lower + (bins.upper - bins.lower) * drawn
    inside = torch.stack([y, said, random], 1)  # (n, 3)
    start = inside - width * torch.rand(inside.shape, generator=draw, dtype=torch.float64)
    low = torch.minimum(start, inside).clamp(min=bins.lower)
    high = torch.maximum(start + width, inside).clamp(max=bins.upper)
    return Sets.of(low, high)


@dataclass(frozen=True, eq=False)
class LinearExpert:
    """A P-KM: a linear model on some of the columns."""

    columns: Tensor  # (c,)
    weights: Tensor  # (c + 1,) float64, the constant last

    def __call__(self, x: Tensor, /) -> Tensor:
        seen = x[:, self.columns].double()
        # summed column by column: a row's number does not depend on the rows beside it
        total = self.weights[-1].expand(len(x))
        for place, weight in enumerate(self.weights[:-1]):
            total = total + weight * seen[:, place]
        return total


@dataclass(frozen=True)
class Bounded:
    """A P-KM that knows the bounds: its number, moved into them."""

    point: Callable[[Tensor], Tensor]
    lower: float
    upper: float

    def __call__(self, x: Tensor, /) -> Tensor:
        return self.point(x).double().clamp(self.lower, self.upper)


def linear(rows: NumberRows, data: Measured, draw: torch.Generator) -> LinearExpert:
    """Least squares on a third of the columns, drawn at random."""
    width = rows.x.shape[1]
    columns = torch.randperm(width, generator=draw)[: max(1, round(width / 3))].sort().values
    seen = data.x[:, columns].double()
    design = torch.cat([seen, torch.ones(len(data), 1, dtype=torch.float64)], 1)
    scale = design.abs().amax(0).clamp(min=1e-12)
    found = torch.linalg.lstsq(design / scale, data.numbers().unsqueeze(1), driver="gelsd")
    return LinearExpert(columns, found.solution.squeeze(1) / scale)


def dulong(columns: tuple[str, ...]) -> Formula:
    """Dulong's formula over the columns of the coal file."""
    schema: Schema = name_columns(columns, ("low", "high"))
    return Formula.parse(DULONG, schema)
