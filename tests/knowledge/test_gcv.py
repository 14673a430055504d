"""A real data set with a near-exact law: calorific value of 4,540 coals and Dulong's formula.

The file has no licence and is not shipped; its published values carry a moisture factor that is
undone here (see the docstring of `coals`).
"""

import csv
import gzip
import os
from pathlib import Path

import pytest
import torch

from fedlore import Client, Examples, Knowledge, Plan, fit
from fedlore.core.nets import mlp
from fedlore.core.rng import stream
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.formulas import Formula, FormulaRange, GradedFormula, GradeEdges

DATA = Path(os.environ.get("FEDLORE_DATA", Path(__file__).parents[3] / "shared" / "data"))
FILE = DATA / "coal_gcv_4540.csv.gz"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FILE.exists(), reason="coal_gcv_4540.csv.gz not in FEDLORE_DATA"),
]

EDGES = tuple(float(v) for v in range(8, 36, 2))  # MJ/kg
FEATURES = ("moisture", "volatile_matter", "fixed_carbon", "ash", "hydrogen", "carbon")
FEATURES += ("nitrogen", "oxygen", "sulfur")
SCHEMA = Schema(
    tuple(Feature(name, "%", 0, 100) for name in FEATURES),
    tuple(f"GCV{i}" for i in range(len(EDGES) + 1)),
)
DULONG = "0.337*carbon + 1.442*(hydrogen - oxygen/8) + 0.093*sulfur"
BAND = 1.2  # MJ/kg, three standard deviations of the formula's error


def coals() -> tuple[torch.Tensor, torch.Tensor]:
    """Features, and the as-received GCV: published / (1 - moisture/100)."""
    with gzip.open(FILE, "rt") as lines:
        rows = list(csv.DictReader(lines))
    x = torch.tensor([[float(row[name]) for name in FEATURES] for row in rows])
    published = torch.tensor([float(row["gcv_published_MJkg"]) for row in rows])
    return x, published / (1 - x[:, 0] / 100)


def expert(**changes) -> Knowledge:
    return Knowledge(
        GradedFormula(Formula.parse(DULONG, SCHEMA), EDGES),
        FormulaRange(
            Formula.parse(f"{DULONG} - {BAND}", SCHEMA),
            Formula.parse(f"{DULONG} + {BAND}", SCHEMA),
            EDGES,
        ),
        **changes,
    )


def test_dulong_is_nearly_right_on_real_coals():
    x, gcv = coals()
    error = Formula.parse(DULONG, SCHEMA)(x) - gcv
    assert 0.05 < float(error.mean()) < 0.25 and float(error.std()) < 0.45
    audit = expert().audit(Examples(x, GradeEdges(EDGES)(gcv)))
    assert audit.hits > 0.8 and audit.width < 2.5
    assert audit.outside / audit.rows < 0.03  # an honest band misses now and then


def test_with_the_formula_a_federation_by_rank_is_better_and_never_leaves_the_band():
    x, gcv = coals()
    y = GradeEdges(EDGES)(gcv)
    rank = x[:, FEATURES.index("fixed_carbon")].argsort()
    clients = []
    for i, part in enumerate(rank.chunk(4)):
        rows = part[torch.randperm(len(part), generator=stream("gcv", i))]
        train, test = rows[:100], rows[100:]
        clients.append(
            Client(
                f"basin-{i}",
                Examples(x[train], y[train]),
                expert(trust=0.3, outside="widen"),
                test=Examples(x[test], y[test]),
            )  # fmt: skip
        )
    plan = Plan(lr=0.05, schedule="cosine")
    told = fit(clients, mlp(9, len(EDGES) + 1), plan=plan, rounds=20, evaluate=20)
    bare = fit(
        [c.bare() for c in clients], mlp(9, len(EDGES) + 1), plan=plan, rounds=20, evaluate=20
    )

    def mean(fitted, name):
        return sum(row[name] for row in fitted.history[-4:]) / 4

    assert mean(told, "pov") == 0.0 < mean(bare, "pov")
    assert mean(told, "ta") > mean(bare, "ta")
