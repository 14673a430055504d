"""What the prover knows of tables over boxes, against every row of a grid."""

import itertools
import random
from types import SimpleNamespace

import numpy as np
import pytest

from fedlore.errors import KnowledgeError
from fedlore.kernel.answers import said_of
from fedlore.kernel.cells import after
from fedlore.kernel.enclosure import Boxes
from fedlore.kernel.knowledge import Line, read_knowledge
from fedlore.kernel.sources import Grades, Limits, Soft, Table, soften, split

K, ENDS = 3, range(5)
STEPS = np.arange(0, 4.5, 0.5)  # every end, and a row between any two


def random_table(draw, policy):
    """One to four rules over two columns, with ends at whole numbers."""

    def spans():
        points = sorted(draw.sample(ENDS, 2))
        return [(points[0], points[1])] if draw.random() < 0.7 else [(p, p) for p in points]

    rules = []
    for _ in range(draw.randint(1, 4)):
        columns = draw.sample(range(2), draw.randint(0, 2))
        some = draw.sample(range(K), draw.randint(1, 2) if policy in ("intersect", "union") else 1)
        rules.append(SimpleNamespace(spans={c: spans() for c in columns}, outcome=tuple(some)))
    return Table("t", rules, policy, K)


def hits(table, row):
    """Which rules hit a row."""
    return [
        all(any(a <= row[c] <= z for a, z in spans) for c, spans in rule.spans.items())
        for rule in table.rules
    ]


def answer(table, row):
    """What a table says of one row: the classes that it allows or names, and whether it refuses."""
    said = [
        set(rule.outcome) for rule, hit in zip(table.rules, hits(table, row), strict=True) if hit
    ]
    if table.policy == "intersect":
        left = set.intersection(set(range(K)), *said)
        return left, not left
    if table.policy == "union":
        return (set.union(*said) if said else set(range(K))), False
    if table.policy == "unique":
        named = set().union(*said)
        return named, len(named) > 1
    return (said[0] if said else set()), False


def boxes_of(draw, many=12):
    ends = [[sorted(draw.choices(ENDS, k=2)) for _ in range(2)] for _ in range(many)]
    ends += [[[p, p] for p in draw.choices(ENDS, k=2)] for _ in range(many)]  # single rows
    corners = np.array(ends, dtype=float)
    return corners[:, :, 0], corners[:, :, 1]


def rows_in(low, high):
    axes = [STEPS[(a <= STEPS) & (z >= STEPS)] for a, z in zip(low, high, strict=True)]
    return list(itertools.product(*axes))


@pytest.mark.parametrize("policy", ["intersect", "union", "first", "priority", "unique"])
@pytest.mark.parametrize("seed", range(6))
def test_a_table_over_a_box_is_what_it_is_in_every_row(policy, seed):
    draw = random.Random(seed)
    table, (low, high) = random_table(draw, policy), boxes_of(draw)
    boxes = Boxes(low, high)
    may, sure, unsettled = table.over(boxes)
    speaks, safe = table.speaks(boxes), table.safe(boxes)
    limits = policy in ("intersect", "union")
    classes = table.sure(boxes) if limits else table.may_say(boxes)
    for b, (a, z) in enumerate(zip(low, high, strict=True)):
        rows = rows_in(a, z)
        hit = np.array([hits(table, row) for row in rows])
        assert (may[b] == hit.any(0)).all() and (~sure[b] | hit.all(0)).all()
        assert not unsettled[b][sure[b]].any() and not unsettled[b][~may[b]].any()
        assert unsettled[b][may[b] & ~sure[b]].any(1).all()
        said, refused = zip(*(answer(table, row) for row in rows), strict=True)
        found = set(np.flatnonzero(classes[b]).tolist())
        if limits:
            assert found <= set.intersection(*said)
        else:
            assert found >= set.union(*said)
        assert not speaks[b] or hit.any(1).all()
        assert not safe[b] or not any(refused)
        if (a == z).all():  # of a single row everything is decided
            assert (sure[b] == hit[0]).all() and speaks[b] == hit[0].any()
            assert found == said[0] and safe[b] == (not refused[0])


def test_a_table_changes_at_its_cuts_and_nowhere_else():
    rules = [
        SimpleNamespace(spans={0: [(1.0, 2.0)], 1: [(-np.inf, 3.0)]}, outcome=(0,)),
        SimpleNamespace(spans={0: [(2.0, np.inf), (0.5, 0.5)]}, outcome=(1,)),
    ]
    table = Table("t", rules, "first", K)
    assert table.cuts(0) == sorted([1.0, after(2.0), 2.0, 0.5, after(0.5)])
    assert table.cuts(1) == [after(3.0)] and table.cuts(2) == []
    assert table.columns == [0, 1]


