"""The draft on the site's own rows: counts, suggested rules, calibration."""

import math
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from ..answers import Measured
from ..core.examples import Examples
from ..data.rows import read_measured, read_table
from ..errors import FedloreError, KnowledgeError
from ..kernel.cells import number, parse_condition
from ..kernel.document import FeatureShape, Piece
from ..kernel.findings import errors
from ..kernel.schema import Schema
from ..kernel.sheets import OUTCOMES, Rule
from ..knowledge.audit import report_rules
from ..knowledge.conformal import ConformalInterval, ConformalRange
from ..knowledge.content import FILE, files_at, toml_in
from ..knowledge.findings.checkup import Checkup, check_data
from ..knowledge.findings.data import Evidence, lint_coverage
from ..knowledge.findings.shapes import bend_of, slope_of
from ..knowledge.regions import RowRegion
from ..knowledge.shapes.shape import SiteShapes
from ..knowledge.shapes.turns import find_turn
from ..knowledge.soft import lone_expert
from ..knowledge.tables.table import Table
from .answers import DraftAnswers, answer_draft, name_values, usable
from .checks import bare_title, judge, read_schema
from .draft import Workspace
from .edits import edit_toml
from .grids import grid_bytes, read_grids
from .requests import CalibrationRequest, RuleAccepted

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
def report_data(checkup: Checkup, rows: Examples | Measured, name: str) -> dict[str, Any]:
    """The draft on the site's rows: of classes also rule by rule, of a number how far it is off.

    And labels outside the range, rows on which nobody speaks, and how wide the range is.
    """
    _, schema = usable(checkup)
    assert rows.y is not None
    findings = check_data(checkup, rows, name).findings[len(checkup.findings) :]
    findings += lint_coverage(checkup.knowledge, Evidence(checkup.examples, rows.x))
    heard = answer_draft(checkup, rows.x)
    outside = heard.outside(rows.y).nonzero().flatten().tolist()
    return {
        "rows": len(rows),
        "spoken": int((~heard.silent & ~heard.refused).sum()),
        "silent": int((heard.silent & ~heard.refused).sum()),
        "contradicted": int(heard.refused.sum()),
        "outside": [_row(rows, place, heard, schema) for place in outside[:ROWS_SHOWN]],
        "outside_count": len(outside),
        "width": heard.width,
        "rules": report_rules(checkup.tables, rows),
        "findings": [finding.as_row() for finding in findings],
        **heard.measure(rows.y),
    }


def _row(
    rows: Examples | Measured, place: int, heard: DraftAnswers, schema: Schema
) -> dict[str, Any]:
    """One of the site's rows: its line, its label, and its values to be tried."""
    assert rows.y is not None
    label = heard.name(float(rows.y[place]))
    values = name_values(schema, rows.x[place].tolist())
    return {"line": place + 2, "label": label, "row": values}


def find_wrong(checkup: Checkup, rows: Examples | Measured, rule: int) -> dict[str, Any]:
    """The rows on which a rule is wrong, the rule by its place among those of all tables."""
    _, schema = usable(checkup)
    assert rows.y is not None
    heard = answer_draft(checkup, rows.x)
    for table in (one.table for one in checkup.tables):
        if 0 <= rule < len(table.rules):
            named = table.named[rule][rows.y.clamp(0, len(schema.classes) - 1)] > 0
            wrong = (table.hits(rows.x)[:, rule] & ~named).nonzero().flatten().tolist()
            shown = [_row(rows, place, heard, schema) for place in wrong[:ROWS_SHOWN]]
            return {"rows": shown, "count": len(wrong)}
        rule -= len(table.rules)
    raise KnowledgeError("there is no such rule: load the page again")


GROUPS = 10  # of rows along a feature
IN_GROUP = 5  # rows that each of them must have


