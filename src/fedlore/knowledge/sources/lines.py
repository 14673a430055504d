"""Reasons about rows, put together: a list of them for each row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...core.tensors import torch
from ...words import Reason
from ..formulas.formula import Formula
from ..missing import hear
from .kind import Reasons

if TYPE_CHECKING:
    from torch import Tensor


def join_reasons(parts: list[Reasons], x: Tensor) -> Reasons:
    return [[line for part in parts for line in part[row]] for row in range(len(x))]


def first_reasons(parts: list[tuple[Reasons, Tensor]], x: Tensor) -> Reasons:
    """The reasons of the first who is not silent; with each whether he speaks, (n,) bool."""
    found: Reasons = [[] for _ in range(len(x))]
    left = torch.ones(len(x), dtype=torch.bool)
    for reasons, spoken in parts:
        for row in (left & spoken).nonzero().flatten().tolist():
            found[row] = reasons[row]
        left &= ~spoken
    return found


def formula_reasons(side: str, formula: Any, x: Tensor) -> Reasons:
    """What a formula comes to in each row; nothing where it is undefined."""
    text = getattr(formula, "text", type(formula).__name__)
    values = hear(formula, x)
    return [
        [Reason("formula", {"side": side, "text": text, "value": v})] if ok else []
        for v, ok in zip(values.tolist(), values.isfinite().tolist(), strict=True)
    ]


def limit_reasons(lower: Any, upper: Any, x: Tensor) -> Reasons:
    """The two ends of a range, each a formula, a function, a number or absent."""
    parts: list[Reasons] = []
    for name, side in (("lower", lower), ("upper", upper)):
        if isinstance(side, Formula):
            parts.append(formula_reasons(name, side, x))
        elif side is not None:
            found = hear(side, x).tolist() if callable(side) else [float(side)] * len(x)
            values = ({"side": name, "value": v} if math.isfinite(v) else None for v in found)
            parts.append([[Reason("limit", one)] if one else [] for one in values])
    return join_reasons(parts, x)
