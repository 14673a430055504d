"""Shapes in a knowledge file: what is refused, what is found of range and prediction, and lint."""

import itertools
import random

import numpy as np
import pytest
import torch

from fedlore import Client, NumberClient, fit
from fedlore.answers import Bins, Measured
from fedlore.core.examples import Examples
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.data import read_table
from fedlore.errors import KnowledgeError
from fedlore.kernel.cells import Cut, NumberSpans, Span
from fedlore.kernel.expressions import parse
from fedlore.kernel.schema import Feature, Schema
from fedlore.kernel.sheets import Rule
from fedlore.knowledge import Knowledge
from fedlore.knowledge.findings.checkup import check_data, check_file
from fedlore.knowledge.findings.shapes import slope_of
from fedlore.knowledge.formulas import Formula
from fedlore.knowledge.intervals import Between
from fedlore.knowledge.shapes import FeatureShape, SiteShapes
from fedlore.knowledge.shapes.order import find_trend
from fedlore.knowledge.tables.table import Table
from fedlore.models.classifier import Personal
from fedlore.privacy import Privacy
from fedlore.privacy.dp.budget import Dp

HEAD = """
classes = ["G1", "G2", "G3", "G4"]
trust = 0.3
features = [
    {name = "ash", low = 5, high = 15},
    {name = "Ro", low = 0.5, high = 2},
    {name = "mine", levels = ["a", "b"]},
]
"""
LOWERS = '[[shape.sources]]\nfeature = "ash"\neffect = "lowers"\n'


def written(folder, *parts, head=HEAD):
    path = folder / "knowledge.toml"
    path.write_text(head + "\n".join(parts))
    return path


def one(feature, effect, where="", turns=None):
    tail = f'where = "{where}"\n' if where else ""
    tail += "" if turns is None else f"turns_at = {turns}\n"
    return f'[[shape.sources]]\nfeature = "{feature}"\neffect = "{effect}"\n{tail}'


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([one("mine", "raises")], "[shape] source 1: 'mine' has levels"),
        ([one("ahs", "raises")], "[shape] source 1: unknown feature 'ahs'; did you mean 'ash'?"),
        ([one("ash", "raise")], "shape.sources[0].effect must be one of raises, lowers"),
        (
            [one("ash", "raises"), one("ash", "lowers")],
            "[shape] source 2: 'ash' raises and lowers in the same rows",
        ),
        (
            [one("Ro", "raises", "Ro < 1.4"), one("Ro", "lowers", "Ro > 1.3")],
            "[shape] source 2: 'Ro' raises and lowers in the same rows, such as Ro = 1.3",
        ),
        (
            [one("ash", "lowers", "Ro <")],
            "[shape] source 1: its region cannot be read at character 5 of 'Ro <'",
        ),
        ([one("ash", "lowers", "Ro + 1")], "a region needs a comparison and this is a number"),
        (
            [one("ash", "lowers", "Ro < 1"), one("Ro", "raises")],
            "[shape] source 1: its region 'Ro < 1' looks at 'Ro', which has a shape itself",
        ),
        ([one("mine", "arch", turns=1.2)], "[shape] source 1: 'mine' has levels"),
        (
            [one("Ro", "arch", turns=2.5)],
            "[shape] source 1: 'Ro arch (turns at 2.5)' turns outside its scope, which is 0.5 to 2",
        ),
        (
            [one("Ro", "valley", turns=[1.2, 2.0])],
            "turns outside its scope, which is 0.5 to 2: correct turns_at, or say raises or lowers",
        ),
        ([one("Ro", "arch", turns="nan")], "must be a number or an interval of two"),
        ([one("Ro", "arch", turns='"1.4"')], "shape.sources[0].turns_at must be"),
        (
            ['[[shape.sources]]\nfeature = "Ro"\neffect = "arch"\nestimated = true\n'],
            "estimated of 'Ro arch' is about turns_at, which is not there: take it out",
        ),
        (
            [one("Ro", "arch", "ash < 9"), one("Ro", "arch", "ash < 8")],
            "are two shapes of one feature in the same rows, such as ash =",
        ),
        (
            [one("Ro", "concave")],
            "'Ro concave' is for a number, since classes lie in an order without distances: say "
            "raises or lowers (with where, if in a part), or arch",
        ),
        (
            [one("Ro", "arch", turns=1.4), one("Ro", "raises", "Ro < 1.5")],
            "[shape] source 2: 'Ro arch (turns at 1.4)' and 'Ro raises where Ro < 1.5' are two",
        ),
        (
            [one("Ro", "arch", "ash < 9", 1.2), one("Ro", "arch", "ash < 8", 1.4)],
            "are two shapes of one feature in the same rows, such as ash =",
        ),
    ],
)
def test_a_bad_shape_is_one_sentence_with_its_place(tmp_path, parts, said):
    with pytest.raises(KnowledgeError) as caught:
        Knowledge.read(written(tmp_path, *parts))
    told = str(caught.value)
    assert told.startswith("knowledge.toml") and "\n" not in told
    assert said in told


