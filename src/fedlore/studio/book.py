"""The rule book: everything the knowledge says on one page, to be printed and put into a folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import FedloreError
from ..kernel.schema import Schema
from ..knowledge.content import files_at, toml_in
from ..knowledge.signing import check_signed
from ..look.page import Section, page
from ..look.tables import Cell, TextTable
from .checks import judge
from .desk import now
from .grids import RuleGrid, read_grids
from .printed import draw_formulas
from .telling import read_schema

_TITLES = {
    "predict": "What the expert would answer",
    "range": "Which answers are possible",
    "examples": "Examples, with the answer that is expected",
}


def write_book(members: Mapping[str, bytes], name: str, knowledge: Path) -> str:
    """One HTML page that needs nothing else: card, features, rules, formulas, findings."""
    values, checkup = toml_in(*files_at(members)), judge(members).checkup
    card = {k: str(v) for k, v in values.get("card", {}).items() if v}
    facts = {**card, "printed": now(), "signature": _signature(knowledge)}
    facts |= {key: str(values[key]) for key in ("trust", "outside", "conflict") if key in values}
    if checkup.knowledge is not None and checkup.knowledge.row_trust is not None:
        one = checkup.knowledge.trust_at_prediction
        facts["trust"] = f"{one:g}; {checkup.knowledge.row_trust}"
    grids = read_grids(members)
    sections = [_features(members), *map(_rules, grids), *_formulas(values, read_schema(members))]
    findings = [(f.severity, str(f.place), f.message) for f in checkup.findings]
    title = "What the check says"
    sections.append(
        Section(title, tables=(_table("Findings", ("kind", "place", "finding"), findings),))
    )
    return page(
        f"Rule book: {name}",
        facts={k: v for k, v in facts.items() if v},
        reading=[
            "A rule applies where all its conditions hold; an empty cell holds for any value."
        ],
        terms={"predict": "what the expert would say", "range": "what is possible at all"},
        sections=sections,
    )


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
        (f.name, f.unit, "" if f.levels else f"{f.low:g} to {f.high:g}", ", ".join(f.levels))
        for f in schema.features
    ]
    answers = f"Answers in {schema.label}: {', '.join(schema.classes[:60])}"
    head = ("name", "unit", "scope", "levels")
    return Section(
        "Features and answers", tables=(_table("Columns of a row", head, rows, answers),)
    )


def _rules(grid: RuleGrid) -> Section:
    title = f"{_TITLES[grid.side]}: {grid.file}{', ' + grid.sheet if grid.sheet else ''}"
    if grid.fault:
        return Section(title, warnings=(grid.fault,))
    rows = [
        (str(grid.first + 1 + i), *row)
        for i, row in enumerate(grid.rows)
        if any(map(str.strip, row))
    ]
    note = f"When several rules apply: {grid.hit}" if grid.hit else ""
    return Section(title, tables=(_table("By row of the file", ("row", *grid.header), rows, note),))


def _formulas(values: Mapping[str, object], schema: Schema | None) -> list[Section]:
    rows = []
    for side in ("predict", "range"):
        part = values.get(side)
        for source in part.get("sources", []) if isinstance(part, Mapping) else []:
            rows += [
                (_TITLES[side], key, str(source[key]))
                for key in ("formula", "lower", "upper", "edges")
                if key in source
            ]
    if not rows:
        return []
    table = _table("As they are written", ("says", "as", "formula"), rows)
    try:
        plots = () if schema is None else draw_formulas(values, schema)
    except FedloreError as error:  # a book without drawings is still one
        return [Section("Formulas", warnings=(str(error),), tables=(table,))]
    return [Section("Formulas", tables=(table,), plots=plots)]


def _table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
) -> TextTable:
    body = tuple(tuple(Cell(text) for text in row) for row in rows)
    words = tuple(range(len(head)))
    return TextTable(title, tuple(head), body, (note,) if note else (), words)
