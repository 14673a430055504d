"""Knowledge of a number along a feature in which it is concave or convex: read, proved, linted."""

import random

import numpy as np
import pytest
import torch

from fedlore.answers import Measured
from fedlore.errors import FedloreError, KnowledgeError
from fedlore.kernel.answers import value
from fedlore.kernel.expressions import parse
from fedlore.kernel.knowledge import Bend, read_knowledge
from fedlore.knowledge import Knowledge
from fedlore.knowledge.findings.checkup import check_data, check_file
from fedlore.knowledge.shapes.order import _keeps_bend

HEAD = """
trust = 0.3
conflict = "project"
[[features]]
name = "x"
low = 0.5
high = 4
[[features]]
name = "z"
low = -1
high = 2
[target]
name = "y"
lower = -100
upper = 100
"""
SAID = '[[predict.sources]]\nformula = "{}"\n'
RANGE = '[[range.sources]]\nlower = "{}"\nupper = "{}"\n'
TABLE = '[[{}.sources]]\ntable = "t.csv"\n'


def shape(effect="concave", where="", feature="x"):
    tail = f'where = "{where}"\n' if where else ""
    return f'[[shape.sources]]\nfeature = "{feature}"\neffect = "{effect}"\n{tail}'


def written(folder, *parts, table=""):
    (folder / "t.csv").write_text(table)
    path = folder / "knowledge.toml"
    path.write_text(HEAD + "\n".join(parts))
    return path


@pytest.mark.parametrize(
    ("formula", "concave", "convex"),
    [
        ("3 - x + z", "ordered", "ordered"),
        ("3 - (x - 1) ** 2 + z", "ordered", "broken"),
        ("exp(x) * z", "broken", "broken"),  # z has both signs
        ("exp(x) * (z + 2) / 10", "broken", "ordered"),
        ("log(x) + sqrt(x)", "ordered", "broken"),
        ("1 / x", "broken", "ordered"),
        ("z / (5 - x)", "broken", "broken"),
        ("min(x, 2) - abs(x - z)", "ordered", "broken"),
        ("max(x, 2 * z) + x ** 2", "broken", "ordered"),
        ("where(z < 0, -x ** 2, log10(x))", "ordered", "broken"),
        ("where(x < 2, x, 2)", "unknown", "broken"),  # it may jump for all that is looked at
        ("x ** 3 - 6 * x ** 2", "broken", "broken"),
        ("x * x * x", "broken", "ordered"),
        ("2 * z", "constant", "constant"),
        ("log(x - 0.6)", "unknown", "broken"),  # undefined at the beginning of the scope
        ("-1 / (x - 2.1) ** 2", "broken", "broken"),  # a pole between two numbers
    ],
)
def test_formulas_are_decided_by_their_second_slopes(tmp_path, formula, concave, convex):
    for effect, status in (("concave", concave), ("convex", convex)):
        known = Knowledge.read(written(tmp_path, SAID.format(formula), shape(effect)))
        found = known.orders.predictions[0]
        assert found.status == status, effect
        if status == "broken":
            rows = torch.tensor(found.pair).double()
            assert (rows[0] != rows[1]).sum() == (rows[1] != rows[2]).sum() == 1
        assert known.trust_at_prediction == (0.3 if status in ("ordered", "constant") else 0.0)


