"""Rows with holes: a range holds whatever any value in the hole would allow, a prediction speaks
only where all of them agree."""

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from fedlore.core.examples import Examples
from fedlore.errors import KnowledgeError
from fedlore.knowledge import (
    AllOf,
    Average,
    Feature,
    FirstOf,
    Formula,
    FormulaRange,
    GradedFormula,
    Knowledge,
    Mask,
    Schema,
    table_of,
)
from fedlore.knowledge.missing import allow, find_lacking, hear

from ..bundle.onnx.worlds import NUMBERS, worlds

NAN = math.nan
PENGUINS = Schema(
    (Feature("flipper", "mm", 170, 235), Feature("mass", "g", 2500, 6500)),
    ("Adelie", "Chinstrap", "Gentoo"),
)


def table(*rules, kind="range", policy=None):
    return table_of(list(rules), PENGUINS, kind=kind, policy=policy)


def rows(*values):
    return torch.tensor(values)


def names(allowed):
    return ["".join("ACG"[i] for i in row.nonzero().flatten().tolist()) for row in allowed]


def test_an_unknown_expert_is_not_passed_over():
    unsure = table({"flipper": "> 210", "then": "Gentoo"}, kind="predict")
    always = table({"then": "Adelie"}, kind="predict")
    x = rows([NAN, 4000.0], [190.0, 4000.0])
    assert FirstOf((unsure, always))(x).tolist() == [[0, 0, 0], [1, 0, 0]]
    assert Average((unsure, always))(x).tolist() == [[0, 0, 0], [1, 0, 0]]


def test_a_formula_that_needs_the_value_limits_nothing():
    lower = Formula.parse("(flipper - 170) / 20", PENGUINS)
    upper = Formula.parse("mass / 1000 - 3", PENGUINS)
    x = rows([220.0, 6500.0], [NAN, 4500.0], [220.0, NAN], [NAN, NAN])
    assert names(FormulaRange(lower, upper, (1.0, 2.0))(x)) == ["G", "AC", "G", "ACG"]
    # where crossing ends allow all, they may cross: nothing is left to say
    either = FormulaRange(lower, upper, (1.0, 2.0), crossed="all")
    assert names(either(x)) == ["G", "ACG", "ACG", "ACG"]
    assert GradedFormula(lower, (1.0, 2.0))(x).sum(1).tolist() == [1, 0, 1, 0]


def test_where_ranges_may_exclude_each_other_the_first_speaks():
    first = table({"flipper": "< 205", "then": "Adelie"})
    second = table({"mass": "> 5000", "then": "Gentoo"})
    x = rows([190.0, 5500.0], [220.0, 5500.0], [NAN, 5500.0])
    assert names(AllOf((first, second), "first")(x)) == ["A", "G", "ACG"]
    assert names(AllOf((first, second), "all")(x)) == ["ACG", "G", "ACG"]
    with pytest.raises(KnowledgeError, match="first row 0"):
        AllOf((first, second))(x)
    assert names(AllOf((first, second))(x[1:])) == ["G", "G"]


def test_a_model_that_knows_nothing_of_holes_sees_whole_rows_only():
    seen = []

    def expert(x):
        seen.append(x)
        return torch.tensor([[0.0, 0.0, 1.0]]).repeat(len(x), 1)

    x = rows([190.0, 4000.0], [NAN, 4000.0])
    known = Knowledge(expert, lambda rows: expert(rows) > 0, schema=PENGUINS)
    told = known.annotate(Examples(x))
    assert told.prior.tolist() == [[0, 0, 1], [0, 0, 0]]
    assert names(told.allowed) == ["G", "ACG"]
    assert not any(rows.isnan().any() for rows in seen)
    # one who looks at the mass alone does not miss the flipper
    view = Mask((1,), expert)
    assert not find_lacking(view, x).any()
    assert hear(view, x).tolist() == [[0, 0, 1], [0, 0, 1]]


COMPLETIONS = (*NUMBERS, 0.0, 0.2, 5.0, 30.0, -3.0)


@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_no_value_in_the_hole_leads_out_of_the_range(world):
    """For every value that could stand in the hole, the range holds what it would allow, and the
    prediction says what it would say, or nothing."""
    known, hole = world.personal.knowledge, 1
    for row in world.x[:6]:
        open_ = row.clone()
        open_[hole] = NAN
        every = row.repeat(len(COMPLETIONS), 1)
        every[:, hole] = torch.tensor(COMPLETIONS)
        if known.range is not None:
            try:
                allowed = allow(known.range, open_.unsqueeze(0))[0]
            except KnowledgeError:
                allowed = torch.zeros(4, dtype=torch.bool)  # then every value is refused
            for one in every:
                try:
                    inside = allow(known.range, one.unsqueeze(0))[0]
                except KnowledgeError:
                    continue
                assert not (inside & ~allowed).any()
        if known.prediction is not None:
            try:
                said = hear(known.prediction, open_.unsqueeze(0))[0]
                told = [hear(known.prediction, one.unsqueeze(0))[0] for one in every]
            except KnowledgeError:
                continue
            if said.any():
                assert all(torch.equal(said, one) for one in told)
