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
from ..knowledge.conformal import ConformalInterval, ConformalRange
from ..knowledge.content import FILE, files_at, toml_in
from ..knowledge.findings.checkup import Checkup, check_data
from ..knowledge.soft import lone_expert
from ..knowledge.tables.rulestats import rule_report
from ..knowledge.tables.table import Table
from .checks import judge
from .draft import Workspace
from .edits import edit_toml
from .requests import CalibrationRequest
from .verdict import hear_knowledge, tables_in, usable

ROWS_TOLD = 20  # rows told one by one
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


def tell_data(checkup: Checkup, rows: Examples | Measured, name: str) -> dict[str, Any]:
    """The draft on the site's rows: of classes rule by rule, of a number how far it is off."""
    if isinstance(rows, Measured):
        return _tell_numbers(checkup, rows, name)
    return _tell_classes(checkup, rows, name)


@torch.no_grad()
def _tell_numbers(checkup: Checkup, rows: Measured, name: str) -> dict[str, Any]:
    """How far the expert is off, labels outside their range, and how wide the range is."""
    _, schema = usable(checkup)
    assert rows.y is not None
    findings = check_data(checkup, rows, name).findings[len(checkup.findings) :]
    heard, y = hear_knowledge(checkup, rows.x), rows.y.double()
    assert heard.low is not None and heard.high is not None
    spoken = ~heard.expert.isnan() & ~heard.refused
    off = (heard.expert - y)[spoken]
    outside = ((y < heard.low) | (y > heard.high)) & ~heard.refused
    return {
        "number": True,
        "rows": len(rows),
        "unit": schema.unit,
        "spoken": int(spoken.sum()),
        "rmse": float(off.square().mean().sqrt()) if len(off) else None,
        "mae": float(off.abs().mean()) if len(off) else None,
        "contradicted": int(heard.refused.sum()),
        "outside": [
            _row(rows, i, schema) for i in outside.nonzero().flatten().tolist()[:ROWS_TOLD]
        ],
        "outside_count": int(outside.sum()),
        "silent": int((heard.expert.isnan() & ~heard.refused).sum()),
        "width": float((heard.high - heard.low)[~heard.refused].mean()),
        "findings": [finding.as_row() for finding in findings],
    }


@torch.no_grad()
def _tell_classes(checkup: Checkup, rows: Examples, name: str) -> dict[str, Any]:
    """Per rule hits, right, wrong and contradicted; labels outside the range; rows in no rule."""
    known, schema = usable(checkup)
    assert rows.y is not None
    findings = [
        f.as_row() for f in check_data(checkup, rows, name).findings[len(checkup.findings) :]
    ]
    heard = hear_knowledge(checkup, rows.x)
    assert heard.allowed is not None
    spoken = heard.expert >= 0
    right = spoken & (heard.expert == rows.y)
    outside = ~heard.allowed.gather(1, rows.y.unsqueeze(1)).squeeze(1) & ~heard.refused
    rules = [
        {"table": table.name, "kind": table.kind, **dict(line)}
        for table in tables_in(checkup)
        for line in rule_report(table, rows)
    ]
    return {
        "rows": len(rows),
        "spoken": int(spoken.sum()),
        "right": int(right.sum()),
        "contradicted": int(heard.refused.sum()),
        "outside": [
            _row(rows, i, schema) for i in outside.nonzero().flatten().tolist()[:ROWS_TOLD]
        ],
        "outside_count": int(outside.sum()),
        "silent": int((~spoken & ~heard.refused).sum()),
        "width": float(heard.allowed.sum(1).float().mean()),
        "classes": len(schema.classes),
        "rules": rules,
        "findings": findings,
    }


def _row(rows: Examples | Measured, place: int, schema: Schema) -> dict[str, Any]:
    assert rows.y is not None
    values = {
        f.name: _value(float(v), f.levels)
        for f, v in zip(schema.features, rows.x[place], strict=True)
    }
    label = float(f"{float(rows.y[place]):.7g}")
    if isinstance(rows, Examples):
        return {"line": place + 2, "label": schema.classes[int(label)], "row": values}
    return {"line": place + 2, "label": label, "row": values}


def _value(value: float, levels: Sequence[str]) -> float | str | None:
    if math.isnan(value):
        return None
    if levels:
        return levels[int(value)] if value < len(levels) else None
    return float(f"{value:.7g}")


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
    left = (heard.expert < 0) & ~heard.refused & whole
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
        known, _ = usable(judge(members).checkup)
        values = toml_in(*files_at(members))
        scorers = values.get("predict", {}).get("sources", [])
        if known.prediction is None or len(scorers) != 1:
            raise FedloreError(
                f"a range is calibrated on one source of predictions, there are {len(scorers)}"
            )
        limits = values.get("range", {})
        if limits.get("combine", "all") != "all":
            raise FedloreError("a calibrated range cannot be added to alternatives (combine = any)")
        rows = rows_of_site(desk.place.data, judge(members).checkup)
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
