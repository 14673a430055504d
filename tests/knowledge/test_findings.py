"""Lint over all sources of a file, of classes and of a number: over the scope and without rows."""

import itertools

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedlore import Knowledge
from fedlore.answers import Measured
from fedlore.core.examples import Examples
from fedlore.errors import KnowledgeError
from fedlore.kernel.findings import Place
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.findings import check_file
from fedlore.knowledge.findings.sources import lint_formula, lint_limits
from fedlore.knowledge.formulas import Formula, FormulaRange, GradedFormula

FEATURES = 'features = [{name = "a", low = 0.0, high = 4.0}, {name = "b", low = 0.0, high = 4.0}]\n'
HEADS = {
    "classes": FEATURES + 'classes = ["low", "mid", "high"]\nedges = [2.0, 4.0]\n',
    "numbers": FEATURES + "[target]\nlower = -10\nupper = 20\nbins = 6\n",
}


def files(task, body, **tables):
    """A knowledge file with its tables, by name; a first line `conflict = ...` stays at the top."""
    top, rest = body.split("\n", 1) if body.startswith("conflict") else ("", body)
    text = f"{top}\n{HEADS[task]}{rest}"
    return {"knowledge.toml": text.encode(), **{f"{n}.csv": t.encode() for n, t in tables.items()}}


def found(task, body, severity="error", **tables):
    every = check_file(files(task, body, **tables)).findings
    return [f for f in every if f.severity == severity]


def answers(task, body, rows, **tables):
    """What the models say of each row: refused, or whether the prediction left the range."""
    known = Knowledge.read(files(task, body, **tables))
    for row in rows:
        x = torch.tensor([row])
        try:
            said = known._evaluate(Examples(x) if task == "classes" else Measured(x), known.answers)
        except KnowledgeError:
            yield "refused"
        else:
            yield said[1] > 0


def answer(task, body, row, **tables):
    return next(answers(task, body, [row], **tables))


GRID = list(itertools.product([i / 4 for i in range(17)], repeat=2))
bands = st.sampled_from(["", "> 1", "<= 3", "[1..3)", "= 2"])
shifts = st.sampled_from(["a + 1", "a - 0.5", "b", "3 - a", "2.5"])
OUTCOMES = {
    "classes": {"predict": ("low", "mid", "high"), "range": ("low", "low, mid", "mid..high")},
    "numbers": {"predict": ("1", "3", "5.5"), "range": ("<= 2", "[1..4]", ">= 3", "[0..6]")},
}


@st.composite
def sources(draw, task, side):
    """A source of a side, as an entry of a file, and the table it names."""
    if draw(st.booleans()):
        cells = st.tuples(bands, bands, st.sampled_from(OUTCOMES[task][side]))
        rules = draw(st.lists(cells, min_size=1, max_size=2))
        lines = [f'{a},{b},"{then}"' for a, b, then in rules]
        return "table", "a,b,then\n" + "\n".join(lines) + "\n"
    if side == "predict":
        return f'formula = "{draw(shifts)}"', None
    low, high = draw(shifts), draw(shifts)
    kind = draw(st.sampled_from(["lower", "upper", "both"]))
    parts = [f'lower = "{low} - 2"'] * (kind != "upper") + [f'upper = "{high} + 1"'] * (
        kind != "lower"
    )
    return "\n".join(parts), None


