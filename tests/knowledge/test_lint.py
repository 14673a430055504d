"""The audit of tables, compared with trying every cell of small domains."""

import json
import re
from itertools import combinations, product

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedlore.errors import KnowledgeError
from fedlore.kernel.findings import Place
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.findings.soft import lint_soft
from fedlore.knowledge.findings.tables import lint_tables
from fedlore.knowledge.regions import RowRegion
from fedlore.knowledge.tables.sheets import table_of
from fedlore.knowledge.tables.soft import SoftTable

FIVE = 5 * settings().max_examples  # of each kind: `make slow` tries 500
LEVELS = ("A", "B", "C")
CLASSES = ("I", "II", "III")
SCHEMA = Schema(
    (
        Feature("ash", low=0, high=4),
        Feature("coal", levels=LEVELS),
        Feature("sulphur"),
        Feature("unused", low=5, high=6),
    ),
    CLASSES,
)
# every cell of the thresholds 1, 2, 3, 4 within the scope: points, and a point in each open gap
ASH = [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4]
SULPHUR = [0, 1, 1.5, 2, 2.5, 3, 3.5, 4, 9]
POINTS = torch.tensor(
    [(a, c, s, 5.5) for a, c, s in product(ASH, range(3), SULPHUR)], dtype=torch.float64
)

numeric = st.sampled_from(
    ["", "", "> 1", "<= 2", "< 3", ">= 2", "[1..3)", "(1..2)", "= 2", "not 2", "in 1, > 3", "> 4"]
    + ["1..2", "< 1", "in < 1, > 2", "<= 3", "> 3"]
)
levels = st.sampled_from(["", "", "A", "in A, B", "not C", "not A", "in A, C", "in A, B, C"])


def rules(kind, policy):
    one = st.sampled_from(CLASSES)
    some = st.sets(one, min_size=1, max_size=3).map(sorted).map(", ".join)
    cells = {"ash": numeric, "coal": levels, "sulphur": numeric}
    cells["then"] = one if kind == "predict" else some
    if policy == "priority":
        cells["priority"] = st.integers(1, 3)
    return st.lists(st.fixed_dictionaries(cells), min_size=1, max_size=6)


@st.composite
def tables(draw, kind, name):
    policies = ("first", "unique", "priority") if kind == "predict" else ("intersect", "union")
    policy = draw(st.sampled_from(policies))
    return table_of(draw(rules(kind, policy)), SCHEMA, kind=kind, policy=policy, name=name)


def speaking(table):
    """Which rule speaks at which point under first and priority, (points, rules)."""
    hits = table.hits(POINTS)[:, list(table.order)]
    first = hits & (hits.cumsum(1) == 1)
    back = torch.empty_like(first)
    back[:, list(table.order)] = first
    return back


def allowed(table):
    """What a range table allows at each point; may be empty, where the table itself refuses."""
    hits = table.hits(POINTS)
    outcomes = torch.tensor([[c in r.outcome for c in range(3)] for r in table.rules])
    if table.policy == "intersect":
        return ~(hits[:, :, None] & ~outcomes).any(1)
    return (hits[:, :, None] & outcomes).any(1) | ~hits.any(1, keepdim=True)


def rows(findings, code, file):
    return [f.place.row for f in findings if f.kind == code and f.place.file == file]


def point(finding):
    """The counterexample as a row of numbers."""
    values = dict(finding.counterexample)
    values["coal"] = LEVELS.index(values["coal"])
    return torch.tensor([[float(values[name]) for name in SCHEMA.names]], dtype=torch.float64)


def inside(finding):
    """The points inside a finding's region."""
    row = {name: cell for name, cell in finding.region.items()} | {"then": "I"}
    return table_of([row], SCHEMA, kind="predict").hits(POINTS)[:, 0]