def random_formula(pick, depth):
    if depth == 0 or pick.random() < 0.15:
        return pick.choice(["x", "x", "z", f"{pick.uniform(-3, 3):.2f}"])
    a, b = (random_formula(pick, depth - 1) for _ in range(2))
    kinds = ["{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "-{a}", "({a}) ** 2", "exp({a})"]
    kinds += ["log({a})", "sqrt({a})", "abs({a})", "min({a}, {b})", "max({a}, {b})", "({a}) ** 3"]
    kinds += ["where(z < 1, {a}, {b})", "({a}) ** 0.5", "1 / ({a})", "where(x < 2, {a}, {b})"]
    return f"({pick.choice(kinds).format(a=f'({a})', b=f'({b})')})"


def check_formulas(seeds):
    """What is said to be proved of random formulas, held against their values."""
    proved, names = 0, read_knowledge({"knowledge.toml": HEAD})
    for seed in seeds:
        pick = random.Random(seed)
        tree = parse(random_formula(pick, pick.choice([2, 3])), names.columns)
        for sign in (-1, 1):
            if not _keeps_bend(names, tree, Bend(0, sign, 0)):
                continue
            proved += 1
            draw = np.random.default_rng(seed)
            rows = draw.uniform((0.5, -1.0), (4.0, 2.0), (500, 2))
            ends = np.sort(draw.uniform(0.5, 4.0, (500, 3)), 1).astype(np.float32)
            three = [np.stack([at, rows[:, 1]], 1).astype(np.float32) for at in ends.T]
            low, middle, high = (value(tree, some).astype(np.float64) for some in three)
            share = np.diff(ends[:, :2])[:, 0] / np.maximum(np.diff(ends[:, ::2])[:, 0], 1e-6)
            line = low + share * (high - low)
            near = 1e-3 * (1 + np.abs(low) + np.abs(high))
            assert np.isfinite(middle).all() and (sign * (middle - line) < near).all(), (seed, sign)
    return proved


def test_what_is_proved_of_random_formulas_is_so():
    assert check_formulas(range(80)) > 30


@pytest.mark.slow
def test_what_is_proved_of_many_random_formulas_is_so():
    assert check_formulas(range(1000, 4000)) > 1000


@pytest.mark.parametrize(
    ("low", "high", "concave", "convex"),
    [
        ("-5", "5 + z", "constant", "constant"),
        ("x - 9", "x + 9", "ordered", "ordered"),
        ("x ** 2 - 30", "30 - x ** 2", "ordered", "ordered"),  # each is stopped at its own end
        ("-20 - x ** 2", "30 + x ** 2", "broken", "broken"),
    ],
)
def test_a_range_may_move_if_the_end_that_stops_a_number_bends_as_it_says(
    tmp_path, low, high, concave, convex
):
    for effect, status in (("concave", concave), ("convex", convex)):
        known = Knowledge.read(written(tmp_path, RANGE.format(low, high), shape(effect)))
        assert known.orders.ranges[0].status == status, effect


def test_tables_bend_nowhere_and_say_where(tmp_path):
    path = written(tmp_path, TABLE.format("predict"), shape(), table="x,then\n<= 2,10\n> 2,14\n")
    found = check_file(path).findings
    (one,) = [f for f in found if f.kind.startswith("shape-bent")]
    assert one.kind == "shape-bent-prediction"
    assert one.args["low"] < one.args["at"] < one.args["high"]
    assert "the prediction is 10, below the straight line's" in str(one)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([shape("concave", "z < 1")], "know no regions; leave where out, or say raises or lowers"),
        ([shape("concave"), shape("convex")], "are two shapes of one feature in the same rows"),
        (
            [shape("concave"), shape("arch") + "turns_at = 2.0\n"],
            "are two shapes of one feature in the same rows",
        ),
        ([shape("concave") + "turns_at = 2.0\n"], "'x concave' has no turn"),
        (['[shape]\nfeature = "x"\n'], r"a source begins with the line \[\[shape.sources\]\]"),
    ],
)
def test_a_bend_that_cannot_be_kept_is_refused(tmp_path, parts, said):
    with pytest.raises(FedloreError, match=said):
        Knowledge.read(written(tmp_path, *parts))


def test_a_range_with_a_gap_is_refused(tmp_path):
    union, table = TABLE.format("range") + 'hit = "union"\n', "z,then\n> 1,1..2\n> 0,5..6\n"
    path = written(tmp_path, union, shape(), table=table)
    with pytest.raises(KnowledgeError, match="a range that may have gaps"):
        Knowledge.read(path).orders  # noqa: B018
    whole = written(tmp_path, TABLE.format("range"), shape(), table="z,then\n> 1,10..20\n")
    assert Knowledge.read(whole).orders.ranges[0].status == "constant"


@pytest.mark.parametrize("effect", ["concave", "convex"])
def test_rows_that_bend_the_other_way_are_told(tmp_path, effect):
    draw = torch.Generator().manual_seed(4)
    x = 0.5 + 3.5 * torch.rand(80, generator=draw)
    z = 3 * torch.rand(80, generator=draw) - 1
    y = 10 - (x - 2).square() + z + 0.2 * torch.randn(80, generator=draw)
    checkup = check_file(written(tmp_path, shape(effect)))
    found = check_data(checkup, Measured(torch.stack([x, z], 1), y.double())).findings
    told = [str(f) for f in found if f.kind == "shape-data"]
    assert len(told) == (effect == "convex")
    assert not told or "'x convex', but in 80 rows the answer bends downwards with x" in told[0]
