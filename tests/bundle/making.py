"""Bundles to test with."""

from pathlib import Path

import torch
from click.testing import Result
from torch import Tensor
from typer.testing import CliRunner

from fedlore import Knowledge, Personal
from fedlore.answers import Bins
from fedlore.bundle import Bundle, bundle_of
from fedlore.cli.app import app
from fedlore.core.nets import mlp
from fedlore.core.rng import stream
from fedlore.core.scaler import Scaler
from fedlore.kernel.schema import Feature, Schema
from fedlore.kernel.sheets import Sheet
from fedlore.knowledge.formulas import Formula
from fedlore.knowledge.intervals import Between
from fedlore.knowledge.tables.numbers import NumberTable, parse_numbers_table
from fedlore.knowledge.tables.sheets import table_of
from fedlore.models.regressor import PersonalRegressor


def call(*words: object) -> Result:
    """A command of fedlore, which may fail."""
    return CliRunner().invoke(app, [str(word) for word in words])


def run(*words: object) -> str:
    """What a command says that must not fail."""
    result = call(*words)
    assert result.exit_code == 0, result.output
    return result.output


SCHEMA = Schema(
    (Feature("ash", "%", 0.0, 40.0), Feature("s", "%", 0.0, 5.0)), ("A", "B", "C"), "grade"
)


def rows(n: int = 50, seed: int = 0) -> Tensor:
    return torch.rand(n, 2, generator=stream("bundle", seed)) * torch.tensor([40.0, 5.0])


def known(trust: float = 0.5) -> Knowledge:
    """High ash is C, low ash is A; much sulphur is never A, and very much ash only C."""
    predict = [{"ash": "> 12", "then": "C", "rule": "high ash"}, {"ash": "<= 8", "then": "A"}]
    limits = [{"s": "> 3", "then": "B..C", "rule": "sulphur"}, {"ash": "> 30", "then": "C"}]
    return Knowledge(
        table_of(predict, SCHEMA, kind="predict"),
        table_of(limits, SCHEMA, kind="range"),
        trust,
        schema=SCHEMA,
        outside="widen",
    )


def personal(knowledge: Knowledge | None = None, *, hears: bool = False, seed: int = 0) -> Personal:
    model = mlp(2, 3, hidden=(8,), hears=hears, seed=seed)
    return Personal(model, known() if knowledge is None else knowledge, scaler=Scaler.of(rows()))


def bundle(knowledge: Knowledge | None = None, *, hears: bool = False, seed: int = 0) -> Bundle:
    return bundle_of(personal(knowledge, hears=hears, seed=seed), "plant", schema=SCHEMA)


def regressor(hears: bool = False) -> PersonalRegressor:
    bins = Bins(0.0, 100.0, 10)
    numbers = Knowledge(
        Formula.parse("2 * ash", SCHEMA),
        Between(Formula.parse("ash", SCHEMA), Formula.parse("ash + 50", SCHEMA)),
        0.25,
    )
    model = mlp(2 + 4 * hears, 10, hidden=(8,), seed=3)
    seen = torch.cat([rows(), torch.rand(50, 4, generator=stream("heard"))], 1) if hears else rows()
    return PersonalRegressor(model, bins, numbers, scaler=Scaler.of(seen), hears=hears)


def number_knowledge() -> tuple[NumberTable, NumberTable]:
    """A table that names a number, and one that limits it."""
    point = Sheet("p.csv", "", ((1, ("ash", "then")), (2, ("> 12", "40")), (3, ("<= 8", "20.5"))))
    limits = (("ash", "then"), ("> 12", "[30..90]"), ("<= 12", "<= 70"))
    page = Sheet("r.csv", "", tuple(enumerate(limits, 1)))
    return (
        parse_numbers_table(point, SCHEMA, kind="predict"),
        parse_numbers_table(page, SCHEMA, kind="range"),
    )


def number_bundle(folder: Path, *, conflict: str = "abstain") -> Bundle:
    """Of a number, from files: a table that names it, one that limits it, and an owner."""
    (folder / "p.csv").write_text("ash [%],then\n> 12,40\n<= 8,20.5\n")
    (folder / "r.csv").write_text("ash [%],then\n> 30,[50..90]\n<= 30,<= 70\n")
    (folder / "knowledge.toml").write_text(
        f"""trust = 0.5
outside = "widen"
conflict = "{conflict}"
[target]
lower = 0.0
upper = 100.0
bins = 4
[card]
owner = "Erika Mustermann"
[[features]]
name = "ash"
unit = "%"
low = 0.0
high = 40.0
[[features]]
name = "s"
unit = "%"
low = 0.0
high = 5.0
[[predict.sources]]
table = "p.csv"
[[range.sources]]
table = "r.csv"
"""
    )
    known = Knowledge.read(folder / "knowledge.toml")
    assert known.bins is not None
    model = mlp(2, len(known.bins.edges) - 1, hidden=(8,), seed=3)
    made = PersonalRegressor(model, known.bins, known, scaler=Scaler.of(rows()))
    return bundle_of(made, "plant", schema=known.schema)
