"""Random sites that learn a number: ranges, experts, a network, and awkward rows with holes."""

import csv
import io
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from hypothesis import strategies as st

from fedlore.answers import HEARD, Bins
from fedlore.core.nets import mlp
from fedlore.core.scaler import from_moments
from fedlore.knowledge import Formula, Schema
from fedlore.knowledge.combine import AllOf, AnyOf, FirstOf
from fedlore.knowledge.intervals import Between
from fedlore.knowledge.models import Knowledge
from fedlore.knowledge.scope import inputs_of
from fedlore.knowledge.tables.numbers import parse_numbers_table
from fedlore.knowledge.tables.sheets import parse_sheet
from fedlore.models.regressor import PersonalRegressor

from .worlds import HOLED, SCHEMA, drawn_rows, holed, rows

BINS = Bins(0.0, 10.0, 5)
NUMBERED = Schema(HOLED.features, tuple("abcde"), "strength")
FORMULAS = (
    "0.2 * ash + 0.5 * sulfur",
    "sulfur + where(ash > 7.7 and not (sulfur <= 0.3), sqrt(ash), 2)",
    "min(ash / 4, 3 * sulfur, 9)",
    "max(heat, 0.1) + 1.03",
    "5.07",
)
OUTCOMES = ("[1..4]", "[3..8]", "in 0.5..2.5, 5..7", ">= 2", "<= 6", "[11..12]")


@cache  # strategies are dear to make
def number_tables(kind, policies):
    def table(made):
        rows, policy = made
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        sheet = parse_sheet(text.getvalue().encode(), "t.csv")
        return parse_numbers_table(sheet, SCHEMA, kind=kind, policy=policy)

    outcome = st.sampled_from(("1.5", "4", "7.25") if kind == "predict" else OUTCOMES)
    return drawn_rows(outcome, policies, 4).map(table)


@cache
def number_formulas():
    return st.sampled_from(FORMULAS).map(lambda text: Formula.parse(text, SCHEMA))


@cache
def points():
    one = st.one_of(number_tables("predict", ("first", "priority", "unique")), number_formulas())
    several = st.lists(one, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.none(), one, several.map(FirstOf))


@cache
def sets():
    def around(formula):
        low, high = (Formula.parse(f"({formula.text}) {w}", SCHEMA) for w in ("- 1.3", "+ 2.1"))
        return Between(low, high)

    one = st.one_of(
        number_tables("range", ("intersect", "union")),
        number_formulas().map(around),
        number_formulas().map(lambda f: Between(f, None)),
        number_formulas().map(lambda f: Between(None, f)),
    )
    several = st.lists(one, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.none(), one, several.map(AllOf), several.map(AnyOf))


@dataclass(frozen=True)
class NumberWorld:
    personal: PersonalRegressor
    x: torch.Tensor  # (n, 4) float32


@st.composite
def number_worlds(draw) -> NumberWorld:
    knowledge = Knowledge(
        draw(points()),
        draw(sets()),
        draw(st.sampled_from((0.0, 0.3, 1.0))),
        draw(st.sampled_from((None, 0.7))),
        spread=draw(st.sampled_from((None, None, 0.8))),
        conflict=draw(st.sampled_from(("abstain", "project", "error"))),
        empty=draw(st.sampled_from(("error", "all"))),
        schema=NUMBERED,
    )
    seed, hears = draw(st.integers(0, 99)), draw(st.booleans())
    x = holed(rows(np.random.default_rng(seed)), np.random.default_rng(seed))
    inputs = inputs_of(NUMBERED)
    scaler = from_moments(inputs.moments(x), inputs)
    scaler = scaler.widen(HEARD) if hears else scaler
    net = mlp(len(scaler.shift), BINS.k, hidden=(8,), seed=seed)
    return NumberWorld(PersonalRegressor(net, BINS, knowledge, scaler=scaler, hears=hears), x)
