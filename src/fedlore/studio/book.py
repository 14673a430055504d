"""The rule book: everything the knowledge says on one printable page, formulas drawn."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..errors import FedloreError
from ..kernel.schema import Feature, Schema
from ..knowledge.content import files_at, toml_in
from ..knowledge.findings.checkup import Checkup
from ..knowledge.findings.data import Evidence, RuleUse, count_uses, lint_coverage
from ..knowledge.formulas import Formula
from ..knowledge.signing import check_signed
from ..look.page import COLOURS, Section, page
from ..look.plots import DrawnPlot, Plot, draw
from ..look.tables import TextTable
from ..words import say
from .checks import judge, read_schema
from .data import rows_of_site
from .draft import now
from .grids import RuleGrid, read_grids, sources_in
from .maps import ends_of, middle_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PLOTS = 6
MOST_COLUMNS = 9  # that fit on a sheet of paper; of wider tables each row is one text
_STEPS = 200
_LINES = tuple(COLOURS[name] for name in ("FLwKM", "lore", "FL+mask", "P-KM"))

_Drawn = tuple[str, str, Tensor]  # formula, lower or upper; its text; its values along x, (n,)


def draw_formulas(values: Mapping[str, Any], schema: Schema) -> tuple[DrawnPlot, ...]:
    """A plot for every feature that formulas look at, the others in the middle of their scope."""
    found = _formulas(values, schema)
    looked = dict.fromkeys(name for _, formula in found for name in formula.features)
    features = [f for f in schema.features if f.name in looked and not f.levels][:MOST_PLOTS]
    return tuple(draw(_plot(feature, found, schema)) for feature in features)


def _formulas(values: Mapping[str, Any], schema: Schema) -> list[tuple[str, Formula]]:
    """What each formula is (formula, lower, upper), and the formula; faulty ones are left out."""
    found = []
    for _, key, text in _written(values):
        try:
            if key != "edges" and isinstance(text, str):
                found.append((key, Formula.parse(text, schema)))
        except FedloreError:
            continue
    return found


def _written(values: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Everything about formulas in a file: its side, its key, and what is written there."""
    for side in ("predict", "range"):
        for source in sources_in(values, side):
            for key in ("formula", "lower", "upper", "edges"):
                if key in source:
                    yield side, key, source[key]


def _plot(feature: Feature, formulas: list[tuple[str, Formula]], schema: Schema) -> Plot:
    low, high = ends_of(feature, [], math.nan)
    x = torch.linspace(low, high, _STEPS)
    rows = torch.tensor([[middle_of(f) for f in schema.features]]).repeat(_STEPS, 1)
    rows[:, schema.column(feature.name)] = x
    here = [(key, one) for key, one in formulas if feature.name in one.features]
    lines = [(key, one.text, one(rows)) for key, one in here]
    unit = f" [{feature.unit}]" if feature.unit else ""
    others = ", ".join(
        f"{f.name} = {f.levels[0] if f.levels else f'{middle_of(f):g}'}"
        for f in schema.features
        if f.name != feature.name and any(f.name in one.features for _, one in here)
    )
    said = "; ".join(f"{key}: {text}" for key, text, _ in lines)
    caption = f"{said}{' where ' + others if others else ''}"
    paint = partial(_paint, name=f"{feature.name}{unit}", x=x, lines=lines)
    return Plot(f"formulas-{feature.name}", f"Along {feature.name}", others, caption, 2.2, paint)


def _paint(axes: "Axes", *, name: str, x: Tensor, lines: list[_Drawn]) -> None:
    ends = {key: values.numpy() for key, _, values in lines if key in ("lower", "upper")}
    if len(ends) == 2 and len([key for key, _, _ in lines if key != "formula"]) == 2:
        axes.fill_between(x.numpy(), ends["lower"], ends["upper"], alpha=0.2, color=_LINES[0])
    for place, (key, text, values) in enumerate(lines):
        shown = np.where(np.isfinite(values.numpy()), values.numpy(), np.nan)
        style = "-" if key == "formula" else "--"
        label = f"{key}: {text if len(text) <= 40 else text[:39] + '…'}"
        axes.plot(x.numpy(), shown, style, color=_LINES[place % len(_LINES)], label=label)
    axes.set_xlabel(name)


_TITLES = {
    "predict": "What the expert would answer",
    "range": "Which answers are possible",
    "examples": "Examples, with the answer that is expected",
}


