"""Formulas over feature names, compiled to tensor operations.

A formula is computed in the precision of its rows (half precision is raised to single): a
threshold such as `ash > 12.1` then means the same 12.1 that the column holds. Rows go through in
blocks that fit the cache, so intermediate results cost little memory, and a row's result does not
depend on the rows beside it.

A result that is not finite is undefined and comes back as NaN: the logarithm or root of a negative
number, a division by zero, an overflow, a missing feature. What is computed from an undefined value
is undefined too, with two exceptions: the branch that `where` does not take does not matter, and
`false and undefined` is false as `true or undefined` is true. So `where(x > 0, log(x), 0)` is
defined everywhere, and a missing feature never slips through a comparison as "no".
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.tensors import torch, without_gradient
from ...errors import KnowledgeError
from ...kernel.enclosure import Boxes
from ...kernel.expressions import Step, Tree, columns_in, parse, steps_of
from ...kernel.intervals import Arithmetic
from ...kernel.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

Region = Sequence[tuple[float, float]]  # lowest and highest value of each feature

_BLOCK = 16_384  # rows at a time on a CPU: a handful of columns stays in the cache
_LARGE_BLOCK = 1 << 22  # elsewhere, where starting an operation is what costs
_LANES = 64  # a multiple of the widest vector unit


@dataclass(frozen=True)
class Formula:
    """One number per row, from the features of a schema."""

    text: str
    schema: Schema
    tree: Tree

    @staticmethod
    def parse(text: str, schema: Schema, *, words: bool = False) -> Formula:
        """Read a formula; what the grammar does not know is refused with its position.

        With `words` it may compare levels with their names.
        """
        return Formula(text, schema, parse(text, schema.features, words=words))

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """How it is computed, one operation at a time."""
        return steps_of(self.tree)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features it uses, in the order of the schema."""
        return tuple(self.schema.names[column] for column in sorted(columns_in(self.tree)))

    def looks_at(self, width: int) -> tuple[int, ...]:
        """The columns of the features it uses."""
        return tuple(sorted(columns_in(self.tree)))

    @without_gradient
    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, d) -> (n,), NaN where the formula is undefined."""
        self.schema.check(x)
        if not x.is_floating_point():
            raise KnowledgeError(f"rows must be floating point, got {x.dtype}")
        dtype = torch.promote_types(x.dtype, torch.float32)
        out = torch.empty(len(x), dtype=dtype, device=x.device)
        program = _compile(self.steps, out)
        size = _BLOCK if x.device.type == "cpu" else _LARGE_BLOCK
        for start in range(0, len(x), size):
            rows = slice(start, start + size)
            value = _run(program, x[rows], dtype)
            # value + 0·value is NaN exactly where value is not finite
            torch.add(value.expand_as(out[rows]), value, alpha=0, out=out[rows])
        return out

    def bounds(
        self, box: Region | None = None, dtype: type[np.floating[Any]] = np.float32
    ) -> tuple[float, float]:
        """Two numbers between which every defined value over the box lies (default: the scope).

        The bounds are guaranteed for what is computed from rows of `dtype`, rounding included, and
        not always tight; both are NaN where no value is defined.
        """
        if box is None:
            box = [(0.0, len(f.levels) - 1.0) if f.levels else (f.low, f.high)
                   for f in self.schema.features]  # fmt: skip
        low, high = np.array(_check_box(box, self.schema), np.float64).T[:, None]
        found = Boxes(low, high, Arithmetic(dtype)).bounds(self.tree)
        return float(found[0][0]), float(found[1][0])


def _check_box(box: Region, schema: Schema) -> Region:
    """The box, refused where it does not fit the schema."""
    if len(box) != len(schema.features):
        raise KnowledgeError(
            f"a box must bound all {len(schema.features)} features, got {len(box)} pairs"
        )
    for name, (low, high) in zip(schema.names, box, strict=True):
        if math.isnan(low) or math.isnan(high) or low > high:
            raise KnowledgeError(f"a box must have low <= high: '{name}' has {low:g} and {high:g}")
    return box


Value = Any  # a number: Tensor (rows,) or (); a truth: two of them, (is true, is false)
_Program = list[tuple[Step, Callable[..., Value] | None, Value, list[int]]]


def _compile(steps: Sequence[Step], like: Tensor) -> _Program:
    """Each step with its operation, its constant, and the results nobody needs after it."""
    last = {arg: place for place, step in enumerate(steps) for arg in step.args}
    program: _Program = []
    for place, step in enumerate(steps):
        done = [arg for arg in set(step.args) if last[arg] == place]
        constant = like.new_full((), step.value) if step.op == "number" else None
        operation = _operations().get(step.op)
        if step.op == "**" and steps[step.args[1]].op == "number":
            operation = functools.partial(_power_of, steps[step.args[1]].value)
        program.append((step, operation, constant, done))
    return program


def _run(program: _Program, x: Tensor, dtype: torch.dtype) -> Tensor:
    values: dict[int, Value] = {}
    for place, (step, operation, constant, done) in enumerate(program):
        if operation is not None:
            values[place] = operation(*[values[arg] for arg in step.args])
        elif step.op == "column":
            values[place] = x[:, step.column].to(dtype).contiguous()
        else:
            values[place] = constant
        for arg in done:
            del values[arg]
    result: Tensor = values[len(program) - 1]
    return result


def _undefined_with(result: Tensor, *args: Tensor) -> Tensor:
    """The result, NaN where an argument is not finite: 1/inf, exp(-inf) and min would hide it."""
    for arg in args:
        result = result.add_(arg, alpha=0) if result.ndim else result + 0 * arg
    return result


def _divide(a: Tensor, b: Tensor) -> Tensor:
    return _undefined_with(a / b, b)


def _exp(a: Tensor) -> Tensor:
    return _undefined_with(a.exp(), a)


def _power(a: Tensor, b: Tensor) -> Tensor:
    """a ** b. Torch's vector and scalar loops round powers differently: full vectors only."""
    rows = max(a.numel(), b.numel())
    spare = -rows % _LANES
    a_full, b_full = (t if t.ndim == 0 else _pad(t, spare) for t in (a, b))
    result = torch.pow(a_full, b_full)
    return _undefined_with(result[:rows] if result.ndim else result, a, b)


