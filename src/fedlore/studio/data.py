"""The draft on the site's own rows: counts, suggested rules, calibration."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..answers import Measured
from ..core.examples import Examples
from ..data.rows import read_measured, read_table
from ..errors import FedloreError, KnowledgeError
from ..kernel.cells import number, parse_condition
from ..kernel.schema import Schema
from ..kernel.sheets import Rule
from ..knowledge.audit import rule_report
from ..knowledge.conformal import ConformalInterval, ConformalRange
from ..knowledge.content import FILE, files_at, toml_in
from ..knowledge.findings.checkup import Checkup, check_data
from ..knowledge.soft import lone_expert
from ..knowledge.tables.table import Table
from .answers import hear_knowledge, name_values, tables_in, usable
from .checks import judge
from .draft import Workspace
from .edits import edit_toml
from .requests import CalibrationRequest

ROWS_SHOWN = 20  # rows listed one by one
LEAST_ROWS = 5  # rows that a suggested rule must have
PURE = 0.7  # share of them that it must get right


def rows_of_site(data: Path | None, checkup: Checkup) -> Examples | Measured:
    """The site's labelled rows, or a sentence why there are none."""
    _, schema = usable(checkup)
    if data is None:
        raise FedloreError("there are no rows in this folder: add train.csv, or give --data")
    if checkup.bins is not None:
        return read_measured(data, schema, label=schema.label)
    return read_table(data, schema, label=schema.label)


@torch.no_grad()
def tell_data(checkup: Checkup, rows: Examples | Measured, name: str) -> dict[str, Any]:
    """The draft on the site's rows: of classes also rule by rule, of a number how far it is off.

    And labels outside the range, rows on which nobody speaks, and how wide the range is.
    """
    _, schema = usable(checkup)
    assert rows.y is not None
    findings = check_data(checkup, rows, name).findings[len(checkup.findings) :]
    heard = hear_knowledge(checkup, rows.x)
    outside = heard.outside(rows.y).nonzero().flatten().tolist()
    return {
        "rows": len(rows),
        "spoken": int((~heard.silent & ~heard.refused).sum()),
        "silent": int((heard.silent & ~heard.refused).sum()),
        "contradicted": int(heard.refused.sum()),
        "outside": [
            {
                "line": place + 2,
                "label": heard.name(float(rows.y[place])),
                "row": name_values(schema, rows.x[place].tolist()),
            }
            for place in outside[:ROWS_SHOWN]
        ],
        "outside_count": len(outside),
        "width": heard.width,
        "rules": [
            {"table": table.name, "kind": table.kind, **dict(line)}
            for table in tables_in(checkup)
            if isinstance(rows, Examples)
            for line in rule_report(table, rows)
        ],
        "findings": [finding.as_row() for finding in findings],
        **heard.measure(rows.y),
    }


def suggest_rule(checkup: Checkup, rows: Examples | Measured) -> dict[str, Any] | None:
    """A rule for rows on which no expert speaks, from a shallow tree; None where none is good.

    In the table's own words, with its counts on all rows: a draft, until a person accepts it.
    """
    _, schema = usable(checkup)
    if isinstance(rows, Measured):
        raise FedloreError("a rule is suggested for classes, this knowledge is about a number")
    assert rows.y is not None
    heard = hear_knowledge(checkup, rows.x)
    whole = ~rows.x.isnan().any(1)
    left = heard.silent & ~heard.refused & whole
    if int(left.sum()) < LEAST_ROWS:
        return None
    best: dict[str, Any] | None = None
    for cells, then in _leaves(rows.x[left], rows.y[left], schema):
        hit = _hits(cells, schema, rows.x)
        own, right = int((hit & left).sum()), int((hit & left & (rows.y == then)).sum())
        if own >= LEAST_ROWS and right >= PURE * own and (best is None or right > best["right"]):
            best = {"cells": cells, "then": schema.classes[then], "rows": own, "right": right,
                    "all": int(hit.sum()), "silent": int(left.sum())}  # fmt: skip
    return best


def _leaves(x: Tensor, y: Tensor, schema: Schema) -> list[tuple[dict[str, str], int]]:
    """The leaves of a shallow tree as conditions, and the class of most of their rows."""
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise FedloreError("a rule from data needs: pip install 'fedlore[sklearn]'") from None
    columns, matrix = _columns(x, schema)
    tree = DecisionTreeClassifier(max_depth=3, min_samples_leaf=LEAST_ROWS, random_state=0)
    grown = tree.fit(matrix, y.numpy()).tree_
    found: list[tuple[dict[str, str], int]] = []

    def walk(node: int, low: dict[int, float], high: dict[int, float]) -> None:
        if grown.children_left[node] < 0:
            then = int(tree.classes_[int(grown.value[node][0].argmax())])
            found.append((_cells(low, high, columns, schema), then))
            return
        place, cut = int(grown.feature[node]), float(grown.threshold[node])
        walk(grown.children_left[node], low, {**high, place: min(cut, high.get(place, math.inf))})
        walk(grown.children_right[node], {**low, place: max(cut, low.get(place, -math.inf))}, high)

    walk(0, {}, {})
    return found


