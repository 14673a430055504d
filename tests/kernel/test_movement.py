"""What is proved to move as a shape says is held against pairs of rows."""

import itertools

import numpy as np
import pytest

from fedlore.kernel.answers import said_of, value
from fedlore.kernel.expressions import parse
from fedlore.kernel.knowledge import read_knowledge
from fedlore.kernel.movement import intervals_rise, keeps_sign, range_moves, sets_rise
from fedlore.kernel.schema import Feature
from fedlore.knowledge import Knowledge

CELLS = ("", "a <= 5", "not (a == 3) and b >= 4")  # regions that tables can be cut along
OTHERS = ("b > a", "a < b or b < 2", "a + b > 9")
ENDS = ("w..x", "x..y", "y..z", "w..y", "x..z", "all")


def known_of(draw, region):
    """A random table about a and b, and a shape of a in a region."""
    rules = [f"{_cell(draw)},{_cell(draw)},{draw.choice(ENDS)}" for _ in range(draw.integers(1, 4))]
    effect = draw.choice(["raises", "lowers"])
    where = f'where = "{region}"\n' if region else ""
    text = (
        'classes = ["w", "x", "y", "z"]\nordered = true\n'
        + "".join(f'[[features]]\nname = "{n}"\nlow = 0\nhigh = 10\n' for n in "ab")
        + '[[range.sources]]\ntable = "t.csv"\nhit = "union"\n'
        + f'[[shape.sources]]\nfeature = "a"\neffect = "{effect}"\n{where}'
    )
    return read_knowledge({"knowledge.toml": text, "t.csv": "\n".join(["a,b,then", *rules]) + "\n"})


def _cell(draw):
    kind = draw.choice(["-", "<", ">=", ">"])
    return kind if kind == "-" else f"{kind} {draw.integers(1, 10)}"


def rises(low, high):
    """The strong set order by its definition: of any two, the lower is below, the higher above."""
    a, b = np.flatnonzero(low), np.flatnonzero(high)
    return all(low[min(p, q)] and high[max(p, q)] for p in a for q in b)


def test_the_order_of_sets_is_that_of_its_definition():
    some = np.array(list(itertools.product([False, True], repeat=4))[1:])
    low, high = (np.array(side) for side in zip(*itertools.product(some, some), strict=True))
    expected = [rises(*pair) for pair in zip(low, high, strict=True)]
    assert sets_rise(low, high).tolist() == expected


def test_intervals_rise_where_neither_end_falls():
    """Sets of a number: equal ones keep the order, other ones only if both are one piece."""
    some = np.array(list(itertools.product([False, True], repeat=4))[1:])
    low, high = (np.array(side) for side in zip(*itertools.product(some, some), strict=True))

    def kept(low, high):
        a, b = np.flatnonzero(low), np.flatnonzero(high)
        pieces = [len(s) == s[-1] - s[0] + 1 for s in (a, b)]
        return (low == high).all() or (all(pieces) and a[0] <= b[0] and a[-1] <= b[-1])

    expected = [kept(*pair) for pair in zip(low, high, strict=True)]
    assert intervals_rise(low, high).tolist() == expected


def broken(known, shape, draw):
    """Whether a pair of rows of the region moves the other way."""
    low = draw.uniform(0, 10, (4_000, 2))
    low[::2] = np.rint(low[::2])
    high = low.copy()
    high[:, 0] = draw.uniform(low[:, 0], 10)
    pair = [x.astype(np.float32) for x in (low, high)]
    if shape.region is not None:
        inside = np.all([value(shape.region, x) > 0 for x in pair], axis=0)
        pair = [x[inside] for x in pair]
    below, above = (said_of(known, x).allowed for x in pair[:: shape.sign])
    return not sets_rise(below, above).all()


@pytest.mark.parametrize("region", (*CELLS, *OTHERS))
def test_no_pair_of_rows_breaks_what_is_proved(region):
    draw, seen = np.random.default_rng(5), set()
    for _ in range(40):
        known = known_of(draw, region)
        (shape,) = known.directions
        found = range_moves(known, shape)
        seen.add(found.status)
        assert found.status != "proved" or not broken(known, shape, draw)
        if found.status == "refuted":  # by two rows of the region
            pair = np.array([found.example, found.other], np.float32)[:: shape.sign]
            low, high = said_of(known, pair).allowed[:, None]
            assert not sets_rise(low, high)[0] and pair[0, 1] == pair[1, 1]
            assert shape.region is None or (value(shape.region, pair) > 0).all()
    decided = {"proved", "refuted"}
    assert seen == (decided if region in CELLS else decided | {"unknown"})


REFUSING = """classes = ["w", "x", "y", "z"]
ordered = true
[[features]]
name = "a"
low = 0
high = 10
[[range.sources]]
table = "t.csv"
[[shape.sources]]
feature = "a"
effect = "raises"
"""


def test_rows_that_are_refused_hide_no_fall(tmp_path):
    """y..z below, w..x above, and nothing between: lint and certificate do not call it proved."""
    files = {"knowledge.toml": REFUSING, "t.csv": "a,then\n< 3,y..z\n3..5,w\n3..5,z\n> 5,w..x\n"}
    known = read_knowledge(files)
    assert range_moves(known, known.directions[0]).status == "unknown"
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert Knowledge.read(tmp_path / "knowledge.toml").orders.range == "unknown"


@pytest.mark.parametrize(
    ("formula", "raises", "lowers"),
    [
        ("a / 2", True, False),
        ("b - a / 4", False, True),
        ("-3 * a + b", False, True),
        ("0 * a", True, True),
        ("b", True, True),
        ("a / 0", False, False),
        ("a - a / 2", False, False),
        ("a * b", False, False),
        ("sqrt(a)", False, False),
    ],
)
def test_a_formula_moves_by_the_sign_of_its_factor_where_the_feature_stands_once(
    formula, raises, lowers
):
    tree = parse(formula, (Feature("a"), Feature("b")))
    assert (keeps_sign(tree, 0, 1), keeps_sign(tree, 0, -1)) == (raises, lowers)
