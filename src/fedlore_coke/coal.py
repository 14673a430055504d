"""Simulated coking coals and the blends a plant charges, and a public file of measured cokes.

Of the simulated ones nothing was measured. Classes and their limits are those of GB/T 5751-2009.
Means, spreads and links between properties follow 27 traded coking coals and 19 Chinese single
coals from public lists: ash 9.3 %, Ro 1.20, log10 MF 2.84, VM-Ro r -0.84, vitrinite-log MF r 0.82,
basic oxides 11.3 %, acid ones 84.1 %.
Blending rules are standard practice (reflectance as a mixture, oxides weighed by ash), with the
non-additivity of North et al. 2018 (doi:10.1007/s40789-018-0217-2) for caking properties.

Measured ones: a public file of coals (or blends) and the CSR of their coke, which states no licence
and does not ship; FEDLORE_DATA names its folder. Each of its sources measured other columns. What
is done about that, and about its flaws, is counted.
"""

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fedlore.core.rng import stream
from fedlore.data import DataFile, content, first_found, missing, places
from fedlore.errors import FedloreError

CoalTable = dict[str, Tensor]  # property -> (c,) for coals, (n, c) for lots, (n,) for blends
_Limits = tuple[float, float]


@dataclass(frozen=True)
class CoalKind:
    """A class of coal: what it is like on average, and the limits that define it."""

    name: str
    ro: float  # mean reflectance, %
    fluidity: float  # mean log10 of maximum fluidity
    sulphur: float  # mean, % dry
    volatile: _Limits  # Vdaf, %
    caking: _Limits  # G
    layer: _Limits  # Y, mm
    dilatation: _Limits  # b, %
    count: int  # how many such coals the market offers


COAL_KINDS = {
    kind.name: kind
    for kind in (
        CoalKind("SM", 1.55, 0.9, 0.9, (10, 20), (20, 65), (4, 14), (-20, 10), 5),
        CoalKind("JM", 1.24, 2.6, 0.9, (17, 28), (65, 100), (10, 25), (-20, 150), 18),
        CoalKind("JM24", 1.15, 1.4, 0.9, (20, 28), (50, 65), (8, 16), (-20, 30), 6),
        CoalKind("FM", 1.02, 4.0, 1.6, (24, 37), (85, 103), (25, 35), (150, 380), 8),
        CoalKind("1/3JM", 0.93, 3.4, 1.1, (28, 37), (65, 100), (10, 25), (-10, 220), 12),
        CoalKind("QF", 0.82, 4.2, 1.8, (37, 43), (85, 103), (25, 35), (220, 380), 4),
        CoalKind("QM", 0.76, 2.3, 0.9, (34, 43), (35, 65), (6, 16), (-20, 40), 7),
    )
}

# Mean of each basic oxide, % of ash, and its spread as a share of the mean (27 traded coals).
BASIC = {
    "Fe2O3": (5.8, 0.36),
    "CaO": (2.9, 0.55),
    "MgO": (1.1, 0.50),
    "Na2O": (0.49, 0.50),
    "K2O": (1.03, 0.40),
}
OXIDES = 95.4  # basic and acid oxides together, % of ash

# How one coal differs from one delivery (and one sample) to the next, as a standard deviation.
LOT = {
    "ash": 0.4,
    "volatile": 1.5,
    "sulphur": 0.12,
    "ro": 0.05,
    "inerts": 3.0,
    "fluidity": 0.25,
    "swelling": 0.5,
    "caking": 6.0,
    "shrinkage": 6.0,
    "layer": 4.0,
    "dilatation": 30.0,
    "basic": 1.2,
}

# The limits of any coal on offer; a blend, being a mean, cannot leave them.
SOUND = {
    "ash": (5.0, 16.0),
    "volatile": (10.0, 43.0),
    "sulphur": (0.3, 3.0),
    "phosphorus": (0.005, 0.12),
    "ro": (0.65, 1.75),
    "inerts": (8.0, 55.0),
    "fluidity": (0.0, 4.7),
    "swelling": (1.0, 9.0),
    "caking": (20.0, 103.0),
    "shrinkage": (8.0, 58.0),
    "layer": (4.0, 35.0),
    "dilatation": (-20.0, 380.0),
    "basic": (4.0, 30.0),
}


