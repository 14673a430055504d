"""The grammar: what it refuses, where it points, and that nothing else ever comes out of it."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedlore.errors import KnowledgeError
from fedlore.kernel.expressions import DEEPEST, LARGEST_CONSTANT, FormulaError
from fedlore.kernel.schema import Feature, Schema, name_columns
from fedlore.knowledge.formulas import Formula

SCHEMA = Schema((Feature("ash"), Feature("vm"), Feature("seam", levels=("A", "B"))), ("no", "yes"))


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 0, "a number or a feature is due here, the formula ends"),
        ("   ", 3, "a number or a feature is due here, the formula ends"),
        ("ash +", 5, "a number or a feature is due here, the formula ends"),
        ("ash + * 2", 6, "found '\\*'"),
        ("(ash", 4, "'\\)' is due"),
        ("ash)", 3, "an operator is due here, found '\\)'"),
        ("ash vm", 4, "operator is due here, found 'vm'"),
        ("2 ash", 2, "operator is due here, found 'ash'"),
        ("1,5 * ash", 1, "decimals have a point"),
        ("min(ash vm)", 8, "'\\)' is due here, found 'vm'"),
        ("ash < vm < 3", 9, "cannot be chained"),
        ("ash > 3", 0, "a formula needs a number"),
        ("1 + (ash > 3)", 4, "'\\+' needs a number"),
        ("-(ash > 3)", 1, "unary - needs a number"),
        ("where(ash, 1, 2)", 6, "'where' needs a comparison"),
        ("where(ash and vm > 2, 1, 2)", 6, "'and' needs a comparison"),
        ("where(not ash, 1, 2)", 10, "'not' needs a comparison"),
        ("where(ash > 1, 2)", 0, "where takes 3 values, got 2"),
        ("min(ash)", 0, "min takes 2 or more values, got 1"),
        ("log(ash, vm)", 0, "log takes 1 values, got 2"),
        ("min()", 4, "found '\\)'"),
        ("2 * log", 4, "write log\\(...\\)"),
        ("ash + asch", 6, "did you mean 'ash'"),
        ("2 * sqr(ash)", 4, "unknown function 'sqr'; did you mean 'sqrt'"),
        ("ash(3)", 0, "unknown function 'ash'"),
        ("1 + seam", 4, "has levels"),
        ("1e40", 0, "a number must be 0 or lie in"),
        ("1e-60", 0, "a number must be 0 or lie in"),
        ("1e999", 0, "a number must be 0 or lie in"),
        ("+ash", 0, "found '\\+'"),
        ("ash = 3", 4, "write =="),
        ("ash − 3", 4, "minus of the keyboard"),
        ("5 % ash", 2, "share as a number"),
    ],
)
def test_faults_are_marked(text, position, reason):
    with pytest.raises(FormulaError, match=reason) as caught:
        Formula.parse(text, SCHEMA)
    assert caught.value.position == position
    _, line, caret = str(caught.value).split("\n")
    assert line == f"  {text}"
    assert caret == "  " + " " * position + "^"


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("__import__('os')", 0),
        ("ash + __class__", 6),
        ("ash.real", 3),
        ("ash.__class__", 3),
        ("ash[0]", 3),
        ("ash[0:2]", 3),
        ("f(ash)", 0),
        ("eval(ash)", 0),
        ("(lambda: 1)()", 1),
        ("lambda x: x", 0),
        ("'ash'", 0),
        ('"ash"', 0),
        ("ash; vm", 3),
        ("ash\\n", 3),
        ("import os", 0),
        ("ash if vm else 1", 4),
        ("ash := 3", 4),
        ("[ash]", 0),
        ("{ash}", 0),
        ("ash @ vm", 4),
        ("ash // vm", 5),
        ("ash & vm", 4),
        ("~ash", 0),
        ("True", 0),
        ("nan", 0),
        ("0x10", 1),
        ("1_000", 1),
        ("1j", 1),
        ("ash # vm", 4),
        ("min(*ash)", 4),
        ("min(a=3, 2)", 4),
        ("log(ash)(vm)", 8),
        ("(log)(vm)", 1),
        ("ash\x00", 3),
    ],
)
def test_what_is_not_in_the_grammar_is_refused(text, position):
    with pytest.raises(FormulaError) as caught:
        Formula.parse(text, SCHEMA)
    assert caught.value.position == position


def test_a_name_of_two_underscores_is_refused_even_if_it_is_a_feature():
    with pytest.raises(FormulaError, match="two underscores"):
        Formula.parse("__ash", name_columns(("__ash",), ("no", "yes")))


def test_words_of_the_language_cannot_be_features():
    schema = name_columns(("log", "and"), ("no", "yes"))
    for text in ("log + 1", "and + 1"):
        with pytest.raises(FormulaError):
            Formula.parse(text, schema)


@pytest.mark.parametrize(
    "text",
    ["1" * 1_000_000, "(" * 1_000_000, "ash + " * 200_000 + "ash", "é" * 10_001],
    ids=["digits", "parentheses", "sum", "letters"],
)
def test_a_megabyte_is_refused_at_once(text):
    start = time.process_time()
    with pytest.raises(KnowledgeError, match="10,000 characters") as caught:
        Formula.parse(text, SCHEMA)
    assert time.process_time() - start < 0.1
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5_000 + "ash" + ")" * 4_990,
        "-" * 5_000 + "ash",
        "not " * 2_000 + "ash > 1",
        "abs(" * 2_000 + "ash",
        "2 ** " * 1_900 + "ash",
        "where(ash > 1, 1, " * 500,
    ],
    ids=["parentheses", "signs", "nots", "calls", "powers", "wheres"],
)
def test_deep_nesting_is_refused(text):
    with pytest.raises(FormulaError, match=f"nested {DEEPEST} deep"):
        Formula.parse(text, SCHEMA)


@pytest.mark.parametrize("text", ["ash + " * 1_600 + "1", "min(" + "1," * 4_900 + "1)"])
def test_large_formulas_are_refused(text):
    with pytest.raises(FormulaError, match=f"{LARGEST_CONSTANT} parts"):
        Formula.parse(text, SCHEMA)


def test_a_long_sum_is_no_deep_nesting():
    import torch

    formula = Formula.parse(" + ".join(["ash"] * 200), SCHEMA)
    assert formula(torch.tensor([[2.0, 0.0, 0.0]])).item() == 400
    assert formula.bounds(((0, 1), (0, 1), (0, 1))) == (0, 200)


def test_a_fault_in_a_long_text_is_shown_with_its_surroundings():
    with pytest.raises(FormulaError) as caught:
        Formula.parse("1 + " * 100 + "? + ash" + " + 1" * 100, SCHEMA)
    _, line, caret = str(caught.value).split("\n")
    assert line[caret.index("^")] == "?"
    assert len(line) < 100


def test_a_fault_in_several_lines_is_shown_in_its_own():
    with pytest.raises(FormulaError) as caught:
        Formula.parse("ash +\n\tvm +\n  ? + 2\n+ 3", SCHEMA)
    assert str(caught.value).split("\n")[1:] == ["    ? + 2", "    ^"]


def test_control_characters_do_not_reach_the_terminal():
    with pytest.raises(FormulaError) as caught:
        Formula.parse("ash + \x1b[31m", SCHEMA)
    assert "\x1b" not in str(caught.value)


WORDS = ["ash", "vm", "seam", "1", "2.5", ".", "e9", "(", ")", ",", "+", "-", "*", "/", "**", "^"]
WORDS += ["<", "<=", "==", "!=", "and", "or", "not", "min(", "log(", "where(", " ", "\n", "[", "'"]
WORDS += ["__", "=", "!", "lambda", ":", "é", "\x00", "1e", "0", "max"]


@given(
    st.one_of(
        st.text(max_size=80),
        st.text(alphabet="ashvm0123456789.+-*/^<>=!(), eE", max_size=80),
        st.lists(st.sampled_from(WORDS), max_size=40).map("".join),
        st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join),
    )
)
@example("(" * 100)
@example("9" * 400)
@example("\ud800")
def test_any_text_is_a_formula_or_a_knowledge_error(text):
    try:
        formula = Formula.parse(text, SCHEMA)
    except FormulaError as error:
        assert 0 <= error.position <= len(text)
    else:
        assert formula.steps
