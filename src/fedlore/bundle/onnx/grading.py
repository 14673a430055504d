"""Formulas that are cut into classes, as nodes: one class, a blurred one, or all between two."""

import math
from collections.abc import Sequence

import numpy as np

from ...knowledge.formulas.grading import FormulaRange, GradedFormula, SoftFormula
from .builder import DOUBLE, INT64, SINGLE, Builder
from .formulas import finite_nodes, number_node
from .holes import lacking_nodes
from .tables import Said

_FARTHEST = 26.0  # beyond it the tail of the normal distribution is below 1e-290
_DEGREE = 24


def grade_formula(build: Builder, x: str, model: GradedFormula) -> Said:
    value = number_node(build, x, model.formula)  # (n, 1)
    return Said(_one_hot(build, value, model.edges))


def soft(build: Builder, x: str, model: SoftFormula) -> Said:
    value = number_node(build, x, model.formula)
    wide = build.cast(value, DOUBLE)
    edges = build.constant([model.edges], DOUBLE)
    scale = build.constant(model.spread * math.sqrt(2.0), DOUBLE)
    below = normal_below(build, build.op("Div", build.op("Sub", edges, wide), scale))  # (n, k - 1)
    shape = build.op("Shape", value)
    none, all_ = (build.op("Expand", build.constant([[v]], DOUBLE), shape) for v in (0.0, 1.0))
    upper = build.op("Concat", below, all_, axis=1)
    rows = build.op("Sub", upper, build.op("Concat", none, below, axis=1))
    known = finite_nodes(build, value)
    return Said(build.op("Where", known, build.cast(rows, SINGLE), build.constant(0.0)))


def limits(build: Builder, x: str, model: FormulaRange) -> Said:
    """All classes that meet [lower, upper]."""
    k = len(model.edges) + 1
    whole = None  # where all values are there: without one of them the ends might cross
    if model.crossed == "all" and model.lower is not None and model.upper is not None:
        lacking = lacking_nodes(build, x, model)
        whole = None if lacking is None else build.op("Not", lacking)
    sides: list[str | None] = []
    for formula, far in ((model.lower, -math.inf), (model.upper, math.inf)):
        if formula is None:
            sides.append(None)
        else:
            value = number_node(build, x, formula)
            known = finite_nodes(build, value)
            if whole is not None:
                known = build.op("And", known, whole)
            sides.append(build.op("Where", known, value, build.constant(far)))
    low, high = sides
    refused = None
    if low is not None and high is not None:
        low, high, refused = _uncross(build, low, high, model.crossed == "error")
    grades = build.constant([list(range(k))], INT64)
    parts = []
    if low is not None:
        parts.append(build.op("LessOrEqual", _grade(build, low, model.edges), grades))
    if high is not None:
        parts.append(build.op("GreaterOrEqual", _grade(build, high, model.edges), grades))
    return Said(parts[0] if len(parts) == 1 else build.op("And", *parts), refused)


def _uncross(build: Builder, low: str, high: str, refuse: bool) -> tuple[str, str, str | None]:
    """Ends in order; where they cross by more than rounding they do not limit, or are refused."""
    wrong = build.op("Greater", low, high)
    size = build.op("Max", build.op("Abs", low), build.op("Abs", high))
    near = build.op("Mul", build.constant(float(np.finfo(SINGLE).eps) * 16), size)
    far = build.op("And", wrong, build.op("Greater", build.op("Sub", low, high), near))
    least, most = build.op("Min", low, high), build.op("Max", low, high)
    least = build.op("Where", far, build.constant(-math.inf), least)
    most = build.op("Where", far, build.constant(math.inf), most)
    return least, most, far if refuse else None


def _grade(build: Builder, value: str, edges: Sequence[float]) -> str:
    """The class of each number, (n, 1) -> (n, 1): one on an edge belongs to the class above."""
    beyond = build.op("GreaterOrEqual", value, build.constant([edges]))
    return build.op("ReduceSum", build.cast(beyond, INT64), build.constant([1], INT64), keepdims=1)


def _one_hot(build: Builder, value: str, edges: Sequence[float]) -> str:
    grades = build.constant([list(range(len(edges) + 1))], INT64)
    here = build.op("Equal", _grade(build, value, edges), grades)
    return build.cast(build.op("And", here, finite_nodes(build, value)), SINGLE)


def normal_below(build: Builder, z: str) -> str:
    """(1 + erf z) / 2 in double precision; runtimes have erf in single precision only.

    For z >= 0 erfc z is t·exp(P(t) - z²) with t = 2 / (2 + z) and a polynomial P, found here.
    """
    size = build.op("Min", build.op("Abs", z), build.constant(_FARTHEST, DOUBLE))
    two = build.constant(2.0, DOUBLE)
    t = build.op("Div", two, build.op("Add", two, size))
    lowest = 2.0 / (2.0 + _FARTHEST)
    middle, half = (1 + lowest) / 2, (1 - lowest) / 2

    def sought(s: float) -> float:
        at = middle + half * s
        far = max(2.0 / at - 2.0, 0.0)
        return math.log(math.erfc(far) / at) + far * far

    fitted = np.polynomial.chebyshev.chebinterpolate(np.vectorize(sought), _DEGREE)
    powers = np.polynomial.chebyshev.cheb2poly(fitted)
    s = build.op("Div", build.op("Sub", t, _double(build, middle)), _double(build, half))
    p = _double(build, powers[-1])
    for power in powers[-2::-1].tolist():
        p = build.op("Add", build.op("Mul", p, s), _double(build, power))
    exponent = build.op("Sub", p, build.op("Mul", size, size))
    one = _double(build, 1.0)
    erf = build.op("Sub", one, build.op("Mul", t, build.op("Exp", exponent)))
    above = build.op("Greater", z, _double(build, 0.0))
    # 1 - (1 - tail), as torch has it: a tail below 1e-16 is 0, and does not leave a range
    whole = build.op("Add", one, build.op("Where", above, erf, build.op("Neg", erf)))
    return build.op("Mul", whole, _double(build, 0.5))


def _double(build: Builder, value: float) -> str:
    return build.constant(value, DOUBLE)