def market(seed: int) -> tuple[tuple[str, ...], CoalTable]:
    """The single coals on offer, class by class: their class names and their properties."""
    draw = stream(seed, "coal", "market")
    names = tuple(kind.name for kind in COAL_KINDS.values() for _ in range(kind.count))
    kinds = [COAL_KINDS[name] for name in names]

    def normal() -> Tensor:
        return torch.randn(len(names), generator=draw, dtype=torch.float64)

    def mean(values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64)

    def within(values: Tensor, limits: Sequence[_Limits]) -> Tensor:
        low, high = zip(*limits, strict=True)
        return values.clamp(mean(low), mean(high))

    t: CoalTable = {}
    t["ro"] = mean([k.ro for k in kinds]) + 0.06 * normal()
    # Between the lines of the sources: Ro 0.98 with Vdaf 29, 1.11 with 23, 1.20 with 27.
    t["volatile"] = 26.0 - 34.0 * (t["ro"] - 1.10) + 3.0 * normal()
    t["volatile"] = within(t["volatile"], [k.volatile for k in kinds])
    t["fluidity"] = mean([k.fluidity for k in kinds]) + 0.35 * normal()
    melt = t["fluidity"] - 2.84
    t["inerts"] = 31.0 - 8.0 * melt + 5.0 * normal()
    t["caking"] = within(78.0 + 9.0 * melt + 4.0 * normal(), [k.caking for k in kinds])
    t["layer"] = within(17.0 + 3.5 * melt + 2.0 * normal(), [k.layer for k in kinds])
    t["dilatation"] = within(60.0 + 70.0 * melt + 25.0 * normal(), [k.dilatation for k in kinds])
    t["shrinkage"] = 28.0 + 0.8 * (t["volatile"] - 28.0) + 4.0 * normal()
    t["swelling"] = 7.5 + 0.06 * (t["caking"] - 80.0) + 0.5 * normal()
    t["ash"] = 10.2 + 2.4 * normal()
    t["sulphur"] = mean([k.sulphur for k in kinds]) * (0.3 * normal()).exp()
    t["phosphorus"] = 0.038 * (0.45 * normal()).exp()
    t["ro_sd"] = (0.082 + 0.02 * normal()).clamp(0.05, 0.15)
    basic = [_skew(amount, share * normal(), share) for amount, share in BASIC.values()]
    t["basic"] = torch.stack(basic).sum(0)
    return names, _sound(t)


def deliveries(coals: CoalTable, rows: int, draw: torch.Generator) -> CoalTable:
    """The same coals as they arrive on each of `rows` days, (c,) -> (rows, c)."""
    lots = {}
    for name, values in coals.items():
        wobble = torch.randn(rows, len(values), generator=draw, dtype=torch.float64)
        lots[name] = values + LOT.get(name, 0.0) * wobble
    return _sound(lots)


def proportions(
    day: Tensor,  # (n,)
    cycles: Tensor,  # (2, c) in [0, 1): period and phase of each coal's slow drift
    draw: torch.Generator,
    *,
    steady: int,
    swing: float,
    fewest: int,
) -> Tensor:
    """Shares of a plant's coals in each day's blend, `fewest` to 7 of them above zero, (n, c).

    Dirichlet(steady) shares, tilted by a slow drift and cut to the day's largest few.
    """
    n, c = len(day), cycles.shape[1]
    uniform = torch.rand(steady, n, c, generator=draw, dtype=torch.float64)
    gamma = -torch.log1p(-uniform).sum(0)  # a sum of exponentials
    period, phase = 90.0 + 270.0 * cycles[0], cycles[1]
    drift = swing * torch.sin(2.0 * math.pi * (day[:, None] / period + phase))
    share = gamma * drift.exp()
    kept = torch.randint(fewest, min(7, c) + 1, (n, 1), generator=draw)
    place = share.argsort(dim=1, descending=True).argsort(dim=1)
    share = share.masked_fill(place >= kept, 0.0)
    return share / share.sum(1, keepdim=True)


def blend_coals(lots: CoalTable, share: Tensor) -> CoalTable:
    """The properties of blends: lots (n, c) in shares (n, c) -> (n,) each."""

    def mix(values: Tensor) -> Tensor:
        return (share * values).sum(1)

    t: CoalTable = {name: mix(values) for name, values in lots.items()}
    dry = mix(lots["volatile"] * (1.0 - lots["ash"] / 100.0))  # VM is additive on the dry coal
    t["volatile"] = dry / (1.0 - t["ash"] / 100.0)
    apart = lots["ro_sd"].square() + (lots["ro"] - t["ro"][:, None]).square()
    t["ro_sd"] = mix(apart).sqrt()
    vitrinite = 100.0 - lots["inerts"]
    upper, lower = ((edge - lots["ro"]) / lots["ro_sd"] for edge in (1.4, 0.9))
    middle = torch.special.ndtr(upper) - torch.special.ndtr(lower)
    t["v9_v13"] = 100.0 * mix(vitrinite * middle) / mix(vitrinite)
    # Coals that hardly cake thin the others more than their share; inerts stiffen the melt.
    lean = mix((65.0 - lots["caking"]).clamp(min=0.0) / 45.0)
    t["caking"] = t["caking"] - 8.0 * lean
    t["layer"] = t["layer"] - 2.0 * lean
    t["dilatation"] = t["dilatation"] - 40.0 * lean
    t["fluidity"] = t["fluidity"] - 0.03 * (t["inerts"] - 30.0).clamp(min=0.0)
    basic = mix(lots["ash"] * lots["basic"]) / t["ash"]
    ratio = basic / (OXIDES - basic)  # BR
    t["mbi"] = 100.0 * t["ash"] * ratio / (100.0 - dry)
    return _sound(t)


