"""A small working federation to start from: four simulated coking plants as files.

Each plant writes its knowledge as experts do: a decision table, formulas, and one that has data
but no bound and therefore a statistical range.
"""

import csv
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedlore import Examples
from fedlore.errors import FedloreError
from fedlore.experiments import CONFIG, check_empty
from fedlore.federation.processes import free_port
from fedlore.knowledge import (
    Card,
    ConformalRange,
    Formula,
    FormulaRange,
    GradedFormula,
    GradeEdges,
    Knowledge,
    Schema,
    SoftFormula,
    dump,
)
from fedlore.privacy import LEAST

from .experts import BOUND, COKE, EDGES
from .plants import PROFILES, Plant, coking_plants

REFERENCE = "Diez, Alvarez, Barriocanal 2002, Int. J. Coal Geol. 50:389-412"
CALIBRATION = 60  # rows that plant-4 keeps for its statistical range

README = """\
# A federation to start from

Four simulated coking plants: 17 features of a coal blend, 20 grades of coke. Nothing here was
measured at a plant.

    fedlore run federation.toml --out results     train, compare, report; go on after a stop
    fedlore tune federation.toml                  each site chooses its own λ, in private
    fedlore lint sites/plant-1/knowledge.toml     check a site's knowledge

A site is a folder in `sites/`: `train.csv` and, if there is one, `test.csv` (or `.parquet`), and
`knowledge.toml`, which names the columns and classes and says what the site's expert knows.
plant-1 writes decision tables, plant-2 and plant-3 formulas; plant-4 has data but no bound, so
its range is statistical. To use your own data, replace the folders; every site needs the same
features and classes.
"""


def write_starter(folder: str | Path, *, seed: int = 0) -> list[Path]:
    """Write the example into a new or empty folder; returns what was written, folder by folder."""
    folder = Path(folder)
    check_empty(folder)
    try:
        (folder / "sites").mkdir(parents=True)
        (folder / "federation.toml").write_text(CONFIG, encoding="utf-8")
        (folder / "README.md").write_text(README, encoding="utf-8")
        rows = (40, 60, 80, 110 + CALIBRATION)
        plants = coking_plants(seed, rows=rows, test_rows=150)
        wide = coking_plants(seed, test_rows=2_000)  # how they charge; no label is looked at
        for plant, like in zip(plants, wide, strict=True):
            _write_site(folder / "sites" / plant.id, plant, like.test.x)
    except OSError as error:
        raise FedloreError(f"cannot write to '{folder}': {error.strerror}") from None
    return sorted((folder / "sites").iterdir())


def _write_site(folder: Path, plant: Plant, charged: Tensor) -> None:
    folder.mkdir()
    schema = _scope(torch.cat([plant.train.x, plant.test.x, charged]))
    text = plant.knowledge.prediction.model.expert.text  # type: ignore[union-attr]
    formula = Formula.parse(text, schema)
    card = Card(f"{plant.id} (simulated)", "1", "", REFERENCE)
    known = Knowledge(trust=0.3, schema=schema, card=card)
    train = plant.train
    if plant.id == "plant-1":
        predictions, ranges = _rules(formula, schema, charged)
        _write(folder / "predict.csv", predictions)
        _write(folder / "range.csv", ranges)
        known.write(folder / "knowledge.toml")
        with open(folder / "knowledge.toml", "a", encoding="utf-8") as file:
            for side in ("predict", "range"):
                file.write(f'\n[[{side}.sources]]\ntable = "{side}.csv"\n')
    elif plant.id == "plant-4":
        held = plant.train[slice(len(train) - CALIBRATION, None)]
        train = plant.train[slice(0, len(train) - CALIBRATION)]
        soft = SoftFormula(formula, EDGES, 3.0)
        sets = ConformalRange.calibrate(soft, held, alpha=0.05)
        known = replace(known, prediction=soft, range=sets, outside="widen", conflict="restrict")
        known.write(folder / "knowledge.toml")
        write_examples(folder / "calibration.csv", held, label="grade")
    else:
        low, high = (Formula.parse(f"{text} + {side}", schema) for side in (-BOUND, BOUND))
        limits = FormulaRange(low, high, EDGES)
        replace(known, prediction=GradedFormula(formula, EDGES), range=limits).write(
            folder / "knowledge.toml"
        )
    write_examples(folder / "train.csv", train, label="grade")
    write_examples(folder / "test.csv", plant.test, label="grade")


def _scope(x: Tensor) -> Schema:
    """The coke schema with the limits this plant works in: what it has charged, and a little."""
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