def _columns(x: Tensor, schema: Schema) -> tuple[list[tuple[int, int | None]], Any]:
    """The columns of a tree: each number, and each level by itself."""
    columns: list[tuple[int, int | None]] = []
    parts = []
    for place, feature in enumerate(schema.features):
        if feature.levels:
            for level in range(len(feature.levels)):
                columns.append((place, level))
                parts.append((x[:, place] == level).double().numpy())
        else:
            columns.append((place, None))
            parts.append(x[:, place].double().numpy())
    return columns, np.stack(parts, 1)


def _cells(
    low: Mapping[int, float],
    high: Mapping[int, float],
    columns: Sequence[tuple[int, int | None]],
    schema: Schema,
) -> dict[str, str]:
    """The path to a leaf as cells, its thresholds in three digits."""
    cells: dict[str, str] = {}
    levels: dict[int, set[int]] = {}
    for place in sorted({*low, *high}):
        column, level = columns[place]
        feature = schema.features[column]
        if level is not None:
            kept = levels.setdefault(column, set(range(len(feature.levels))))
            levels[column] = kept & {level} if place in low else kept - {level}
            continue
        start, stop = (_short(side.get(place)) for side in (low, high))
        if start and stop:
            cells[feature.name] = f"({start}..{stop}]"
        else:
            cells[feature.name] = f"> {start}" if start else f"<= {stop}"
    for column, some in levels.items():
        names = [schema.features[column].levels[level] for level in sorted(some)]
        cells[schema.features[column].name] = (
            names[0] if len(names) == 1 else "in " + ", ".join(names)
        )
    return cells


def _short(value: float | None) -> str:
    return "" if value is None else number(float(f"{value:.3g}"))


def _hits(cells: Mapping[str, str], schema: Schema, x: Tensor) -> Tensor:
    """The rows that satisfy cells, as a table would find them."""
    try:
        conditions = sorted(
            (schema.column(name), condition)
            for name, cell in cells.items()
            if (condition := parse_condition(cell, schema.features[schema.column(name)]))
            is not None
        )
    except KnowledgeError:  # two thresholds that are one in three digits
        return torch.zeros(len(x), dtype=torch.bool)
    table = Table(schema, (Rule(tuple(conditions), (0,)),), "predict", "first")
    return table.hits(x)[:, 0]


def calibrate_draft(desk: Workspace, said: CalibrationRequest) -> None:
    """Put a calibrated range into the draft, in the place of the one that was there."""
    with desk.lock:
        desk.check(said.token)
        members = desk.members
        checkup = judge(members)
        known, _ = usable(checkup)
        values = toml_in(*files_at(members))
        scorers = values.get("predict", {}).get("sources", [])
        if known.prediction is None or len(scorers) != 1:
            raise FedloreError(
                f"a range is calibrated on one source of predictions, there are {len(scorers)}"
            )
        limits = values.get("range", {})
        if limits.get("combine", "all") != "all":
            raise FedloreError("a calibrated range cannot be added to alternatives (combine = any)")
        rows = rows_of_site(desk.place.data, checkup)
        measured: dict[str, Any]
        if isinstance(rows, Measured):
            interval = ConformalInterval.calibrate(known.prediction, rows, alpha=said.alpha)
            measured = {"rows": interval.rows, "thresholds": [interval.radius]}
        else:
            expert = lone_expert(known.prediction)
            assert expert is not None  # there is one source
            found = ConformalRange.calibrate(
                expert, rows, alpha=said.alpha, per_class=said.per_class
            )
            measured = {"score": found.score, "rows": found.rows}
            measured |= {"thresholds": list(found.thresholds)}
        sources = limits.get("sources", [])
        old = [i for i, source in enumerate(sources) if "conformal" in source]
        place = old[0] if old else len(sources)
        entry = {"conformal": {"alpha": said.alpha, **measured, "scorer": dict(scorers[0])}}
        text = members[FILE].decode("utf-8-sig")
        if old:
            text = edit_toml(text, ["range", "sources", place], None)
        text = edit_toml(text, ["range", "sources", len(sources) - len(old[:1])], entry)
        text = edit_toml(text, ["outside"], "widen")  # a range that errs now and then
        if known.line is None:
            # soft probabilities reach everywhere: what lies outside the range is cut off
            text = edit_toml(text, ["conflict"], "restrict")
            soft = sum("confidence" in source for source in sources)  # they exclude nothing
            if len(sources) - len(old) - soft == 1 and "empty" not in limits:
                text = edit_toml(text, ["range", "empty"], "first")  # the expert has the last word
        desk.change(said.token, {FILE: text.encode()}, who=said.who, what="a calibrated range")