def test_a_target_without_order_is_refused(tmp_path):
    head = HEAD.replace('"G1", "G2", "G3", "G4"', '"pea", "nut"')
    with pytest.raises(KnowledgeError, match="'ash' lowers what has no order: say ordered = true"):
        Knowledge.read(written(tmp_path, LOWERS, head=head))
    known = Knowledge.read(written(tmp_path, LOWERS, head="ordered = true\n" + head))
    assert known.shapes is not None


def test_signs_follow_the_region_row_by_row(tmp_path):
    known = Knowledge.read(
        written(tmp_path, one("Ro", "raises", "Ro < 1.35"), one("Ro", "lowers", "Ro >= 1.35"))
    )
    assert known.shapes is not None
    x = torch.tensor([[9.0, 1.0, 0.0], [9.0, 1.35, 1.0], [9.0, 1.9, 1.0]])
    assert known.shapes.signs(x)[:, 1].tolist() == [1.0, -1.0, -1.0]
    assert known.shapes.signs(x)[:, [0, 2]].abs().sum() == 0


@pytest.mark.parametrize(("turns", "ends"), [(1.35, (1.35, 1.35)), ([1.2, 1.5], (1.2, 1.5))])
def test_an_arch_raises_up_to_its_turn_and_lowers_from_there_on(tmp_path, turns, ends):
    known = Knowledge.read(written(tmp_path, one("Ro", "arch", "ash > 6", turns)))
    assert known.shapes is not None
    x = torch.tensor([[9.0, v, 0.0] for v in (1.0, ends[0], 1.3, ends[1], 1.9)])
    low, high = (float(torch.tensor(end)) for end in ends)
    said = known.shapes.signs(x)
    assert said[:, 1].tolist() == [1.0] * 5  # as it is in front of the turn
    assert said[:, 4].tolist() == [low] * 5 and said[:, 7].tolist() == [high] * 5
    (shape,) = known.shapes
    before, behind = (known.shapes.region(shape, x, piece).tolist() for piece in shape.pieces)
    between = low < high
    assert before == [True, True, not between, not between, False]
    assert behind == [False, not between, False, True, True]
    x[:, 0] = 5.5  # outside its region nothing is said
    assert (known.shapes.signs(x)[:, 1] == 0).all()
    assert known.shapes.signs(x)[:, 4].isnan().all()


def test_an_arch_is_written_and_read_again(tmp_path):
    for turns in (1.35, [1.2, 1.5]):
        known = Knowledge.read(written(tmp_path, one("Ro", "valley", "ash > 6", turns)))
        known.write(tmp_path / "again" / "knowledge.toml")
        again = Knowledge.read(tmp_path / "again" / "knowledge.toml")
        assert again.shapes.shapes == known.shapes.shapes
        assert again.fingerprint == known.fingerprint