@pytest.mark.parametrize("task", HEADS)
@settings(max_examples=5 * settings().max_examples, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_findings_agree_with_every_row_of_a_grid(task, data):
    """What is reported is so in the row that is shown, and what is not is so in no row."""
    body, tables = 'conflict = "abstain"\n', {}
    sides = ["predict"] * data.draw(st.integers(0, 1)) + ["range"] * data.draw(st.integers(1, 2))
    for place, side in enumerate(sides):
        entry, table = data.draw(sources(task, side))
        name = f"t{place}"
        said = entry if table is None else f'table = "{name}.csv"'
        body += f"[[{side}.sources]]\n{said}\n"
        tables |= {} if table is None else {name: table}
    findings = check_file(files(task, body, **tables)).findings
    said = {
        kind: [f for f in findings if f.kind == kind] for kind in ("empty-range", "outside-range")
    }
    for finding in said["empty-range"]:
        assert answer(task, body, list(finding.counterexample.values()), **tables) == "refused"
    for finding in said["outside-range"]:
        assert answer(task, body, list(finding.counterexample.values()), **tables)
    if any(f.kind in ("gave-up", "beyond-bounds") for f in findings):
        return
    seen = set(answers(task, body, GRID[::3], **tables))
    assert said["empty-range"] or "refused" not in seen
    assert said["outside-range"] or True not in seen


LOWER, UPPER = '{lower = "a + 1.5"}', '{upper = "3 - a"}'
TABLES = {"high": "a,then\n> 3,high\n", "low": "a,then\n> 3,low\n"}


@pytest.mark.parametrize(
    "sources",
    [f'{{table = "low.csv"}}, {LOWER}', f"{LOWER}, {UPPER}", f'{UPPER}, {{table = "high.csv"}}'],
    ids=["a table and a formula", "two formulas", "a formula and a table"],
)
def test_ranges_that_exclude_each_other_are_an_error(sources):
    body = f"[range]\nsources = [{sources}]\n"
    (finding,) = found("classes", body, **TABLES)
    assert finding.kind == "empty-range" and "the ranges together leave no class" in finding.message
    assert answer("classes", body, list(finding.counterexample.values()), **TABLES) == "refused"


CONTRADICTION = {
    "classes, two tables": ("classes", '{table = "t.csv"}, {table = "u.csv"}', "low", "high"),
    "classes, a rule and a formula": ("classes", '{table = "t.csv"}, {lower = "a + 1"}', "low", ""),
    "numbers, two tables": ("numbers", '{table = "t.csv"}, {table = "u.csv"}', "<= 1", ">= 2"),
    "numbers, a rule and formulas": ("numbers", '{table = "t.csv"}, {lower = "a"}', "<= 1", ""),
}


@pytest.mark.parametrize(
    ("task", "sources", "one", "other"), CONTRADICTION.values(), ids=CONTRADICTION
)
def test_a_contradiction_is_as_bad_as_what_becomes_of_the_row(task, sources, one, other):
    """Refused with `error`; with `all` every answer is allowed, for classes and for numbers."""
    tables = {"t": f"a,then\n> 3,{one}\n", "u": f"a,then\n> 3,{other}\n" if other else ""}
    tables = {name: text for name, text in tables.items() if text}
    strict, lenient = (f'[range]\nempty = "{e}"\nsources = [{sources}]\n' for e in ("error", "all"))
    (finding,) = found(task, strict, **tables)
    assert finding.kind == "empty-range"
    row = list(finding.counterexample.values())
    assert answer(task, strict, row, **tables) == "refused"
    assert found(task, lenient, **tables) == []
    assert "empty-range" in [f.kind for f in found(task, lenient, "info", **tables)]
    assert answer(task, lenient, row, **tables) is False
    either = f'[range]\ncombine = "any"\nsources = [{sources}]\n'
    assert not [
        f for f in check_file(files(task, either, **tables)).findings if f.kind == "empty-range"
    ]


def test_a_prediction_is_held_against_alternatives():
    """'high' is in neither of two alternatives beyond a = 3."""
    text = '[predict]\nsources = [{formula = "a + 1"}]\n[range]\ncombine = "any"\nsources = ['
    (finding,) = found("classes", text + f'{{table = "low.csv"}}, {UPPER}]\n', **TABLES)
    assert finding.kind == "outside-range" and finding.counterexample["a"] > 3
    more = f'{{table = "low.csv"}}, {LOWER}, {{upper = "a + 2"}}]\n'
    assert found("classes", text + more, **TABLES) == []


def test_who_never_speaks_does_not_leave_the_range():
    """The second expert would leave the range, but the first one always speaks before him."""
    ranged = '[range]\nsources = [{upper = "a + 1"}]\n'
    second = '{formula = "a + 4"}'
    assert found("classes", f"[predict]\nsources = [{second}]\n{ranged}")
    first = f'[predict]\nsources = [{{formula = "a / 2"}}, {second}]\n{ranged}'
    assert found("classes", first) == []
    assert found("classes", first.replace("[predict]", '[predict]\ncombine = "average"')) != []


def test_what_cannot_be_looked_into_is_said():
    scorer = '{formula = "a", spread = 0.5}'
    learned = f"{{conformal = {{thresholds = [0.9, 0.9, 0.9], alpha = 0.1, scorer = {scorer}}}}}"
    text = f"[predict]\nsources = [{scorer}]\n[range]\nsources = [{LOWER}, {learned}]\n"
    (finding,) = [f for f in found("classes", text, "info") if f.kind == "gave-up"]
    assert "a ConformalRange cannot be inspected to decide whether the ranges" in finding.message


def test_a_sliver_that_no_point_hits_is_not_passed_over():
    text = '[predict]\nsources = [{formula = "where(abs(3*a - 1.2345) < 0.0003, 5, 1)"}]\n'
    text += '[range]\nsources = [{upper = "3"}, {upper = "a + 3"}]\n'
    for finding in (findings := found("classes", text)):
        assert finding.kind == "outside-range" and abs(finding.counterexample["a"] - 0.4115) < 1e-3
    assert findings


LIMITS = '[[range.sources]]\nlower = "2 * a"\nupper = "2 * a + 3"\n'
TABLE = '[[range.sources]]\ntable = "t.csv"\n'


@pytest.mark.parametrize("rule", ["> 3,> 1,<= 5.5", "< 1,,>= 5.5", '> 3,,"in 0..1, 2..5.5"'])
def test_a_rule_that_leaves_formulas_no_number_is_an_error_at_its_row(rule):
    (finding,) = found("numbers", LIMITS + TABLE, t=f"a,b,then\n[2..2.1],,>= 1\n{rule}\n")
    assert finding.kind == "empty-range" and finding.place.row == 3
    assert "row 3: the formulas leave none of its numbers" in finding.message
    at = finding.counterexample["a"]
    assert at > 2.75 if rule.startswith(">") else at < 1.25


def test_rules_that_leave_room_everywhere_are_proved():
    assert not found("numbers", LIMITS + TABLE, t="a,b,then\n> 3,> 1,<= 8.5\n< 1,,>= 2.5\n")


@pytest.mark.parametrize(("conflict", "severity"), [("error", "error"), ("abstain", "warning")])
def test_a_number_that_leaves_the_range_is_as_bad_as_its_policy(conflict, severity):
    head = f'conflict = "{conflict}"\n'
    formula = head + '[[predict.sources]]\nformula = "3 * a"\n' + TABLE
    (finding,) = found("numbers", formula, severity, t="a,then\n> 3,<= 10\n")
    assert finding.kind == "outside-range" and finding.counterexample["a"] > 10 / 3
    table = head + '[[predict.sources]]\ntable = "t.csv"\n' + LIMITS
    (finding,) = found("numbers", table, severity, t="a,then\n> 3,8.5\n< 1,10\n")
    assert finding.place.row == 3 and finding.kind == "outside-range"


SCHEMA = Schema(
    (
        Feature("ro", "%", 0.6, 1.8),
        Feature("mf", "ddpm", 0.0, 30_000.0),
        Feature("seam", levels=("upper", "lower")),
    ),
    ("poor", "fair", "good"),
)
EDGES = (40.0, 60.0)


def graded(text):
    return GradedFormula(Formula.parse(text, SCHEMA), EDGES)


def limits(*sides):
    return FormulaRange(*(None if s is None else Formula.parse(s, SCHEMA) for s in sides), EDGES)


def codes(findings):
    return [(finding.severity, finding.kind) for finding in findings]


def test_sound_formulas_have_no_findings():
    predict = graded("48.6 * ro + 3.6 * log10(max(mf, 1))")
    band = limits(f"{predict.formula.text} - 10", f"{predict.formula.text} + 10")
    assert [*lint_formula(predict), *lint_limits(band)] == []


def test_a_logarithm_of_zero_is_found():
    place = Place("knowledge.toml", column="predict")
    (finding,) = lint_formula(graded("48.6 * ro + 3.6 * log10(mf)"), place=place)
    assert codes([finding]) == [("warning", "undefined")]
    assert finding.counterexample["mf"] == 0 and finding.place == place
    assert finding.counterexample["seam"] in ("upper", "lower")
    assert "abstains" in finding.message and "mf 0" in finding.message


def test_an_outcome_that_never_comes_is_found():
    (finding,) = lint_formula(graded("20 * ro + where(ro > 1.2, 19, 0)"))
    assert codes([finding]) == [("warning", "unreached")]
    assert "'good' (60 to inf)" in finding.message


def test_crossed_limits_are_found():
    (finding,) = lint_limits(limits("50 * ro", "60"))
    assert codes([finding]) == [("error", "empty-range")] and finding.counterexample["ro"] > 1.2


def test_giving_up_is_said():
    # ro·mf and mf·ro cannot be told to be equal, so 1 divided by 1e-9 more cannot be either
    predict = graded("50 * ro + 1e-9 / ((ro * mf - mf * ro) ** 2 * (ro * mf - mf * ro) + 1)")
    assert ("info", "gave-up") in codes(lint_formula(predict, budget=50))


def test_what_is_no_formula_is_passed_over():
    assert lint_formula(GradedFormula(lambda x: x[:, 0], EDGES)) == []
    assert lint_limits(FormulaRange(lambda x: x[:, 0], None, EDGES)) == []