@given(tables("predict", "p"))
@settings(max_examples=FIVE)
def test_a_prediction_table_is_judged_as_by_trying_every_cell(table):
    findings = lint_tables([table], listed=10_000)
    hits = table.hits(POINTS)
    numbers = range(len(table.rules))
    alive = [i for i in numbers if hits[:, i].any()]
    assert not [f for f in findings if f.kind == "gave-up"]
    assert set(rows(findings, "outside-scope", "p")) == {i + 1 for i in numbers if i not in alive}

    spoken = speaking(table).any(0)
    hidden = {i + 1 for i in alive if not spoken[i]} if table.policy != "unique" else set()
    assert sorted(rows(findings, "unreachable", "p")) == sorted(hidden)

    differ = {
        (i + 1, j + 1)
        for i, j in combinations(numbers, 2)
        if table.rules[i].outcome != table.rules[j].outcome and (hits[:, i] & hits[:, j]).any()
    }
    ties = {(i, j) for i, j in differ if table.rules[i - 1].priority == table.rules[j - 1].priority}
    expected = {"unique": differ, "priority": ties, "first": set()}[table.policy]
    pairs = [f for f in findings if f.kind in ("contradiction", "tie")]
    named = [tuple(sorted(map(int, re.findall(r"row (\d+)", f.message)))) for f in pairs]
    assert sorted(named) == sorted(expected)
    for finding, (i, j) in zip(pairs, named, strict=True):
        assert finding.severity == ("error" if table.policy == "unique" else "warning")
        assert table.hits(point(finding))[0, [i - 1, j - 1]].all()
        assert inside(finding).any() and hits[inside(finding)][:, [i - 1, j - 1]].all()
    overlap = [f for f in findings if f.kind == "overlap"]
    rest = differ - expected
    assert len(overlap) == bool(rest) * (table.policy != "unique")
    assert not overlap or f"in {len(rest)} pairs" in overlap[0].message

    gaps = [f for f in findings if f.kind == "gap"]
    assert bool(gaps) == bool((~hits.any(1)).any())
    for finding in gaps:
        assert not table.hits(point(finding)).any()
        assert inside(finding).any() and not hits[inside(finding)].any()


@given(tables("range", "r"), tables("range", "s"), st.booleans())
@settings(max_examples=FIVE)
def test_ranges_are_found_empty_exactly_where_they_are(one, other, both):
    used = [one, other] if both else [one]
    found = lint_tables(ranges=used, listed=10_000)
    assert not [f for f in found if f.kind == "gave-up"]
    left = torch.stack([allowed(table) for table in used]).all(0)
    empty = [f for f in found if f.kind == "empty-range"]
    assert bool(empty) == bool((~left.any(1)).any())
    for finding in empty:
        assert finding.severity == "error"
        assert inside(finding).any() and not left[inside(finding)].any()
        if not both:
            with pytest.raises(KnowledgeError, match="leave no class"):
                one(point(finding))


@given(tables("predict", "p"), tables("range", "r"), tables("range", "s"))
@settings(max_examples=FIVE)
def test_predictions_outside_the_range_are_found_exactly(table, one, other):
    findings = lint_tables([table], [one, other], listed=10_000)
    left = torch.stack([allowed(one), allowed(other)]).all(0)
    spoken = table.hits(POINTS) if table.policy == "unique" else speaking(table)
    said = torch.tensor([rule.outcome[0] for rule in table.rules])
    bad = spoken & ~left[:, said]  # (points, rules)
    outside = [f for f in findings if f.kind == "outside-range"]
    assert sorted(rows(outside, "outside-range", "p")) == [
        i + 1 for i in range(len(said)) if bad[:, i].any()
    ]
    for finding in outside:
        assert finding.severity == "error"
        assert inside(finding).any() and bad[inside(finding), finding.place.row - 1].all()


@st.composite
def soft_tables(draw):
    rules_drawn = draw(rules("range", "intersect"))
    if draw(st.booleans()):  # the same said twice, elsewhere or within
        further = {"ash": draw(numeric), "then": rules_drawn[0]["then"]}
        rules_drawn.append(rules_drawn[0] | further)
    table = table_of(rules_drawn, SCHEMA, kind="range", policy="intersect", name="s")
    shares = [draw(st.sampled_from((0.2, 0.7, 0.9, 1.0))) for _ in table.rules]
    return SoftTable(table, (0.9, *shares[1:]))


def soft_table(*ash):
    """Rules of equal outcomes for these cells of one column."""
    said = [{"ash": cell, "then": "I"} for cell in ash]
    table = table_of(said, SCHEMA, kind="range", policy="intersect", name="s")
    return SoftTable(table, (0.9,) * len(ash))


@given(soft_tables())
@example(soft_table("> 1", "> 4"))  # no row of the scope meets the second one
@example(soft_table("> 1", "> 3"))
@settings(max_examples=FIVE)
def test_soft_rules_are_counted_twice_exactly_where_two_witnesses_are_one(model):
    """Every row that one rule hits another hits too, to say the same; and both may be wrong."""
    found = list(lint_soft([], [model], 0.5, Place("s")))
    table, hits = model.table, model.table.hits(POINTS)
    heard = [
        i
        for i, rule in enumerate(table.rules)
        if hits[:, i].any() and model.confidences[i] < 1 and len(rule.outcome) < 3
    ]
    expected = []
    for i, j in combinations(heard, 2):
        one, other = table.rules[i], table.rules[j]
        if one.outcome == other.outcome and one.conditions != other.conditions:
            both = hits[:, i] & hits[:, j]
            inner = [place for place in (j, i) if torch.equal(both, hits[:, place])]
            expected += [place + 1 for place in inner[:1]]
    assert sorted(rows(found, "counted-twice", "s")) == sorted(expected)


