"""An expert's examples: rows with the answer that he expects, checked whenever the file is.

A CSV file beside knowledge.toml, named by its key `examples`. A column per feature, and `expect` (a
class, or a number; `silent` where no expert is to speak), `allowed` (the possible classes, as in a
range; of a number one that must be possible), `note`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...answers.axis import find_favoured
from ...core.tensors import torch
from ...errors import KnowledgeError, unknown
from ...kernel.cells import format_outcome, number, parse_outcome, short
from ...kernel.findings import Finding, Place
from ...kernel.schema import Feature, Schema
from ...kernel.sheets import feature_titled
from ..content import Files
from ..missing import join_columns
from ..models import Knowledge
from ..sources.reasons import favoured_words
from ..tables.sheets import parse_sheet

SILENT_WORD = "silent"
WORDS = ("expect", "allowed", "note")
MOST_EXAMPLES = 10_000
_Wrong = tuple[str, str, dict[str, str]]  # the column, the case of the finding, its arguments
_CLOSE = 1e-4  # how far a number may lie from the one that is expected, relative to it


@dataclass(frozen=True)
class Expectation:
    """One row, and what is expected of it; an empty text expects nothing."""

    place: Place
    values: tuple[float, ...]  # in the order of the schema
    expect: str
    allowed: str
    note: str = ""


def read_examples(
    files: Files, name: str, known: Knowledge
) -> tuple[list[Expectation], list[Finding]]:
    """The examples of a file, and all that is wrong with it.

    A feature that no source looks at may be left blank.
    """
    schema = known.require_schema()
    models = [model for model in (known.prediction, known.range) if model is not None]
    needed = {schema.names[c] for c in join_columns(models, len(schema.features))}
    page = parse_sheet(files.read(name), name)
    rows = [(row, cells) for row, cells in page.rows if any(str(cell).strip() for cell in cells)]
    if not rows:
        return [], []
    titles = [str(cell).strip() for cell in rows[0][1]]
    places = [feature_titled(title, schema.features) for title in titles]
    titles = [
        title.partition("[")[0].strip() if place is None else schema.names[place]
        for title, place in zip(titles, places, strict=True)
    ]
    findings = [
        Finding("error", "example", page.place(rows[0][0]), {"error": text})
        for text in _wrong_titles(titles, schema)
    ]
    if len(rows) > MOST_EXAMPLES + 1:
        most = {"most": MOST_EXAMPLES}
        findings.append(Finding("error", "example", page.place(), most, "many"))
    if findings:
        return [], findings
    found = []
    for row, cells in rows[1:]:
        texts = dict(zip(titles, map(str, cells), strict=False))
        values = []
        for feature in schema.features:
            try:
                text = texts.get(feature.name, "").strip()
                free = feature.may_miss or feature.name not in needed
                values.append(math.nan if free and not text else _value(text, feature))
            except KnowledgeError as error:
                place = page.place(row, feature.name)
                findings.append(Finding("error", "example", place, {"error": str(error)}))
        if len(values) == len(schema.features):
            words = {word: texts.get(word, "").strip() for word in WORDS}
            found.append(Expectation(page.place(row), tuple(values), **words))
    return found, findings


def check_examples(
    known: Knowledge, schema: Schema, examples: Sequence[Expectation]
) -> list[Finding]:
    """The examples that the knowledge answers otherwise."""
    findings = []
    for example in examples:
        try:
            wrong = _judge(known, schema, example)
        except KnowledgeError as error:
            wrong = [("", "fault", {"error": str(error)})]
        for column, case, args in wrong:
            place = Place(example.place.file, example.place.sheet, example.place.row, column)
            row = {
                f.name: f.levels[int(v)] if f.levels and v < len(f.levels) else v
                for f, v in zip(schema.features, example.values, strict=True)
                if not math.isnan(v)
            }
            findings.append(
                Finding(
                    "error",
                    "example",
                    place,
                    {**args, "note": example.note},
                    case,
                    counterexample=row,
                )
            )
    return findings


def _judge(known: Knowledge, schema: Schema, example: Expectation) -> list[_Wrong]:
    """What is not as expected."""
    axis, number = known.answers, known.line is not None
    rows = axis.rows(torch.tensor([example.values], dtype=torch.float32))
    said, allowed = axis.read(known.annotate(rows, axis, training=False))
    wrong: list[_Wrong] = []
    if example.expect:
        got, value = SILENT_WORD, math.nan
        if said is not None and bool(axis.speaks(said)[0]):
            value = float(said[0]) if number else math.nan
            got = (
                f"{value:.6g}" if number else favoured_words(find_favoured(said), schema.classes)[0]
            )
        if not _is_as_expected(example.expect, got, value, schema, number):
            wrong.append(("expect", "expect", {"wanted": example.expect, "got": got}))
    if example.allowed and not number:
        wanted = parse_outcome(example.allowed, schema.classes, "range")
        every = torch.ones(len(schema.classes), dtype=torch.bool)
        possible = tuple((every if allowed is None else allowed[0]).nonzero().flatten().tolist())
        if possible != wanted:
            names = format_outcome(possible, schema.classes, "range")
            wrong.append(("allowed", "allowed", {"wanted": example.allowed, "got": names}))
    elif example.allowed and allowed is not None:
        one = torch.tensor([_number(example.allowed)], dtype=torch.float64)
        if not bool(allowed.holds(one)[0]):
            wrong.append(("allowed", "impossible", {"wanted": example.allowed}))
    return wrong


def _is_as_expected(expect: str, got: str, value: float, schema: Schema, number: bool) -> bool:
    """Whether an expert's word is the one that is expected, or near the number; NaN is silence."""
    if number and expect != SILENT_WORD:
        wanted = _number(expect)
        return abs(value - wanted) <= _CLOSE * max(abs(wanted), 1.0)
    if expect != SILENT_WORD:
        parse_outcome(expect, schema.classes, "predict")
    return got == expect


def _wrong_titles(titles: Sequence[str], schema: Schema) -> list[str]:
    known = (*schema.names, *WORDS)
    found = [unknown("column", title, known) for title in titles if title and title not in known]
    twice = {title for title in titles if title and titles.count(title) > 1}
    return found + [f"column '{title}' is there twice" for title in sorted(twice)]


def _value(text: str, feature: Feature) -> float:
    if not text:
        raise KnowledgeError(f"'{feature.name}' is missing")
    if feature.levels:
        if text not in feature.levels:
            raise KnowledgeError(unknown(f"level of '{feature.name}'", text, feature.levels))
        return float(feature.levels.index(text))
    return _number(text)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise KnowledgeError(f"{short(text)} is not a number: write it with a point, such as 0.9")
    return value


def example_cells(schema: Schema) -> list[str]:
    """The header of a file of examples."""
    return [f"{f.name} [{f.unit}]" if f.unit else f.name for f in schema.features] + list(WORDS)


def number_cell(value: float, feature: Feature) -> str:
    """A value as a cell of an example."""
    if math.isnan(value):
        return ""
    return feature.levels[int(value)] if feature.levels else number(float(f"{value:.7g}"))
