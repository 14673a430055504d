"""No file, class or function is called by a bare participle or adverb of our own."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
#: What was called so here, and nobody could guess it; the glossary has the words in their place.
PRIVATE = frozenset(
    """told held together watching telling settled asked settling seat voice voices beside lean
    leaning unseen foreseen foresight brought reknow reknowing sharpen sharpening sharpness menu
    desk stint drill crew fleet crowd trusting calibrating doubting holding answering choosing
    agreeing agreed joining differing proposing saving printed moving against conducting defending
    renewing unapplied""".split()
)


def names(path):
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


@pytest.mark.parametrize("package", sorted(p.name for p in SOURCE.iterdir() if p.is_dir()))
def test_no_name_is_of_a_private_language(package):
    found = {
        str(path.relative_to(SOURCE)): sorted(bad)
        for path in (SOURCE / package).rglob("*.py")
        if (bad := {name for name in names(path) if name.strip("_").lower() in PRIVATE})
    }
    assert found == {}