@torch.no_grad()
def draw_effect(checkup: Checkup, rows: Examples | Measured, shape: FeatureShape) -> dict[str, Any]:
    """What the rows show of a shape: means of the label in groups of equal size.

    With 95 % intervals of the means. A linear fit along each of its pieces, all of it where none is
    known, tells the effect from that of other features.
    """
    feature, where = shape.feature, shape.where
    _, schema = usable(checkup)
    column, region = schema.column(feature), RowRegion(where, schema)
    if schema.features[column].levels:
        raise KnowledgeError(f"'{feature}' has levels, which have no more and no less")
    if where:
        region.check()
    assert rows.y is not None
    inside = region.holds(rows.x) & rows.x[:, column].isfinite()
    order = rows.x[inside, column].argsort()
    x, y = rows.x[inside][order], rows.y[inside][order].double()
    points = []
    for part in torch.arange(len(x)).tensor_split(max(1, min(GROUPS, len(x) // IN_GROUP))):
        if len(part) < 2:
            continue
        wide = 1.96 * float(y[part].std()) / len(part) ** 0.5
        mean = float(y[part].mean())
        at = float(x[part, column].double().mean())
        points.append({"at": at, "mean": mean, "low": mean - wide, "high": mean + wide})
    fits = []
    if shape.lacks_turn:
        shape = _estimate_turn(shape, schema, x, y)
    if shape.bend:
        here = x.isfinite().all(1)
        slope, error = bend_of(x[here].double(), y[here], column) or (None, None)
        fits.append({"slope": slope, "error": error, "sign": shape.bend, "side": "", "turn": 0.0})
    for piece in shape.pieces or (() if shape.bend else (Piece(0),)):
        here = x.isfinite().all(1) & piece.covers(x[:, column].float())
        slope, error = slope_of(x[here].double(), y[here], column) or (None, None)
        side = {"sign": piece.sign, "side": piece.side, "turn": piece.turn}
        fits.append({"slope": slope, "error": error, **side})
    about = {"classes": [] if isinstance(rows, Measured) else list(schema.classes)}
    return {"rows": len(x), "points": points, "fits": fits, **about}


def _estimate_turn(shape: FeatureShape, schema: Schema, x: Tensor, y: Tensor) -> FeatureShape:
    """The shape with the turn that these rows show, as it is where they show none."""
    try:
        shapes = SiteShapes((replace(shape, where=""),), replace(schema, ordered=True))
        found = find_turn(shapes, shapes.shapes[0], x, y)
        return found.within(schema.features[schema.column(shape.feature)], shape)
    except KnowledgeError:
        return shape


def suggest_rule(
    members: Mapping[str, bytes], checkup: Checkup, rows: Examples | Measured
) -> dict[str, Any] | None:
    """A rule for rows on which no expert speaks, from a shallow tree; None where none is good.

    In the table's own words, with its counts on all rows: a draft, until a person accepts it. The
    best one that breaks nothing; where each breaks something, the best with what it breaks.
    """
    _, schema = usable(checkup)
    if isinstance(rows, Measured):
        raise FedloreError("a rule is suggested for classes, this knowledge is about a number")
    assert rows.y is not None
    heard = answer_draft(checkup, rows.x)
    whole = ~rows.x.isnan().any(1)
    left = heard.silent & ~heard.refused & whole
    if int(left.sum()) < LEAST_ROWS:
        return None
    found: list[dict[str, Any]] = []
    for cells, then in _leaves(rows.x[left], rows.y[left], schema):
        hit = _hits(cells, schema, rows.x)
        own, right = int((hit & left).sum()), int((hit & left & (rows.y == then)).sum())
        if own >= LEAST_ROWS and right >= PURE * own:
            found.append({"cells": cells, "then": schema.classes[then], "rows": own, "right": right,
                          "all": int(hit.sum()), "silent": int(left.sum())})  # fmt: skip
    found.sort(key=lambda rule: -int(rule["right"]))
    for rule in found:
        rule["breaks"] = _breaks(members, checkup, *add_rule(members, rule["cells"], rule["then"]))
        if not rule["breaks"]:
            return rule
    return found[0] if found else None


def accept_rule(workspace: Workspace, said: RuleAccepted) -> None:
    """A suggested rule into the draft; one that breaks the expert's own rules is refused."""
    with workspace.lock:
        workspace.check(said.token)
        file, data = add_rule(workspace.members, said.cells, said.then, said.note)
        breaks = _breaks(workspace.members, judge(workspace.members), file, data)
        if breaks:
            raise KnowledgeError(f"this rule is not accepted: {breaks}")
        workspace.change(said.token, {file: data}, who=said.who, what=f"'{file}'")


def _breaks(members: Mapping[str, bytes], checkup: Checkup, file: str, data: bytes) -> str:
    """The errors that a changed file brings: a range that forbids it, an example that it breaks."""
    before = {str(one) for one in errors(checkup.findings)}
    after = errors(judge(ChainMap({file: data}, cast(dict[str, bytes], members))).findings)
    return "; ".join(one.message for one in after if str(one) not in before)


def add_rule(
    members: Mapping[str, bytes], cells: Mapping[str, str], then: str, note: str = ""
) -> tuple[str, bytes]:
    """The first table of predictions with one rule more, the last: its file, and the bytes."""
    schema = read_schema(members)
    grid = next((g for g in read_grids(members) if g.side == "predict" and not g.fault), None)
    if grid is None or schema is None:
        raise KnowledgeError("there is no table of predictions yet: add one under Rules")
    header = list(grid.header)
    rows = [list(row) for row in grid.rows if any(row)]
    outcome = (grid.outcome.lower(),) if grid.outcome else OUTCOMES
    for name in cells:
        names = [bare_title(title, schema) for title in header]
        last = next((i for i, n in enumerate(names) if n.lower() in outcome), len(names))
        if name not in names:
            feature = schema.features[schema.column(name)]
            header.insert(last, f"{name} [{feature.unit}]" if feature.unit else name)
            for row in rows:
                row.insert(last, "")
    names = [bare_title(title, schema) for title in header]
    ranks = [row[names.index("priority")] for row in rows] if "priority" in names else []
    highest = max((int(rank) for rank in ranks if rank.strip().isdigit()), default=0)
    fresh = {**cells, "priority": str(highest + 1), "note": note}
    rows.append([then if n.lower() in outcome else fresh.get(n, "") for n in names])
    return grid.file, grid_bytes(members, grid.file, grid.sheet, header, rows)


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


def calibrate_draft(workspace: Workspace, said: CalibrationRequest) -> None:
    """Put a calibrated range into the draft, in the place of the one that was there."""
    with workspace.lock:
        workspace.check(said.token)
        members = workspace.members
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
        rows = rows_of_site(workspace.place.data, checkup)
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
        workspace.change(said.token, {FILE: text.encode()}, who=said.who, what="a calibrated range")
