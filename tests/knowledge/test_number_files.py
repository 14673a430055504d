"""Knowledge about numbers as an expert writes it: formulas, tables of numbers and of intervals."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore import KnowledgeError
from fedlore.answers import Bins, Line, Measured
from fedlore.kernel.schema import name_columns
from fedlore.kernel.sheets import parse_csv
from fedlore.knowledge import Knowledge
from fedlore.knowledge.protocols import kind_of
from fedlore.knowledge.tables.numbers import parse_numbers_table

SCHEMA = name_columns(["ash", "water"], ["low", "high"])

FILE = """
trust = 0.3
outside = "widen"
conflict = "project"
features = [{name = "ash", unit = "%"}, {name = "water", unit = "%"}]

[target]
name = "gcv"
unit = "MJ/kg"
lower = 0.0
upper = 40.0
bins = 80

[card]
owner = "the laboratory"

[predict]
spread = 0.5
[[predict.sources]]
table = "known.csv"
[[predict.sources]]
formula = "35 - 0.4 * ash - 0.4 * water"

[range]
[[range.sources]]
lower = "30 - 0.4 * ash - 0.4 * water"
upper = "38 - 0.4 * ash - 0.4 * water"
[[range.sources]]
table = "limits.csv"
"""
KNOWN = "ash [%],water,then\n= 10,= 10,26.5\n"
LIMITS = 'ash,then,note\n> 20,<= 25,\n> 30,"in 5..15, 18..20",two seams\n'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "knowledge.toml").write_text(FILE)
    (tmp_path / "known.csv").write_text(KNOWN)
    (tmp_path / "limits.csv").write_text(LIMITS)
    return tmp_path


def table(text, kind="range", **settings):
    return parse_numbers_table(parse_csv(text, "table.csv"), SCHEMA, kind=kind, **settings)


def test_a_file_about_a_number(folder):
    found = Knowledge.read(folder / "knowledge.toml")
    assert found.bins == Bins(0.0, 40.0, 80)
    assert (found.schema.label, len(found.schema.classes)) == ("gcv", 80)
    assert found.card.owner == "the laboratory"
    known = found
    assert (known.trust, known.spread, known.outside) == (0.3, 0.5, "widen")
    x = torch.tensor([[10.0, 10.0], [35.0, 10.0], [25.0, 10.0], [0.0, 0.0]])
    told = known.annotate(Measured(x), Line(found.bins))
    assert told.said.tolist() == pytest.approx([26.5, 17.0 + 1.0, 21.0, 35.0])  # moved up to 18
    assert told.sets.lower[1].tolist() == [12.0, 18.0]
    assert told.sets.upper[1].tolist() == [15.0, 20.0]
    assert told.sets.upper[2, 0].item() == 24.0
    assert kind_of(known.range) == "certain"


def test_a_calibrated_interval_in_a_file_is_statistical(folder):
    text = FILE.replace('table = "limits.csv"', "[range.sources.conformal]\nalpha = 0.1\n").replace(
        "alpha = 0.1\n",
        'alpha = 0.1\nthresholds = [1.5]\nrows = 99\nscorer = { formula = "30 - ash" }\n',
    )
    (folder / "knowledge.toml").write_text(text)
    known = Knowledge.read(folder / "knowledge.toml")
    assert kind_of(known.range) == "statistical"
    assert known.range(torch.tensor([[1.0, 1.0]])).lower.item() == pytest.approx(29.2)


def test_ranges_of_a_file_can_be_joined_and_functions_named(folder):
    text = FILE.replace("[range]\n", '[range]\ncombine = "any"\n').replace(
        'formula = "35 - 0.4 * ash - 0.4 * water"', 'entry = "torch:sum"\ncolumns = ["ash"]'
    )
    (folder / "knowledge.toml").write_text(text)
    with pytest.raises(KnowledgeError, match=r"\[predict\] source 2: 'torch:sum' is code"):
        Knowledge.read(folder / "knowledge.toml")
    (folder / "knowledge.toml").write_text("entry_points = true\n" + text)
    known = Knowledge.read(folder / "knowledge.toml")
    assert known.range(torch.tensor([[35.0, 10.0]])).lower.tolist() == [[5.0]]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("bins = 80", "bin = 80", r"\[target\] unknown key 'bin'; did you mean 'bins'"),
        ("upper = 40.0", "upper = 0.0", "lower < upper, got lower 0.0 and upper 0.0"),
        ("bins = 80", "edges = [0.0, 1.0]", "edges must begin and end at the bounds"),
        ('0.4 * ash - 0.4 * water"\nupper', '0.4 * ahs"\nupper', "did you mean 'ash'"),
        ('table = "limits.csv"', 'table = "gone.csv"', r"\[range\] source 2: gone.csv: cannot be"),
        ('table = "known.csv"', 'onnx = "m.onnx"', "'onnx' is not a source of a number"),
        ('table = "limits.csv"', 'formula = "ash"', "'formula' is not a source of intervals"),
        ("spread = 0.5", "spread = -0.5", "spread must be a positive number"),
    ],
)
def test_a_fault_in_the_file_is_named(folder, old, new, says):
    assert old in FILE
    (folder / "knowledge.toml").write_text(FILE.replace(old, new))
    with pytest.raises(KnowledgeError, match=says):
        Knowledge.read(folder / "knowledge.toml")


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("ash,then\n> 1,(8..12]\n", "range", "row 2: sets of numbers have their ends"),
        ("ash,then\n> 1,< 8\n", "range", "sets of numbers have their ends"),
        ("ash,then\n> 1,8..12\n", "predict", "row 2: a prediction names one number, got '8..12'"),
        ("ash,then\n> 1,hot\n", "range", "row 2: cannot read 'hot'"),
        ("ahs,then\n> 1,8\n", "range", "unknown column 'ahs'"),
        ("ash\n> 1\n", "range", "one outcome column"),
    ],
)
def test_a_fault_in_a_table_has_its_row(text, kind, says):
    with pytest.raises(KnowledgeError, match=says):
        table(text, kind)


def test_a_table_of_numbers_is_silent_where_no_rule_hits():
    point = table("ash,then\n> 20,18.5\n> 10,25\n", "predict")
    said = point(torch.tensor([[25.0, 0.0], [15.0, 0.0], [5.0, 0.0]])).tolist()
    assert said[:2] == [18.5, 25.0] and math.isnan(said[2])


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9),
            st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=2),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(("intersect", "union")),
)
def test_tables_of_intervals_equal_a_naive_reading(rules, policy):
    lines = []
    for above, ends in rules:
        cells = ", ".join(f"{a}..{a + w}" if w else str(a) for a, w in ends)
        lines.append(f'>= {above},"in {cells}"')
    model = table("ash,then\n" + "\n".join(lines) + "\n", policy=policy)
    x = torch.arange(10.0).unsqueeze(1).repeat(1, 2)
    found = model(x)
    for v in torch.arange(-1.0, 14.0, 0.5).tolist():
        held = found.holds(torch.full((10,), v, dtype=torch.float64)).tolist()
        for row in range(10):
            said = [any(a <= v <= a + w for a, w in ends) for above, ends in rules if row >= above]
            naive = (all(said) if policy == "intersect" else any(said)) if said else True
            assert held[row] == naive


def test_rules_that_name_one_number_in_two_ways_agree():
    page = parse_csv("ash,then\n> 1,4\n> 2,4.0\n> 3,5\n", "p.csv")
    table = parse_numbers_table(page, SCHEMA, kind="predict", policy="unique")
    assert table(torch.tensor([[2.5, 0.0]])).tolist() == [4.0]
    with pytest.raises(KnowledgeError, match="disagree"):
        table(torch.tensor([[3.5, 0.0]]))
