"""Bounds enclose every value, and what is said of a whole scope is true of its rows."""

import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlore.errors import KnowledgeError
from fedlore.kernel.answers import value
from fedlore.kernel.enclosure import Boxes, never_above
from fedlore.kernel.expressions import numbers_in, parse
from fedlore.kernel.intervals import LIBRARY, Arithmetic
from fedlore.kernel.knowledge import scope_of
from fedlore.kernel.prove import always_defined
from fedlore.kernel.schema import Feature, Schema, name_columns
from fedlore.kernel.search import Scope
from fedlore.knowledge.formulas import Formula, FormulaRange
from fedlore.knowledge.regions import never_crossed, never_reached, stays_among, stays_between

from .formula_trees import SCHEMA, rows, text, trees

X = name_columns(("x",), ("no", "yes"))
XY = Schema((Feature("x", low=0.0, high=1.0), Feature("y", low=-1.0, high=1.0)), ("no", "yes"))


def bounds(formula, low, high):
    return Formula.parse(formula, X).bounds(((low, high),))


def enclose(formula, low, high, dtype=np.float32):
    """The interval of a formula over boxes (b, d)."""
    low, high = np.atleast_2d(np.asarray(low, float)), np.atleast_2d(np.asarray(high, float))
    return Boxes(low, high, Arithmetic(dtype)).interval(formula.tree)


def below(lower, upper):
    """Whether intervals show an order over the whole scope of x and y, before any row is tried."""
    boxes = Boxes(np.array([[0.0, -1.0]]), np.array([[1.0, 1.0]]))
    return bool(never_above(*(parse(t, XY.features) for t in (lower, upper)), boxes)[0])


@given(tree=trees(), row=rows())
def test_a_box_of_one_point_is_computed(tree, row):
    formula = Formula.parse(text(tree), SCHEMA)
    for dtype, kind in ((np.float32, torch.float32), (np.float64, torch.float64)):
        found = enclose(formula, row, row, dtype)
        computed = float(formula(torch.tensor([row], dtype=kind)))
        if math.isfinite(computed):
            assert found.low <= computed <= found.high
    if math.isfinite(computed) and abs(computed) <= 1e6:  # of double precision
        assert found.high - found.low <= 1e-6 * max(1.0, abs(computed))


@pytest.mark.parametrize(
    ("formula", "box", "wanted"),
    [
        ("x * x", (-2, 3), (0, 9)),
        ("x ** 2", (-2, 3), (0, 9)),
        ("x ** 3", (-2, 3), (-8, 27)),
        ("x ** -1", (2, 4), (0.25, 0.5)),
        ("x ** -1", (-4, -2), (-0.5, -0.25)),
        ("x ** -2", (-4, -2), (0.0625, 0.25)),
        ("1 / x", (0, 2), (0.5, math.inf)),
        ("1 / x", (-2, 0), (-math.inf, -0.5)),
        ("1 / x", (-1, 1), (-math.inf, math.inf)),
        ("abs(x)", (-2, 1), (0, 2)),
        ("abs(x)", (-2, -1), (1, 2)),
        ("min(x, 1) + max(x, 1)", (0, 3), (1, 4)),
        ("sqrt(x)", (-4, 9), (0, 3)),
        ("log(x)", (-1, 1), (-math.inf, 0)),
        ("exp(x)", (0, 0), (1, 1)),
        ("where(x > 1, 10, 20)", (0, 1), (20, 20)),
        ("where(x > 1, 10, 20)", (0, 2), (10, 20)),
        ("where(x > 1, x, 5)", (0, 3), (1, 5)),
        ("where(x >= 1 and x < 2, x, 1)", (-9, 9), (1, 2)),
        ("where(not (x < 1 or x > 2), x, 1)", (-9, 9), (1, 2)),
        ("where(x == 3, x, 0)", (0, 9), (0, 3)),
        ("0 * x", (-math.inf, math.inf), (0, 0)),
        ("x - 1", (-math.inf, 5), (-math.inf, 4)),
        ("exp(-x)", (0, math.inf), (0, 1)),
    ],
)
def test_bounds_are_tight_where_they_can_be(formula, box, wanted):
    # library functions may be off by units in the last place, all else is rounded outwards once
    assert bounds(formula, *box) == pytest.approx(wanted, rel=2e-6, abs=1e-12)


