"""What an expert is told about formulas before any data is seen."""

from fedlore.kernel.findings import Place
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.formulas.formula import Formula
from fedlore.knowledge.formulas.grading import FormulaRange, GradedFormula
from fedlore.knowledge.lint.arithmetic import lint_formulas

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


def limits(lower, upper):
    sides = [None if side is None else Formula.parse(side, SCHEMA) for side in (lower, upper)]
    return FormulaRange(*sides, EDGES)


def codes(findings):
    return [(finding.severity, finding.kind) for finding in findings]


def test_sound_formulas_have_no_findings():
    predict = graded("48.6 * ro + 3.6 * log10(max(mf, 1))")
    band = limits(f"{predict.formula.text} - 10", f"{predict.formula.text} + 10")
    assert lint_formulas(predict, band) == []
    assert lint_formulas() == []


def test_a_logarithm_of_zero_is_found():
    place = Place("knowledge.toml", column="predict")
    (finding,) = lint_formulas(graded("48.6 * ro + 3.6 * log10(mf)"), place=place)
    assert codes([finding]) == [("warning", "undefined")]
    assert finding.counterexample["mf"] == 0
    assert finding.counterexample["seam"] in ("upper", "lower")
    assert finding.place == place
    assert "abstains" in finding.message and "mf 0" in finding.message


def test_an_outcome_that_never_comes_is_found():
    (finding,) = lint_formulas(graded("20 * ro + where(ro > 1.2, 19, 0)"))
    assert codes([finding]) == [("warning", "unreached")]
    assert "'good' (60 to inf)" in finding.message


def test_a_prediction_outside_its_range_is_found():
    findings = lint_formulas(graded("50 * ro"), limits("55 * ro", None))
    assert ("error", "outside-range") in codes(findings)
    row = findings[-1].counterexample
    assert any(50 * row["ro"] < edge <= 55 * row["ro"] for edge in EDGES)


def test_crossed_limits_are_found():
    findings = lint_formulas(None, limits("50 * ro", "60"))
    assert codes(findings) == [("error", "empty-range")]
    assert findings[0].counterexample["ro"] > 1.2


def test_giving_up_is_said():
    # ro·mf and mf·ro cannot be told to be equal, so 1 divided by 1e-9 more cannot be either
    predict = graded("50 * ro + 1e-9 / ((ro * mf - mf * ro) ** 2 * (ro * mf - mf * ro) + 1)")
    findings = lint_formulas(predict, budget=50)
    assert ("info", "gave-up") in codes(findings)


def test_what_is_no_formula_is_passed_over():
    simulated = GradedFormula(lambda x: x[:, 0], EDGES)
    assert lint_formulas(simulated, FormulaRange(lambda x: x[:, 0], None, EDGES)) == []
