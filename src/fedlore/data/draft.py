"""A first knowledge.toml from a table: columns, levels, units and scope; rules are the expert's.

What is read off rows is rounded outwards and taken from quantiles, so that no single row can be
told from it; the bounds of a number hold all labels and are meant to be looked over.
"""

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FedloreError, unknown
from ..kernel.schema import DATE_PARTS, in_order
from ..kernel.sheets import Broken
from ..knowledge.content import dump
from ..knowledge.findings.data import find_columns
from .rows import FileForm, open_file
from .rows.cells import (
    BLANK,
    Problems,
    date_cells,
    name_and_unit,
    number_cells,
    read_date,
    text_cells,
)

MOST_LEVELS = 20  # different words up to which a column of words is one of levels
MOST_CLASSES = 30  # and different labels up to which they are classes
_EDGE = 0.05  # of the rows on either side, between whose ends values usually lie
_FAR = 5.0  # times that span: a value further out is a slip or a code, and no part of the scope
_NAMES = ("NA", "None")  # words for a blank that classes may be called
_WHY = {
    "constant-column": "it says the same in every row",
    "copied-column": "it is a copy of '{other}'",
    "id-column": "it looks like a row identifier: no two values are equal",
    "label-column": "it is the label in other words",
}  # what `find_columns` finds -> why a column is left out
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?\b|\d\d?[./]\d\d?[./]\d{4}\b")
_DATES = "it holds dates in another form: write them as 2024-03-05"
_ENDS = {"month": (1.0, 12.0), "weekday": (1.0, 7.0)}  # the scope of parts of a date
_ROOM = 0.1  # of the span that is added on either side


@dataclass(frozen=True, eq=False)
class CellTable:
    """A whole table as cells, with what is known of the way it was written."""

    place: str
    titles: tuple[str, ...]
    columns: tuple[Any, ...]
    decimal: str
    said: str

    def numbers(self, column: int) -> NDArray[np.float64] | None:
        """A column as numbers with NaN for blanks, None where a cell is something else."""
        values, wrong = number_cells(self.columns[column], self.decimal)
        finite = np.isfinite(values) | np.isnan(values)
        return None if wrong or not finite.all() or np.isnan(values).all() else values

    def codes(self, column: int) -> NDArray[np.float64] | None:
        """A column as the numbers that a model would see, None where it holds too many words."""
        texts = self.labels(column)
        words = sorted({text for text in texts if text}, key=_natural)
        if self.numbers(column) is not None or not 1 < len(words) <= MOST_LEVELS:
            return self.numbers(column)
        place = {word: float(i) for i, word in enumerate(words)}
        return np.array([place.get(text, math.nan) for text in texts])

    def words_among_numbers(self, column: int) -> str:
        """What keeps a column from being one of numbers, where most of its cells are."""
        values, wrong = number_cells(self.columns[column], self.decimal)
        if not wrong:  # inf reads as a number
            return f"{np.isinf(values).sum()} of its cells are infinite"
        if len(wrong) > np.isfinite(values).sum():
            return ""
        first = self.columns[column][min(wrong)]
        return f"{len(wrong)} of its cells are no numbers, the first is {first!r:.40}"

    def dates(self, column: int) -> dict[str, NDArray[np.float64]]:
        """The parts of a column of dates that differ between rows; none where it holds others."""
        parts = {part: date_cells(self.columns[column], part) for part in DATE_PARTS}
        if any(wrong for _, wrong in parts.values()):
            return {}
        known = {part: values for part, (values, _) in parts.items()}
        return {p: v for p, v in known.items() if len(np.unique(v[~np.isnan(v)])) > 1}

    def texts(self, column: int) -> list[str]:
        """A column as words, empty where it is blank."""
        return ["" if text in BLANK else text for text in text_cells(self.columns[column])]

    def labels(self, column: int) -> list[str]:
        """A column as classes: NA and None are blanks among numbers only, else names like others.

        A few blanks among words would vanish with their rows, and nobody would know.
        """
        texts = self.texts(column)
        if self.numbers(column) is not None:
            return texts
        words = text_cells(self.columns[column])
        return [word if word in _NAMES else text for word, text in zip(words, texts, strict=True)]

    def find_label(self, label: str) -> int:
        """Where the label stands, by its title with or without the unit."""
        names = [name_and_unit(title)[0] for title in self.titles]
        if names.count(label) > 1 and label not in map(str.strip, self.titles):
            raise FedloreError(f"{self.place}: the column '{label}' is there twice")
        for known in ([title.strip() for title in self.titles], names):
            if known.count(label) == 1:
                return known.index(label)
        raise FedloreError(f"{self.place}: {unknown('column', label, names)}")