@pytest.mark.parametrize(
    "formula", ["log(-1 - x)", "sqrt(-1 - x)", "1 / (x - x)", "log(x) + log(-x)"]
)
def test_what_never_has_a_value_has_no_bounds(formula):
    low, high = bounds(formula, 0.0, 0.0)
    assert math.isnan(low) and math.isnan(high)


@pytest.mark.parametrize(
    "formula",
    [
        "where(" * 40 + "x" + " > 1, 2, 3)" * 40,
        "where(x > 1, " * 45 + "x" + ", 3)" * 45,
        "where(x > 0 and " * 24 + "x > 1" + ", 2, 3) > 0" * 23 + ", 2, 3)",
        "where(" + " and ".join(["x > 1"] * 120) + ", 1, 0)",
        "where(" + " or ".join(f"x / {i} > 1" for i in range(1, 80)) + ", 1, 0)",
    ],
    ids=["conditions", "branches", "guards", "and", "or"],
)
def test_twisted_formulas_take_no_longer(formula):
    start = time.process_time()
    low, high = bounds(formula, -5.0, 5.0)
    assert -5 <= low <= high <= 5
    assert time.process_time() - start < 1.0


def test_the_box_is_checked():
    formula = Formula.parse("x", X)
    with pytest.raises(KnowledgeError, match="all 1 features, got 2"):
        formula.bounds(((0, 1), (0, 1)))
    with pytest.raises(KnowledgeError, match="low <= high"):
        formula.bounds(((1, 0),))


def test_the_scope_is_the_default_box():
    schema = Schema((Feature("a", low=1, high=2), Feature("s", levels=("p", "q"))), ("no", "yes"))
    assert scope_of(schema.features).high.tolist() == [2, 1]
    assert Formula.parse("2 * a", schema).bounds() == (2, 4)


def defined(formula, low, high):
    return always_defined(parse(formula, X.features), Scope.of([(low, high)]))


@pytest.mark.parametrize(
    "formula",
    [
        "where(x > 0, log(x), 0)",
        "where(x > 0 and log(x) > 1, 1 / log(x), 0)",
        "where(x <= 0 or log(x) < 1, 0, sqrt(log(x) - 1))",
        "where(x != 0, 1e-9 / abs(x), 0)",
        "where(abs(x) > 1e-30, 100 / abs(x), 0)",
        "where(x - 3.3 > 0, log(x - 3.3), 0)",
        "where(x > 3.3, log(x - 3.3), 0)",
        "where(abs(x) < 1, sqrt(1 - abs(x)), 2)",
        "1 / (1 + min(abs(x), 1e9) ** 2)",
        "sqrt(abs(x)) + exp(-abs(x)) + log(max(x, 1))",
    ],
)
@pytest.mark.parametrize("side", [(-7.0, 9.0), (-math.inf, math.inf)])
def test_guards_are_understood(formula, side):
    assert defined(formula, *side).status == "proved"


@pytest.mark.parametrize(
    "formula",
    [
        "1 / x",
        "log(x)",
        "sqrt(x)",
        "1 / (x - 3.3)",
        "x ** 0.5",
        "exp(x * 100)",
        "where(1/x>1,1,2)",
        "where(x != 0, 1 / x, 0)",  # 1 / 1e-40 is beyond single precision
        "where(x == 0, 1, 5 / x)",
    ],
)
def test_what_can_be_undefined_is_shown(formula):
    found = defined(formula, -7.0, 9.0)
    assert found.status == "refuted"
    assert found.example is not None
    row = torch.tensor([found.example])
    assert Formula.parse(formula, X)(row).isnan().all()


@pytest.mark.parametrize("formula", ["1 / (1 + x ** 2)", "sqrt(x * x)", "2 * x", "x * x - x * x"])
def test_without_a_scope_numbers_overflow(formula):
    found = defined(formula, -math.inf, math.inf)
    assert found.status == "refuted" and found.example is not None
    assert Formula.parse(formula, X)(torch.tensor([found.example])).isnan().all()
    assert defined(formula, -1e9, 1e9).status == "proved"


