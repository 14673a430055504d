"""Tables of numbers against formulas, over the scope and without rows."""

import pytest
import torch

from fedlore.answers import Line, Measured
from fedlore.knowledge import Knowledge
from fedlore.knowledge.lint.checkup import check_file

HEAD = """
conflict = "{conflict}"
[target]
lower = 0
upper = 100
bins = 10
[[features]]
name = "ash"
low = 0
high = 20
[[features]]
name = "mine"
levels = ["north", "south"]
"""


def found(folder, sources, rules, conflict="abstain"):
    """What lint finds of a table `rules.csv` and formulas, by code."""
    (folder / "rules.csv").write_text(rules)
    (folder / "knowledge.toml").write_text(HEAD.format(conflict=conflict) + sources)
    findings = check_file(folder / "knowledge.toml").findings
    return {f.kind: f for f in findings if f.kind != "gap"}  # that a table says nothing is fine


LIMITS = '[[range.sources]]\nlower = "2 * ash"\nupper = "2 * ash + 30"\n'
TABLE = '[[range.sources]]\ntable = "rules.csv"\n'


@pytest.mark.parametrize("rule", ["> 15,south,<= 29", "< 5,,>= 41", '> 15,,"in 0..10, 20..29"'])
def test_a_rule_that_leaves_formulas_no_number_is_an_error_at_its_row(tmp_path, rule):
    told = found(tmp_path, LIMITS + TABLE, f"ash,mine,then\n[8..9],,>= 10\n{rule}\n")
    assert set(told) == {"empty-range"}
    (finding,) = told.values()
    assert finding.severity == "error" and finding.place.row == 3
    assert "row 3: the formulas leave none of its numbers" in finding.message
    ash = finding.counterexample["ash"]
    assert ash > 14.5 if rule.startswith(">") else ash < 5.5


def test_rules_that_leave_room_everywhere_are_proved(tmp_path):
    assert not found(tmp_path, LIMITS + TABLE, "ash,mine,then\n> 15,south,<= 41\n< 5,,>= 29\n")
    # the formula alone would leave none, but where it does another mine is meant
    rules = "ash,mine,then\n> 15,south,>= 40\n< 15,north,<= 35\n"
    assert not found(tmp_path, LIMITS + TABLE, rules)


def test_sources_that_contradict_each_other_allow_all_where_the_file_says_so(tmp_path):
    words = '[range]\nempty = "all"\n'
    found(tmp_path, f"{words}{LIMITS}{TABLE}", "ash,then\n> 15,<= 10\n")
    file = Knowledge.read(tmp_path / "knowledge.toml")
    told = file.annotate(Measured(torch.tensor([[16.0, 0.0], [2.0, 0.0]])), Line(file.bins))
    assert told.sets.lower.tolist() == [[file.bins.lower], [4.0]]
    assert told.sets.upper.tolist() == [[file.bins.upper], [34.0]]


def test_where_either_may_hold_or_nothing_is_allowed_all_there_is_no_error(tmp_path):
    rules = "ash,then\n> 15,<= 10\n"
    for words in ('combine = "any"\n', 'empty = "all"\n'):
        assert "empty-range" not in found(tmp_path, f"[range]\n{words}{LIMITS}{TABLE}", rules)


@pytest.mark.parametrize(("conflict", "severity"), [("error", "error"), ("abstain", "warning")])
def test_a_prediction_that_leaves_the_range_is_as_bad_as_its_policy(tmp_path, conflict, severity):
    formula = '[[predict.sources]]\nformula = "3 * ash"\n'
    told = found(tmp_path, formula + TABLE, "ash,then\n> 15,<= 50\n", conflict)
    assert told["outside-range"].severity == severity
    assert told["outside-range"].counterexample["ash"] > 50 / 3
    table = '[[predict.sources]]\ntable = "rules.csv"\n'
    told = found(tmp_path, table + LIMITS, "ash,then\n> 15,45\n< 5,50\n", conflict)
    assert told["outside-range"].place.row == 3 and told["outside-range"].severity == severity
