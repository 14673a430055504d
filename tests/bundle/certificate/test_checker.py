"""The independent checker reads, evaluates and bounds knowledge as fedlore does, on its own."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given

from fedlore import checker
from fedlore.knowledge import table_of

from ..onnx.worlds import NUMBERS, SCHEMA, conditions

HOUSE = Path(checker.__file__).parent.parent
FILES = [
    HOUSE / "errors.py",
    HOUSE / "config.py",
    *(
        path
        for room in ("checker", "kernel", "words")
        for path in sorted((HOUSE / room).rglob("*.py"))
    ),
]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(HOUSE)))
def test_it_imports_nothing_but_kernel_and_errors(path):
    known = {"numpy", "onnx", "cryptography", *sys.stdlib_module_names}
    inside = path.relative_to(HOUSE).parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= known
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")
            if node.level:
                target = (*inside[: len(inside) - node.level], *module)
                assert target[0] in ("kernel", "errors", "config", "words", "checker")
                assert target[0] != "checker" or inside[0] == "checker"
            else:
                assert module[0] in known
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec", "__import__")


@given(conditions())
def test_a_cell_means_the_same_to_bit_words_and_to_spans(cell):
    table = table_of([{"ash": cell, "then": "I"}], SCHEMA, kind="predict")
    single = np.float32(NUMBERS)
    points = np.concatenate([np.nextafter(single, np.float32(s)) for s in (-99, 99)] + [single])
    x = torch.zeros(len(points), 4)
    x[:, 0] = torch.from_numpy(points)
    spans = table.rules[0].spans.get(0)
    held = [spans is None or any(a <= p <= b for a, b in spans) for p in points.tolist()]
    assert table.hits(x)[:, 0].tolist() == held
