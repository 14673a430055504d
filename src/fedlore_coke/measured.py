"""Real cokes: a public file of coals (or blends) and the CSR of the coke made from them.

The file states no licence and does not ship; FEDLORE_DATA names its folder. Each of its sources
measured other columns. What is done about that, and about its flaws, is counted.
"""

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fedlore.data import DataFile, content, first_found, missing, places
from fedlore.errors import FedloreError

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