def test_an_exhausted_budget_is_admitted():
    # x·y - y·x is written in two ways on purpose: no interval can see that it is 0
    schema = name_columns(("x", "y"), ("no", "yes"))
    tree = parse("1 / (1 + (x * y - y * x) ** 2 - (x * y - y * x))", schema.features)
    found = always_defined(tree, Scope.of([(0.0, 9.0), (0.0, 9.0)]), budget=500)
    assert (found.status, found.example) == ("unknown", None)
    assert found.boxes <= 500


COAL = Schema(
    (
        Feature("c", low=0, high=90),
        Feature("h", low=0, high=8),
        Feature("o", low=0, high=50),
        Feature("s", low=0, high=10),
    ),
    ("1", "2", "3", "4", "5", "6"),
)
EDGES = (5.0, 10.0, 20.0, 25.0, 30.0)
DULONG = "0.337*c + 1.442*(h - o/8) + 0.093*s"


GRADES = np.array(EDGES, np.float32)
SCOPE = scope_of(COAL.features)


def coal(formula):
    return None if formula is None else parse(formula, COAL.features)


def within(formula, lower, upper):
    return stays_between(coal(formula), (coal(lower), coal(upper)), SCOPE, GRADES)


def grades(formula, row):
    return np.searchsorted(GRADES, value(coal(formula), np.array([row], np.float32)), "right")


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (f"{DULONG} - 1.2", f"{DULONG} + 1.2"),
        (DULONG, DULONG),
        (f"max(0, {DULONG} - 1.2) - 10", f"min({DULONG} + 1.2, 46)"),
        (None, "0.337*c + 1.442*h + 0.2*s"),
        (None, "where(c > 10, 99, 42)"),
        ("-10", None),
        (f"log(-1) + {DULONG}", None),
        (f"{DULONG} - exp(s)", f"max({DULONG}, 3 * h)"),
    ],
)
def test_a_prediction_inside_its_range_is_proved(lower, upper):
    assert within(DULONG, lower, upper).status == "proved"


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(None, f"{DULONG} - 0.1"), (f"{DULONG} + 4", None), ("0.3 * c", "0.4 * c"), (None, "29.9")],
)
def test_a_prediction_outside_its_range_is_shown(lower, upper):
    found = within(DULONG, lower, upper)
    assert found.status == "refuted"
    row = np.array(found.example)
    assert ((SCOPE.low <= row) & (row <= SCOPE.high)).all()
    said = grades(DULONG, row)
    assert (lower and said < grades(lower, row)) or (upper and said > grades(upper, row))


def test_a_prediction_is_held_against_a_set_on_a_box():
    pkm = coal("0.3 * c")  # 0 to 27
    assert stays_among(pkm, [True] * 5 + [False], GRADES, SCOPE).status == "proved"
    assert stays_among(pkm, [True] * 4 + [False, True], GRADES, SCOPE).status == "refuted"
    part = Scope.of(((0.0, 60.0), (0.0, 8.0), (0.0, 50.0), (0.0, 10.0)))  # 0 to 18
    assert stays_among(pkm, [True] * 3 + [False] * 3, GRADES, part).status == "proved"


@pytest.mark.parametrize(("number", "status"), [(3, "refuted"), (50, "proved"), (61, "refuted")])
def test_a_number_is_held_against_formulas_on_a_box(number, status):
    box = Scope.of(((0.9, 1.1), (0.0, 9.0), (0.0, 1.0), (0.0, 1.0)))
    edges, sides = np.array([40.0, 60.0]), (coal("45 * c"), coal("52 * c"))  # 40.5 to 57.2
    assert stays_between(("number", float(number)), sides, box, edges).status == status


def test_classes_that_no_row_gets_are_found():
    found = never_reached(coal("where(c > 45, 22, 12 + 0.1 * h)"), GRADES, SCOPE)
    assert [one.status for one in found] == [
        "proved",
        "proved",
        "refuted",
        "refuted",
        "proved",
        "proved",
    ]
    for grade in (2, 3):
        assert grades("where(c > 45, 22, 12 + 0.1 * h)", found[grade].example) == grade


