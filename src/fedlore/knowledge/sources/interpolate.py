"""Limits from a table of numbers: lines from point to point over one feature."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Literal

from ...errors import KnowledgeError
from ...kernel.cells import number, short
from ...kernel.document import LimitsEntry, check_share
from ...kernel.schema import Schema
from ...kernel.sheets import Sheet, read_titles
from ..tables.sheets import parse_sheet
from .formula import LIMITS
from .kind import Asked, Setting, SourceKind

_FAULT = "knowledge-file"  # the code of errors raised here
MOST_POINTS = 100


@dataclass(frozen=True)
class InterpolateEntry:
    """The keys of limits from a table of numbers."""

    interpolate: str  # a CSV or XLSX file: a feature, `lower`, `upper`
    sheet: str | None = None  # of a workbook; None: the first
    edges: tuple[float, ...] = ()  # cut numbers into classes
    crossed: Literal["error", "all"] = "error"  # where lower > upper: refuse, or allow all
    confidence: float | None = None  # makes it soft: the share of cases in which it holds

    def __post_init__(self) -> None:
        check_share(self.confidence)


def _read(entry: InterpolateEntry, asked: Asked, setting: Setting) -> Any:
    data = setting.files.read(entry.interpolate)
    page = parse_sheet(data, entry.interpolate, sheet=entry.sheet)
    texts = _texts(page, setting.schema)
    limits = LimitsEntry(
        texts.get("lower"), texts.get("upper"), entry.edges, entry.crossed, entry.confidence
    )
    return LIMITS.read(limits, asked, setting)


def _texts(page: Sheet, schema: Schema) -> dict[str, str]:
    """Each limit as a formula, `interpolate(ash, 6, 30, 12, 55)`."""
    (row, header), *rows = [one for one in page.rows if any(one[1])] or [(1, ())]
    named = [str(cell).strip() for cell in header]
    sides = {key: named.index(key) for key in ("lower", "upper") if key in named}
    left = tuple(cell if at not in sides.values() else "" for at, cell in enumerate(header))
    wrong: list[Any] = []
    features = read_titles(page, (row, (*left, "then")), schema.features, None, wrong)
    if wrong:
        raise KnowledgeError(f"{wrong[0].place}: {wrong[0].message}")
    places = [at for at, column in enumerate(features) if column.role == "feature"]
    if len(places) != 1 or not sides:
        raise KnowledgeError(
            f"{page.place()}: limits have one feature and a column 'lower', 'upper' or both, "
            f"got {', '.join(named) or 'nothing'}"
        )
    name = features[places[0]].title
    return {
        key: f"interpolate({name}, {_points(page, rows, places[0], at, named)})"
        for key, at in sides.items()
    }


def _points(page: Sheet, rows: list[Any], x: int, y: int, titles: list[str]) -> str:
    """The points of one limit; a row without it has none."""
    found: list[tuple[float, float]] = []
    for row, cells in rows:
        cells = (*cells, *("",) * (len(titles) - len(cells)))
        if str(cells[y]).strip():
            found.append(tuple(_number(page, row, titles[at], cells[at]) for at in (x, y)))  # type: ignore[arg-type]
            if found[-2:-1] and found[-2][0] >= found[-1][0]:
                place = page.place(row, titles[x])
                raise KnowledgeError(f"{place}: must be larger than in the row before")
    if not 2 <= len(found) <= MOST_POINTS:
        place = page.place(column=titles[y])
        raise KnowledgeError(f"{place}: a limit has 2 to {MOST_POINTS} points, got {len(found)}")
    return ", ".join(map(number, itertools.chain(*found)))


def _number(page: Sheet, row: int, title: str, cell: Any) -> float:
    try:
        found = float(cell)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        place = page.place(row, title)
        raise KnowledgeError(f"{place}: a number is due, got {short(str(cell))}")
    return found


INTERPOLATE = SourceKind(
    name="interpolate",
    entry=InterpolateEntry,
    models=(),  # it is read as limits between formulas, and is written as those
    asked=("range", "set"),
    read=_read,
    write=LIMITS.write,
)