_Sheet = list[list[str]]


def _rules(formula: Formula, schema: Schema, x: Tensor) -> tuple[_Sheet, _Sheet]:
    """The equation read off band by band, as a prediction table and a range table."""
    cuts = {
        name: [round(float(q), 2) for q in torch.quantile(x[:, schema.column(name)], points)]
        for name, points in (("Ro", _inner(6)), ("b", _inner(4)), ("MBI", _inner(3)))
    }
    header = [f"{n} [{u}]" if (u := schema.features[schema.column(n)].unit) else n for n in cuts]
    predictions, ranges = [[*header, "then"]], [[*header, "then"]]
    bands = [list(itertools.pairwise([-math.inf, *edges, math.inf])) for edges in cuts.values()]
    for band in itertools.product(*bands):
        held = torch.ones(len(x), dtype=torch.bool)
        for name, (a, b) in zip(cuts, band, strict=True):
            column = x[:, schema.column(name)]
            held &= (column >= a) & (column < b)
        if not held.any():
            continue  # never charged: no experience, so no rule
        values = formula(x[held].double())
        ends = torch.stack([values.min() - BOUND, values.median(), values.max() + BOUND])
        first, middle, last = (schema.classes[i] for i in GradeEdges(EDGES)(ends).tolist())
        cells = [_condition(a, b) for a, b in band]
        predictions.append([*cells, middle])
        ranges.append([*cells, f"{first}..{last}"])
    return predictions, ranges


def _inner(parts: int) -> Tensor:
    return torch.linspace(0, 1, parts + 1)[1:-1]


def _condition(low: float, high: float) -> str:
    if low == -math.inf:
        return f"< {high:g}"
    return f">= {low:g}" if high == math.inf else f"[{low:g}..{high:g})"


def write_examples(path: Path, data: Examples, *, label: str, form: str = ".6g") -> None:
    """Labelled rows as CSV, their numbers in this form."""
    assert data.y is not None
    rows = (
        [*(f"{v:{form}}" for v in values), COKE.classes[y]]
        for values, y in zip(data.x.tolist(), data.y.tolist(), strict=True)
    )
    _write(path, [[*COKE.names, label], *rows])


def _write(path: Path, rows: Iterable[Sequence[str]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def make_trial(
    folder: Path,
    *,
    sites: int,
    address: str,
    rounds: int = 10,
    test_rows: int = 200,
    secure: bool = True,
    recipe: str = "none",
) -> None:
    """A coordinator's folder, and under sites/ what would lie on the plants' own machines."""
    from fedlore.federation.kits.kit import add_local_site, init  # it needs cryptography

    if not 1 <= sites <= len(PROFILES):
        raise FedloreError(f"the trial has up to {len(PROFILES)} plants, got {sites}")
    secure = secure and sites >= LEAST
    asked: dict[str, Any] = {"rounds": rounds, "secure": secure, "recipe": recipe}
    init(folder, name="coke", address=address, schema=COKE, **asked)
    paths = {"data": "train.csv", "test": "test.csv", "knowledge": "knowledge.toml"}
    for plant in coking_plants(0, test_rows=test_rows)[:sites]:
        site = add_local_site(folder, plant.id, paths=paths)
        write_examples(site / "train.csv", plant.train, label=COKE.label, form="")
        write_examples(site / "test.csv", plant.test, label=COKE.label, form="")
        (site / "knowledge.toml").write_text(_knowledge(plant), encoding="utf-8")


def make_trial_here(folder: Path, *, sites: int, rounds: int, recipe: str) -> None:
    """The same on a free port of this machine."""
    address = f"127.0.0.1:{free_port()}"
    make_trial(folder, sites=sites, address=address, rounds=rounds, recipe=recipe)


def _knowledge(plant: Plant) -> str:
    """This plant's expert as a knowledge file."""
    expert = plant.knowledge.prediction.model.expert  # type: ignore[union-attr]
    said = expert.text
    features = [
        {"name": f.name, "unit": f.unit, "low": f.low, "high": f.high} for f in COKE.features
    ]
    return dump(
        {
            "trust": plant.knowledge.trust,
            "outside": "widen",
            "label": COKE.label,
            "classes": list(COKE.classes),
            "edges": list(EDGES),
            "features": features,
            "card": {"owner": f"the expert of {plant.id}", "note": "simulated"},
            "predict": {"sources": [{"formula": said}]},
            "range": {"sources": [{"lower": f"{said} - {BOUND}", "upper": f"{said} + {BOUND}"}]},
        }
    )
