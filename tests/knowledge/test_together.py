"""Lint over all sources at once: the combination as it will act, for every row of the scope."""

import pytest
import torch

from fedlore import Knowledge
from fedlore.errors import KnowledgeError
from fedlore.knowledge.lint.checkup import check_file

HEAD = """
classes = ["low", "mid", "high"]
edges = [2.0, 4.0]
[[features]]
name = "a"
low = 0.0
high = 4.0
[[features]]
name = "b"
low = 0.0
high = 4.0
"""
TABLES = {"high.csv": b"a,then\n> 3,high\n", "low.csv": b"a,then\n> 3,low\n"}
LOWER, UPPER = '{lower = "a + 1.5"}', '{upper = "3 - a"}'


def found(text, severity="error"):
    findings = check_file({"knowledge.toml": (HEAD + text).encode(), **TABLES}).findings
    return [f for f in findings if f.severity == severity]


def answer(text, row):
    files = {"knowledge.toml": (HEAD + text).encode(), **TABLES}
    return Knowledge.read(files).range(torch.tensor([row]))


@pytest.mark.parametrize(
    "sources",
    [f'{{table = "low.csv"}}, {LOWER}', f"{LOWER}, {UPPER}", f'{UPPER}, {{table = "high.csv"}}'],
    ids=["a table and a formula", "two formulas", "a formula and a table"],
)
def test_ranges_that_exclude_each_other_are_an_error(sources):
    text = f"[range]\nsources = [{sources}]\n"
    (finding,) = found(text)
    assert finding.kind == "empty-range" and "leave no class together" in finding.message
    with pytest.raises(KnowledgeError, match="leaves no class"):
        answer(text, list(finding.counterexample.values()))
    # as it acts: where another word is there for it, nothing is refused
    assert found(f'[range]\nempty = "first"\nsources = [{sources}]\n') == []
    (remark,) = [
        f
        for f in found(f'[range]\nempty = "all"\nsources = [{sources}]\n', "info")
        if f.kind == "empty-range"
    ]
    assert "every class is allowed" in remark.message
    assert found(f'[range]\ncombine = "any"\nsources = [{sources}]\n') == []


def test_two_tables_may_be_alternatives():
    sources = 'sources = [{table = "high.csv"}, {table = "low.csv"}]\n'
    assert [f.kind for f in found(f"[range]\n{sources}")] == ["empty-range"]
    assert found(f'[range]\ncombine = "any"\n{sources}') == []


def test_ranges_that_fit_are_fine():
    assert found(f'[range]\nsources = [{{table = "high.csv"}}, {LOWER}]\n') == []


def test_a_prediction_is_held_against_alternatives():
    """'high' is in neither of two alternatives beyond a = 3."""
    text = '[predict]\nsources = [{formula = "a + 1"}]\n[range]\ncombine = "any"\nsources = ['
    (finding,) = found(text + f'{{table = "low.csv"}}, {UPPER}]\n')
    assert finding.kind == "outside-range" and finding.counterexample["a"] > 3
    assert found(text + f'{{table = "low.csv"}}, {LOWER}, {{upper = "a + 2"}}]\n') == []


def test_who_never_speaks_does_not_leave_the_range():
    """The second expert would leave the range, but the first one always speaks before him."""
    ranged = '[range]\nsources = [{upper = "a + 1"}]\n'
    second = '{formula = "a + 4"}'
    assert [f.kind for f in found(f"[predict]\nsources = [{second}]\n{ranged}")]
    first = f'[predict]\nsources = [{{formula = "a / 2"}}, {second}]\n{ranged}'
    assert found(first) == []
    assert found(first.replace("[predict]", '[predict]\ncombine = "average"')) != []


def test_what_cannot_be_looked_into_is_said():
    scorer = '{formula = "a", spread = 0.5}'
    learned = f"{{conformal = {{thresholds = [0.9, 0.9, 0.9], alpha = 0.1, scorer = {scorer}}}}}"
    text = f"[predict]\nsources = [{scorer}]\n[range]\nsources = [{LOWER}, {learned}]\n"
    (finding,) = [f for f in found(text, "info") if f.kind == "gave-up"]
    assert "a ConformalRange cannot be looked into to decide whether the ranges" in finding.message


def test_a_sliver_that_no_point_hits_is_not_passed_over():
    text = '[predict]\nsources = [{formula = "where(abs(3*a - 1.2345) < 0.0003, 5, 1)"}]\n'
    text += '[range]\nsources = [{upper = "3"}, {upper = "a + 3"}]\n'
    for finding in (findings := found(text)):
        assert finding.kind == "outside-range" and abs(finding.counterexample["a"] - 0.4115) < 1e-3
    assert findings
