"""What a column is worth to a site is what its local best model loses where it is empty."""

from dataclasses import replace

import pytest
import torch

from fedlore import Bins, Client, Examples, Knowledge, Measured, NumberClient, fit
from fedlore.algorithms import Plan
from fedlore.engine.lore import Candidate, default_space, stacking
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge import Formula, GradedFormula
from fedlore.models.own import baseline
from fedlore.models.own.linear import Ridge

SCHEMA = Schema(
    (Feature("ash"), Feature("Ro", missing="mean"), Feature("b", missing="mean")),
    ("I", "II", "III"),
    ordered=True,
)
BINS = Bins(-6.0, 6.0, 12)
SPOKEN = GradedFormula(Formula.parse("2*Ro", SCHEMA), (-1.0, 1.0))


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Two learners in place of all: the law is of what they say, not of who says it."""
    ridges = [Ridge("ridge"), Ridge("quadratic ridge", quadratic=True)]
    for name in ("_number_families", "_order_families"):
        monkeypatch.setattr(baseline, name, lambda *_: ridges)


def site(number, empty):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(28, 3, generator=draw)  # too few for learners that know no order
    y = (x[:, 0] + 2 * x[:, 1] + 0.3 * torch.randn(28, generator=draw)).double()
    x[:, list(empty)] = torch.nan
    if number:
        return NumberClient("site", Measured(x, y.clamp(-6, 6)), Knowledge(schema=SCHEMA))
    grade = torch.bucketize(y, torch.tensor([-1.0, 1.0]).double())
    return Client("site", Examples(x, grade), Knowledge(SPOKEN, trust=0.3, schema=SCHEMA))


def table(number, empty=()):
    space = default_space(5, ordered=not number, numbers=number, flags=(2, 4))
    space = replace(space, folds=2, candidates=(Candidate(hidden=(2,)),), links=(), finishes=(0,))
    bins = BINS if number else None
    fitted = fit([site(number, empty)], recipe=space, bins=bins, plan=Plan(), rounds=1)
    return fitted.benefit("site")


@pytest.mark.parametrize("number", [False, True])
def test_it_is_what_the_local_best_model_loses_without_it(number):
    whole = table(number)
    assert [line.name for line in whole.columns] == ["Ro", "b"]  # ash may be missing nowhere
    for line, column in zip(whole.columns, (1, 2), strict=True):
        less = table(number, (column,))
        lost = whole.value("local best") - less.value("local best")
        assert line.value == pytest.approx(-lost if number else lost, abs=1e-6)
        assert [left.name for left in less.columns] == ["Ro", "b"][2 - column : 3 - column]
    assert whole.columns[0].low > 0.0 and whole.columns[1].low <= 0.0  # b is noise


def test_of_many_rows_evenly_spaced_ones_are_used_and_of_many_columns_the_first(monkeypatch):
    whole = table(True)
    monkeypatch.setattr(stacking, "MOST_VALUED", 14)
    monkeypatch.setattr(stacking, "MOST_COLUMNS", 1)
    (some,) = table(True).columns
    assert some.name == "Ro" and some.high - some.low > 1.2 * (
        whole.columns[0].high - whole.columns[0].low
    )


def test_nothing_is_said_of_columns_that_nobody_may_lack_or_that_are_empty():
    found = table(True, (1, 2))
    assert found.columns == () and "columns" not in found.plain()
