"""Two versions compared in meaning: for which inputs the answer changes, from what to what.

The features are cut at every threshold of either version; each cell, and each threshold itself, is
asked once. For tables nothing is missed; where there are too many cells, or formulas, they are a
sample, and it is said.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import KnowledgeError
from ..kernel.schema import Feature, Schema
from ..knowledge.content import files_at, toml_in
from ..knowledge.findings.checkup import Checkup
from ..knowledge.missing import join_columns
from ..knowledge.sources.catalog import leaves
from .answers import answer_draft, name_values, tables_in, usable
from .checks import judge
from .maps import ends_of, middle_of, thresholds

MOST_ASKED = 120_000
REGIONS = 12  # shown of one comparison
ROWS_SHOWN = 20  # own rows that change, one by one


@dataclass(frozen=True)
class Stops:
    """One feature as places to ask at: cells between thresholds, and the thresholds themselves."""

    feature: Feature
    column: int
    values: tuple[float, ...]
    ends: tuple[tuple[float, float], ...]  # from where to where each reaches

    def describe(self, first: int, last: int) -> str | None:
        """A run of places as a cell of a table would say it; None for all of them."""
        if first == 0 and last == len(self.values) - 1:
            return None
        if self.feature.levels:
            return ", ".join(
                self.feature.levels[int(self.values[i])] for i in range(first, last + 1)
            )
        low, high = self.ends[first][0], self.ends[last][1]
        left = "[" if self.ends[first][0] == self.ends[first][1] or first == 0 else "("
        right = (
            "]" if self.ends[last][0] == self.ends[last][1] or last == len(self.values) - 1 else ")"
        )
        return f"= {low:g}" if low == high else f"{left}{low:g}..{high:g}{right}"


def compare_answers(
    before: Mapping[str, bytes], after: Mapping[str, bytes], rows: Tensor | None = None
) -> dict[str, Any]:
    """Where two versions answer otherwise, with an example row, and how many own rows change."""
    old, new = judge(before), judge(after)
    (_, schema), (_, other) = usable(old), usable(new)
    if (schema.names, schema.classes) != (other.names, other.classes) or [
        f.levels for f in schema.features
    ] != [f.levels for f in other.features]:
        raise KnowledgeError("the two versions have other features or answers: compare their files")
    if old.bins != new.bins:
        raise KnowledgeError("the two versions learn another number, or one of them none")
    summary: dict[str, Any] = {"settings": _settings(before, after)}
    stops = _stops(old, new, schema)
    shape = tuple(len(stop.values) for stop in stops)
    cells, sampled = math.prod(shape), _sampled(old) or _sampled(new)
    if cells > MOST_ASKED:
        return summary | _by_sample(old, new, schema, stops, rows)
    places = (
        np.stack(np.unravel_index(np.arange(cells), shape), 1) if stops else np.zeros((1, 0), int)
    )
    words, kinds, changed = _answers(old, new, _rows(schema, stops, places))
    groups = _groups(kinds, changed).reshape(shape)
    regions = _regions(groups, stops, words, schema)
    summary |= {"exact": not sampled, "changed": int(changed.sum()), "cells": cells}
    return {**summary, "regions": regions, "rows": _own(old, new, rows)}


def _settings(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[dict[str, str]]:
    """What the files say otherwise beside their sources: shapes, trust, policies, columns."""
    old, new = (toml_in(*files_at(one)) for one in (before, after))
    keys = sorted({*old, *new} - {"predict", "range", "card", "examples"})
    return [
        {"key": key, "before": str(old.get(key, "")), "after": str(new.get(key, ""))}
        for key in keys
        if old.get(key) != new.get(key)
    ]


def _sampled(checkup: Checkup) -> bool:
    """Whether something else than tables speaks, which cells cannot decide."""
    known, _ = usable(checkup)
    return len([*leaves(known.prediction, known.range)]) > len(tables_in(checkup))


def _stops(old: Checkup, new: Checkup, schema: Schema) -> list[Stops]:
    both = [usable(checkup)[0] for checkup in (old, new)]
    models = [m for known in both for m in (known.prediction, known.range) if m is not None]
    looked = join_columns(models, len(schema.features))
    dense = _sampled(old) or _sampled(new)
    return [_stop(old, new, schema, column, dense) for column in looked]


def _stop(old: Checkup, new: Checkup, schema: Schema, column: int, dense: bool) -> Stops:
    feature = schema.features[column]
    if feature.levels:
        levels = tuple(float(i) for i in range(len(feature.levels)))
        return Stops(feature, column, levels, tuple((v, v) for v in levels))
    cuts = sorted({*thresholds(old, column), *thresholds(new, column)})
    low, high = ends_of(feature, cuts, math.nan)
    if dense:
        cuts = sorted({*cuts, *np.linspace(low, high, 9)[1:-1].tolist()})
    inner = [cut for cut in cuts if low < cut < high]
    edges = [low, *inner, high]
    values: list[float] = []
    ends: list[tuple[float, float]] = []
    for a, b in zip(edges, edges[1:], strict=False):
        if a in inner:
            values.append(a)
            ends.append((a, a))
        values.append(a + (b - a) / 2)
        ends.append((a, b))
    return Stops(feature, column, tuple(values), tuple(ends))


def _rows(schema: Schema, stops: Sequence[Stops], places: NDArray[np.int64]) -> Tensor:
    base = torch.tensor([[middle_of(f) for f in schema.features]])
    rows = base.repeat(len(places), 1)
    for axis, stop in enumerate(stops):
        rows[:, stop.column] = torch.tensor(stop.values)[torch.from_numpy(places[:, axis])]
    return rows


def _answers(
    old: Checkup, new: Checkup, rows: Tensor
) -> tuple[list[tuple[str, str]], list[tuple[str, str]], NDArray[np.bool_]]:
    """Before and after in words, what kind of change it is, and whether it is one."""
    one, two = answer_draft(old, rows), answer_draft(new, rows)
    words, kinds = list(zip(one.words, two.words, strict=True)), one.changes(two)
    return words, kinds, np.array([a != b for a, b in kinds])


def _groups(words: Sequence[tuple[str, str]], changed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """A number for each kind of change, 0 where nothing changed."""
    known: dict[tuple[str, str], int] = {}
    found = [
        known.setdefault(w, len(known) + 1) if c else 0 for w, c in zip(words, changed, strict=True)
    ]
    return np.array(found, dtype=np.int64)


def _regions(
    groups: NDArray[np.int64],
    stops: Sequence[Stops],
    words: Sequence[tuple[str, str]],
    schema: Schema,
) -> list[dict[str, Any]]:
    """Boxes of cells with the same change, large ones first found, each cell once."""
    left, regions = groups.copy(), list[dict[str, Any]]()
    while left.any() and len(regions) < REGIONS:
        start = np.unravel_index(int((left > 0).argmax()), left.shape) if left.ndim else ()
        kind = int(left[start])
        box = [[int(i), int(i)] for i in start]
        for axis in range(len(box)):
            for side, step in ((1, 1), (0, -1)):
                while 0 <= box[axis][side] + step < left.shape[axis]:
                    edge = [slice(a, b + 1) for a, b in box]
                    edge[axis] = slice(box[axis][side] + step, box[axis][side] + step + 1)
                    if not (left[tuple(edge)] == kind).all():
                        break
                    box[axis][side] += step
        area = tuple(slice(a, b + 1) for a, b in box)
        count = int((left[area] == kind).sum()) if left.ndim else 1
        left[area] = 0
        inside = tuple((a + b) // 2 for a, b in box)  # the words are those of the row that is shown
        before, after = (
            words[int(np.ravel_multi_index(inside, groups.shape))] if left.ndim else words[0]
        )
        where = {s.feature.name: text for s, (a, b) in zip(stops, box, strict=True)
                 if (text := s.describe(a, b)) is not None}  # fmt: skip
        places = np.array([inside], dtype=np.int64)
        row = _rows(schema, stops, places)[0].tolist()
        regions.append({"where": where, "before": before, "after": after, "cells": count,
                     "example": name_values(schema, row)})  # fmt: skip
    return regions


def _by_sample(
    old: Checkup, new: Checkup, schema: Schema, stops: Sequence[Stops], rows: Tensor | None
) -> dict[str, Any]:
    """Too many cells: some of them by chance, always the same ones, listed one by one."""
    draw = np.random.default_rng(0)
    places = np.stack([draw.integers(0, len(stop.values), MOST_ASKED // 4) for stop in stops], 1)
    asked = _rows(schema, stops, places)
    words, kinds, changed = _answers(old, new, asked)
    seen: dict[tuple[str, str], list[int]] = {}
    for place in np.flatnonzero(changed).tolist():
        seen.setdefault(kinds[place], []).append(place)
    regions = [
        {"where": _around(stops, places[some]), "before": words[some[0]][0],
         "after": words[some[0]][1], "cells": len(some),
         "example": name_values(schema, asked[some[0]].tolist())}
        for some in sorted(seen.values(), key=len, reverse=True)[:REGIONS]
    ]  # fmt: skip
    summary = {
        "exact": False,
        "changed": int(changed.sum()),
        "cells": len(places),
        "regions": regions,
    }
    return {**summary, "rows": _own(old, new, rows)}


def _around(stops: Sequence[Stops], places: NDArray[np.int64]) -> dict[str, str]:
    """The box around some places, as cells."""
    ends = zip(stops, places.min(0).tolist(), places.max(0).tolist(), strict=True)
    each = ((stop.feature.name, stop.describe(first, last)) for stop, first, last in ends)
    return {name: text for name, text in each if text is not None}


def _own(old: Checkup, new: Checkup, rows: Tensor | None) -> dict[str, Any] | None:
    """How many of the site's own rows are answered otherwise, and the first of them."""
    if rows is None:
        return None
    words, _, changed = _answers(old, new, rows)
    shown = [
        {"line": i + 2, "before": words[i][0], "after": words[i][1]}
        for i in np.flatnonzero(changed)[:ROWS_SHOWN].tolist()
    ]
    return {"all": len(rows), "changed": int(changed.sum()), "rows": shown}
