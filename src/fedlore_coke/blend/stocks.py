"""Stocks of simulated coals with made-up prices, as a planner takes them.

Prices follow the order of classes in public lists (hard coking first, weak coals at about half),
less deductions for ash and sulphur.
"""

from collections.abc import Sequence

import numpy as np
import torch

from fedlore.core.rng import stream

from ..coal import BASIC, OXIDES, CoalTable, market
from ..plants import PROFILES, Plant
from .coals import Array, Coals

#: Per tonne, before deductions.
CLASS_PRICE = {"JM": 1080, "FM": 980, "1/3JM": 860, "JM24": 800, "QF": 760, "QM": 640, "SM": 620}
#: The largest share of a blend, %.
LARGEST = {"JM": 60, "FM": 30, "1/3JM": 35, "JM24": 25, "QF": 30, "QM": 15, "SM": 12}
COLUMNS = {
    "Ad": "ash", "Vdaf": "volatile", "St_d": "sulphur", "P": "phosphorus", "Ro": "ro",
    "Ro_sd": "ro_sd", "inerts": "inerts", "logMF": "fluidity", "CSN": "swelling", "G": "caking",
    "X": "shrinkage", "Y": "layer", "b": "dilatation",
}  # fmt: skip


def plant_stock(plant: Plant, seed: int, *, new: int = 4) -> Coals:
    """The coals a plant has always bought, and some of the same classes that it never had."""
    names, table = market(seed)
    draw = stream(seed, "plant stock", plant.id)
    profile = next(p for p in PROFILES if p.id == plant.id)
    had = {round(v, 9) for v in plant.coals["ro"].tolist()}
    other = [
        i
        for i, name in enumerate(names)
        if name in profile.coals and round(float(table["ro"][i]), 9) not in had
    ]
    chosen = [other[i] for i in torch.randperm(len(other), generator=draw)[:new].tolist()]
    coals = {name: torch.cat([values, table[name][chosen]]) for name, values in plant.coals.items()}
    kinds = [*plant.kinds, *(names[i] for i in chosen)]
    luck = torch.rand(2, len(kinds), generator=draw, dtype=torch.float64).numpy()
    properties = properties_of(coals)
    properties["Mt"] = profile.moisture - 2.0 + 4.0 * luck[1]
    price = list_price(kinds, properties) + 60.0 * (luck[0] - 0.5)
    most = np.array([LARGEST[kind] for kind in kinds]) / 100.0
    titles = tuple(f"{kind.replace('/', '')}-{i}" for i, kind in enumerate(kinds))
    return Coals(titles, np.round(price), properties, most=most)


def list_price(kinds: Sequence[str], properties: dict[str, Array]) -> Array:
    """The price per tonne of coals by class, ash and sulphur, before any luck, (c,)."""
    level = np.array([float(CLASS_PRICE[kind]) for kind in kinds])
    return level - 18.0 * (properties["Ad"] - 10.0) - 90.0 * (properties["St_d"] - 0.8)


def properties_of(coals: CoalTable) -> dict[str, Array]:
    """What a list of coals says of each: the columns of a schema, and ash oxides, (c,) each."""
    made: dict[str, Array] = {name: coals[own].numpy() for name, own in COLUMNS.items()}
    edges = torch.tensor([[1.4], [0.9]], dtype=torch.float64)
    upper, lower = torch.special.ndtr((edges - coals["ro"]) / coals["ro_sd"])
    made["V9_V13"] = (100.0 * (upper - lower)).numpy()
    basic, typical = coals["basic"].numpy(), sum(amount for amount, _ in BASIC.values())
    made |= {oxide: basic * amount / typical for oxide, (amount, _) in BASIC.items()}
    return made | {"SiO2": 0.65 * (OXIDES - basic), "Al2O3": 0.35 * (OXIDES - basic)}