comparisons = st.tuples(
    st.sampled_from(["ash", "sulphur", "ash + sulphur", "ash - sulphur"]),
    st.sampled_from(["<", "<=", ">", ">="]),
    st.sampled_from(["0", "1", "2.5", "4", "sulphur", "ash"]),
).map(" ".join)
regions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        inner.map(lambda text: f"not ({text})"),
    ),
    max_leaves=4,
)


@given(regions, regions)
@settings(max_examples=FIVE)
def test_regions_meet_exactly_where_a_row_lies_in_both(one, other):
    """Comparisons of two columns included; what lies on a line between floats may stay open."""
    schema = Schema((Feature("ash", low=0, high=4), Feature("sulphur", low=0, high=4)), CLASSES)
    places = [RowRegion(text, schema) for text in (one, other)]
    found = places[0].find_meeting(places[1])
    x = torch.tensor(list(product([i / 8 for i in range(33)], repeat=2)), dtype=torch.float32)
    seen = (places[0].holds(x) & places[1].holds(x)).any()
    assert found.status != "proved" or not seen
    if found.example is not None:
        row = torch.tensor([found.example], dtype=torch.float32)
        assert found.status == "refuted" and all(place.holds(row).all() for place in places)
    assert found.status == "refuted" or not seen


def codes(findings):
    return [(finding.severity, finding.kind) for finding in findings]


def predict(*cells, policy="first", schema=SCHEMA):
    return table_of(cells, schema, kind="predict", policy=policy, name="p.csv")


def test_three_ranges_may_clash_where_no_two_do():
    cells = [{"ash": "> 1", "then": "I, II"}, {"coal": "A", "then": "II, III"}]
    cells.append({"sulphur": "> 3", "then": "I, III"})
    (error, *_) = lint_tables(ranges=[table_of(cells, SCHEMA, kind="range", name="r.csv")])
    assert error.kind == "empty-range" and error.severity == "error"
    assert error.message.startswith("row 1, row 2 and row 3 together leave no class")
    assert error.region == {"ash": "> 1", "coal": "A", "sulphur": "> 3"}
    assert error.counterexample == {"ash": 2.0, "coal": "A", "sulphur": 4.0, "unused": 5.5}


def test_a_complete_table_of_rules_that_do_not_overlap_is_clean():
    table = predict({"ash": "<= 2", "then": "I"}, {"ash": "> 2", "then": "II"}, policy="unique")
    assert lint_tables([table]) == []


def test_doubles_and_rules_that_do_nothing_are_mentioned():
    cells = [{"ash": "> 1", "then": "I, II"}] * 2 + [{"ash": "<= 1", "then": "all"}]
    found = lint_tables(ranges=[table_of(cells, SCHEMA, kind="range", name="r.csv")])
    assert codes(found) == [("warning", "duplicate"), ("info", "no-effect")]
    assert str(found[0]) == "warning: r.csv, row 2: row 2 repeats row 1; delete one of the two"


def test_scope_errors_name_row_and_column():
    found = lint_tables([predict({"ash": "> 400", "then": "I"}, {"ash": "[2..9]", "then": "I"})])
    scoped = [f for f in found if "scope" in f.kind]
    assert codes(scoped) == [("warning", "outside-scope"), ("info", "beyond-scope")]
    assert [(f.place.row, f.place.column) for f in scoped] == [(1, "ash"), (2, "ash")]


def test_every_gap_is_named():
    """The second begins behind the first on every axis, and is another one all the same."""
    table = predict(
        {"ash": "<= 1", "sulphur": "> 1", "then": "I"},
        {"ash": "(1..3]", "then": "II"},
        {"ash": "> 3", "sulphur": "<= 3", "then": "III"},
    )
    assert [f.region for f in lint_tables([table]) if f.kind == "gap"] == [
        {"ash": "> 3", "sulphur": "> 3"},
        {"ash": "<= 1", "sulphur": "<= 1"},
    ]


def test_thresholds_that_float32_cannot_tell_apart_are_reported():
    found = lint_tables(
        [predict({"ash": "<= 0.1", "then": "I"}, {"ash": "> 0.100000000001", "then": "II"})]
    )
    assert ("warning", "same-in-float32") in codes(found)
    assert [f.region for f in found if f.kind == "gap"] == [{"ash": "(0.1..0.100000000001]"}]