def _skew(mean: float, z: Tensor, sd: float) -> Tensor:
    """A log-normal of that mean."""
    return mean * (z - sd * sd / 2.0).exp()


def _sound(table: Mapping[str, Tensor]) -> CoalTable:
    return {
        name: values.clamp(*SOUND[name]) if name in SOUND else values
        for name, values in table.items()
    }


#: Made-up prices per tonne before deductions, in the order of public lists: hard coking first.
CLASS_PRICE = {"JM": 1080, "FM": 980, "1/3JM": 860, "JM24": 800, "QF": 760, "QM": 640, "SM": 620}
#: The largest share of a blend, %.
LARGEST = {"JM": 60, "FM": 30, "1/3JM": 35, "JM24": 25, "QF": 30, "QM": 15, "SM": 12}
COLUMNS = {
    "Ad": "ash", "Vdaf": "volatile", "St_d": "sulphur", "P": "phosphorus", "Ro": "ro",
    "Ro_sd": "ro_sd", "inerts": "inerts", "logMF": "fluidity", "CSN": "swelling", "G": "caking",
    "X": "shrinkage", "Y": "layer", "b": "dilatation",
}  # fmt: skip

COKES = DataFile(
    "coke_quality_342.csv.gz", "06d15487d5538bd7b0511359430ae1a65459d22ff2e9e344338510cfde40708b"
)

#: Columns with a typical value of coking coal. Where a source did not measure one, all sites put
#: the typical value in its place, and a column of its own says so.
ALWAYS = ("Ad", "Vdaf")
SOMETIMES = {"Mt": 10.0, "Std": 0.8, "Ro": 1.1, "V9_V13": 60.0, "G": 80.0, "X": 30.0, "Y": 16.0}
#: Sources 1 and 2 share coals, so they are one site.
SITES = {"1": "1+2", "2": "1+2", "3": "3", "4": "4", "CHN": "CHN", "CHN_M": "CHN_M"}
FEWEST = 12  # rows that a site must have


@dataclass(frozen=True, eq=False)
class MeasuredCokes:
    """The rows of one site: (n, 9) properties, (n, 7) whether they were measured; and CSR."""

    x: Tensor  # (n, 16) float32
    csr: Tensor  # (n,) float64


@dataclass(frozen=True, eq=False)
class Cokes:
    """The sites, and how many rows were left out for which reason."""

    sites: dict[str, MeasuredCokes]
    left_out: dict[str, int]


def real_cokes(folder: str | Path | None = None) -> Cokes:
    """The sites with enough rows, each row once, blanks filled and marked."""
    folders = places(folder)
    path = first_found(COKES, folders)
    if path is None:
        get = "It states no licence, so it does not ship: name its folder in FEDLORE_DATA"
        raise FedloreError(missing("The file of real cokes", [COKES], folders, get))
    rows = list(csv.DictReader(content(path, COKES).decode().splitlines()))
    gone: Counter[str] = Counter()
    seen: set[tuple[float, ...]] = set()
    sites: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        if not row["CSR"] or not all(row[name] for name in ALWAYS):
            gone["without CSR, ash or volatile matter"] += 1
            continue
        mark = tuple(round(float(row[name]), 2) for name in (*ALWAYS, "CSR"))
        if mark in seen:
            gone["again in the same or another source"] += 1
            continue
        seen.add(mark)
        sites.setdefault(SITES[row["source"]], []).append(row)
    for name in [name for name, own in sites.items() if len(own) < FEWEST]:
        gone[f"of source {name}, which has fewer than {FEWEST}"] += len(sites.pop(name))
    return Cokes({name: _measure(own) for name, own in sorted(sites.items())}, dict(gone))


def _measure(rows: list[dict[str, str]]) -> MeasuredCokes:
    made = []
    for row in rows:
        values = [float(row[name]) for name in ALWAYS]
        values += [float(row[name] or typical) for name, typical in SOMETIMES.items()]
        made.append(values + [float(bool(row[name])) for name in SOMETIMES])
    csr = torch.tensor([float(row["CSR"]) for row in rows], dtype=torch.float64)
    return MeasuredCokes(torch.tensor(made, dtype=torch.float32), csr)
