"""Examples proposed: rows on both sides of the thresholds, with the answer that is given now."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import KnowledgeError
from ..kernel.schema import Feature, Schema
from ..kernel.sheets import Rule
from ..knowledge.content import FILE, files_at, toml_in
from ..knowledge.findings.checkup import Checkup
from ..knowledge.findings.examples import example_cells, number_cell
from .answers import answer_draft, tables_in, usable
from .checks import read_schema
from .draft import Workspace
from .edits import edit_toml
from .grids import new_table
from .requests import Change

MOST_PROPOSED = 60  # rows proposed at once
EXAMPLES_FILE = "examples.csv"


def propose_rows(checkup: Checkup) -> list[list[str]]:
    """Rows at the edges of every rule, none twice, as cells of a file of examples."""
    _, schema = usable(checkup)
    seen: dict[tuple[float, ...], None] = {}
    rules = [rule for table in tables_in(checkup) for rule in table.rules]
    for rule in rules:
        for row in _edges(rule, schema):
            seen.setdefault(tuple(row), None)
            if len(seen) >= MOST_PROPOSED:
                break
    rows = torch.tensor(list(seen), dtype=torch.float32)
    return [] if not len(rows) else example_rows(checkup, rows)


def example_rows(checkup: Checkup, x: Tensor) -> list[list[str]]:
    """Rows with what is answered now, as cells of a file of examples; contradictions left out."""
    _, schema = usable(checkup)
    heard = answer_draft(checkup, x)
    made = []
    for row in (~heard.refused).nonzero().flatten().tolist():
        values = zip(x[row].tolist(), schema.features, strict=True)
        made.append([*(number_cell(v, feature) for v, feature in values), *heard.cells(row)])
    return made


def _edges(rule: Rule, schema: Schema) -> Iterator[list[float]]:
    """Rows just inside and just outside of each number that a rule names."""
    conditions = dict(rule.conditions)
    inside = [_inside(conditions.get(c), f) for c, f in enumerate(schema.features)]
    for column, condition in conditions.items():
        feature = schema.features[column]
        for end in {end.value for span in condition.spans for end in span}:
            if not math.isfinite(end):
                continue
            step = _step(feature, end)
            for value in (end - step, end, end + step):
                if feature.low <= value <= feature.high:
                    yield [*inside[:column], float(f"{value:.6g}"), *inside[column + 1 :]]


def _inside(condition: Any, feature: Feature) -> float:
    """Some value that satisfies a condition; the middle of the scope where there is none."""
    if feature.levels:
        return float(condition.chosen[0]) if condition is not None else 0.0
    low, high = feature.low, feature.high
    if condition is not None:
        low = max(low, condition.spans[0].start.value)
        high = min(high, condition.spans[0].stop.value)
    if math.isinf(low) or math.isinf(high):
        known = low if math.isfinite(low) else high if math.isfinite(high) else 0.0
        low, high = (known, known + 2.0) if math.isinf(high) else (known - 2.0, known)
    return float(f"{low + (high - low) / 2:.4g}")


def _step(feature: Feature, at: float) -> float:
    """A hundredth of the scope, in round numbers."""
    span = feature.high - feature.low
    span = span if math.isfinite(span) else max(abs(at), 1.0)
    return 10.0 ** math.floor(math.log10(span / 100))


def start_examples(workspace: Workspace, said: Change) -> None:
    """An empty file of examples, named by the knowledge file."""
    with workspace.lock:
        workspace.check(said.token)
        members: Mapping[str, bytes] = workspace.members
        schema = read_schema(members)
        if schema is None or "examples" in toml_in(*files_at(members)):
            raise KnowledgeError("examples need declared features, and a file without any so far")
        if EXAMPLES_FILE in members:
            raise KnowledgeError(
                f"there is a file '{EXAMPLES_FILE}' that the knowledge does not name: put it "
                f'away, or write examples = "{EXAMPLES_FILE}" into the knowledge file'
            )
        text = edit_toml(members[FILE].decode("utf-8-sig"), ["examples"], EXAMPLES_FILE)
        files = {EXAMPLES_FILE: new_table(example_cells(schema)), FILE: text.encode()}
        workspace.change(said.token, files, who=said.who, what=f"'{EXAMPLES_FILE}'")
