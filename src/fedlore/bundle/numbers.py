"""knowledge.toml for a number, written: the reverse of `regression.files`."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import KnowledgeError
from ..knowledge.files import table_file
from ..knowledge.formulas.formula import Formula
from ..knowledge.numbers.bins import Bins
from ..knowledge.numbers.conformal import ConformalInterval
from ..knowledge.numbers.numbers import Numbers
from ..knowledge.numbers.ranges import Between, FirstSaid, Join, Meet
from ..knowledge.numbers.tables import IntervalTable, NumberTable
from ..knowledge.schema import Schema
from ..knowledge.tables.rulesheets import table_cells
from ..knowledge.tables.sheets import write_sheet
from ..knowledge.toml import dump

Tables = list[NumberTable | IntervalTable]


def written_numbers(numbers: Numbers, schema: Schema, bins: Bins, path: Path) -> None:
    """Write a knowledge.toml with a [target], and its tables beside it."""
    tables: Tables = []
    values = _values(numbers, schema, bins, tables)
    for place, table in enumerate(tables, 1):
        write_sheet(_cells(table), path.parent / table_file(table.table.name, place))
    path.write_text(dump(values), encoding="utf-8")


def said_of(numbers: Numbers, schema: Schema, bins: Bins) -> tuple[object, ...]:
    """All that knowledge about a number says, to be compared."""
    tables: Tables = []
    values = _values(numbers, schema, bins, tables)
    return values, [_cells(table) for table in tables], bins.edges


def _values(numbers: Numbers, schema: Schema, bins: Bins, tables: Tables) -> dict[str, Any]:
    target: dict[str, Any] = {"lower": bins.lower, "upper": bins.upper, "name": schema.label}
    target |= {"bins": bins.k} if bins.inner is None else {"edges": list(bins.edges)}
    values: dict[str, Any] = {
        "trust": numbers.trust,
        **({} if numbers.rely is None else {"rely": numbers.rely}),
        "outside": numbers.outside,
        "conflict": numbers.conflict,
        "features": [_feature(asdict(feature)) for feature in schema.features],
        "target": target,
    }
    points: tuple[Any, ...] = () if numbers.point is None else (numbers.point,)
    if isinstance(numbers.point, FirstSaid):
        points = numbers.point.points
    predict: dict[str, Any] = {} if numbers.spread is None else {"spread": numbers.spread}
    if points:
        predict["sources"] = [_point(point, tables) for point in points]
    ranges: tuple[Any, ...] = () if numbers.range is None else (numbers.range,)
    limits: dict[str, Any] = {"empty": numbers.empty}
    if isinstance(numbers.range, Meet | Join):
        ranges = numbers.range.ranges
        limits["combine"] = "all" if isinstance(numbers.range, Meet) else "any"
    if ranges:
        limits["sources"] = [_range(one, tables) for one in ranges]
    return values | ({"predict": predict} if predict else {}) | {"range": limits}


def _point(model: Any, tables: Tables) -> dict[str, Any]:
    if isinstance(model, Formula):
        return {"formula": model.text}
    if isinstance(model, NumberTable):
        return _named(model, tables)
    raise _unwritable(model)


def _range(model: Any, tables: Tables) -> dict[str, Any]:
    if isinstance(model, Between):
        sides = {"lower": model.lower, "upper": model.upper}
        if all(side is None or isinstance(side, Formula) for side in sides.values()):
            return {key: side.text for key, side in sides.items() if isinstance(side, Formula)}
        raise KnowledgeError(
            "a Between with fixed numbers or functions cannot be written to a file: give its sides "
            "as formulas, Formula.parse('55', schema)"
        )
    if isinstance(model, IntervalTable):
        return _named(model, tables)
    if isinstance(model, ConformalInterval):
        inner = {"alpha": model.alpha, "rows": model.rows, "thresholds": [model.radius]}
        return {"conformal": {**inner, "scorer": _point(model.point, tables)}}
    raise _unwritable(model)


def _named(model: NumberTable | IntervalTable, tables: Tables) -> dict[str, Any]:
    tables.append(model)
    return {"table": table_file(model.table.name, len(tables)), "hit": model.table.policy}


def _cells(model: NumberTable | IntervalTable) -> list[list[str]]:
    """The table's cells, each outcome as the expert wrote it: a class's name is that text."""
    cells = table_cells(model.table)
    place = cells[0].index("then")
    for row, rule in zip(cells[1:], model.table.rules, strict=True):
        row[place] = model.table.schema.classes[rule.outcome[0]]
    return cells


def _feature(said: dict[str, Any]) -> dict[str, Any]:
    blank = {"unit": "", "low": float("-inf"), "high": float("inf"), "levels": (), "column": None}
    return {k: v for k, v in said.items() if k not in blank or v != blank[k]}


def _unwritable(model: Any) -> KnowledgeError:
    return KnowledgeError(
        f"a {type(model).__name__} cannot be written to a file: use a formula, a table, or a "
        "calibrated interval"
    )
