"""Every finding that the source makes has words, and every sentence is of a finding."""

import ast

from fedlore.words import LANGUAGES
from fedlore.words.en import FINDINGS

from .test_docs import ROOT

SOURCE = sorted((ROOT / "src" / "fedlore").rglob("*.py"))


def kinds() -> set[str]:
    """Second arguments of calls that make findings."""
    found = set()
    for path in SOURCE:
        text = path.read_text()
        if "Finding" not in text and "review.finding" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and len(node.args) > 1:
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name in ("Finding", "finding"):
                    found |= {c.value for c in ast.walk(node.args[1]) if _is_text(c)}
    return found


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_every_kind_that_is_made_has_a_sentence():
    worded = {key.partition("/")[0] for key in FINDINGS}
    made = {kind for kind in kinds() if kind != "shape-"}
    assert made <= worded and len(made) > 30


def test_languages_have_the_same_sentences():
    for language in LANGUAGES.values():
        assert set(language.FINDINGS) == set(FINDINGS)
