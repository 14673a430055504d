"""The algebra of what experts say, of classes and of numbers: the same laws on both axes."""

import math

import pytest
import torch

from fedlore.answers import Bins, Sets
from fedlore.answers.axis import (
    Classes,
    Line,
    axis_of,
    find_favoured,
    find_outside,
    name_class,
    share_right,
)
from fedlore.answers.measured import Measured
from fedlore.core.examples import Examples
from fedlore.errors import FedloreError, KnowledgeError

nan, inf = math.nan, math.inf
AXES = [Classes(("a", "b", "c"), True), Line(Bins(0.0, 9.0, 3))]
ROWS, X = torch.tensor([True, False]), torch.zeros(2, 1)
SAID = [torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), torch.tensor([4.0, nan]).double()]
SURE = [torch.tensor([[1.0, 0.0, 0.0]] * 2), torch.tensor([1.0, 1.0]).double()]
TIGHT = [
    torch.tensor([[True, False, False], [False, True, True]]),
    Sets.of(torch.tensor([0.0, 3.0]), torch.tensor([2.0, 9.0])),
]
LOOSE = [torch.ones(2, 3, dtype=torch.bool), Sets.whole(2, 0.0, 9.0, like=SAID[1])]


def same(one, other):
    if isinstance(one, Sets):
        return same(one.lower, other.lower) and same(one.upper, other.upper)
    return torch.allclose(one.double(), other.double(), rtol=0, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("at", [0, 1], ids=["classes", "numbers"])
def test_both_axes_obey_the_same_laws(at):
    axis, said, sure, tight, loose = (one[at] for one in (AXES, SAID, SURE, TIGHT, LOOSE))
    assert axis_of(said) == axis_of(tight) == type(axis)()
    assert axis.speaks(said).tolist() == [True, False]
    assert same(axis.choose(ROWS, said, sure), axis.choose(~ROWS, sure, said))
    assert same(axis.choose(ROWS, said, sure)[0], said[0])
    assert same(axis.choose(ROWS, said, sure)[1], sure[1])
    assert same(axis.silence(sure, ~ROWS), axis.fill_silence(sure[:1], ROWS))
    assert axis.speaks(axis.silence(sure, ~ROWS)).tolist() == [True, False]
    assert same(axis.whole(tight), loose)
    assert same(axis.meet(tight, loose), tight) and same(axis.join(tight, loose), loose)
    assert same(axis.where(ROWS, tight, loose)[:1], tight[:1])
    assert same(axis.where(ROWS, tight, loose)[1:], loose[1:])
    opened = axis.meet(axis.fill_whole(tight[:1], ROWS), loose)
    assert same(opened[:1], tight[:1]) and same(opened[1:], loose[1:])
    assert axis.empty(tight).tolist() == [False, False]
    assert axis.find_conflicts(said, tight).tolist() == [True, False]
    assert axis.find_conflicts(said, loose).tolist() == [False, False]
    assert axis.find_conflicts(said, None).tolist() == [False, False]
    assert same(axis.move_inside(said, loose), said) and same(axis.move_inside(said, None), said)
    assert same(axis.check_prediction(said, 2), said)
    assert same(axis.check_range(tight, X, None), tight)
    noted = axis.annotate(axis.rows(X), said, tight)
    assert axis.read(noted) == (said, tight) and same(noted.x, X)


def test_a_prediction_is_restricted_to_classes_and_moved_to_the_nearest_number():
    classes, line = AXES
    half = torch.tensor([[0.2, 0.6, 0.2], [1.0, 0.0, 0.0]])
    assert same(
        classes.move_inside(half, TIGHT[0] ^ True), torch.tensor([[0, 0.75, 0.25], [1, 0, 0]])
    )
    assert same(line.move_inside(SAID[1], TIGHT[1]), torch.tensor([2.0, nan]))
    whole = torch.tensor([[0, 2, 0]])
    assert classes.prediction(whole, X).is_floating_point() and classes.range(whole, X).any()
    assert classes.prediction(half.double(), X).dtype == torch.float64
    mean = classes.average([half, torch.zeros(2, 3), SURE[0]], [1.0, 5.0, 3.0])
    assert same(mean, torch.tensor([[0.8, 0.15, 0.05], [1.0, 0.0, 0.0]]))
    assert classes.average([half * 0, SURE[0] * 0], [1.0, 1.0]).sum() == 0.0
    labels = torch.tensor([1, 2])
    assert classes.miss(half, labels).tolist() == [0.0, 1.0]
    assert classes.find_outside(TIGHT[0], labels).tolist() == [True, False]
    assert line.miss(SAID[1][:1], torch.tensor([6.5])).tolist() == [2.5]
    assert line.find_outside(TIGHT[1], torch.tensor([2.0, 2.9]).double()).tolist() == [False, True]
    wild = line.check_prediction(torch.tensor([inf, -inf]), 2)
    assert wild.isnan().all() and wild.dtype == torch.float64
    beyond = Sets.of(torch.tensor([-5.0, 20.0]), torch.tensor([3.0, 30.0]))
    closed = torch.tensor([False, False])
    assert same(
        line.check_range(beyond, X, closed), Sets.of(torch.zeros(2), torch.tensor([3.0, 9.0]))
    )
    assert same(line.check_range(TIGHT[1], X, ~ROWS)[1:], LOOSE[1][1:])
    assert same(Line().whole(TIGHT[1]), Sets.whole(2, -inf, inf))


@pytest.mark.parametrize(
    ("say", "message"),
    [
        (lambda a, _: a.check_prediction(torch.zeros(2, 2), 2), r"shape \(2, 3\), got \(2, 2\)"),
        (lambda a, _: a.check_prediction(torch.zeros(3), 3), r"shape \(3, 3\), got \(3,\)"),
        (lambda a, _: a.check_prediction(torch.zeros(1, 3), 2), r"the P-KM must .* got \(1, 3\)"),
        (lambda a, _: a.check_prediction(torch.tensor([[0.5, 0, 0]]), 1), r"row 0 is \[0.5, 0.0"),
        (lambda a, _: a.check_prediction(torch.tensor([[1.0, 0, 0], [2.0, -1, 0]]), 2), "row 1 is"),
        (lambda a, _: a.check_prediction(torch.tensor([[1.0002, 0, 0]]), 1), "must be one-hot"),
        (lambda a, _: a.check_range(torch.zeros(1, 3), X, None), r"the R-KM must .* got \(1, 3\)"),
        (lambda a, _: a.check_range(torch.full((2, 3), 2), X, None), "booleans \\(or 0 and 1\\)"),
        (
            lambda a, _: a.check_range(torch.eye(3)[:2] * 0, X, None),
            "2 rows are empty, first row 0",
        ),
        (lambda a, _: a.find_conflicts(SAID[0], TIGHT[0][:, :2]), "knows 3 classes, the R-KM 2"),
        (lambda a, _: a.meet(TIGHT[0], TIGHT[0][:, :2]), "all ranges must have the same shape"),
        (lambda a, _: a.average([SAID[0], SAID[0][:, :2]], [1, 1]), "all predictions must have"),
        (lambda _, b: b.prediction(X, X), "a formula must give one number per row"),
        (
            lambda _, b: b.prediction(torch.tensor([1, 2]), X),
            "one number per row, .* got torch.int",
        ),
        (lambda _, b: b.check_prediction(X, 2), r"the P-KM must give one number .* \(2, 1\)"),
        (lambda _, b: b.check_prediction(torch.tensor([1]), 1), "got torch.int64"),
        (lambda _, b: b.average([], []), "numbers are not averaged"),
        (lambda _, b: b.check_range(X, X, None), "must give Sets for 2 rows, got Tensor of 2 rows"),
        (lambda _, b: b.check_range(None, X, None), "got NoneType$"),
        (lambda _, b: b.check_range(TIGHT[1][:1], X, None), "got Sets of 1 rows"),
        (
            lambda _, b: b.check_range(Sets.whole(2, 9.5, 10.0), X, None),
            r"a number in \[0.0, 9.0\]: 2 do not, first row 0 is \[9.5\] to \[10.0\]",
        ),
        (lambda _, b: Line().check_range(TIGHT[1], X, None), "a number needs bins"),
    ],
)
def test_what_an_expert_must_not_say_is_refused(say, message):
    with pytest.raises(KnowledgeError, match=message):
        say(*AXES)


def test_labels_outside_are_refused_or_left_by_the_policy():
    x, none = torch.zeros(3, 1), None
    y, allowed = torch.tensor([0, 1, 0]), torch.tensor([[True, False, False]] * 3)
    classes, line = AXES
    for rows in (
        Examples(x, y),
        Examples(x, none, allowed=allowed),
        Examples(x, y, allowed=~allowed),
    ):
        for outside in ("widen", "drop"):
            assert classes.admit(rows, outside) is rows
    assert classes.admit(Examples(x, none, allowed=allowed), "error").y is None
    with pytest.raises(KnowledgeError, match="1 labels lie outside their range, first row 1"):
        classes.admit(Examples(x, y, allowed=allowed), "error")

    def measured(values, high):
        return Measured(x, torch.tensor(values), sets=Sets.whole(3, 0.0, high), cut=line.bins)

    fine, off = measured([0.0, 1.0, 2.0], 2.0), measured([0.0, 5.0, 2.0], 2.0)
    assert line.admit(fine, "error") is fine and line.admit(off, "widen") is off
    assert line.admit(off, "drop").y.tolist() == [0.0, 2.0]
    with pytest.raises(
        KnowledgeError, match="1 labels lie outside their set, first row 1 with 5.0"
    ):
        line.admit(off, "error")
    with pytest.raises(FedloreError, match="every label is outside its set"):
        line.admit(measured([3.0, 3.0, 3.0], 2.0), "drop")
    with pytest.raises(FedloreError, match="numbers must lie in"):
        line.admit(measured([0.0, 9.5, 2.0], 9.0), "widen")


def test_who_is_right_among_several_that_an_expert_favours():
    prior = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.3, 0.3, 0.4]])
    favoured = find_favoured(prior)
    assert favoured.long().tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 1]]
    assert name_class(favoured).tolist() == [-1, 2, -1, 2]
    assert share_right(favoured, torch.tensor([0, 2, 0, 1])).tolist() == [0.5, 1.0, 0.0, 0.0]
    anything = torch.ones(4, 3, dtype=torch.bool)
    assert find_outside(anything, torch.tensor([-1, 0, 2, 3])).tolist() == [
        True,
        False,
        False,
        True,
    ]
