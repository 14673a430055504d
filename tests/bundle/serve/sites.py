"""Small bundles to serve: three grades by rules, and a number between two formulas."""

import torch

from fedlore import Knowledge, Personal
from fedlore.answers import Bins
from fedlore.bundle import Bundle, Policies, bundle_of
from fedlore.core.nets import mlp
from fedlore.core.scaler import Scaler
from fedlore.knowledge import Feature, Formula, Schema, table_of
from fedlore.knowledge.intervals import Between
from fedlore.models.regressor import PersonalRegressor

SCHEMA = Schema(
    (
        Feature("ash", "%", 5.0, 16.0),
        Feature("heat", "K", 900.0, 1400.0),
        Feature("seam", levels=("A", "B", "C")),
    ),
    ("III", "II", "I"),
    "grade",
)
ROW = {"ash": 13.0, "heat": 1000.0, "seam": "A"}
TOKEN = "a-token-of-some-length"


def grades(
    *, trust: float = 0.3, policies: Policies | None = None, schema: Schema = SCHEMA
) -> Bundle:
    """Much ash is never I, little never III; the expert judges by heat."""
    allowed = [{"ash": "> 12", "then": "III..II"}, {"ash": "< 8", "then": "II..I"}]
    said = [{"heat": "> 1200", "then": "I"}, {"heat": "< 1000", "seam": "C", "then": "III"}]
    known = Knowledge(
        table_of(said, schema, kind="predict", name="practice"),
        table_of(allowed, schema, kind="range", name="physics"),
        trust,
        schema=schema,
    )
    scaler = Scaler(*(torch.tensor(v).double() for v in ([10.0, 1100.0, 1.0], [2.0, 90.0, 0.8])))
    personal = Personal(mlp(3, 3, hidden=(8,), seed=1), known, scaler=scaler)
    return bundle_of(personal, "plant <1>", metrics={"ta": 0.75}, policies=policies)


def number() -> Bundle:
    """A number that lies within 1 of twice the first feature."""
    schema = Schema((Feature("a", low=-1, high=1), Feature("b")), ("x", "y"), "y")
    sides = (Formula.parse(text, schema) for text in ("2*a - 1", "2*a + 1"))
    point = Formula.parse("2*a", schema)
    known = Knowledge(point, Between(*sides), trust=0.4, empty="all")
    model = PersonalRegressor(mlp(2, 8, hidden=(8,), seed=1), Bins(-4.0, 4.0, 8), known)
    return bundle_of(model, "plant-2", schema=schema)


def crossing() -> Bundle:
    """A number whose bounds contradict each other for b above 0."""
    schema = Schema((Feature("a"), Feature("b")), ("x", "y"), "y")
    sides = (Formula.parse(text, schema) for text in ("b", "-b"))
    model = PersonalRegressor(
        mlp(2, 8, hidden=(8,)), Bins(-4.0, 4.0, 8), Knowledge(range=Between(*sides), empty="all")
    )
    return bundle_of(model, "plant-3", schema=schema)
