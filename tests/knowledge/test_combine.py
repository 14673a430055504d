"""Several experts at once."""

from math import inf

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore.answers import Sets
from fedlore.core.examples import Examples
from fedlore.errors import KnowledgeError
from fedlore.kernel.schema import name_columns
from fedlore.knowledge import Knowledge, Mask, MaxPool
from fedlore.knowledge.combine import AllOf, AnyOf, Average, FirstOf
from fedlore.knowledge.conformal import ConformalRange
from fedlore.knowledge.formulas import Formula, FormulaRange, GradedFormula
from fedlore.knowledge.protocols import kind_of

X = torch.zeros(2, 1)


def says(*rows, dtype=torch.bool):
    """An expert who always answers the same."""
    return lambda x: torch.tensor(rows, dtype=dtype)


def predicts(*rows):
    return says(*rows, dtype=torch.float32)


def statistical():
    return ConformalRange(predicts([0.5, 0.5], [0.9, 0.1]), (0.6, 0.6), 0.1)


def allows(*rows):
    """A range of numbers that is always the same: one interval for each row."""
    low, high = torch.tensor(rows, dtype=torch.float64).T
    return lambda x: Sets.of(low, high)


@pytest.mark.parametrize(
    ("ranges", "word", "instead"),
    [
        (
            (says([1, 0], [1, 0]), says([1, 1], [0, 1])),
            "class",
            {"first": [[1, 0], [1, 0]], "all": [[1, 0], [1, 1]]},
        ),
        (
            (allows([0, 4], [0, 4]), allows([1, 9], [5, 9])),
            "number",
            {"first": [[1, 4], [0, 4]], "all": [[1, 4], [-inf, inf]]},
        ),
    ],
)
def test_sources_that_contradict_each_other_are_settled_alike_on_both_axes(ranges, word, instead):
    said = rf"range 2 \(function\) leaves no {word} of what range 1 \(function\) allows in 1 rows, "
    with pytest.raises(KnowledgeError, match=f"{said}first row 1"):
        AllOf(ranges)(X)
    for empty, wanted in instead.items():
        found = AllOf(ranges, empty=empty)(X)
        found = torch.cat([found.lower, found.upper], 1) if word == "number" else found.int()
        assert found.tolist() == wanted


def test_numbers_are_not_averaged():
    with pytest.raises(KnowledgeError, match="numbers are not averaged"):
        Average((lambda x: x[:, 0], lambda x: x[:, 0]))(X)


def test_the_first_range_wins_even_if_later_ones_disagree_among_themselves():
    ranges = (says([1, 1, 0], [1, 1, 0]), says([1, 0, 1], [0, 0, 1]), says([0, 0, 1], [0, 1, 1]))
    assert AllOf(ranges, empty="first")(X).int().tolist() == [[1, 1, 0], [1, 1, 0]]


@given(
    st.lists(
        st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=3, max_size=3),
        min_size=1,
        max_size=4,
    )
)
def test_sets_are_sets(tables):
    tables = [[[True, *row[1:]] for row in table] for table in tables]  # never empty
    x = torch.zeros(3, 1)
    every, some = AllOf(tuple(says(*t) for t in tables)), AnyOf(tuple(says(*t) for t in tables))
    for i in range(3):
        sets = [{c for c, yes in enumerate(table[i]) if yes} for table in tables]
        assert set(every(x)[i].nonzero().flatten().tolist()) == set.intersection(*sets)
        assert set(some(x)[i].nonzero().flatten().tolist()) == set.union(*sets)


def test_the_first_who_speaks_is_heard():
    first = FirstOf((predicts([0, 0], [1, 0]), predicts([0, 0], [0, 1]), predicts([0, 1], [0, 1])))
    assert first(X).tolist() == [[0, 1], [1, 0]]
    assert FirstOf((predicts([0, 0], [1, 0]),))(X).tolist() == [[0, 0], [1, 0]]