def test_an_unreachable_rule_names_the_one_that_hides_it():
    (first, *_) = lint_tables([predict({"ash": "> 1", "then": "I"}, {"ash": "> 2", "then": "II"})])
    assert first.message == "row 2 never applies: all its rows go to row 1"
    assert first.region == {"ash": "> 2"}


def test_findings_are_plain_values_with_the_gravest_first():
    cells = [{"ash": "> 1", "then": "I"}, {"ash": "> 2", "then": "II"}]
    found = lint_tables([predict(*cells, policy="unique")])
    again = json.loads(json.dumps([finding.as_row() for finding in found]))
    assert [row["severity"] for row in again] == ["error", "info"]
    assert again[0]["place"] == {"file": "p.csv", "sheet": "", "row": 2, "column": ""}
    assert again[0]["counterexample"]["ash"] == 3.0


def test_long_lists_are_cut_and_counted():
    cells = [{"ash": f"> {i / 100}", "then": CLASSES[i % 3]} for i in range(60)]
    found = lint_tables([predict(*cells, policy="unique")], listed=7)
    assert codes(found).count(("error", "contradiction")) == 7
    pairs = sum(i % 3 != j % 3 for i, j in combinations(range(60), 2))
    assert f"{pairs - 7} more of kind 'contradiction'" in [f.message for f in found]


def test_what_is_given_up_is_said_and_the_same_each_time():
    cells = [{"ash": f"> {i / 100}", "sulphur": f"<= {i}", "then": "I"} for i in range(300)]
    table = predict(*cells)
    found = lint_tables([table], steps=20_000)
    assert any(f.kind == "gave-up" and "gave up:" in f.message for f in found)
    assert found == lint_tables([table], steps=20_000)
    assert not [f for f in lint_tables([table]) if f.kind == "gave-up"]


def test_a_rule_of_too_many_pieces_is_given_up_not_guessed():
    names = [f"f{i}" for i in range(14)]
    schema = Schema(tuple(map(Feature, names)), CLASSES)
    table = predict({name: "not 0" for name in names} | {"then": "I"}, schema=schema)
    assert codes(lint_tables([table])) == [("info", "gave-up")]


@pytest.mark.slow
def test_ten_thousand_rules_are_decided():
    schema = Schema((Feature("a", low=0, high=100), Feature("b", low=0, high=100)), CLASSES)
    cells = [
        {"a": f"({i}..{i + 1}]", "b": f"({j}..{j + 1}]", "then": CLASSES[(i + j) % 3]}
        for i, j in product(range(100), range(100))
        if (i, j) != (31, 41)
    ]
    cells += [{"a": "= 0", "then": "I"}, {"a": "> 0", "b": "= 0", "then": "I"}]
    cells += [{"a": "(3..4]", "b": "(5..7)", "then": "II"}]
    found = lint_tables([predict(*cells, schema=schema)])
    assert [(f.kind, f.place.row, f.region) for f in found if f.kind != "overlap"] == [
        ("unreachable", 10_002, {"a": "(3..4]", "b": "(5..7)"}),
        ("gap", None, {"a": "(31..32]", "b": "(41..42]"}),
    ]


def test_tables_of_different_schemas_are_refused():
    other = Schema((Feature("x"),), CLASSES)
    with pytest.raises(KnowledgeError, match="same schema"):
        lint_tables([predict({"then": "I"}), predict({"x": "> 1", "then": "I"}, schema=other)])
    with pytest.raises(KnowledgeError, match="not a range table"):
        lint_tables(ranges=[predict({"then": "I"})])


def test_nothing_to_check_is_nothing_found():
    assert lint_tables() == []
    assert lint_tables([predict({"then": "I"})]) == []


def test_thresholds_on_the_ends_of_the_scope_lie_in_it():
    def kinds(*cells):
        rows = [{"ash": cell, "then": "I"} for cell in cells]
        found = lint_tables(ranges=[table_of(rows, SCHEMA, kind="range")], listed=99)
        return [finding.kind for finding in found]

    assert "beyond-scope" not in kinds(">= 0", "<= 4", "[0..4]", "> 0", "< 4")
    assert "beyond-scope" in kinds("[0..5]") and "beyond-scope" in kinds("[-1..4]")


def test_of_a_kind_so_many_are_listed_and_the_others_counted():
    table = table_of([{"ash": "> 1", "then": "I"}] * 5, SCHEMA, kind="range")

    def told(listed):
        found = lint_tables(ranges=[table], listed=listed)
        more = [one.args["count"] for one in found if one.kind == "more"]
        return sum(one.kind == "duplicate" for one in found), more

    assert told(4) == (4, []) and told(3) == (3, [1]) and told(1) == (1, [3])
