"""Formulas as nodes, computed in single precision as `Formula` computes rows of a file.

+ - * / and square roots are rounded alike everywhere. Logarithms, exponentials and other powers go
through double precision and are rounded once; torch's own may differ in the last bit.
"""

import math
from typing import Any

import numpy as np

from ...errors import KnowledgeError
from ...kernel.expressions import COMPARISONS
from ...knowledge.formulas.formula import Formula
from .builder import DOUBLE, INT64, SINGLE, Builder

_LARGEST = float(np.finfo(SINGLE).max)
_BINARY = {"+": "Add", "-": "Sub", "*": "Mul"}
_COMPARE = {  # when a comparison is true, and when it is false
    "<": (("Less",), ("GreaterOrEqual",)),
    "<=": (("LessOrEqual",), ("Greater",)),
    ">": (("Greater",), ("LessOrEqual",)),
    ">=": (("GreaterOrEqual",), ("Less",)),
    "==": (("Equal",), ("Less", "Greater")),
    "!=": (("Less", "Greater"), ("Equal",)),
}


def number_node(build: Builder, x: str, formula: Any) -> str:
    """A formula's value, (n, 1), NaN where it is undefined."""
    if not isinstance(formula, Formula):
        raise KnowledgeError(
            f"a {type(formula).__name__} is Python code and cannot be put into a graph: "
            "write it as a formula"
        )
    values: list[Any] = []  # names, or pairs of names (is true, is false)
    for step in formula.steps:
        args = [values[arg] for arg in step.args]
        if step.op == "number":
            values.append(build.constant([[step.value]]))
        elif step.op == "column":
            values.append(build.op("Gather", x, build.constant([step.column], INT64), axis=1))
        elif step.op == "**" and formula.steps[step.args[1]].op == "number":
            values.append(_power(build, args[0], formula.steps[step.args[1]].value))
        else:
            values.append(_apply(build, step.op, args))
    first = build.op("Gather", x, build.constant([0], INT64), axis=1)
    # a formula of numbers only still answers for every row
    rows = build.op("Expand", values[-1], build.op("Shape", first))
    return build.op("Where", finite_nodes(build, rows), rows, build.constant(math.nan))


def _apply(build: Builder, op: str, args: list[Any]) -> Any:
    if op in _BINARY:
        return build.op(_BINARY[op], *args)
    if op in COMPARISONS:
        return _compare(build, op, *args)
    if op == "neg":
        return build.op("Neg", *args)
    if op in ("abs", "sqrt"):
        return build.op(op.capitalize(), *args)
    if op == "/":
        return _guard(build, build.op("Div", *args), args[1])
    if op == "exp":
        return _guard(build, _precise(build, "Exp", *args), *args)
    if op == "log":
        return _precise(build, "Log", *args)
    if op == "log10":
        wide = build.op("Log", build.cast(args[0], DOUBLE))
        return build.cast(build.op("Div", wide, build.constant(math.log(10), DOUBLE)), SINGLE)
    if op in ("min", "max"):
        return _guard(build, build.op(op.capitalize(), *args), *args)
    if op == "**":
        return _guard(build, _precise(build, "Pow", *args), *args)
    if op == "where":
        (true, false), yes, no = args
        other = build.op("Where", false, no, build.constant(math.nan))
        return build.op("Where", true, yes, other)
    return _truth(build, op, args)


def _truth(build: Builder, op: str, args: list[tuple[str, str]]) -> tuple[str, str]:
    """Logic of three values: a truth is what is true and what is false; else it is undefined."""
    if op == "not":
        return args[0][1], args[0][0]
    (a, not_a), (b, not_b) = args
    if op == "and":
        return build.op("And", a, b), build.op("Or", not_a, not_b)
    return build.op("Or", a, b), build.op("And", not_a, not_b)


def _compare(build: Builder, op: str, a: str, b: str) -> tuple[str, str]:
    known = build.op("And", finite_nodes(build, a), finite_nodes(build, b))
    found = []
    for kinds in _COMPARE[op]:
        truths = [build.op(kind, a, b) for kind in kinds]
        truth = truths[0] if len(truths) == 1 else build.op("Or", *truths)
        found.append(build.op("And", truth, known))
    return found[0], found[1]


def _power(build: Builder, base: str, exponent: float) -> str:
    """A fixed power; small ones as torch has them, by multiplication."""
    if exponent == 2.0:
        made = build.op("Mul", base, base)
    elif exponent == 3.0:
        made = build.op("Mul", build.op("Mul", base, base), base)
    elif exponent == 0.5:
        made = build.op("Sqrt", base)
    elif exponent == 1.0:
        made = base
    else:
        made = _precise(build, "Pow", base, build.constant([[exponent]]))
    return _guard(build, made, base)


def _precise(build: Builder, kind: str, *args: str) -> str:
    """An operation in double precision, rounded once."""
    return build.cast(build.op(kind, *[build.cast(arg, DOUBLE) for arg in args]), SINGLE)


def finite_nodes(build: Builder, value: str) -> str:
    return build.op("LessOrEqual", build.op("Abs", value), build.constant(_LARGEST))


def _guard(build: Builder, result: str, *args: str) -> str:
    """The result, NaN where an argument is not finite: 1/inf and min would hide it."""
    for arg in args:
        result = build.op("Where", finite_nodes(build, arg), result, build.constant(math.nan))
    return result
