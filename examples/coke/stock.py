"""Make the stock list of plant-2 again: twelve simulated coals with made-up prices and stock.

    python examples/coke/stock.py

Coals and classes are those of fedlore_coke.coal; the prices follow the order of classes in public
lists (hard coking first, weak coals at about half), less deductions for ash and sulphur.
"""

import csv
from pathlib import Path

import torch

from fedlore.core.rng import stream
from fedlore_coke.coal import BASIC, CLASS_PRICE, COLUMNS, LARGEST, OXIDES, market

HERE = Path(__file__).parent
ASH = 12.6  # what plant-2 buys, % dry
WANTED = {"JM": 4, "JM24": 2, "SM": 1, "FM": 2, "1/3JM": 2, "QM": 1}


def stock_list(seed: int = 0) -> list[dict[str, object]]:
    """One row per coal: of each class those nearest to the ash that the plant buys."""
    kinds, coals = market(seed)
    draw = stream(seed, "stock")
    rows = []
    for kind, count in WANTED.items():
        offered = [i for i, name in enumerate(kinds) if name == kind]
        offered.sort(key=lambda i: abs(float(coals["ash"][i]) - ASH))
        for number, i in enumerate(offered[:count], 1):
            luck = torch.rand(4, generator=draw, dtype=torch.float64).tolist()
            coal = {name: float(coals[own][i]) for name, own in COLUMNS.items()}
            price = CLASS_PRICE[kind] - 18 * (coal["Ad"] - 10) - 90 * (coal["St_d"] - 0.8)
            row: dict[str, object] = {
                "coal": f"SIM-{kind.replace('/', '')}-{number}",
                "class": kind,
                "price": round(price + 60 * (luck[0] - 0.5)),
                "stock": 100 * round(8 + 40 * luck[1]),
                "min": 0,
                "max": LARGEST[kind],
                "Mt": round(8 + 4 * luck[2], 1),
            }
            row |= {name: f"{value:.4g}" for name, value in coal.items()}
            edges = torch.tensor([1.4, 0.9], dtype=torch.float64)
            upper, lower = torch.special.ndtr((edges - coal["Ro"]) / coal["Ro_sd"]).tolist()
            row["V9_V13"] = f"{100 * (upper - lower):.4g}"
            basic, typical = float(coals["basic"][i]), sum(amount for amount, _ in BASIC.values())
            row |= {o: f"{basic * amount / typical:.3g}" for o, (amount, _) in BASIC.items()}
            row |= {
                "SiO2": f"{0.65 * (OXIDES - basic):.4g}",
                "Al2O3": f"{0.35 * (OXIDES - basic):.4g}",
            }
            rows.append(row)
    return rows


def main() -> None:
    rows = stock_list()
    with open(HERE / "coals.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
