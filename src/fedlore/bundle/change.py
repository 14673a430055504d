"""What if: the smallest change of one input that brings another answer."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import FedloreError
from ..kernel.schema import Feature
from ..words import Reason
from .files import find_refused
from .header import Bundle
from .predict import answer_rows, shape_rows

GRID = 33  # values of each input that are tried over its scope
_HALVINGS = 8  # between two of them, to where the answer changes
_STEPS = 200  # a value is rounded to at least so many steps of its scope


@dataclass(frozen=True)
class InputChange:
    """One input moved just so far that the answer is another one."""

    column: int
    value: float  # of levels the place of one
    predicted: float  # a class, or a number
    share: float  # of its scope that the input moves; 1 for another level


@torch.no_grad()
def nearest_changes(bundle: Bundle, row: Tensor) -> list[InputChange]:
    """For each input of a row (d,) the nearest value with another answer, the least change first.

    One input at a time over its scope, by samples: an answer that comes and goes between two of the
    values tried is missed. Another number is one outside the first one's interval.
    """
    x = shape_rows(bundle, row[None])
    paths = list(_paths(bundle.schema.features, x.flatten().tolist()))
    if x.ndim != 2 or not paths:
        return []
    base, features = answer_rows(bundle, x), bundle.schema.features

    def ask(columns: Sequence[int], values: Sequence[float]) -> list[float | None]:
        """The answer with one input changed, None where it is none or no other one."""
        rows = x.repeat(len(values), 1)
        rows[torch.arange(len(values)), torch.tensor(columns)] = x.new_tensor(values)
        kept = torch.arange(len(values))
        try:
            said = answer_rows(bundle, rows).predicted
        except FedloreError:
            refused = find_refused(bundle, rows)
            kept = torch.tensor([i for i in kept.tolist() if i not in refused], dtype=torch.long)
            said = answer_rows(bundle, rows[kept]).predicted
        other = said != base.predicted
        if base.interval is not None:
            other = (said < base.interval[0, 0]) | (said > base.interval[0, 1])
        found: list[float | None] = [None] * len(values)
        for place, answer, is_other in zip(*(t.tolist() for t in (kept, said, other)), strict=True):
            found[place] = answer if is_other else None
        return found

    answers = iter(ask(*zip(*((c, v) for c, values in paths for v in values[1:]), strict=True)))
    near: list[tuple[int, float, float, float]] = []  # column, a value before, one after, answer
    for column, values in paths:
        said = [next(answers) for _ in values[1:]]
        first = next((i for i, answer in enumerate(said) if answer is not None), None)
        if first is not None:
            near.append((column, values[first], values[first + 1], said[first] or 0.0))
    for last in [False] * _HALVINGS + [True] if near else []:
        values = [_next(a, b, features[c], last=last) for c, a, b, _ in near]
        said = ask([c for c, *_ in near], values)
        near = [
            (c, a, value, answer) if answer is not None else (c, a if last else value, b, then)
            for (c, a, b, then), value, answer in zip(near, values, said, strict=True)
        ]
    least: dict[int, InputChange] = {}
    for c, _, value, answer in near:
        span = 1.0 if features[c].levels else features[c].high - features[c].low
        share = 1.0 if features[c].levels else abs(value - float(x[0, c])) / span
        if c not in least or share < least[c].share:
            least[c] = InputChange(c, value, answer, share)
    return sorted(least.values(), key=lambda one: one.share)


def _paths(features: Sequence[Feature], row: Sequence[float]) -> Iterator[tuple[int, list[float]]]:
    """An input and values from the row's own outwards: up, down, or to each other level."""
    for column, (feature, here) in enumerate(zip(features, row, strict=True)):
        low, high = feature.low, feature.high
        if feature.levels:
            yield from ((column, [here, float(i)]) for i in range(len(feature.levels)) if i != here)
        elif math.isfinite(here) and math.isfinite(high - low):
            grid = [low + i * (high - low) / (GRID - 1) for i in range(GRID)]
            for values in ([v for v in grid if v > here], [v for v in grid[::-1] if v < here]):
                if values:
                    yield column, [here, *values]


def _next(before: float, after: float, feature: Feature, *, last: bool) -> float:
    """The middle; at last the value after it as a person would write it, on its own side."""
    if feature.levels or not last:
        return after if feature.levels else (before + after) / 2
    step = 10.0 ** math.floor(math.log10((feature.high - feature.low) / _STEPS))
    steps = (math.ceil if after > before else math.floor)(after / step)
    return min(max(round(steps * step, 12), feature.low), feature.high)


def change_reason(bundle: Bundle, row: Tensor, changes: Sequence[InputChange]) -> Reason:
    """The smallest change to another answer, or that no input brings one by itself."""
    if not changes:
        return Reason("change-none", {"grid": GRID})
    one, schema = changes[0], bundle.schema
    feature = schema.features[one.column]
    shown: list[float | str] = [float(row[one.column]), one.value]
    if feature.levels:
        shown = [feature.levels[int(place)] for place in (float(row[one.column]), one.value)]
    answer = one.predicted if bundle.task == "regression" else schema.classes[int(one.predicted)]
    args = {"feature": feature.name, "unit": feature.unit, "before": shown[0], "after": shown[1]}
    return Reason("change", args | {"answer": answer, "grid": GRID})
