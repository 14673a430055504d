"""Rules that hold in most cases only: distributions, combined by a stated rule, never a wall."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlore.core.examples import Examples
from fedlore.core.statistics import exact_share
from fedlore.errors import FedloreError, KnowledgeError
from fedlore.kernel.cells import parse_confidence
from fedlore.kernel.knowledge import read_knowledge
from fedlore.knowledge import (
    Average,
    Feature,
    FirstOf,
    Formula,
    FormulaRange,
    GradedFormula,
    Knowledge,
    Schema,
    table_of,
)
from fedlore.knowledge.findings.checkup import check_data, check_file
from fedlore.knowledge.soft import Softened, SoftFormulas, has_soft, lone_expert, place_within
from fedlore.knowledge.sources.reasons import reasons_of
from fedlore.knowledge.tables.soft import SoftTable

from ..cli.spoken import spoken

K = ("I", "II", "III", "IV")
SCHEMA = Schema((Feature("ash", "%", 0.0, 20.0), Feature("s", "", 0.0, 2.0)), K, "grade")
X = torch.tensor([[5.0, 0.5], [11.0, 0.5], [11.0, 1.5], [5.0, 1.5]])


def soft(*rules, kind="range", **settings):
    """A soft table from rules and their confidences."""
    table = table_of([rule for rule, _ in rules], SCHEMA, kind=kind, **settings)
    return SoftTable(table, tuple(share for _, share in rules))


HIGH = ({"ash": "> 10", "then": "III, IV"}, 0.9)
SULPHUR = ({"s": "> 1", "then": "II, III"}, 0.8)


def says(*models, expert=None, range=None, x=X):
    known = Knowledge(Softened(expert, models), range, 0.5, schema=SCHEMA)
    return known.annotate(Examples(x)).prior


def test_one_rule_alone_is_itself():
    rows = says(soft(HIGH))
    assert torch.allclose(rows[1], torch.tensor([0.05, 0.05, 0.45, 0.45]))
    assert (rows[0] == 0).all()  # where no rule hits nobody says anything


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 3), min_size=1), st.floats(1e-9, 1 - 1e-9)),
        min_size=1,
        max_size=4,
    ),
    st.sets(st.integers(0, 3), min_size=1),
)
def test_rules_multiply_their_odds_inside_the_range_and_exclude_nothing_in_it(rules, left):
    """A rule whose classes the range has decided is not heard; of the others the rest is spread."""
    heard = [(some & left, share) for some, share in rules if some & left and left - some]
    odds = [
        math.prod(c / len(s) if i in s else (1 - c) / len(left - s) for s, c in heard)
        for i in range(4)
    ]
    wanted = X.new_tensor(
        [p if i in left and heard else 0.0 for i, p in enumerate(odds)], dtype=torch.float64
    )
    named = [({"then": ", ".join(K[i] for i in sorted(some))}, share) for some, share in rules]
    limits = table_of([{"then": ", ".join(K[i] for i in sorted(left))}], SCHEMA, kind="range")
    rows = says(soft(*named), range=limits, x=X.double())
    assert torch.allclose(rows, (wanted / max(wanted.sum(), 1e-300)).expand(4, 4), rtol=1e-9)
    assert ((rows > 0) == (wanted > 0)).all()
    # from one file or from many, in any order
    apart = says(*map(soft, reversed(named)), range=limits, x=X.double())
    assert torch.allclose(apart, rows, rtol=1e-9)


def test_an_expert_is_moved_unless_he_names_one_class_outright():
    outright = table_of([{"ash": "> 10", "then": "I"}], SCHEMA, kind="predict")
    assert says(soft(HIGH), expert=outright)[1].tolist() == [1, 0, 0, 0]
    unsure = soft(({"ash": "> 10", "then": "I"}, 0.7), kind="predict")
    moved = torch.tensor([0.7 * 0.05, 0.1 * 0.05, 0.1 * 0.45, 0.1 * 0.45])
    assert torch.allclose(says(soft(HIGH), expert=unsure)[1], moved / moved.sum())


def test_of_a_prediction_table_one_rule_speaks():
    table = soft(
        ({"ash": "> 10", "s": "> 1", "then": "IV"}, 1.0),
        ({"ash": "> 10", "then": "III"}, 0.7),
        ({"then": "I"}, 0.4),
        kind="predict",
    )
    rows = Knowledge(table, schema=SCHEMA).annotate(Examples(X)).prior
    assert torch.allclose(rows[1], torch.tensor([0.1, 0.1, 0.7, 0.1]))
    assert rows[2].tolist() == [0, 0, 0, 1]
    assert torch.allclose(rows[0], torch.tensor([0.4, 0.2, 0.2, 0.2]))


def test_a_formula_may_be_right_in_most_cases():
    graded = SoftFormulas(GradedFormula(Formula.parse("ash / 5", SCHEMA), (1, 2, 3)), 0.7)
    assert torch.allclose(graded(X)[1], torch.tensor([0.1, 0.1, 0.7, 0.1]))
    limits = FormulaRange(Formula.parse("ash / 5", SCHEMA), None, (1, 2, 3))
    assert torch.allclose(
        says(SoftFormulas(limits, 0.9))[1], torch.tensor([0.05, 0.05, 0.45, 0.45])
    )


def test_knowledge_puts_all_that_is_soft_inside_its_range():
    limits = table_of([{"ash": "> 10", "then": "II..IV"}], SCHEMA, kind="range")
    for made in (lambda one: FirstOf((one, one)), lambda one: Average((one, one))):
        known = Knowledge(made(soft(({"then": "IV"}, 0.9), kind="predict")), limits, 0.5)
        assert (known.annotate(Examples(X)).prior[1] > 0).tolist() == [False, True, True, True]
        assert place_within(known.prediction, limits) is known.prediction


def test_where_a_value_is_missing_nothing_soft_is_guessed():
    holed = torch.tensor([[torch.nan, 1.5], [11.0, torch.nan], [11.0, 1.5]])
    table = soft(HIGH, SULPHUR)
    assert (Softened(None, (table,))(holed)[:2] == 0).all()
    outright = table_of([{"ash": "> 10", "then": "I"}], SCHEMA, kind="predict")
    assert Softened(outright, (table,))(holed)[1].tolist() == [1, 0, 0, 0]
    first = soft(({"s": "> 1", "then": "IV"}, 0.9), ({"then": "I"}, 0.9), kind="predict")
    assert (first(holed)[1] == 0).all() and (first(holed)[0] > 0).all()


@pytest.mark.parametrize(
    ("cell", "share"),
    [("0.9", 0.9), ("0,9", 0.9), ("90 %", 0.9), ("90%", 0.9), ("87,5 %", 0.875), (".5", 0.5)]
    + [("9 of 10", 0.9), ("in 9 of 10 cases", 0.9), ("9/10", 0.9), ("", 1.0), ("1", 1.0)]
    + [("100 %", 1.0)],
)
def test_a_confidence_is_read_as_people_write_it(cell, share):
    assert parse_confidence(cell) == share


FILE = """\
trust = 0.5
label = "grade"
classes = ["I", "II", "III", "IV"]
features = [{name = "ash", unit = "%", low = 0, high = 20}, {name = "s", low = 0, high = 2}]
"""
RULES = 'ash [%],s,then,confidence\n> 15,,"III, IV",\n> 10,,"III, IV",90 %\n,> 1,II..III,0.8\n'


def folder(tmp_path, rules=RULES, more="", side="range"):
    (tmp_path / "rules.csv").write_text(rules)
    path = tmp_path / "knowledge.toml"
    path.write_text(f'{FILE}\n[[{side}.sources]]\ntable = "rules.csv"\n{more}')
    return path


def check_kernel_refuses(path):
    """What is no knowledge for the library is none for the checker either."""
    with pytest.raises(KnowledgeError):
        read_knowledge({place.name: place.read_text() for place in path.parent.iterdir()})


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("0", "a rule with confidence '0' never holds"),
        ("1.2", "a confidence must lie between 0 and 1, got '1.2'"),
        ("90", "a confidence must lie between 0 and 1, got '90' (0.9 is 90 %)"),
        ("often", "a confidence is the share of cases in which the rule holds"),
        ("-0.5", "a confidence is the share of cases"),
        ("9 of 0", "a confidence is the share of cases"),
    ],
)
def test_a_bad_confidence_is_one_sentence_with_its_place(tmp_path, cell, why):
    path = folder(tmp_path, f"ash,then,confidence\n> 10,IV,{cell}\n")
    with pytest.raises(KnowledgeError) as caught:
        Knowledge.read(path)
    assert "rules.csv, row 2, column 'confidence'" in str(caught.value)
    assert why in str(caught.value) and "\n" not in str(caught.value)
    assert why in check_file(path).findings[0].message
    check_kernel_refuses(path)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            'upper = "ash / 5"\nedges = [1, 2, 3]\nconfidence = 1.2',
            "[range.sources[1]] a confidence must lie between",
        ),
        (
            'upper = "ash / 5"\nedges = [1, 2, 3]\nconfidence = 0',
            "[range.sources[1]] a rule with confidence 0 never",
        ),
        (
            'upper = "ash / 5"\nedges = [1, 2, 3]\nconfidence = "often"',
            "range.sources[1].confidence must be a number",
        ),
        ('table = "rules.csv"\nhit = "union"', "rules with a confidence need the hit policy"),
    ],
)
def test_a_bad_key_is_one_sentence_with_its_place(tmp_path, source, why):
    path = folder(tmp_path, more=f"\n[[range.sources]]\n{source}\n")
    with pytest.raises(FedloreError) as caught:
        Knowledge.read(path)
    assert why in str(caught.value) and "knowledge.toml" in str(caught.value)
    check_kernel_refuses(path)


def test_numbers_have_no_confidence(tmp_path):
    path = folder(tmp_path, "ash,then,confidence\n> 10,>= 5,0.9\n")
    head = path.read_text().replace('classes = ["I", "II", "III", "IV"]\nlabel = "grade"', "")
    head = head.replace('classes = ["I", "II", "III", "IV"]\n', "").replace('label = "grade"\n', "")
    path.write_text(f"{head}\n[target]\nlower = 0\nupper = 20\n")
    assert "hold in most cases only" in check_file(path).findings[0].message
    check_kernel_refuses(path)
    key = head.replace('"rules.csv"', '"rules.csv"\nconfidence = 0.9')
    (tmp_path / "rules.csv").write_text("ash,then\n> 10,>= 5\n")
    path.write_text(f"{key}\n[target]\nlower = 0\nupper = 20\n")
    assert "needs classes, and here a number" in check_file(path).findings[0].message
    check_kernel_refuses(path)
    for rules in ("> 10,>= 5,0.9\n> 12,>= 6,1\n", "> 10,>= 5,1\n> 12,>= 6,0.9\n"):  # one of two
        (tmp_path / "rules.csv").write_text(f"ash,then,confidence\n{rules}")
        path.write_text(f"{head}\n[target]\nlower = 0\nupper = 20\n")
        check_kernel_refuses(path)


def test_a_confidence_for_all_rules_stands_with_the_source(tmp_path):
    path = folder(tmp_path, "ash,then\n> 10,IV\n<= 10,I\n", "confidence = 0.6\n", "predict")
    assert Knowledge.read(path).prediction.confidences == (0.6, 0.6)
    folder(tmp_path, "ash,then,confidence\n> 10,IV,1\n", "confidence = 0.6\n", "predict")
    assert Knowledge.read(path).prediction == table_of(
        [{"ash": "> 10", "then": "IV"}], SCHEMA, kind="predict"
    )


def test_a_table_of_rules_that_always_hold_is_as_it_was(tmp_path):
    known = Knowledge.read(folder(tmp_path, 'ash,then,confidence\n> 10,"III, IV",1\n> 5,all,\n'))
    assert known.prediction is None and len(known.range.rules) == 2


def rows_file(n, right):
    """n rows on which the first soft rule speaks, so many of them as it says; the rest is I."""
    x = torch.tensor([[12.0, 0.5]]).repeat(n, 1)
    y = torch.tensor([2] * right + [0] * (n - right))
    return Examples(x, y)


def test_lint_says_what_is_soft_and_compares_it_with_data(tmp_path):
    checkup = check_file(folder(tmp_path))
    told = {f.kind: f for f in checkup.findings}
    assert told["soft"].message.startswith("2 rules hold in most cases only")
    assert "counted-twice" not in told and not any(f.severity == "error" for f in checkup.findings)
    found = check_data(checkup, rows_file(48, 34), "rows.csv").findings
    wrong = [f for f in found if f.kind == "confidence"]
    assert [str(f) for f in wrong] == [
        "warning: rules.csv, row 3: row 3 says 0.9, was right in 34 of 48 rows (0.71, 0.56 to "
        "0.83); write 0.71, or check its rows"
    ]
    summary = next(f for f in found if f.kind == "confidences")
    assert summary.message.startswith("1 confidence checked: 1 outside what the rows allow")
    fits = check_data(checkup, rows_file(48, 43), "rows.csv").findings
    assert not any(f.kind == "confidence" for f in fits)
    assert (
        "1 confidence checked: 0 outside" in [f for f in fits if f.kind == "confidences"][0].message
    )


@pytest.mark.parametrize(
    ("rules", "code", "says"),
    [
        (
            "ash,then,confidence\n> 10,IV,0.9\n> 12,IV,0.95\n",
            "counted-twice",
            "row 3 names the same",
        ),
        ("ash,then,confidence\n> 10,IV,0.9\n> 10,IV,0.9\n", "duplicate", "row 3 repeats row 2"),
        ('ash,then,confidence\n> 10,"I, II",0.5\n', "soft-weak", "adds nothing"),
        ('ash,then,confidence\n> 10,"I, II",0.3\n', "soft-weak", "counts against"),
        ("ash,then,confidence\n> 30,IV,0.9\n", "outside-scope", "row 2"),
    ],
)
def test_lint_names_soft_rules_that_count_twice_or_say_nothing(tmp_path, rules, code, says):
    found = [f for f in check_file(folder(tmp_path, rules)).findings if f.kind == code]
    assert len(found) == 1 and says in found[0].message


def test_lint_says_where_soft_rules_are_not_heard(tmp_path):
    path = folder(tmp_path, more='\n[[predict.sources]]\nformula = "ash"\nedges = [1, 2, 3]\n')
    path.write_text(path.read_text().replace("trust = 0.5", "trust = 0.0"))
    assert {"soft-unheard", "soft-outright"} <= {f.kind for f in check_file(path).findings}
    path.write_text(path.read_text().replace("[1, 2, 3]", "[1, 2, 3]\nconfidence = 0.7"))
    assert "soft-outright" not in {f.kind for f in check_file(path).findings}


def test_soft_ranges_are_never_an_empty_range(tmp_path):
    rules = "ash,then,confidence\n> 10,I,0.9\n> 5,IV,0.9\n"
    checkup = check_file(folder(tmp_path, rules))
    assert not any(f.severity == "error" for f in checkup.findings)
    assert checkup.knowledge.range is None


def test_words_say_in_how_many_cases(tmp_path):
    known = Knowledge.read(folder(tmp_path))
    lines = [list(map(str, some)) for some in reasons_of(known.prediction, X, "prediction")]
    assert lines[0] == []
    assert lines[1] == ["rules.csv, row 3: ash > 10 -> III, IV (in 90 % of cases)"]
    assert len(lines[2]) == 2


def test_an_exact_interval_misses_at_most_as_often_as_it_says():
    for n, share in ((5, 0.9), (12, 0.3), (40, 0.71)):
        missed = 0.0
        for right in range(n + 1):
            low, high = exact_share(right, n)
            chance = math.comb(n, right) * share**right * (1 - share) ** (n - right)
            missed += chance * (not low <= share <= high)
        assert missed <= 0.05


def test_a_range_is_calibrated_on_the_expert_as_he_is_read_again(tmp_path):
    more = '\n[[predict.sources]]\nformula = "ash / 5"\nedges = [1, 2, 3]\nconfidence = 0.7\n'
    path = folder(tmp_path, more=more)
    data = tmp_path / "rows.csv"
    data.write_text(
        "ash,s,grade\n" + "".join(f"{i / 5},0.5,{K[min(i // 25, 3)]}\n" for i in range(99))
    )
    out = tmp_path / "out" / "knowledge.toml"
    done = spoken("calibrate", path, "--data", data, "--out", out, "--alpha", "0.1")
    assert done.code == 0, done.err
    known = Knowledge.read(out)
    x = torch.tensor([[i / 5, 0.5] for i in range(99)])
    scorer = next(one for one in known.range.parts if hasattr(one, "scorer")).scorer
    assert torch.equal(scorer(x), lone_expert(Knowledge.read(path).prediction)(x))
    assert isinstance(known.prediction, Softened)


def test_a_table_in_which_every_rule_always_holds_is_not_soft():
    with pytest.raises(KnowledgeError, match="use the table itself"):
        soft((HIGH[0], 1.0), (SULPHUR[0], 1.0))


def test_one_soft_part_among_others_makes_a_prediction_soft(tmp_path):
    hard = 'table = "hard.csv"\n'
    soft = 'table = "soft.csv"\nconfidence = 0.8\n'
    (tmp_path / "hard.csv").write_text("a,then\n> 5,I\n<= 5,II\n")
    (tmp_path / "soft.csv").write_text("a,then\n> 7,I\n")
    top = 'trust = 0.3\nclasses = ["I", "II"]\n[[features]]\nname = "a"\nlow = 0\nhigh = 9\n'

    def said(*sources):
        text = top + "".join(f"[[predict.sources]]\n{one}" for one in sources)
        (tmp_path / "knowledge.toml").write_text(text)
        return has_soft(Knowledge.read(tmp_path / "knowledge.toml").prediction)

    assert said(soft) and said(hard, soft) and said(soft, hard) and not said(hard)