@pytest.mark.parametrize(
    ("effect", "turns", "formula", "status"),
    [
        ("arch", 1.4, "12 - 8 * (Ro - 1.4) ** 2", "ordered"),
        ("arch", [1.2, 1.6], "12 - 8 * (Ro - 1.4) ** 2", "ordered"),
        ("arch", 1.6, "12.2 - 8 * (Ro - 1.4) ** 2", "broken"),  # it falls before the turn
        ("arch", 1.4, "8 + 8 * (Ro - 1.4) ** 2", "broken"),
        ("valley", 1.4, "8 + 8 * (Ro - 1.4) ** 2", "ordered"),
        ("valley", 1.4, "12 - 8 * (Ro - 1.4) ** 2", "broken"),
        ("arch", 1.4, "11 - abs(Ro - 1.4) + ash / 10", "ordered"),
        ("arch", 1.4, "6 + 3 * Ro", "broken"),
        ("arch", 1.4, "20 - ash", "constant"),
    ],
)
def test_formulas_are_held_against_both_sides_of_a_turn(tmp_path, effect, turns, formula, status):
    shape = one("Ro", effect, turns=turns)
    path = written(tmp_path, FORMULA.format(formula), shape)
    known = Knowledge.read(path)
    assert known.orders is not None and known.orders.prediction == status
    found = check_file(path).findings
    kinds = {f.kind for f in found}
    assert ("shape-prediction" in kinds) == (status == "broken")
    assert ("shape-kept" in kinds) == (status != "broken")


ARCH_ROWS = 'Ro,range\n< 1.2,"G1, G2"\n[1.2..1.5),"G2, G3"\n>= 1.5,"G1, G2"\n'


@pytest.mark.parametrize(("turns", "status"), [(1.3, "ordered"), (1.2, "ordered"), (1.1, "broken")])
def test_tables_are_held_against_both_sides_of_a_turn(tmp_path, turns, status):
    (tmp_path / "r.csv").write_text(ARCH_ROWS)
    limits = '[[range.sources]]\ntable = "r.csv"\n'
    path = written(tmp_path, limits, one("Ro", "arch", turns=turns))
    assert Knowledge.read(path).orders.range == status
    told = [f.message for f in check_file(path).findings if f.kind == "shape-range"]
    assert bool(told) == (status == "broken")
    if told:  # the table rises at 1.2, behind the turn that was said
        assert "'Ro arch (turns at 1.1)', but from Ro = 1.1 to 1.2" in told[0]
        assert "the range does not move down" in told[0]


def measured_arch(folder, seed=1, n=200):
    """Rows whose grade is an arch of Ro around 1.4, ash beside it."""
    pick = random.Random(seed)
    lines = ["ash,Ro,mine,label"]
    for _ in range(n):
        ash, ro = pick.uniform(5, 15), pick.uniform(0.5, 2.0)
        grade = 3.5 - 6 * (ro - 1.4) ** 2 - 0.1 * (ash - 10) + pick.gauss(0, 0.3)
        lines.append(f"{ash:.3f},{ro:.3f},{pick.choice('ab')},G{min(max(round(grade), 1), 4)}")
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    return folder / "rows.csv"


@pytest.mark.parametrize(
    ("effect", "turns", "named"),
    [
        ("arch", 1.4, []),
        ("arch", [1.2, 1.6], []),
        ("valley", 1.4, ["with Ro from 0.519 to", "to 1.992 the answer falls"]),
        ("arch", 0.9, ["with Ro from 0.9"]),  # it rises on behind the turn that was said
        ("arch", 1.8, ["the answer falls"]),  # and here it falls already in front of it
    ],
)
def test_a_false_arch_is_found_in_rows_by_the_side_that_is_wrong(tmp_path, effect, turns, named):
    path = written(tmp_path, one("Ro", effect, turns=turns))
    checkup = check_file(path)
    assert checkup.knowledge is not None
    data = read_table(measured_arch(tmp_path), checkup.knowledge.require_schema(), label="label")
    findings = check_data(checkup, data).findings
    told = [f.message for f in findings if f.kind == "shape-data"]
    assert len(told) == len(named), told
    assert all(n in t for n, t in zip(named, told, strict=True)), told


