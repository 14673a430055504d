"""Numbers into classes, and formulas between edges."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore.core.examples import Examples
from fedlore.errors import KnowledgeError
from fedlore.kernel.schema import name_columns
from fedlore.knowledge import Knowledge
from fedlore.knowledge.formulas import Formula, FormulaRange, GradedFormula, GradeEdges
from fedlore.knowledge.protocols import kind_of

GRADES = ("III", "II", "I")
SCHEMA = name_columns(("csr", "spread"), GRADES)
EDGES = (55.0, 60.0)


def formula(text):
    return Formula.parse(text, SCHEMA)


def test_an_edge_means_the_number_in_the_column():
    # neither 0.7 nor 12.1 is exact in single precision
    assert GradeEdges((0.7, 12.1))(torch.tensor([0.7, 12.1])).tolist() == [1, 2]


@given(
    st.lists(st.integers(-50, 50), min_size=1, max_size=6, unique=True).map(sorted),
    st.lists(st.integers(-60, 60), min_size=1, max_size=20),
)
def test_classes_are_counted_edges(edges, values):
    found = GradeEdges(tuple(edges))(torch.tensor(values, dtype=torch.float32))
    assert found.tolist() == [sum(edge <= value for edge in edges) for value in values]


def test_every_class_has_its_interval():
    grading = GradeEdges(EDGES)
    assert [grading.interval(grade) for grade in range(3)] == [
        (-math.inf, 55),
        (55, 60),
        (60, math.inf),
    ]


@pytest.mark.parametrize(
    "edges", [(), (1, 1), (2, 1), (0, math.inf), (math.nan,), (1.0, 1.0 + 1e-9)]
)
def test_edges_must_increase(edges):
    with pytest.raises(KnowledgeError, match="edges"):
        GradeEdges(edges)


def test_a_graded_formula_is_one_hot_and_abstains_where_undefined():
    pkm = GradedFormula(formula("csr + 100 / spread"), EDGES)
    rows = pkm(torch.tensor([[10.0, 10.0], [50.0, 20.0], [50.0, 2.0], [50.0, 0.0]]))
    assert rows.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert pkm(torch.zeros(0, 2)).shape == (0, 3)


def test_any_function_of_rows_can_be_graded():
    pkm = GradedFormula(lambda x: x[:, 0] * 2, EDGES)
    assert pkm(torch.tensor([[30.0, 0.0]])).tolist() == [[0, 0, 1]]
    with pytest.raises(KnowledgeError, match="one number per row"):
        GradedFormula(lambda x: x, EDGES)(torch.zeros(3, 2))


def test_edges_must_fit_the_classes():
    with pytest.raises(KnowledgeError, match="3 classes need 2 edges, got 1"):
        GradedFormula(formula("csr"), (55.0,))
    with pytest.raises(KnowledgeError, match="3 classes need 2 edges, got 1"):
        FormulaRange(formula("csr"), None, (55.0,))


def test_a_range_holds_all_classes_it_touches():
    rkm = FormulaRange(formula("csr - spread"), formula("csr + spread"), EDGES)
    rows = rkm(torch.tensor([[50.0, 1.0], [50.0, 5.0], [57.0, 9.0], [55.0, 0.0], [62.0, 2.0]]))
    assert rows.int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 0], [0, 0, 1]]
    assert rows.dtype == torch.bool


def test_a_side_may_be_absent_or_undefined():
    x = torch.tensor([[57.0, 1.0], [57.0, 0.0]])
    assert FormulaRange(formula("csr"), None, EDGES)(x).int().tolist() == [[0, 1, 1], [0, 1, 1]]
    assert FormulaRange(None, formula("csr"), EDGES)(x).int().tolist() == [[1, 1, 0], [1, 1, 0]]
    undefined = FormulaRange(formula("csr / spread"), formula("csr / spread"), EDGES)
    assert undefined(x).int().tolist() == [[0, 1, 0], [1, 1, 1]]
    with pytest.raises(KnowledgeError, match="a lower or an upper"):
        FormulaRange(None, None, EDGES)


def test_crossed_limits_are_refused_or_say_nothing():
    lower, upper = formula("csr + spread"), formula("csr - spread")
    x = torch.tensor([[50.0, -1.0], [57.0, 1.0]])
    with pytest.raises(KnowledgeError, match="1 rows, first row 1: 58 > 56"):
        FormulaRange(lower, upper, EDGES)(x)
    rkm = FormulaRange(lower, upper, EDGES, crossed="all")
    assert rkm(x).int().tolist() == [[1, 0, 0], [1, 1, 1]]
    with pytest.raises(KnowledgeError, match="error or all"):
        FormulaRange(lower, upper, EDGES, crossed="swap")  # type: ignore[arg-type]


def test_limits_that_cross_by_rounding_are_one():
    rkm = FormulaRange(formula("csr * 1.0000001"), formula("csr"), EDGES)
    assert rkm(torch.tensor([[57.0, 0.0]])).int().tolist() == [[0, 1, 0]]


@given(st.lists(st.tuples(st.integers(40, 70), st.integers(0, 20)), min_size=1, max_size=30))
def test_a_band_around_a_prediction_always_holds_it(values):
    x = torch.tensor(values, dtype=torch.float32)
    knowledge = Knowledge(
        prediction=GradedFormula(formula("csr"), EDGES),
        range=FormulaRange(formula("csr - spread"), formula("csr + spread"), EDGES),
        conflict="error",
    )
    known = knowledge.annotate(Examples(x))
    assert known.prior is not None and known.allowed is not None
    assert (known.prior.bool() <= known.allowed).all()


def test_limits_of_an_expert_are_certain():
    assert kind_of(FormulaRange(formula("csr"), None, EDGES)) == "certain"