def test_a_rare_class_is_found_by_halving():
    # above 30 only within 3e-4 of a plane, which no random point hits
    pkm = coal("29 + 1.001 / (1 + (c - 3.1 * h - 31.7 - 30.05) ** 2 * 1e4)")
    found = never_reached(pkm, GRADES, SCOPE)[5]
    assert found.status == "refuted"
    assert found.boxes > 0


def test_crossing_limits_are_found():
    def found(lower, upper):
        return never_crossed(coal(lower), coal(upper), SCOPE)

    assert found(f"{DULONG} - 1", f"{DULONG} + 1").status == "proved"
    assert found("min(c, 3)", "max(c, 2)").status == "proved"
    crossed = found(f"max(0, {DULONG} - 1)", f"{DULONG} + 1")
    assert crossed.status == "refuted"
    sides = (Formula.parse(t, COAL) for t in (f"max(0, {DULONG} - 1)", f"{DULONG} + 1"))
    with pytest.raises(KnowledgeError, match="exceeds"):
        FormulaRange(*sides, EDGES)(torch.tensor([crossed.example]))


@given(tree=trees(depth=3), data=st.data())
@settings(max_examples=60)
def test_verdicts_agree_with_rows(tree, data):
    """No row contradicts a proof, and every counterexample is one."""
    one, other = (parse(text(t), SCHEMA.features) for t in (tree, data.draw(trees(depth=2))))
    drawn = np.array(data.draw(st.lists(rows(), min_size=20, max_size=20)), np.float32)
    edges, scope = np.array([3.0]), scope_of(SCHEMA.features)
    found = stays_between(one, (None, other), scope, edges, budget=300)

    def left(x):
        a, b = value(one, x), value(other, x)
        return (a >= 3) & (b < 3)

    if found.status == "proved":
        assert not left(drawn).any()
    elif found.status == "refuted":
        assert left(np.array([found.example], np.float32)).all()


def test_nested_extremes_take_no_longer():
    """Taking min and max apart is bounded, or twenty of them would take years."""
    small = large = "x"
    for i in range(20):
        small, large = f"min({small}, {i} * x)", f"max({large}, {i} - x)"
    pair = (parse(one, X.features) for one in (small, large))
    start = time.process_time()
    found = never_crossed(*pair, Scope.of([(-2.0, 3.0)]), budget=200)
    assert found.status in ("proved", "unknown")
    assert time.process_time() - start < 10.0


def test_what_may_be_undefined_on_the_left_narrows_nothing_on_the_right():
    formula = Formula.parse("where((x > 0 * sqrt(x)) and (x < -0.5), 1, 2)", X)
    assert formula(torch.tensor([[-0.8]])).isnan().all()  # undefined and true
    assert enclose(formula, [-1.0], [1.0]).undefined.all()


def test_what_differs_from_an_interval_may_still_be_at_its_end():
    formula = Formula.parse("where(x != y, log(x), 0)", name_columns(("x", "y"), ("no", "yes")))
    assert enclose(formula, [0.0, 0.0], [1.0, 1.0]).undefined.all()  # x = 0, y = 1


def test_a_column_is_bounded_as_single_precision_has_it():
    for one in (0.1, 0.3, 1e9 + 1):
        assert bounds("x", one, one) == (float(np.float32(one)),) * 2


@pytest.mark.parametrize("formula", ["exp(x)", "log(x)", "sqrt(x)", "x ** 1.5"])
def test_library_functions_may_be_off_by_units_in_the_last_place(formula):
    at = float(np.float32(1.7))
    exact = {"exp(x)": np.exp, "log(x)": np.log, "sqrt(x)": np.sqrt}.get(formula, lambda v: v**1.5)
    low, high = bounds(formula, at, at)
    off = LIBRARY * 2**-23 * float(exact(at))
    assert low <= exact(at) - off * 0.9 and high >= exact(at) + off * 0.9


