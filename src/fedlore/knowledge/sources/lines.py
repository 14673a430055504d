"""Words about rows, put together: a list of lines for each row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...core.tensors import torch
from ..formulas.formula import Formula
from ..missing import hear
from .kind import Lines

if TYPE_CHECKING:
    from torch import Tensor


def number_text(value: float) -> str:
    """A number as a person would write it."""
    return f"{value:.6g}"


def case_words(confidence: float) -> str:
    """How often something holds, for the end of a line; nothing where it always does.

    >>> case_words(0.9), case_words(1.0)
    (' (in 90 % of cases)', '')
    """
    return "" if confidence == 1.0 else f" (in {100 * confidence:.4g} % of cases)"


def no_lines(x: Tensor) -> Lines:
    return [[] for _ in range(len(x))]


def join_lines(parts: list[Lines], x: Tensor) -> Lines:
    return [[line for part in parts for line in part[row]] for row in range(len(x))]


def first_lines(parts: list[tuple[Lines, Tensor]], x: Tensor) -> Lines:
    """The words of the first who is not silent; with each part whether he speaks, (n,) bool."""
    lines = no_lines(x)
    left = torch.ones(len(x), dtype=torch.bool)
    for words, spoken in parts:
        for row in (left & spoken).nonzero().flatten().tolist():
            lines[row] = words[row]
        left &= ~spoken
    return lines


def formula_lines(name: str, formula: Any, x: Tensor) -> Lines:
    """What a formula comes to in each row; nothing where it is undefined."""
    text = getattr(formula, "text", type(formula).__name__)
    values = hear(formula, x)
    return [
        [f"{name} {text} = {number_text(v)}"] if ok else []
        for v, ok in zip(values.tolist(), values.isfinite().tolist(), strict=True)
    ]


def between_lines(lower: Any, upper: Any, x: Tensor) -> Lines:
    """The two ends of a range, each a formula, a function, a number or absent."""
    lines = no_lines(x)
    for name, side in (("at least", lower), ("at most", upper)):
        if isinstance(side, Formula):
            lines = join_lines([lines, formula_lines(name, side, x)], x)
        elif side is not None:
            found = hear(side, x).tolist() if callable(side) else [float(side)] * len(x)
            said = [[f"{name} {number_text(v)}"] if math.isfinite(v) else [] for v in found]
            lines = join_lines([lines, said], x)
    return lines
