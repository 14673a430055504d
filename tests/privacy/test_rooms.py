"""Filters stand in a room of their own: nothing turns in a circle, and federation names none."""

import ast

from fedlore.privacy.settings import ADDED, FILTERS

from ..test_layers import FILES, SOURCE, imported

FEDERATION = [p for p in FILES if "federation" in p.relative_to(SOURCE).parts[:1]]


def test_federation_imports_no_filter():
    rooms = {"dp", "secagg", "ckks"}
    found = {p.name: {n for n in imported(p) if n[0] == "privacy"} for p in FEDERATION}
    assert not {name: n for name, names in found.items() for n in names if n[1] in rooms}


def test_federation_has_no_word_for_a_filters_tasks():
    words = {*FILTERS, *ADDED, "masked"} - {"dp", "keys"}  # dp is a field of [privacy]
    for path in FEDERATION:
        tree = ast.walk(ast.parse(path.read_text()))
        said = {node.value for node in tree if isinstance(node, ast.Constant)}
        assert not said & words, path
        attributes = {
            n.attr for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)
        }
        assert not attributes & {"dp", "encryption"}, path