CROSSING = {  # lower, upper, and a row where they cross
    "a spike behind a small factor": (
        "1e-14 * where(abs(3*x - 1.2345) < 0.0003, 1e20, 0)",
        "1",
        (0.4115, 0.0),
    ),
    "a sum that rounds": ("(1e9 + y) - 1e9", "y + 0.1", (0.0, -0.9)),
    "what single precision takes for 0": ("where(exp(-200*x) > 0, 1, 5)", "2", (0.9, 0.0)),
    "a negative zero": ("(-min(y, 0)) ** (-3)", "1", (0.0, -0.1)),
    "numbers that are hardly positive": ("where(x > 0, -log(x), 0)", "80", (1e-38, 0.0)),
    "one argument of min": ("x", "min(x + 1, y)", (1.0, -1.0)),
    "one argument of max": ("max(x - 1, 0.5)", "x", (0.0, 0.0)),
    "products of negative numbers": ("(y - 2) * (y - 2)", "(y - 1) * (y - 1)", (0.0, -1.0)),
    "a negative factor": ("x * (0 - y * y)", "(x + 1) * (0 - y * y)", (0.0, 1.0)),
    "what is taken away may be negative": ("x - y", "x", (0.0, -1.0)),
    "what is added may be negative": ("x", "x + y", (1.0, -1.0)),
}


def crossed(lower, upper):
    return never_crossed(*(parse(t, XY.features) for t in (lower, upper)), scope_of(XY.features))


@pytest.mark.parametrize(("lower", "upper", "row"), CROSSING.values(), ids=CROSSING)
def test_limits_that_cross_somewhere_are_not_proved(lower, upper, row):
    with pytest.raises(KnowledgeError, match="exceeds"):
        FormulaRange(*(Formula.parse(t, XY) for t in (lower, upper)), (0.5,))(torch.tensor([row]))
    assert crossed(lower, upper).status == "refuted"
    assert not below(lower, upper)


ORDERED = {
    "what both share cancels": ("x * y + 0.3 * x - 1", "0.3 * x + x * y"),
    "rounding keeps the order": ("0.3 * (x - y * y) + y", "0.3 * x + y"),
    "more of what is positive": ("0.1 * x - 0.5", "x * 1 + 0.2"),
    "both arguments of min": ("x - 1", "min(x, y + 1)"),
    "either argument of max": ("x", "max(y, x)"),
    "rounded outwards, but not by much": ("exp(x)", "2.7183"),
}


@pytest.mark.parametrize(("lower", "upper"), ORDERED.values(), ids=ORDERED)
def test_what_never_crosses_is_still_proved(lower, upper):
    assert crossed(lower, upper).status == "proved"
    assert below(lower, upper)


@pytest.mark.parametrize("formula", ["x * 1e-30", "x / 1e30", "x ** 5", "exp(-x * 9e10)"])
def test_subnormal_numbers_may_be_taken_for_zero(formula):
    """A runtime that flushes them gets 0, another one does not: both count."""
    found = enclose(Formula.parse(formula, XY), [1e-9, 0.0], [2e-9, 0.0])
    assert found.low == 0 < found.high < 1.2e-38
    negative = enclose(Formula.parse(f"-({formula})", XY), [1e-9, 0.0], [2e-9, 0.0])
    assert negative.high == 0 > negative.low


def test_a_small_weight_before_a_large_number_is_not_dropped():
    """0.1 * x and x / 10 are not the same number: what is left of them is bounded."""
    assert not below("0.1 * x * 1e9", "x * 1e9 / 10")
    assert below("0.1 * x * 1e9", "x * 1e9 / 10 + 100")


def test_a_quotient_near_zero_overflows():
    found = always_defined(parse("where(y != 0, 1 / y, 0)", XY.features), scope_of(XY.features))
    assert found.status == "refuted" and 0 < abs(found.example[1]) < 1e-38


NAMES = ("x", "y", "z")
XYZ = name_columns(NAMES, ("no", "yes"))
SINGLE = np.float32
NUMBERS = (0.0, 1.0, 2.0, 3.0, 0.5, 0.1, 12.1, 100.0, 1e-3, 1e-30, 1e20, 3e38, 1.2e-38, 200.0)
AWKWARD = [
    0.0,
    -0.0,
    2.0**-149,
    2.0**-126,
    2.0**-126 - 2.0**-149,
    3.4028234663852886e38,
    1e19,
    1e-20,
]