def find_in_rows(tmp_path, effect, *parts, **rows):
    """An arch or a valley of Ro whose turn is open, and what rows say of it."""
    path = written(tmp_path, one("Ro", effect), *parts)
    checkup = check_file(path)
    known = checkup.knowledge
    assert known is not None
    data = read_table(measured_arch(tmp_path, **rows), known.require_schema(), label="label")
    return known, data, check_data(checkup, data).findings


@pytest.mark.parametrize("seed", range(5))
def test_rows_say_where_an_arch_turns(tmp_path, seed):
    known, data, found = find_in_rows(tmp_path, "arch", seed=seed)
    assert known.shapes is not None and known.shapes.binding == ()
    (shape,) = Client("s1", data, known).knowledge.shapes
    low, high = shape.turns
    assert 1.1 < low < 1.4 < high < 1.6 and shape.estimated
    assert str(shape) == f"Ro arch (turns at {low:g} to {high:g}, estimated)"
    open_, turn = [f for f in found if f.kind.startswith("shape")]
    assert open_.message.startswith("nobody says where 'Ro arch' turns: each training estimates")
    assert f"surely rises with Ro up to {low:.4g} and surely falls from {high:.4g}" in turn.message


def test_a_false_arch_with_an_open_turn_is_found_in_rows(tmp_path):
    known, data, found = find_in_rows(tmp_path, "valley")
    (told,) = [f for f in found if f.kind == "shape-turn"]
    assert told.severity == "warning"
    assert "surely rises with Ro at first and falls in the end" in told.message
    (shape,) = Client("s1", data, known).knowledge.shapes
    low, high = shape.turns  # nothing is promised inside the scope
    assert 0.5 < low < 0.5001 and 1.9999 < high < 2.0


def test_what_the_expert_says_is_judged_by_the_turn_in_the_rows(tmp_path):
    """His formula turns at 0.8, the rows at 1.4: he is withheld, and lint names two rows."""
    said = FORMULA.format("12 - 8 * (Ro - 0.8) ** 2")
    known, data, found = find_in_rows(tmp_path, "arch", said)
    assert known.trust_at_prediction == 0.3  # as long as nothing is known of the turn
    assert Client("s1", data, known).knowledge.trust_at_prediction == 0.0
    (told,) = [f for f in found if f.kind == "shape-prediction"]
    assert "'Ro arch (turns at 1." in told.message


def test_too_few_rows_show_no_turn(tmp_path):
    known, data, found = find_in_rows(tmp_path, "arch", n=12)
    said = "12 rows are too few to show where 'Ro arch' turns: say turns_at ="
    assert any(f.kind == "data" and said in f.message for f in found)
    with pytest.raises(KnowledgeError, match="client 's1': 12 rows are too few"):
        Client("s1", data, known)