def _power_of(exponent: float, a: Tensor, _: Tensor) -> Tensor:
    spare = -a.numel() % _LANES
    full = a if a.ndim == 0 else _pad(a, spare)
    result = torch.pow(full, exponent)
    return _undefined_with(result[: a.numel()] if result.ndim else result, a)


def _pad(a: Tensor, spare: int) -> Tensor:
    return torch.nn.functional.pad(a, (0, spare)) if spare else a


def _extreme(choose: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def apply(*args: Tensor) -> Tensor:
        return _undefined_with(functools.reduce(choose, args), *args)

    return apply


def _compare(
    yes: Callable[[Tensor, Tensor], Tensor], no: Callable[[Tensor, Tensor], Tensor]
) -> Callable[[Tensor, Tensor], Value]:
    """A truth as two columns: with an undefined side it is neither true nor false."""

    def apply(a: Tensor, b: Tensor) -> Value:
        a, b = (torch.add(t, t, alpha=0) for t in (a, b))
        return yes(a, b), no(a, b)

    return apply


def _differ(a: Tensor, b: Tensor) -> Tensor:
    return (a < b) | (a > b)  # unlike !=, false where a side is NaN


def _where(truth: Value, yes: Tensor, no: Tensor) -> Tensor:
    is_true, is_false = truth
    return torch.where(is_true, yes, torch.where(is_false, no, torch.nan))


@functools.cache
def _operations() -> dict[str, Callable[..., Value]]:
    """How each operation of the grammar is computed on columns."""
    return {
        "neg": torch.neg,
        "+": torch.add,
        "-": torch.sub,
        "*": torch.mul,
        "/": _divide,
        "**": _power,
        "exp": _exp,
        "log": torch.log,
        "log10": torch.log10,
        "sqrt": torch.sqrt,
        "abs": torch.abs,
        "min": _extreme(torch.minimum),
        "max": _extreme(torch.maximum),
        "where": _where,
        "<": _compare(operator.lt, operator.ge),
        "<=": _compare(operator.le, operator.gt),
        ">": _compare(operator.gt, operator.le),
        ">=": _compare(operator.ge, operator.lt),
        "==": _compare(operator.eq, _differ),
        "!=": _compare(_differ, operator.eq),
        "and": lambda a, b: (a[0] & b[0], a[1] | b[1]),
        "or": lambda a, b: (a[0] | b[0], a[1] & b[1]),
        "not": lambda a: (a[1], a[0]),
    }
