"""Features, classes, shapes and targets: refused with their reason, their neighbours taken."""

import math
from dataclasses import replace

import pytest
import torch

from fedlore.errors import KnowledgeError
from fedlore.kernel.document import FeatureShape, Target, check_edges, check_spread, check_weights
from fedlore.kernel.schema import Feature, Schema, fill_features, in_order, list_features

LEVELS = {"levels": ("a", "b")}
BOUNDED = {"low": 0.0, "high": 9.0}
DAY = {"date": "day", "column": "when"}
OTHER = {"equals": "y", "by": "2*x"}


@pytest.mark.parametrize(
    ("refused", "message", "taken"),
    [
        ({"name": "a b"}, "a word of letters, digits and _, got 'a b'", {"name": "a_b2"}),
        ({"low": 1.0, "high": 1.0}, "low < high, got 1 and 1", {"low": 1.0, "high": 1.1}),
        ({"low": math.nan}, "low < high, got nan and inf", {"low": -math.inf}),
        ({"high": math.nan}, "low < high, got -inf and nan", {"high": 0.0}),
        ({"levels": ("a", "a")}, "a level is named twice", LEVELS),
        ({"column": " "}, "must have a title, got blanks", {"column": "a b"}),
        ({"other": True}, "other = true is for a feature with levels", LEVELS | {"other": True}),
        (DAY | {"date": "year"}, "day, month or weekday, .* got 'year'", DAY),
        (DAY | LEVELS, "and without levels, got 'day'", DAY | {"date": "weekday"}),
        ({"date": "day"}, "is the day of a date: say which column", DAY),
        ({"date": "day", "column": "x"}, "call the feature something else", DAY),
        ({"by": "2*x"}, "by, within and counted belong to equals", OTHER),
        ({"within": 1.0}, "by, within and counted belong to equals", OTHER | {"within": 1.0}),
        ({"counted": True}, "by, within and counted belong to equals", OTHER | {"counted": True}),
        ({"equals": "y"}, "equals = 'y' needs a formula, such as by = ", OTHER),
        (OTHER | LEVELS, "equals is for a number .* belong to 'y'", OTHER | {"unit": "%"}),
        (OTHER | DAY, "equals is for a number", OTHER | {"column": "b"}),
        (OTHER | {"missing": "mean"}, "equals is for a number", OTHER),
        (OTHER | {"have": False}, "equals is for a number", OTHER),
        (OTHER | {"within": -0.1}, "a number from 0, got -0.1", OTHER | {"within": 0.0}),
        (OTHER | {"within": math.inf}, "a number from 0, got inf", OTHER | {"within": 1e30}),
        (
            {"missing": "level"},
            "refuse, mean, median or a number, got 'level'",
            {"missing": "mean"},
        ),
        ({"missing": math.nan}, "mean, median or a number, got nan", {"missing": -1.0}),
        (LEVELS | {"missing": "c"}, "level or one of its levels", LEVELS | {"missing": "b"}),
        (LEVELS | {"missing": 1.0}, "level or one of its levels", LEVELS | {"missing": "level"}),
        ({"missing": "median"}, "missing = median needs a scope", BOUNDED | {"missing": "median"}),
    ],
)
def test_a_feature_is_refused_with_its_reason_and_its_neighbour_taken(refused, message, taken):
    with pytest.raises(KnowledgeError, match=message):
        Feature(**({"name": "x"} | refused))
    Feature(**({"name": "x"} | taken))


def test_what_a_site_does_not_have_is_missing_by_its_kind():
    assert Feature("x", have=False).missing == "mean"
    assert Feature("x", have=False, **LEVELS).missing == "level"
    assert Feature("x", have=False, missing=2.0).missing == 2.0
    assert Feature("x", have=False).may_miss and not Feature("x").may_miss


X, Y, AB = Feature("x"), Feature("y"), ("a", "b")
D1, D2 = Feature("d", date="day", column="when"), Feature("m", date="month", column="when ")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (((X, X), AB), "feature 'x' is named twice"),
        (((X,), ("a", "b", "a")), "class 'a' is named twice"),
        (((X, Feature("z", column="x ")), AB), "two features are read from the column 'x'"),
        (((D1, Feature("when")), AB), "two features are read from the column 'when'"),
        (((D1, replace(D1, name="e")), AB), "two features are read from the column 'when'"),
        (((X,), ("a",)), "at least 2 classes, got 1"),
        (((), AB), "at least one feature"),
        (((X, Feature("q", have=False)), AB, "q"), "'q' has have = false and is the label"),
        (((Feature("q", have=False),), AB), "every feature has have = false"),
    ],
)
def test_columns_that_do_not_go_together_are_named(said, message):
    with pytest.raises(KnowledgeError, match=message):
        Schema(*said)


def test_a_schema_knows_its_columns():
    schema = Schema((X, D1, D2, Feature("z", column="the z "), Feature("q", have=False)), AB)
    assert schema.dates == {"when": (D1, D2)} and schema.absent == ("q",)
    assert schema.titles["the z"] == "z" and "when" not in schema.titles
    assert schema.column("z") == 3 and schema.grade("b") == 1
    assert schema.shared.absent == () and schema.shared.shared == schema.shared
    for ask, message in ((schema.column, "unknown feature 'w'"), (schema.grade, "unknown class")):
        with pytest.raises(KnowledgeError, match=message):
            ask("w")
    schema.check(torch.zeros(0, 5))
    for shape in ((2, 4), (5,), (1, 2, 5)):
        with pytest.raises(KnowledgeError, match=r"the 5 columns of the schema, got shape \("):
            schema.check(torch.zeros(shape))