@pytest.mark.parametrize("policy", ["unique", "union"])
def test_confidences_go_with_policies_that_settle_each_rule_alone(policy):
    table = random_table(random.Random(1), policy)
    with pytest.raises(KnowledgeError, match=f"confidences do not go with the policy {policy}"):
        soften(table, [0.9] * len(table.rules))
    assert soften(table, [1.0] * len(table.rules)) is table


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01])
def test_a_confidence_lies_above_nothing_and_at_most_at_one(share):
    with pytest.raises(KnowledgeError, match="does not lie between 0 and 1"):
        soften(random_table(random.Random(1), "first"), [share])


def test_rules_that_always_hold_are_split_from_those_that_mostly_do():
    rules = [SimpleNamespace(spans={0: [(i, i)]}, outcome=(i,)) for i in range(3)]
    table = Table("t", rules, "intersect", K)
    ((hard,), (soft,)) = split(soften(table, [1.0, 0.8, 1.0]))
    assert (hard.rules, soft.inner.rules) == ([rules[0], rules[2]], [rules[1]])
    assert soft.shares.tolist() == [0.8] and hard.policy == soft.inner.policy == "intersect"
    assert hard.k == soft.k == K and (soft.columns, soft.cuts(0)) == ([0], [1, after(1)])
    assert soft.safe(Boxes(*np.zeros((2, 4, 1)))).tolist() == [True] * 4
    assert split(table) == ([table], [])
    ((), (every,)) = split(soften(table, [0.7, 0.8, 0.9]))
    assert every.inner.rules == rules
    formula = Soft(Limits(None, None, Grades((1.0, 2.0)), "all"), np.array([0.9]))
    formula.inner.__dict__["trees"] = ["x"]  # what has formulas is soft as a whole
    assert formula.k == 3


def test_classes_that_numbers_between_two_ends_touch():
    grades = Grades((1.0, 2.0))
    low, high = np.array([0.0, 1.0, 0.5, 2.0, -9.0]), np.array([0.5, 1.0, 1.0, 9.0, 9.0])
    found = [np.flatnonzero(one).tolist() for one in grades.touched(low, high)]
    assert found == [[0], [1], [0, 1], [2], [0, 1, 2]]  # an edge belongs above


def test_pieces_of_a_line_that_lie_in_bounds_and_between_ends():
    pieces = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 2.0], [2.0, 3.0]])  # one is a single number
    line = Line(1.0, 3.0, "y", pieces)
    assert line.inside.tolist() == [False, True, True, True] and line.k == 4
    assert Line(0.0, 2.0, "y", pieces).inside.tolist() == [True, True, True, False]
    assert line.places([(0.0, 1.0)]) == (0, 1) and line.places([(1.0, 2.0), (2.0, 3.0)]) == (
        1,
        2,
        3,
    )
    assert line.places([(0.5, 1.5)]) == (1,)
    low, high = np.array([1.0, 0.5, 2.0, 1.5]), np.array([1.0, 1.0, 2.5, 1.5])
    found = [np.flatnonzero(one).tolist() for one in line.touched(low, high)]
    assert found == [[1], [0, 1], [3], [2]]


def test_a_table_that_leaves_nothing_refuses_the_row_whatever_is_said_of_the_whole_range():
    """`empty` is about what sources leave together: a table that contradicts itself is wrong."""
    text = (
        'classes = ["x", "y", "z"]\n[[features]]\nname = "a"\nlow = 0\nhigh = 10\n'
        '[range]\nempty = "all"\n'
        '[[range.sources]]\ntable = "t.csv"\nhit = "intersect"\n'
        '[[range.sources]]\ntable = "u.csv"\n'
    )
    tables = {"t.csv": "a,then\n< 5,x\n< 3,z\n", "u.csv": "a,then\n-,y..z\n"}
    found = said_of(read_knowledge({"knowledge.toml": text, **tables}), np.float32([[2], [4], [7]]))
    assert found.refused.tolist() == [True, False, False]
    assert found.allowed[1:].tolist() == [[True, True, True], [False, True, True]]


@pytest.mark.parametrize(("empty", "open_row"), [("first", {0, 1}), ("all", {0, 1, 2})])
def test_where_a_missing_value_might_leave_nothing_the_policy_speaks(empty, open_row):
    """Low ash allows a and b, high ash c; high sulphur allows c alone: a hole may be either."""
    texts = {
        "knowledge.toml": 'classes = ["a", "b", "c"]\n[[features]]\nname = "ash"\n'
        '[[features]]\nname = "sulphur"\nmissing = "mean"\n'
        f'[range]\nempty = "{empty}"\n[[range.sources]]\ntable = "ash.csv"\n'
        '[[range.sources]]\ntable = "sulphur.csv"\n',
        "ash.csv": 'ash,then\n< 5,"a, b"\n>= 5,c\n',
        "sulphur.csv": 'sulphur,then\n< 1,"a, c"\n>= 1,c\n',
    }
    known = read_knowledge(texts)
    found = said_of(known, np.array([[1, 0], [1, 2], [1, np.nan], [9, 0]], np.float32))
    allowed = [set(np.flatnonzero(row)) for row in found.allowed]
    assert allowed == [{0}, open_row, open_row, {2}] and not found.refused.any()