def draw_tree(draw, depth):
    """A formula as text, with every operator and awkward numbers."""
    if depth == 0 or draw.random() < 0.15:
        name = NAMES[draw.integers(3)]
        return name if draw.random() < 0.6 else repr(float(draw.choice(NUMBERS)))
    part = [draw_tree(draw, depth - 1) for _ in range(3)]
    kind = draw.integers(10)
    if kind < 5:
        op = ("+", "-", "*", "/", "**")[draw.integers(5)]
        if op == "**" and draw.random() < 0.7:
            part[1] = ("2", "3", "(-1)", "(-2)", "(-3)", "0.5", "(-0.5)", "1", "0")[
                draw.integers(9)
            ]
        return f"({part[0]} {op} {part[1]})"
    if kind < 8:
        op = ("-", "log", "log10", "exp", "sqrt", "abs")[draw.integers(6)]
        return f"(-{part[0]})" if op == "-" else f"{op}({part[0]})"
    if kind == 8:
        return f"{('min', 'max')[draw.integers(2)]}({part[0]}, {part[1]})"
    truth = f"{part[2]} {('<', '<=', '>', '>=', '==', '!=')[draw.integers(6)]} {draw_tree(draw, 1)}"
    if draw.random() < 0.3:
        other = f"{draw_tree(draw, 1)} > {draw_tree(draw, 0)}"
        truth = f"({truth}) {('and', 'or')[draw.integers(2)]} not ({other})"
    return f"where({truth}, {part[0]}, {part[1]})"


def near(numbers):
    """Numbers with their neighbours in single precision, either sign."""
    with np.errstate(over="ignore"):
        found = np.array([*numbers, *AWKWARD], SINGLE)
        found = np.concatenate([found, -found])
        ways = [np.nextafter(found, SINGLE(way)) for way in (-np.inf, np.inf)]
    found = np.concatenate([found, *ways])
    return found[np.isfinite(found)]


def check_formula(draw, count):
    """Bounds of one formula over some boxes, against points of each; those that were violated."""
    text = draw_tree(draw, draw.integers(1, 5))
    formula = Formula.parse(text, XYZ)
    spots = near(sorted(numbers_in(formula.tree)))
    ends = np.where(
        draw.random((2, count, 3)) < 0.7,
        draw.choice(spots, (2, count, 3)),
        draw.normal(0, 10.0 ** draw.integers(-3, 4), (2, count, 3)).astype(SINGLE),
    )
    low, high = ends.min(0), ends.max(0)  # (boxes, 3)
    share = draw.random((count, 24, 3))
    share[:, :8] = share[:, :8].round()
    with np.errstate(over="ignore"):
        wide = low[:, None].astype(float) * (1 - share) + high[:, None].astype(float) * share
    x = np.where(draw.random(wide.shape) < 0.4, draw.choice(spots, wide.shape), wide)
    x = x.astype(SINGLE).clip(low[:, None], high[:, None])  # (boxes, 24, 3)
    rows = x.reshape(-1, 3)
    wrong = []
    for dtype, kind in ((np.float32, torch.float32), (np.float64, torch.float64)):
        found = enclose(formula, low, high, dtype)
        computed = formula(torch.from_numpy(rows).to(kind)).double().numpy().reshape(count, -1)
        known, ends = np.isfinite(computed), (found.low[:, None], found.high[:, None])
        wrong.append(_outside(text, f"torch, {dtype}", computed, known, *ends))
        if not (known | found.undefined[:, None]).all():
            wrong.append(f"{text}: undefined where it should not be, {dtype}")
        if dtype == np.float32:
            again = value(formula.tree, rows).astype(float).reshape(count, -1)
            wrong.append(_outside(text, "kernel", again, np.isfinite(again), *ends))
    return [one for one in wrong if one]


def _outside(text, who, computed, known, low, high):
    with np.errstate(invalid="ignore"):
        bad = known & ~((low <= computed) & (computed <= high))
    if not bad.any():
        return None
    box, row = np.argwhere(bad)[0]
    return f"{text} ({who}): {computed[box, row]!r} outside {low[box, 0]!r} to {high[box, 0]!r}"


def hunt(formulas, seed, boxes=6):
    wrong = []
    draw = np.random.default_rng(seed)
    for _ in range(formulas):
        wrong += check_formula(draw, boxes)
    return wrong


def test_no_bound_is_violated():
    assert hunt(250, seed=1) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_no_bound_of_twenty_thousand_formulas_is_violated(part):
    assert hunt(2_000, seed=100 + part) == []
