"""Make the four example sites again: simulated rows, and knowledge as four experts would write it.

    python examples/coke/make.py

plant-1 and plant-2 write decision tables (CSV, XLSX), plant-3 a published formula, and plant-4
has data but no bound, so its range is conformal: statistical, not certain. Rules of the tables
are the plant's equation read off band by band over last year's charges, never over labels.
"""

import csv
import itertools
import math
from dataclasses import replace
from pathlib import Path

import torch
from openpyxl import Workbook

from fedlore.core.examples import Examples
from fedlore.kernel.schema import Schema
from fedlore.knowledge import Card, Knowledge
from fedlore.knowledge.conformal import ConformalRange
from fedlore.knowledge.formulas import Formula, FormulaRange, GradedFormula, GradeEdges, SoftFormula
from fedlore_coke.experts import BOUND, COKE, EDGES, kobe
from fedlore_coke.plants import coking_plants

HERE = Path(__file__).parent
REFERENCE = "Diez, Alvarez, Barriocanal 2002, Int. J. Coal Geol. 50:389-412"


def scoped(x: torch.Tensor) -> Schema:
    """The coke schema with the ranges this plant works in: what it has charged, and a little."""
    low, high = x.min(0).values, x.max(0).values
    room = 0.15 * (high - low)
    features = tuple(
        replace(
            f,
            low=max(f.low, math.floor(100 * float(a - r)) / 100),
            high=min(f.high, math.ceil(100 * float(b + r)) / 100),
        )
        for f, a, b, r in zip(COKE.features, low, high, room, strict=True)
    )
    return Schema(features, COKE.classes, "grade")


def bands(schema: Schema, x: torch.Tensor, parts: dict[str, int]) -> list[dict[str, tuple]]:
    """A grid over some features, cut at round numbers near their quantiles."""
    cuts = {}
    for name, count in parts.items():
        values = x[:, schema.column(name)].double()
        points = torch.quantile(values, torch.linspace(0, 1, count + 1).double()[1:-1])
        digits = 2 if name in ("Ro", "MBI", "logMF") else 0
        feature = schema.features[schema.column(name)]
        cuts[name] = [feature.low, *(round(float(p), digits) for p in points), feature.high]
    axes = [[(name, *ends) for ends in itertools.pairwise(cuts[name])] for name in parts]
    return [{name: (low, high) for name, low, high in cell} for cell in itertools.product(*axes)]


def rules(text: str, schema: Schema, x: torch.Tensor, parts: dict[str, int]):
    """Header and rows of a range table and of a prediction table."""
    formula, grading = Formula.parse(text, schema), GradeEdges(EDGES)
    predictions, ranges = [], []
    for band in bands(schema, x, parts):
        held = x.new_ones(len(x), dtype=torch.bool)
        cells = []
        for name, (a, b) in band.items():
            feature = schema.features[schema.column(name)]
            column = x[:, schema.column(name)]
            held &= (column >= a) & (column < b)
            last_band = b == feature.high
            cells.append(f">= {a:g}" if last_band else f"< {b:g}" if a == feature.low
                         else f"[{a:g}..{b:g})")  # fmt: skip
        if not held.any():
            continue  # never charged: no experience, so no rule
        values = formula(x[held].double())
        grades = grading(torch.stack([values.min() - BOUND, values.median(), values.max() + BOUND]))
        first, middle, last = (schema.classes[i] for i in grades.tolist())
        predictions.append([*cells, middle])
        ranges.append([*cells, f"{first}..{last}"])
    header = [f"{name} [{u}]" if (u := unit(schema, name)) else name for name in parts] + ["then"]
    return [header, *predictions], [header, *ranges]


def unit(schema: Schema, name: str) -> str:
    return schema.features[schema.column(name)].unit


def write_csv(path: Path, rows: list[list[object]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def write_rows(path: Path, data: Examples) -> None:
    values = [[f"{v:.6g}" for v in row] for row in data.x.tolist()]
    labels = [COKE.classes[i] for i in data.y.tolist()]
    write_csv(
        path, [[*COKE.names, "grade"], *([*v, y] for v, y in zip(values, labels, strict=True))]
    )


def with_tables(folder: Path, knowledge: Knowledge, sources: str) -> None:
    """knowledge.toml with sources that stand in spreadsheets of their own."""
    knowledge.write(folder / "knowledge.toml")
    path = folder / "knowledge.toml"
    path.write_text(path.read_text() + sources)


def main() -> None:
    plants = coking_plants(0, rows=(40, 60, 80, 170), test_rows=100)
    wide = coking_plants(0, test_rows=4_000)  # how these plants charge; no label is looked at
    for plant, like in zip(plants, wide, strict=True):
        folder = HERE / plant.id
        folder.mkdir(exist_ok=True)
        x = torch.cat([plant.train.x, plant.test.x])
        schema = scoped(torch.cat([x, like.test.x]))
        expert = plant.knowledge.prediction.model.expert
        card = Card(f"{plant.id} (simulated)", "1", "2026-11-15", REFERENCE)
        blank = Knowledge(trust=0.3, schema=schema, card=card)
        train = plant.train
        if plant.id in ("plant-1", "plant-2"):
            parts = {"Ro": 5, "b" if plant.id == "plant-1" else "logMF": 2, "MBI": 2}
            predict, limits = rules(expert.text, schema, like.test.x, parts)
        if plant.id == "plant-1":
            write_csv(folder / "predict.csv", predict)
            write_csv(folder / "range.csv", limits)
            with_tables(folder, blank, '\n[[predict.sources]]\ntable = "predict.csv"\n'
                        '\n[[range.sources]]\ntable = "range.csv"\n')  # fmt: skip
        elif plant.id == "plant-2":
            book = Workbook()
            book.active.title = "predict"
            for row in predict:
                book.active.append(row)
            sheet = book.create_sheet("range")
            for row in limits:
                sheet.append(row)
            book.save(folder / "rules.xlsx")
            with_tables(folder, blank, '\n[[predict.sources]]\ntable = "rules.xlsx"\n'
                        'sheet = "predict"\n\n[[range.sources]]\ntable = "rules.xlsx"\n'
                        'sheet = "range"\n')  # fmt: skip
        elif plant.id == "plant-3":
            formula = Formula.parse(expert.text, schema)
            lower, upper = (Formula.parse(f"{kobe.text} + {expert.constant + side:.1f}", schema)
                            for side in (-BOUND, BOUND))  # fmt: skip
            known = replace(blank, prediction=GradedFormula(formula, EDGES),
                            range=FormulaRange(lower, upper, EDGES))  # fmt: skip
            known.write(folder / "knowledge.toml")
        else:
            train, held_back = plant.train[slice(0, 110)], plant.train[slice(110, 170)]
            soft = SoftFormula(Formula.parse(expert.text, schema), EDGES, 3.0)
            found = ConformalRange.calibrate(soft, held_back, alpha=0.05)
            known = replace(
                blank, prediction=soft, range=found, outside="widen", conflict="restrict"
            )
            known.write(folder / "knowledge.toml")
            write_rows(folder / "calibration.csv", held_back)
        write_rows(folder / "train.csv", train)
        write_rows(folder / "test.csv", plant.test)


if __name__ == "__main__":
    main()