def test_a_side_that_rows_do_not_show_needs_an_end_of_the_scope():
    schema = Schema((Feature("a"), Feature("b")), ("g1", "g2", "g3"))
    shapes = SiteShapes((FeatureShape("a", "arch"),), schema)
    x = torch.arange(60.0)[:, None] * torch.tensor([[1.0, 0.0]])
    with pytest.raises(KnowledgeError, match="'a arch' behind its turn, and the scope of 'a'"):
        Client("s1", Examples(x, torch.arange(60) // 20), Knowledge(schema=schema, shapes=shapes))


def test_no_model_is_held_to_a_turn_that_nobody_knows():
    schema = Schema((Feature("a", low=0, high=4),), ("g1", "g2", "g3"))
    shapes = SiteShapes((FeatureShape("a", "arch"),), schema)
    model = lipschitz_mlp(3, Shaping(1))
    with pytest.raises(KnowledgeError, match="nobody knows where 'a arch' turns: training"):
        Personal(model, Knowledge(schema=schema, shapes=shapes))


def test_a_turn_from_rows_does_not_go_with_noise_for_single_rows():
    schema = Schema((Feature("a", low=0, high=4),), ("g1", "g2", "g3"))
    known = Knowledge(schema=schema, shapes=SiteShapes((FeatureShape("a", "arch"),), schema))
    x = 4 * torch.rand(60, 1, generator=torch.Generator().manual_seed(1))
    dp = Privacy(dp=Dp(epsilon=8, delta=1e-5, level="record"))
    rows = Examples(x, (2 - (x[:, 0] - 2).square()).round().clamp(0, 2).long())
    with pytest.raises(KnowledgeError, match="does not go with record level differential privacy"):
        fit(
            [Client("s1", rows, known)],
            lipschitz_mlp(3, Shaping(1)),
            rounds=1,
            privacy=dp,
            scale=False,
        )
    known = Knowledge(schema=schema, shapes=SiteShapes(known.shapes.shapes, schema, (0.0, 2.0)))
    numbers = NumberClient("s1", Measured(x, (2 - (x[:, 0] - 2).square()).clamp(0).double()), known)
    with pytest.raises(KnowledgeError, match="client 's1': .* record level differential privacy"):
        fit([numbers], lipschitz_mlp(3, Shaping(1)), bins=Bins(0.0, 2.0, 3), rounds=1, privacy=dp)


FORMULA = '[[predict.sources]]\nformula = "{}"\nedges = [8, 10, 12]\n'


@pytest.mark.parametrize(
    ("formula", "status"),
    [
        ("20 - ash + Ro", "ordered"),
        ("20 - ash + 0.5 * ash", "ordered"),  # by slopes: neither sign of a part decides it
        ("16 - (ash - 5) ** 2 / 20", "ordered"),
        ("12.2 - (ash - 7) ** 2 / 10", "broken"),
        ("3 * Ro", "constant"),
        ("10 + 20 / ash + exp(-ash)", "ordered"),
        ("where(Ro < 1, 20 - ash, 18 - log(ash))", "ordered"),
        ("log(ash - 6)", "broken"),  # undefined at 5: the expert falls silent
    ],
)
def test_formulas_are_decided_by_their_slopes(tmp_path, formula, status):
    known = Knowledge.read(written(tmp_path, FORMULA.format(formula), LOWERS))
    assert known.orders is not None
    assert known.orders.prediction == status
    assert known.trust_at_prediction == (0.0 if status == "broken" else 0.3)


def test_a_slope_of_the_wrong_sign_comes_with_a_row():
    schema = Schema((Feature("a", low=0, high=4), Feature("b", low=0, high=1)), ("x1", "x2"))
    found = find_trend(parse("a * (3 - a) + b", schema.features), schema.features, 0, 1)
    assert found.status == "refuted" and found.example is not None
    rises = parse("a * (9 - a) + b", schema.features)
    assert find_trend(rises, schema.features, 0, 1).status == "proved"


def test_a_prediction_that_its_range_may_silence_is_not_kept(tmp_path):
    (tmp_path / "r.csv").write_text('ash,range\n> 10,"G1, G2"\n')
    limits = '[[range.sources]]\ntable = "r.csv"\n'
    known = Knowledge.read(written(tmp_path, FORMULA.format("16 - ash / 2"), limits, LOWERS))
    assert known.orders is not None
    assert (known.orders.range, known.orders.prediction) == ("ordered", "broken")


def test_lint_names_a_pair_and_what_still_holds(tmp_path):
    (tmp_path / "r.csv").write_text('ash,range\n< 8,"G1, G2"\n>= 8,"G2, G3"\n')
    limits = '[[range.sources]]\ntable = "r.csv"\n'
    found = check_file(written(tmp_path, limits, LOWERS)).findings
    told = next(f for f in found if f.kind == "shape-range")
    assert told.counterexample["ash"] < 8
    assert "from ash = 5 to 8 the range does not move down" in told.message
    assert "between rows of the same range only" in told.message
    kept = check_file(written(tmp_path, limits, one("ash", "raises"))).findings
    assert [f.kind for f in kept if f.kind.startswith("shape")] == ["shape-kept"]


@pytest.mark.parametrize("effect", ["raises", "lowers"])
def test_rows_that_contradict_are_told(tmp_path, effect):
    draw = torch.Generator().manual_seed(3)
    x = torch.rand(80, 3, generator=draw) * torch.tensor([10.0, 1.5, 0.0])
    x += torch.tensor([5.0, 0.5, 0.0])
    y = (4.4 - 0.28 * x[:, 0] + 0.3 * torch.randn(80, generator=draw)).round().clamp(0, 3).long()
    checkup = check_file(written(tmp_path, one("ash", effect)))
    found = check_data(checkup, Examples(x, y)).findings
    told = [f for f in found if f.kind == "shape-data"]
    assert len(told) == (effect == "raises")
    if told:
        assert "falls with ash, everything else equal: -0.2" in told[0].message


def random_table(draw, schema, kind):
    """A few rules over two numbers, thresholds at 1, 2 and 3."""
    rules = []
    k = len(schema.classes)
    for _ in range(draw.randint(1, 5)):
        conditions = []
        for column in range(2):
            if draw.random() < 0.6:
                a, b = sorted(draw.sample(range(5), 2))
                ends = Cut(a, draw.random() < 0.5), Cut(b, draw.random() < 0.5)
                conditions.append((column, NumberSpans((Span(*ends),))))
        first = draw.randrange(k)
        if kind == "predict":
            outcome = (first,)
        else:
            outcome = tuple(sorted({first, *draw.sample(range(k), draw.randint(1, k - 1))}))
        rules.append(Rule(tuple(conditions), outcome))
    policy = "first" if kind == "predict" else "union"
    return Table(schema, tuple(rules), kind, policy)


def in_order(low, high):
    """Whether two rows of probability or two ranges rise, from the definitions."""
    if low.dtype == torch.bool:
        a, b = low.nonzero()[:, 0].tolist(), high.nonzero()[:, 0].tolist()
        return all(min(p, q) in a and max(p, q) in b for p in a for q in b)
    if bool(low.any()) != bool(high.any()):
        return False
    return all(float(high[: c + 1].sum()) <= float(low[: c + 1].sum()) for c in range(len(low)))


CROSSING = ("b > a", "a + b > 3")  # regions that compare columns with each other


def check_verdict(seed):
    """The verdict on random tables against all pairs of a grid that holds a row of every cell."""
    draw = random.Random(seed)
    schema = Schema(
        (Feature("a", low=0, high=4), Feature("b", low=0, high=4)), ("g1", "g2", "g3", "g4")
    )
    effect, where = (
        draw.choice(["raises", "lowers"]),
        draw.choice(["", "b < 2", "a >= 1 and b > 1", *CROSSING]),
    )
    shapes = SiteShapes((FeatureShape("a", effect, where),), schema)
    known = Knowledge(
        random_table(draw, schema, "predict") if draw.random() < 0.7 else None,
        random_table(draw, schema, "range"),
        schema=schema,
        shapes=shapes,
    )
    halves = [i / 2 for i in range(9)]
    x = torch.tensor(list(itertools.product(halves, halves)), dtype=torch.float64)
    told = known.annotate(Examples(x))
    inside = shapes.region(shapes.shapes[0], x)
    assert known.orders is not None
    for side, order in (
        (told.allowed, known.orders.ranges[0]),
        (told.prior, known.orders.predictions[0]),
    ):
        if side is None:
            assert order.status == "constant"
            continue
        broken = False
        for i, j in itertools.combinations(range(len(x)), 2):
            if x[i, 1] == x[j, 1] and x[i, 0] < x[j, 0] and inside[i] and inside[j]:
                pair = (side[i], side[j]) if effect == "raises" else (side[j], side[i])
                broken |= not in_order(*pair)
        if where in CROSSING and order.status == "unknown":
            continue  # cells do not tell such a region, two rows may
        assert order.kept == (not broken), (seed, order)
        if order.pair is not None:
            two = known.annotate(Examples(torch.tensor(order.pair, dtype=torch.float64)))
            said = two.allowed if side.dtype == torch.bool else two.prior
            assert said is not None
            pair = (said[0], said[1]) if effect == "raises" else (said[1], said[0])
            assert not in_order(*pair) and order.pair[0][0] < order.pair[1][0]


@pytest.mark.parametrize("seed", range(4))
def test_verdicts_on_random_tables(seed):
    check_verdict(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 600, 50))
def test_verdicts_on_five_hundred_random_tables(start):
    for seed in range(start, start + 50):
        check_verdict(seed)


@pytest.mark.parametrize(("empty", "status"), [("error", "ordered"), ("all", "unknown")])
def test_a_set_that_a_policy_opens_is_not_believed(empty, status):
    """In one corner that no sample meets nothing is left of the bounds: opened, the set falls."""
    schema = Schema((Feature("ash", low=5, high=15), Feature("Ro", low=0.5, high=2)), ("a", "b"))
    shapes = SiteShapes((FeatureShape("ash", "raises"),), schema, (0.0, 40.0))
    corner = Between(Formula.parse("2 * ash + 20 * (Ro - 1.49999)", schema), None)
    known = Knowledge(None, corner, empty=empty, schema=schema, shapes=shapes)
    assert known.orders.range == status


@pytest.mark.parametrize("more", [0, 1])
def test_a_slope_and_its_error_are_those_of_least_squares(more):
    """From ten rows more than columns that vary; with their free degrees."""
    draw = np.random.default_rng(5)
    n = 12 if more else 40
    x = draw.normal(size=(n, 3))
    x[:, 2] = 1.0  # which says nothing
    y = 2.0 * x[:, 0] - x[:, 1] + draw.normal(size=n)
    rows, labels = torch.from_numpy(x), torch.from_numpy(y)
    slope, error = slope_of(rows, labels, 1)
    design = np.column_stack([x[:, 0], x[:, 1], np.ones(n)])
    weights, (left,), *_ = np.linalg.lstsq(design, y, rcond=None)
    spread = np.linalg.inv(design.T @ design)[1, 1] * left / (n - 3)
    assert slope == pytest.approx(weights[1]) and error == pytest.approx(spread**0.5)
    assert slope_of(rows, labels, 2) is None
    assert slope_of(rows[:12], labels[:12], 0) is not None
    assert slope_of(rows[:11], labels[:11], 0) is None
    assert slope_of(rows[:1], labels[:1], 0) is None


def test_a_finding_of_a_shape_names_what_else_decides(tmp_path):
    """The pair, and of the other columns those that a source looks at."""
    (tmp_path / "r.csv").write_text('ash,mine,range\n< 8,a,"G1, G2"\n>= 8,a,"G2, G3"\n')
    limits = '[[range.sources]]\ntable = "r.csv"\n'
    found = check_file(written(tmp_path, limits, LOWERS)).findings
    (told,) = (f for f in found if f.kind == "shape-range")
    said = told.args
    assert (said["side"], said["feature"], said["sign"]) == ("range", "ash", -1)
    assert said["low"] < 8 <= said["high"] and said["others"] == {"mine": "a"}
    assert set(told.counterexample) == {"ash", "Ro", "mine"} and told.severity == "warning"
    assert not [f for f in found if f.kind == "shape-kept"]