@pytest.mark.parametrize(
    ("classes", "ordered"),
    [
        ("G1 G2", True),
        ("G1 G2 G10", True),
        ("G2 G1", False),
        ("G1 G1.5", False),
        ("G1 G01", False),
        ("G1 G3 G2", False),
        ("G1 H2", False),
        ("G1 G2 H", False),
        ("1 2", False),
    ],
)
def test_an_order_is_read_off_rising_numbers_of_one_prefix(classes, ordered):
    assert in_order(classes.split()) is ordered is Schema((X,), tuple(classes.split())).ordered
    assert Schema((X,), tuple(classes.split()), ordered=not ordered).ordered is not ordered


def test_features_that_a_site_lacks_come_from_its_federation():
    lacking = replace(Y, have=False)
    assert fill_features((X,), (X, Y)) == (X, lacking) and fill_features((X, Y), (X, Y)) == (X, Y)
    for own in ((Y, X), (Feature("z"),)):  # another order, and one that nobody asks for
        assert fill_features(own, (X, Y)) == own
    told = list_features([X, replace(Y, missing=1.0), Feature("l", other=True, **LEVELS), lacking])
    more = [{k: one[k] for k in ("missing", "other", "have") if k in one} for one in told]
    assert more == [{}, {"missing": 1.0}, {"other": True}, {"missing": "mean", "have": False}]
    bounded, when = Feature("z", low=0.0).describe(), D1.describe()
    assert (bounded["low"], bounded["high"], bounded["column"]) == (0.0, None, None)
    assert when["column"] is None and when["date"] == {"part": "day", "column": "when"}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (("helps",), "concave or convex, got 'helps'"),
        (("raises", "", 1.0), "'x raises' has no turn"),
        (("concave", "", 1.0), "'x concave' has no turn"),
        (("arch", "", math.inf), r"a number or an interval of two, .* got \[inf\]"),
        (("arch", "", (1.0, 2.0, 3.0)), "an interval of two"),
        (("valley", "", (2.0, 1.0)), r"from 2 down to 1: .* turns_at = \[1, 2\]"),
    ],
)
def test_a_shape_that_is_none_is_refused(said, message):
    with pytest.raises(KnowledgeError, match=message):
        FeatureShape("x", *said)


@pytest.mark.parametrize(
    ("shape", "text", "signs"),
    [  # signs at 0, 1, 1.5, 2 and 3: 0 where nothing is known
        (("raises",), "x raises", [1, 1, 1, 1, 1]),
        (("lowers", "x > 1"), "x lowers where x > 1", [-1, -1, -1, -1, -1]),
        (("arch",), "x arch", [0, 0, 0, 0, 0]),
        (("convex",), "x convex", [0, 0, 0, 0, 0]),
        (("arch", "", 1.5), "x arch (turns at 1.5)", [1, 1, 0, -1, -1]),
        (("arch", "", (1.0, 1.0)), "x arch (turns at 1 to 1)", [1, 0, -1, -1, -1]),
        (("valley", "", (1.0, 2.0)), "x valley (turns at 1 to 2)", [-1, -1, 0, 1, 1]),
    ],
)
def test_a_shape_has_one_direction_along_each_piece(shape, text, signs):
    shape, at = FeatureShape("x", *shape), torch.tensor([0.0, 1.0, 1.5, 2.0, 3.0])
    assert str(shape) == text
    total = sum((p.sign * p.covers(at).long() for p in shape.pieces), torch.zeros(5).long())
    assert total.tolist() == signs


def test_bins_have_names_unless_two_would_be_alike():
    assert Target(0.0, 2.0, bins=2).names == ["[0..1)", "[1..2)"]
    close = Target(0.0, 2.0, edges=(0.0, 1.0, 1.00000001, 2.0))
    assert close.k == 3 and close.cuts == close.edges and close.bounds == (0.0, 2.0)
    assert Target(1.0, 1.0000001, bins=2).names == ["0", "1"]


@pytest.mark.parametrize(
    ("check", "taken", "refused", "message"),
    [
        (check_spread, [1e-30, 1e30], [0.0, -1.0, math.inf, math.nan], "a positive number, got"),
        (check_edges, [(1.0,), (1.0, 1.001)], [(), (1.0, math.inf), (math.nan,)], "finite edges"),
        (
            check_edges,
            [(-1.0, 1.0)],
            [(1.0, 1.00000001), (2.0, 1.0), (1.0, 2.0, 2.0)],
            "must increase",
        ),
        (
            lambda weights: check_weights(weights, 2),
            [(1e-30, 1e30)],
            [(1.0, 0.0), (-1.0, 1.0), (1e-31, 1.0), (1.1e30, 1.0)],
            "weights must be positive, 1e-30 to 1e30",
        ),
        (lambda weights: check_weights(weights, 2), [(1.0, 2.0)], [(1.0,)], "2 predictions, got 1"),
    ],
)
def test_numbers_are_taken_within_their_bounds_alone(check, taken, refused, message):
    for value in taken:
        check(value)
    for value in refused:
        with pytest.raises(KnowledgeError, match=message):
            check(value)