@given(st.integers(0, 1000), st.integers(1, 5))
def test_a_mean_of_distributions_is_one(seed, count):
    generator = torch.Generator().manual_seed(seed)
    spoken = torch.rand(count, 20, 1, generator=generator) < 0.7
    rows = torch.rand(count, 20, 4, generator=generator).softmax(2) * spoken
    experts = tuple((lambda x, r=r: r) for r in rows)
    weights = tuple((torch.rand(count, generator=generator) + 0.1).tolist())
    mean = Average(experts, weights)(torch.zeros(20, 1))
    heard = spoken.any(0).squeeze(1)
    assert torch.allclose(mean.sum(1), heard.float(), atol=1e-5)
    scale = torch.tensor(weights)[:, None, None]
    by_hand = (rows * scale).sum(0) / (spoken * scale).sum(0).clamp(min=1e-9)
    assert torch.allclose(mean, by_hand, atol=1e-5)


def test_the_door():
    for make in (AllOf, AnyOf, FirstOf, Average):
        with pytest.raises(KnowledgeError, match="at least one"):
            make(())
        with pytest.raises(KnowledgeError, match=r"same shape, got \(2, 2\) and \(2, 3\)"):
            make((says([1, 1], [1, 1]), says([1, 1, 1], [1, 1, 1])))(X)
        assert make([says([1, 1], [1, 1])]) is not None  # a list will do
    with pytest.raises(KnowledgeError, match="each of 1 predictions, got 2"):
        Average((predicts([1, 0], [1, 0]),), weights=(1, 2))
    with pytest.raises(KnowledgeError, match="error, first or all"):
        AllOf((says([1, 0], [1, 0]),), empty="last")  # type: ignore[arg-type]
    with pytest.raises(KnowledgeError, match="positive"):
        Average((predicts([1, 0], [1, 0]),), weights=(0,))


def test_the_kind_goes_through():
    certain = says([1, 1], [1, 1])
    for make in (AllOf, AnyOf):
        assert kind_of(make((certain, certain))) == "certain"
        assert kind_of(make((certain, statistical()))) == "statistical"
        assert kind_of(make((certain, AllOf((Mask((0,), statistical()),))))) == "statistical"
        assert kind_of(Mask((0,), make((certain, statistical())))) == "statistical"
    assert kind_of(MaxPool(2, certain)) == "certain"


def test_everything_composes():
    """A formula of two columns, a certain band and a statistical set, in one piece of knowledge."""
    schema = name_columns(("ro", "mbi"), ("poor", "fair", "good"))
    csr = Formula.parse("3.2 + 48.6 * ro - 6.9 * mbi", schema)
    pkm = GradedFormula(csr, (45.0, 60.0))
    band = FormulaRange(
        Formula.parse(f"{csr.text} - 10", schema),
        Formula.parse(f"{csr.text} + 10", schema),
        (45.0, 60.0),
    )
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(400, 3, generator=generator) + torch.tensor([0.6, 1.0, 0.0])
    value = 3.2 + 48.6 * x[:, 0] - 6.9 * x[:, 1] + 3 * torch.randn(400, generator=generator)
    y = torch.bucketize(value, torch.tensor([45.0, 60.0]), right=True)
    calibration, rest = Examples(x, y)[:200], Examples(x, y)[200:]
    soft = Mask((0, 1), Average((pkm, lambda x: torch.full((len(x), 3), 1 / 3))))
    rkm = AllOf(
        (Mask((0, 1), band), ConformalRange.calibrate(soft, calibration, alpha=0.1)), empty="first"
    )
    silent = Mask((2,), lambda x: torch.zeros(len(x), 3))
    knowledge = Knowledge(FirstOf((silent, Mask((0, 1), pkm))), rkm, trust=0.3, outside="widen")
    audit = knowledge.audit(rest)
    assert kind_of(rkm) == "statistical"
    assert audit.hits is not None and audit.hits > 0.7
    assert audit.abstained == audit.conflicts == 0
    assert audit.width is not None and audit.width < 3