@dataclass(frozen=True)
class Draft:
    """A knowledge.toml in the making."""

    text: str
    task: str  # classification or regression
    features: int
    classes: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)  # column -> why


def read_cells(path: str | Path, *, form: FileForm | None = None) -> CellTable:
    """All cells of a file of rows of any kind."""
    source = open_file(Path(path), form=form, fast=False)
    places = range(len(source.titles))
    parts: list[list[Any]] = [[] for _ in places]
    problems = Problems(source.place)
    for batch in source.batches(list(places), [], lambda share: None):
        problems.add(dict(enumerate(batch.odd.values())), list(batch.odd))
        for part, cells in zip(parts, batch.columns, strict=True):
            if isinstance(cells, np.ndarray):
                cells = (
                    cells.astype("datetime64[s]") if cells.dtype.kind == "M" else cells
                ).tolist()
            days = (read_date(cell) if isinstance(cell, Broken) else None for cell in cells)
            # what a spreadsheet made a date of, as text
            part.extend(c if d is None else d.isoformat() for c, d in zip(cells, days, strict=True))
    problems.check()
    if not parts or not parts[0]:
        raise FedloreError(f"{source.place} has no rows")
    return CellTable(source.place, tuple(source.titles), tuple(parts), source.decimal, source.said)


def draft_knowledge(table: CellTable, label: str, *, name: str = "rows") -> Draft:
    """The knowledge file of a table whose column `label` is to be predicted."""
    place = table.find_label(label)
    if len(table.titles) < 2:
        raise FedloreError(f"{table.place} has no column to predict '{label}' from")
    numbers, texts = table.numbers(place), table.labels(place)
    found = sorted({text for text in texts if text}, key=_natural)
    if len(found) < 2:
        raise FedloreError(f"{table.place}: the column '{label}' says the same in every row")
    is_number = numbers is not None and _is_measured(numbers, found)
    if not is_number and len(found) > MOST_CLASSES:
        raise FedloreError(
            f"{table.place}: the column '{label}' has {len(found)} different words, classes are "
            f"at most {MOST_CLASSES}"
        )
    features, left_out = _features(table, place)
    if not features:
        why = "".join(f"; '{name}': {reason}" for name, reason in left_out.items())
        raise FedloreError(f"{table.place} has no column to predict '{label}' from{why}")
    title, unit = name_and_unit(table.titles[place])
    word = table.titles[place].strip() if label == table.titles[place].strip() else title
    head = [f"# Drafted from {name}, {len(texts)} rows. Look it over: what is read off rows is a"]
    head.append("# guess, and what nobody could read off them, the rules, is still to be written.")
    if table.said:
        head.append(f"# In the file {table.said}.")
    head += [
        f"# '{name}' is taken for a class, not for a blank." for name in _NAMES if name in found
    ]
    head += [f"# '{column}' is left out: {why}." for column, why in left_out.items()]
    values: dict[str, Any] = {"trust": 0.3, "outside": "widen"}
    if is_number:
        assert numbers is not None
        there = numbers[~np.isnan(numbers)]
        ends = float(there.min()), float(there.max())
        lower, upper = _widen(*ends, positive=bool((there >= 0).all()))
        target = {"name": word, "unit": unit or "", "lower": lower, "upper": upper}
        target["bins"] = max(10, min(50, len(texts) // 10))
        body = dump(values) + "\n# Bounds and bins are the federation's: the same at all sites.\n"
        body += dump({"target": {k: v for k, v in target.items() if v != ""}})
        rules = _number_rules(features, lower, upper)
    else:
        values |= {"label": word, "classes": found}
        body = dump(values) + _order(found)
        rules = _class_rules(features, found)
    body += "\n" + dump({"features": features})
    text = "\n".join(head) + "\n\n" + body + "\n" + rules
    classes = () if is_number else tuple(found)
    task = "regression" if is_number else "classification"
    return Draft(text, task, len(features), classes, left_out)


def _features(table: CellTable, label: int) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The columns as keys of a file, and those that cannot be features."""
    features: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    taken: set[str] = set()
    names = [name_and_unit(title)[0] for title in table.titles]
    suspect = _suspect(table, label)
    for place, title in enumerate(table.titles):
        if place == label:
            continue
        name, unit = name_and_unit(title)
        said: dict[str, Any]
        numbers, texts = table.numbers(place), table.texts(place)
        if names.count(name) > 1 and title.strip():
            left_out[title] = "another column is called the same"
            continue
        if place in suspect:
            left_out[title] = suspect[place]
            continue
        words = sorted({text for text in texts if text}, key=_natural)
        dates = table.dates(place) if numbers is None and title.strip() else {}
        if dates:
            for part, values in dates.items():
                word = _word(f"{name}_{part}", {*taken, *names})
                taken.add(word)
                low, high = _ENDS.get(part) or _scope(values)
                said = {"name": word, "column": name, "date": part, "low": low, "high": high}
                features.append(said | ({} if all(texts) else {"missing": "median"}))
        elif not title.strip():
            left_out[f"column {place + 1}"] = "it has no title"
        elif len(words) < 2 and numbers is None:
            left_out[title] = "it says the same in every row"
        elif numbers is None and len(words) > MOST_LEVELS:
            left_out[title] = (
                table.words_among_numbers(place)
                or (_DATES if all(map(_DATE.match, words)) else "")
                or f"it holds {len(words)} different words"
            )
        else:
            word = _word(name, taken)
            taken.add(word)
            said = {"name": word}
            if word != name:
                said["column"] = name
            if unit:
                said["unit"] = unit
            if numbers is None:
                said["levels"] = words
            else:
                said["low"], said["high"] = _scope(numbers)
            if not all(texts):
                said["missing"] = "level" if numbers is None else "median"
            features.append(said)
    return features, left_out


def _suspect(table: CellTable, label: int) -> dict[int, str]:
    """Columns of numbers or levels that teach nothing, and why."""
    names = [name_and_unit(title)[0] for title in table.titles]
    alone = [i for i, name in enumerate(names) if i != label and names.count(name) == 1]
    columns = {i: table.codes(i) for i in alone}
    known = {i: values for i, values in columns.items() if values is not None}
    if not known:
        return {}
    y, texts = table.numbers(label), table.labels(label)
    number = y is not None and _is_measured(y, sorted(set(filter(None, texts))))
    if not number:
        y = np.unique(texts, return_inverse=True)[1].astype(np.float64)
    places, there = list(known), np.array([bool(text) for text in texts])
    assert y is not None
    x = np.stack([known[i] for i in places], 1)[there]
    return {
        places[at]: _WHY[kind].format(other=table.titles[places[other or 0]])
        for at, kind, other in find_columns(x, y[there], number=number)
    }


def _word(name: str, taken: set[str]) -> str:
    """A title as a word of letters, digits and _, none twice.

    >>> _word("Mg²⁺ (mmol/l)", {"Hue"})
    'Mg2_mmol_l'
    """
    plain = re.sub(r"\W+", "_", name).strip("_") or "column"
    if not f"x_{plain}".isidentifier():  # raised digits are no digits of a word
        plain = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", name)).strip("_") or "column"
    plain = plain if plain.isidentifier() else f"x_{plain}"
    found, count = plain, 1
    while found in taken:
        count += 1
        found = f"{plain}_{count}"
    return found


def _is_measured(values: NDArray[np.float64], words: Sequence[str]) -> bool:
    """Whether numbers are measured: with decimals, or too many different ones to be classes."""
    there = values[~np.isnan(values)]
    whole = bool((there == np.round(there)).all())
    return len(words) > MOST_CLASSES or (not whole and len(words) > 10)


def _scope(values: NDArray[np.float64]) -> tuple[float, float]:
    there = values[~np.isnan(values)]
    low, high = np.quantile(there, [_EDGE, 1 - _EDGE])
    far = _FAR * (high - low) or math.inf  # almost all alike: the others are no outliers
    inside = there[(there >= low - far) & (there <= high + far)]
    ends = float(inside.min()), float(inside.max())
    return _widen(*ends, positive=bool((there >= 0).all()))


def _widen(low: float, high: float, *, positive: bool) -> tuple[float, float]:
    """Two ends with some room on either side, rounded outwards to two digits of their span."""
    span = high - low if high > low else max(abs(low), 1.0)
    step = 10.0 ** (math.floor(math.log10(span)) - 1)
    first = math.floor((low - _ROOM * span) / step) * step
    last = math.ceil((high + _ROOM * span) / step) * step
    first, last = float(f"{first:.12g}"), float(f"{last:.12g}")
    return (max(first, 0.0) if positive else first), last


def _natural(text: str) -> tuple[int, float, str]:
    """Numbers by their size, before words by their letters."""
    try:
        return 0, float(text.replace(",", ".")), text
    except ValueError:
        return 1, 0.0, text


def _order(classes: Sequence[str]) -> str:
    if in_order(classes):
        return "ordered = true                 # by their names; false if they do not rise\n"
    return (
        f'\n# ordered = true               # if the classes rise from "{classes[0]}" to '
        f'"{classes[-1]}"\n'
    )


_HINT = """\
# What the expert knows goes below; without it this site learns as in plain federated learning.
# Examples, to be changed; take the # away to switch one on, and try it: fedlore lint.
"""


def _class_rules(features: Sequence[dict[str, Any]], classes: Sequence[str]) -> str:
    feature = next((f for f in features if "low" in f), features[0])
    few = ", ".join(classes[:2])
    return (
        _HINT
        + f"""\
#
# [[range.sources]]            # which classes are possible
# table = "range.csv"          # with the lines   {feature["name"]},then
#                              #                  {_met(feature)},"{few}"
#
# [[predict.sources]]          # which class the expert would name
# table = "predict.csv"        # with the lines   {feature["name"]},then
#                              #                  {_met(feature)},{classes[0]}
"""
    )


def _number_rules(features: Sequence[dict[str, Any]], lower: float, upper: float) -> str:
    feature = next((f for f in features if "low" in f), features[0])
    middle = float(f"{lower + (upper - lower) / 2:.4g}")
    return (
        _HINT
        + f"""\
#
# [[range.sources]]            # which numbers are possible: between two formulas
# lower = "{lower!r}"
# upper = "{upper!r}"
#
# [[range.sources]]            # or by a table of intervals
# table = "range.csv"          # with the lines   {feature["name"]},then
#                              #                  {_met(feature)},>= {lower!r}
#
# [[predict.sources]]          # which number the expert would name, by any formula of the features
# formula = "{middle!r}"
"""
    )


def _met(feature: dict[str, Any]) -> str:
    """A condition on a feature, as a cell of a table."""
    if "levels" in feature:
        return str(feature["levels"][0])
    middle = feature["low"] + (feature["high"] - feature["low"]) / 2
    return f"> {float(f'{middle:.3g}')!r}"