def write_book(
    members: Mapping[str, bytes], name: str, knowledge: Path, data: Path | None = None
) -> str:
    """One HTML page that needs nothing else: card, features, rules, formulas, findings.

    With examples, or the site's rows, also to how many of them each rule applied.
    """
    values, checkup = toml_in(*files_at(members)), judge(members)
    card = {k: str(v) for k, v in values.get("card", {}).items() if v}
    facts = {**card, "printed": now(), "signature": _signature(knowledge)}
    stated = ("trust", "reliance", "least_trust", "outside", "conflict")
    facts |= {key: str(values[key]) for key in stated if key in values}
    if checkup.knowledge is not None and checkup.knowledge.row_trust is not None:
        facts["trust"] = f"{checkup.knowledge.trust:g}; {checkup.knowledge.row_trust}"
    grids, seen = read_grids(members), _evidence(checkup, data)
    known = checkup.knowledge
    uses = count_uses(known, seen) if known is not None and seen.counts else []
    sections = [
        _features(members),
        *(_rules(grid, uses) for grid in grids),
        *_formula_sections(values, read_schema(members)),
        *_shapes(sources_in(values, "shape")),
    ]
    told = [one for one in checkup.findings if one.kind != "never-applied"]
    told += lint_coverage(known, seen)
    findings = [(say(f.severity), str(f.place), f.message) for f in told]
    title = "What the check says"
    sections.append(
        Section(title, tables=(_words("Findings", ("kind", "place", "finding"), findings),))
    )
    return page(
        say("Rule book: {name}", name=name),
        facts={k: v for k, v in facts.items() if v},
        reading=[
            "A rule applies where all its conditions hold; an empty cell holds for any value."
        ],
        terms={"predict": "what the expert would say", "range": "what is possible at all"},
        sections=sections,
    )


def _evidence(checkup: Checkup, data: Path | None) -> Evidence:
    """The rows that may show rules at work: examples, and those of the site that can be read."""
    try:
        rows = None if data is None else rows_of_site(data, checkup).x
    except FedloreError:  # what is wrong with them the page of the data says
        rows = None
    return Evidence(checkup.examples, rows)


def _signature(knowledge: Path) -> str:
    try:
        found = check_signed(knowledge)
    except FedloreError as error:
        return str(error)
    return f"{found.signer}, {found.date}, key {found.key[:16]}…"


def _features(members: Mapping[str, bytes]) -> Section:
    schema = read_schema(members)
    if schema is None:
        return Section("Features", warnings=("The features are not declared well.",))
    rows = [
        (f.name, f.unit, "" if f.levels else _span(f), ", ".join(f.levels)) for f in schema.features
    ]
    answers = say(
        "Answers in {label}: {classes}",
        label=schema.label,
        classes=", ".join(schema.classes[:60]),
    )
    head = ("name", "unit", "scope", "levels")
    return Section(
        "Features and answers", tables=(_words("Columns of a row", head, rows, answers),)
    )


def _span(feature: Feature) -> str:
    return say("{low} to {high}", low=f"{feature.low:g}", high=f"{feature.high:g}")


def _rules(grid: RuleGrid, uses: Sequence[RuleUse]) -> Section:
    title = f"{say(_TITLES[grid.side])}: {grid.file}{', ' + grid.sheet if grid.sheet else ''}"
    if grid.fault:
        return Section(title, warnings=(grid.fault,))
    rows = [
        (str(grid.first + 1 + i), *row)
        for i, row in enumerate(grid.rows)
        if any(map(str.strip, row))
    ]
    note = [say("When several rules apply: {hit}", hit=grid.hit)] if grid.hit else []
    head: tuple[str, ...] = ("row", *grid.header)
    counts = {one.place.row: one.rows for one in uses if one.place.file == grid.file}
    if counts and grid.side != "examples":
        head = (*head, "rows")
        rows = [(*row, str(counts.get(int(row[0]), ""))) for row in rows]
        note.append(say("rows: examples and rows of data to which the rule applied"))
    if len(head) > MOST_COLUMNS:
        used = head[-1:] if head[-1] == "rows" and len(head) > len(grid.header) + 1 else ()
        texts = [(row[0], _say_cells(grid, row[1:]), *row[len(row) - len(used) :]) for row in rows]
        head, rows = ("row", "cells", *used), texts
    return Section(title, tables=(_words("By row of the file", head, rows, *note),))


def _say_cells(grid: RuleGrid, row: Sequence[str]) -> str:
    """The cells of a row that say something, by their titles."""
    cells = zip(grid.header, row, strict=False)
    return "; ".join(f"{title}: {cell}" for title, cell in cells if cell.strip())


def _shapes(stated: Sequence[Mapping[str, Any]]) -> list[Section]:
    head: tuple[str, ...] = ("feature", "effect", "turns_at", "where")
    if not any("turns_at" in one for one in stated):
        head = ("feature", "effect", "where")
    rows = [tuple(str(one.get(key, "")) for key in head) for one in stated]
    table = _words("As they are written", head, rows)
    return [Section("Shapes: which way the answer moves", tables=(table,))] if rows else []


def _formula_sections(values: Mapping[str, Any], schema: Schema | None) -> list[Section]:
    rows = [(say(_TITLES[side]), key, str(text)) for side, key, text in _written(values)]
    if not rows:
        return []
    table = _words("As they are written", ("says", "as", "formula"), rows)
    try:
        plots = () if schema is None else draw_formulas(values, schema)
    except FedloreError as error:  # a book without drawings is still one
        return [Section("Formulas", warnings=(str(error),), tables=(table,))]
    return [Section("Formulas", tables=(table,), plots=plots)]


def _words(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], *notes: str
) -> TextTable:
    """A table in which every column holds words."""
    return TextTable.of(title, head, rows, notes, tuple(range(len(head))))
