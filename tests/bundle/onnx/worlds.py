"""Random sites for property tests: a schema, tables, formulas, a network, and awkward rows."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from hypothesis import strategies as st

from fedlore.core.nets import logistic, mlp
from fedlore.core.scaler import Scaler, from_moments
from fedlore.knowledge import (
    AllOf,
    AnyOf,
    Average,
    Feature,
    FirstOf,
    Formula,
    FormulaRange,
    GradedFormula,
    Knowledge,
    Schema,
    SoftFormula,
    table_of,
)
from fedlore.knowledge.scope import count_inputs, inputs_of
from fedlore.knowledge.soft import Softened, SoftFormulas
from fedlore.knowledge.tables.soft import SoftTable
from fedlore.models.classifier import Personal

CLASSES = ("I", "II", "III", "IV")
SCHEMA = Schema(
    (
        Feature("ash", "%", 0.0, 40.0),
        Feature("sulfur", "%", 0.0, 5.0),
        Feature("heat", "", -10.0, 10.0),
        Feature("mine", levels=("north", "south", "west")),
    ),
    CLASSES,
)
#: The same where values may be missing, and levels come that nobody named.
HOLED = replace(
    SCHEMA,
    features=(
        *(replace(f, missing="mean") for f in SCHEMA.features[:2]),
        SCHEMA.features[2],
        replace(SCHEMA.features[3], missing="level", other=True),
    ),
)
NUMBERS = (0.1, 0.3, 1.0, 3.0, 7.7, 12.0)
FORMULAS = (
    "2 * ash + 0.5 * sulfur",
    "ash / (sulfur - 3)",
    "where(ash > 7.7 and not (sulfur <= 0.3), sqrt(ash), heat ** 2)",
    "min(ash, 3 * sulfur, 10) - abs(heat)",
    "max(heat, 0.1) ** 3",
    "where(heat == 1.0 or heat != 3.0, sqrt(heat), 1e20 * 1e20)",
    "5",
)
EDGES = (0.3, 3.0, 7.7)


@cache  # strategies are dear to make
def conditions():
    number = st.sampled_from(NUMBERS)
    compare = st.tuples(st.sampled_from(("<", "<=", ">", ">=", "=")), number)
    between = st.tuples(st.sampled_from("[("), st.sampled_from("])")).map(
        lambda ends: f"{ends[0]}0.3..7.7{ends[1]}"
    )
    return st.one_of(
        st.just("-"), compare.map(lambda pair: f"{pair[0]} {pair[1]}"), between, st.just("not 1")
    )


@st.composite
def drawn_rows(draw, outcome, policies, most):
    """Rows of a table with the outcome drawn, and its policy."""
    cells = {
        "ash": conditions(),
        "sulfur": conditions(),
        "heat": conditions(),
        "mine": st.sampled_from(("-", "north", "not south", "in south, west")),
        "then": outcome,
    }
    found = draw(st.lists(st.fixed_dictionaries(cells), min_size=1, max_size=most))
    policy = draw(st.sampled_from(policies))
    if policy == "priority":
        found = [row | {"priority": draw(st.integers(1, 3))} for row in found]
    return found, policy


@cache
def tables(kind, policies):
    sets = ("I..III", "II..IV", "II, III", "all", "not III", "II")
    outcome = st.sampled_from(CLASSES if kind == "predict" else sets)
    found = drawn_rows(outcome, policies, 6)
    return found.map(lambda made: table_of(made[0], SCHEMA, kind=kind, policy=made[1]))


@cache
def formulas():
    return st.sampled_from(FORMULAS).map(lambda text: Formula.parse(text, SCHEMA))


@cache
def experts():
    one = st.one_of(
        tables("predict", ("first", "priority", "unique")),
        formulas().map(graded),
        formulas().map(lambda f: SoftFormula(f, EDGES, 0.8)),
    )
    one = st.one_of(one, softly(tables("predict", ("first", "priority"))), soft_limits(graded))
    several = st.lists(one, min_size=2, max_size=3).map(tuple)
    average = several.map(lambda s: Average(s, tuple(range(1, len(s) + 1))))
    hard = st.one_of(st.none(), one, several.map(FirstOf), average)
    ensemble = st.lists(
        st.one_of(softly(tables("range", ("intersect",)), most=0.9), soft_limits(_limits)),
        min_size=1,
        max_size=2,
    )
    return st.one_of(hard, st.builds(lambda e, s: Softened(e, tuple(s)), hard, ensemble))


def graded(formula):
    return GradedFormula(formula, EDGES)


def _limits(formula):
    return FormulaRange(formula, _more(formula, 1.0), EDGES, "all")


@cache
def soft_limits(made):
    """Formulas that are right in most cases only."""
    return st.builds(lambda f, c: SoftFormulas(made(f), c), formulas(), st.sampled_from((0.5, 0.9)))


@st.composite
def softly(draw, some, most=1.0):
    """Tables with confidences, some rules of which always hold where `most` is 1."""
    table = draw(some)
    shares = st.sampled_from((0.25, 0.6, 0.9, most))
    found = [draw(shares) for _ in table.rules]
    found[0] = 0.9 if min(found) == 1.0 else found[0]  # else nothing of it is soft
    return SoftTable(table, tuple(found))


@cache
def ranges():
    limits = st.tuples(formulas(), st.sampled_from((1.0, -0.5)), st.sampled_from(("error", "all")))
    one = st.one_of(
        tables("range", ("intersect", "union")),
        limits.map(lambda t: FormulaRange(t[0], _more(t[0], t[1]), EDGES, t[2])),
        formulas().map(lambda f: FormulaRange(f, None, EDGES)),
        formulas().map(lambda f: FormulaRange(None, f, EDGES)),
    )
    several = st.lists(one, min_size=2, max_size=3).map(tuple)
    both = st.tuples(several, st.sampled_from(("error", "first", "all")))
    return st.one_of(st.none(), one, both.map(lambda t: AllOf(*t)), several.map(AnyOf))


def _more(formula, by):
    return Formula.parse(f"({formula.text}) {'+' if by > 0 else '-'} {abs(by)}", SCHEMA)


@dataclass(frozen=True)
class World:
    personal: Personal
    x: torch.Tensor  # (n, 4) float32


@st.composite
def worlds(draw, schema=SCHEMA) -> World:
    knowledge = Knowledge(
        draw(experts()),
        draw(ranges()),
        draw(st.sampled_from((0.0, 0.3, 1.0))),
        draw(st.sampled_from((None, 0.7))),
        conflict=draw(st.sampled_from(("abstain", "restrict", "error"))),
        schema=schema,
    )
    seed = draw(st.integers(0, 99))
    width = count_inputs(schema) if schema is HOLED else len(schema.features)
    net = draw(
        st.sampled_from(
            (
                mlp(width, 4, hidden=(8, 8), seed=seed),
                mlp(width, 4, hidden=(8,), hears=True, seed=seed),
                logistic(width, 4, seed=seed),
            )
        )
    )
    x = rows(np.random.default_rng(seed))
    if schema is HOLED:
        x = holed(x, np.random.default_rng(seed))
        inputs = inputs_of(schema)
        scaler = from_moments(inputs.moments(x), inputs)
    else:
        scaler = Scaler.of(x) if draw(st.booleans()) else None
    return World(Personal(net, knowledge, scaler=scaler), x)


def rows(rng, n=60):
    """Rows on thresholds, just beside them, and anywhere; all within the scope."""
    single = np.array(NUMBERS, dtype=np.float32)
    near = np.concatenate(
        [single, np.nextafter(single, np.float32(-99)), np.nextafter(single, np.float32(99))]
    )
    picked = rng.choice(near, (n, 4)).astype(np.float32)
    free = rng.uniform((0, 0, -10, 0), (40, 5, 10, 3), (n, 4)).astype(np.float32)
    x = np.where(rng.random((n, 4)) < 0.5, picked, free)
    x[:, 3] = rng.integers(0, 3, n)
    return torch.from_numpy(x.astype(np.float32))


def holed(x, rng):
    """The same rows with values missing where they may be, and some levels that nobody named."""
    gone = torch.from_numpy(rng.random(x.shape) < 0.25)
    gone[:, 2] = False
    x = x.masked_fill(gone, torch.nan)
    x[torch.from_numpy(rng.random(len(x)) < 0.1), 3] = 3.0
    return x


def thin(model, x):
    """Rows on which a soft expert's tail is about 1e-16: whether it is 0 hangs on the last bit."""
    found = torch.zeros(len(x), dtype=torch.bool)
    model = getattr(model, "expert", model)  # of soft ranges beside him
    for part in getattr(model, "predictions", (model,)):
        if isinstance(part, SoftFormula):
            away = (torch.tensor(part.edges) - part.formula(x).unsqueeze(1)).abs() / part.spread
            found |= ((away > 7.5) & (away < 9)).any(1)
    return found
