"""The independent checker reads, evaluates and bounds knowledge as fedlore does, on its own."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedlore import checker
from fedlore.bundle.certificate.coverage import never_empty as issue
from fedlore.bundle.onnx.model import knowledge_files
from fedlore.checker.graphs import _on_an_edge
from fedlore.errors import KnowledgeError
from fedlore.kernel.answers import said_of
from fedlore.kernel.cells import condition, outcomes
from fedlore.kernel.expressions import parse, value
from fedlore.kernel.intervals import Boxes
from fedlore.kernel.knowledge import read_knowledge
from fedlore.kernel.orders import never_above
from fedlore.kernel.proofs import never_empty
from fedlore.kernel.schema import Feature
from fedlore.knowledge import AllOf, AnyOf, Formula, FormulaRange, Knowledge, table_of
from fedlore.knowledge.tables.cells import parse_condition

from ..onnx.worlds import (
    CLASSES,
    EDGES,
    HOLED,
    NUMBERS,
    SCHEMA,
    conditions,
    ranges,
    rows,
    thin,
    worlds,
)

QUICK = settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
HOUSE = Path(checker.__file__).parent.parent
FILES = [
    HOUSE / "errors.py",
    *(path for room in ("checker", "kernel") for path in sorted((HOUSE / room).rglob("*.py"))),
]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(HOUSE)))
def test_it_imports_nothing_but_kernel_and_errors(path):
    known = {"numpy", "onnx", *sys.stdlib_module_names}
    inside = path.relative_to(HOUSE).parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= known
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")
            if node.level:
                target = (*inside[: len(inside) - node.level], *module)
                assert target[0] in ("kernel", "errors", "checker")
                assert target[0] != "checker" or inside[0] == "checker"
            else:
                assert module[0] in known
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec", "__import__")


@QUICK
@given(worlds())
def test_rows_are_judged_alike(world):
    judge(world)


@QUICK
@given(worlds(HOLED))
def test_rows_with_holes_are_judged_alike(world):
    judge(world)


def judge(world):
    knowledge = world.personal.knowledge
    known = read_knowledge(knowledge_files(knowledge))
    x = world.x[~thin(knowledge.prediction, world.x)]
    x = x[~torch.from_numpy(_on_an_edge(known, x.numpy()))]
    found = said_of(known, x.numpy())
    try:
        told = world.personal.annotate(x[torch.from_numpy(~found.refused)])
    except KnowledgeError as error:
        pytest.fail(f"the checker refuses fewer rows: {error}")
    if told.allowed is not None:
        assert (found.allowed[~found.refused] == told.allowed.numpy()).all()
    if told.prior is not None:
        np.testing.assert_allclose(found.prior[~found.refused], told.prior.numpy(), atol=1e-6)
    for row in x[torch.from_numpy(found.refused)][:10]:
        with pytest.raises(KnowledgeError):
            world.personal.annotate(row.unsqueeze(0))


@given(conditions())
def test_cells_mean_the_same(cell):
    feature = SCHEMA.features[0]
    table = table_of([{"ash": cell, "then": "I"}], SCHEMA, kind="predict")
    single = np.float32(NUMBERS)
    points = np.concatenate([np.nextafter(single, np.float32(s)) for s in (-99, 99)] + [single])
    x = torch.zeros(len(points), 4)
    x[:, 0] = torch.from_numpy(points)
    spans = condition(cell, Feature("ash", low=0, high=40))
    held = [spans is None or any(a <= p <= b for a, b in spans) for p in points.tolist()]
    assert table.hits(x)[:, 0].tolist() == held
    assert (spans is None) == (parse_condition(cell, feature) is None)


@pytest.mark.parametrize(
    ("cell", "named"),
    [
        ("II", {1}),
        ("I..III", {0, 1, 2}),
        ("not II", {0, 2, 3}),
        ("I, IV", {0, 3}),
        ('"II", III', {1, 2}),
        ("all", {0, 1, 2, 3}),
    ],
)
def test_outcomes_name_classes(cell, named):
    assert outcomes(cell, CLASSES) == named


@pytest.mark.parametrize("cell", ["about 3", "3 <", "in", "> x"])
def test_what_it_cannot_read_it_refuses(cell):
    with pytest.raises(KnowledgeError):
        condition(cell, Feature("ash", low=0, high=40))


TEXTS = (
    "ash / (sulfur - 3)",
    "where(ash > 7.7 and not (sulfur <= 0.3), sqrt(ash), heat ** 2)",
    "min(ash, 3 * sulfur, 10) - abs(heat)",
    "exp(heat / 4) * log(ash + 1) - log10(sulfur)",
    "heat ** 3 - heat * heat + (ash + 1) ** -0.5",
    "-heat ^ 2",
)


@QUICK
@given(st.sampled_from(TEXTS), st.integers(0, 10_000))
def test_bounds_hold_every_value(text, seed):
    draw = np.random.default_rng(seed)
    ends = np.sort(draw.uniform((0, 0, -10, 0), (40, 5, 10, 0), (2, 4)).astype(np.float32), axis=0)
    tree = parse(text, SCHEMA.features)
    x = draw.uniform(ends[0], ends[1], (200, 4)).astype(np.float32).clip(ends[0], ends[1])
    values = value(tree, x)
    theirs = Formula.parse(text, SCHEMA)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(values, theirs, rtol=1e-4, atol=1e-4)
    low, high = Boxes(ends[:1].astype(float), ends[1:].astype(float)).bounds(tree)
    known = values[np.isfinite(values)]
    assert ((known >= low) & (known <= high)).all()


def test_what_two_formulas_share_cancels():
    names = SCHEMA.features
    boxes = Boxes(np.array([[0.0, 0, -10, 0]]), np.array([[40.0, 5, 10, 2]]))
    small, large = parse("3 * ash - heat / 2", names), parse("0.5 - heat / 2 + ash * 3", names)
    assert never_above(small, large, boxes).all()
    assert not never_above(large, small, boxes).any()
    assert never_above(parse("min(ash, heat)", names), parse("ash", names), boxes).all()


@QUICK
@given(ranges())
def test_an_empty_range_is_real_and_a_full_one_is_never_broken(model):
    knowledge = Knowledge(range=model, schema=SCHEMA)
    found = never_empty(read_knowledge(knowledge_files(knowledge)), budget=3_000)
    issued = issue(knowledge, SCHEMA).status
    assert {issued, found.status} != {"proved", "refuted"}  # two ways, one truth
    if model is None:
        assert found.status == "proved"
    elif found.status == "refuted":
        assert empty(model, torch.tensor([found.example], dtype=torch.float32))
    elif found.status == "proved":
        assert model(rows(np.random.default_rng(0), 500)).any(1).all()


def empty(model, row):
    try:
        return not model(row).any()
    except KnowledgeError:
        return True


def test_tables_are_decided_exactly():
    """Three rules that only together leave nothing, in a corner of one float."""
    cells = [
        {"ash": ">= 12", "then": "I, II"},
        {"ash": "<= 12", "sulfur": ">= 3", "then": "II, III"},
        {"sulfur": "<= 3", "then": "III, I"},
    ]
    table = table_of(cells, SCHEMA, kind="range")
    found = never_empty(read_knowledge(knowledge_files(Knowledge(range=table, schema=SCHEMA))))
    assert found.status == "refuted" and found.example[:2] == (12.0, 3.0)
    cells[1]["ash"] = "< 12"
    table = table_of(cells, SCHEMA, kind="range")
    found = never_empty(read_knowledge(knowledge_files(Knowledge(range=table, schema=SCHEMA))))
    assert found.status == "proved"


def test_thresholds_that_single_precision_cannot_tell_apart_overlap():
    cells = [{"ash": "<= 0.1", "then": "I"}, {"ash": ">= 0.10000000001", "then": "II"}]
    table = table_of(cells, SCHEMA, kind="range")
    found = never_empty(read_knowledge(knowledge_files(Knowledge(range=table, schema=SCHEMA))))
    assert found.status == "refuted"
    assert empty(table, torch.tensor([found.example]))


def test_combinations_are_decided_together():
    low = FormulaRange(Formula.parse("ash / 10", SCHEMA), None, EDGES)
    table = table_of([{"ash": "> 35", "then": "I"}], SCHEMA, kind="range")
    other = table_of([{"ash": "> 35", "then": "II..IV"}], SCHEMA, kind="range")
    for model, status in (
        (AllOf((low, table)), "refuted"),
        (AllOf((low, table), "first"), "proved"),
        (AllOf((low, other)), "proved"),
        (AnyOf((low, table)), "proved"),
    ):
        known = read_knowledge(knowledge_files(Knowledge(range=model, schema=SCHEMA)))
        assert never_empty(known).status == status
