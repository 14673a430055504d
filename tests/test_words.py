"""Every finding that the source makes has words, and every sentence is of a finding."""

import ast

from fedlore.words import LANGUAGES
from fedlore.words.en import FINDINGS, REASONS

from .test_docs import ROOT

SOURCE = sorted((ROOT / "src" / "fedlore").rglob("*.py"))


def kinds(makers: tuple[str, ...], place: int) -> set[str]:
    """The texts in one argument of the calls that make findings or reasons."""
    found = set()
    for path in SOURCE:
        text = path.read_text()
        if not any(f"{maker}(" in text for maker in makers):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and len(node.args) > place:
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name in makers:
                    found |= {c.value for c in ast.walk(node.args[place]) if _is_text(c)}
    return found


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_every_kind_that_is_made_has_a_sentence():
    worded = {key.partition("/")[0] for key in FINDINGS}
    made = kinds(("Finding", "finding"), 1) - {"shape-"}
    assert made <= worded and len(made) > 30
    reasons = kinds(("Reason",), 0)
    assert reasons <= set(REASONS) and len(reasons) > 10


def test_languages_have_the_same_sentences():
    for language in LANGUAGES.values():
        assert set(language.FINDINGS) == set(FINDINGS)
        assert set(language.REASONS) == set(REASONS)
