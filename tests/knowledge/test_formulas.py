"""Formulas: read as written, computed as a naive interpreter would, undefined where they are."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore.errors import KnowledgeError
from fedlore.kernel.schema import name_columns
from fedlore.knowledge.formulas import Formula

from ..kernel.formula_trees import NAMES, SCHEMA, Undefined, rows, text, trees, value


def at(formula: str, **features: float) -> float:
    schema = name_columns(tuple(features) or ("x",), ("no", "yes"))
    row = torch.tensor([tuple(features.values()) or (0.0,)], dtype=torch.float64)
    return float(Formula.parse(formula, schema)(row))


@given(tree=trees(), some=st.lists(rows(), min_size=1, max_size=4))
def test_a_formula_is_what_a_naive_interpreter_makes_of_it(tree, some):
    found = Formula.parse(text(tree), SCHEMA)(torch.tensor(some, dtype=torch.float64))
    for row, got in zip(some, found.tolist(), strict=True):
        features = dict(zip(NAMES, row, strict=True))
        try:
            wanted = value(tree, features)
        except Undefined:
            assert math.isnan(got)
            continue
        # rounding of library functions may turn a comparison or the edge of a domain
        nudged = [_value_or_nan(tree, _nudged(features, by)) for by in (-1e-9, 1e-9)]
        steady = all(math.isclose(n, wanted, rel_tol=1e-3, abs_tol=1e-6) for n in nudged)
        if steady:
            assert math.isclose(got, wanted, rel_tol=1e-6, abs_tol=1e-6)


def _nudged(features, by):
    return {name: number * (1 + by) + by for name, number in features.items()}


def _value_or_nan(tree, features):
    try:
        return value(tree, features)
    except Undefined:
        return math.nan


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("10 - 4 - 3", 3),
        ("16 / 4 / 2", 2),
        ("-2 ** 2", -4),
        ("2 ** 3 ** 2", 512),
        ("2 ^ 3", 8),
        ("2 ** -1", 0.5),
        ("2 * -3", -6),
        ("- - 3", 3),
        ("where(not 1 > 2 and 3 >= 3, 1, 0)", 1),
        ("where(1 > 2 or 2 != 2 or 3 == 3, 1, 0)", 1),
        ("where(1 > 2 and 1 > 2 or 3 > 2, 1, 0)", 1),
        ("where(not (1 < 2 or 2 < 1), 1, 0)", 0),
        ("min(3, 1, 2) + max(3, 1, 2)", 4),
        ("1e-3 + .5 + 2.", 2.501),
        ("log10(1000) + log(exp(2)) + sqrt(16) + abs(-3)", 12),
        ("\t1\n +\u00a01 ", 2),
    ],
)
def test_operators_bind_as_in_school(formula, wanted):
    assert at(formula) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "formula",
    ["1 / x", "log(x)", "log10(x)", "sqrt(x - 1)", "x ** -1", "(x - 8) ** (1 / 3)",
     "exp(1000 + x)", "1 / (1 / x)", "exp(log(x))", "min(1 / x, 5)", "(1 / x) ** 0",
     "1 ** (1 / x)", "where(1 / x > 3, 1, 0)", "where(1 / x < 3, 1, 0)",
     "where(not 0 / x == 0, 1, 0)", "where(0 / x != 0, 1, 0)",
     "where(x == 0 and 1 / x > 0, 1, 0)", "where(x != 0 or 1 / x > 0, 1, 0)"],
)  # fmt: skip
def test_what_is_undefined_stays_so(formula):
    assert math.isnan(at(formula, x=0.0))


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        ("where(x > 0, log(x), 7)", 7),
        ("where(x > 0 and log(x) > 3, 1, 8)", 8),
        ("where(log(x) > 3 and x > 0, 1, 8)", 8),
        ("where(x <= 0 or log(x) > 3, 9, 1)", 9),
        ("x ** 0", 1),
        ("0 * x", 0),
    ],
)
def test_what_is_not_asked_for_may_be_undefined(formula, wanted):
    assert at(formula, x=0.0) == wanted


@pytest.mark.parametrize("missing", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "formula", ["x", "x > 3", "x <= 3", "not x > 3", "x != 3", "min(x, 1)", "exp(x)", "1 / x"]
)
def test_a_missing_feature_is_not_a_no(missing, formula):
    whole = formula if "3" not in formula else f"where({formula}, 1, 0)"
    assert math.isnan(at(whole, x=missing))


@given(tree=trees(), n=st.integers(1, 70), start=st.integers(0, 30))
def test_a_row_does_not_depend_on_its_neighbours(tree, n, start):
    formula = Formula.parse(text(tree), SCHEMA)
    x = _rows(101)
    part = formula(x[start : start + n])
    assert torch.equal(part.isnan(), formula(x)[start : start + n].isnan())
    assert torch.equal(part.nan_to_num(), formula(x)[start : start + n].nan_to_num())


@pytest.mark.parametrize("formula", ["ash ** depth", "ash ** 2.5", "2.5 ** depth", "exp(vm / 10)"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_blocks_do_not_show(formula, dtype):
    x = _rows(40_000, dtype)
    whole = Formula.parse(formula, SCHEMA)(x)
    for rows_ in (slice(0, 1), slice(16_383, 16_386), slice(5, 20_000), slice(39_999, 40_000)):
        assert torch.equal(Formula.parse(formula, SCHEMA)(x[rows_]), whole[rows_])


def _rows(n, dtype=torch.float32):
    share = torch.rand(n, 4, generator=torch.Generator().manual_seed(n), dtype=dtype)
    low, high = torch.tensor([[f.low, f.high] for f in SCHEMA.features], dtype=dtype).T
    return low + (high - low) * share


def test_a_threshold_means_the_number_in_the_column():
    # 12.1 and 0.7 are not exact in single precision: above and below the decimal number
    schema = name_columns(("a", "b"), ("no", "yes"))
    formula = Formula.parse("where(a > 12.1 or b < 0.7, 1, 0)", schema)
    assert formula(torch.tensor([[12.1, 0.7]])).item() == 0
    assert formula(torch.tensor([[12.1, 0.7]], dtype=torch.float64)).item() == 0


def test_precision_is_that_of_the_rows():
    formula = Formula.parse("ash + vm", SCHEMA)
    assert formula(_rows(3)).dtype == torch.float32
    assert formula(_rows(3, torch.float64)).dtype == torch.float64
    assert formula(_rows(3).half()).dtype == torch.float32
    with pytest.raises(KnowledgeError, match="floating point"):
        formula(torch.zeros(3, 4, dtype=torch.int64))


def test_odd_inputs():
    constant = Formula.parse("5", SCHEMA)
    assert constant(_rows(3)).tolist() == [5, 5, 5]
    assert constant(_rows(1)[:0]).shape == (0,)
    assert Formula.parse("ash", SCHEMA)(_rows(1)[:0]).shape == (0,)
    assert Formula.parse("1 / 0", SCHEMA)(_rows(2)).isnan().all()
    assert Formula.parse("where(1 < 2, ash, 3)", SCHEMA)(_rows(2)).shape == (2,)
    with pytest.raises(KnowledgeError, match="4 columns of the schema"):
        constant(torch.zeros(3, 5))


def test_rows_in_any_memory_layout():
    formula = Formula.parse("ash ** depth + exp(depth)", SCHEMA)
    x = _rows(100)
    assert torch.equal(formula(x.T.contiguous().T), formula(x))
    assert not formula(x.clone().requires_grad_()).requires_grad


def test_equal_parts_are_computed_once():
    formula = Formula.parse("(ash + vm) * 2 - log(ash + vm)", SCHEMA)
    assert " ".join(step.op for step in formula.steps) == "column column + number * log -"


def test_a_formula_names_its_features():
    assert Formula.parse("flow - ash * flow", SCHEMA).features == ("ash", "flow")
    assert Formula.parse("1", SCHEMA).features == ()


def test_formulas_with_the_same_text_are_equal():
    assert Formula.parse("ash + 1", SCHEMA) == Formula.parse("ash + 1", SCHEMA)
    assert Formula.parse("ash + 1", SCHEMA) != Formula.parse("ash + 2", SCHEMA)


def test_intermediate_results_stay_small():
    formula = Formula.parse("min(ash + vm, 3) * exp(-depth) / flow + sqrt(ash) - 2", SCHEMA)
    x = _rows(200_000)
    with torch.profiler.profile(profile_memory=True) as profile:
        formula(x)
    live = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    assert 200_000 * 4 <= peak <= 10 * 200_000 * 4
