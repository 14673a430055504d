"""Formulas over feature names on tensors: a number a row, its class, ranges between two.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from ..core.tensors import torch, without_gradient
from ..errors import KnowledgeError
from ..kernel.document import check_edges, check_spread
from ..kernel.enclosure import Boxes
from ..kernel.expressions import Step, Tree, columns_in, parse, steps_of
from ..kernel.intervals import Arithmetic
from ..kernel.schema import Schema
from ..kernel.sources import Grades, Prediction
from ..kernel.sources import Limits as LimitsSource
from ..words import Reason
from .missing import find_lacking, hear, join_columns, list_columns

if TYPE_CHECKING:
    from torch import Tensor

_FAULT = "formula"  # the code of errors raised here


Region = Sequence[tuple[float, float]]  # lowest and highest value of each feature

_BLOCK = 16_384  # rows at a time on a CPU: a handful of columns stays in the cache
_LARGE_BLOCK = 1 << 22  # elsewhere, where starting an operation is what costs
_LANES = 64  # a multiple of the widest vector unit


@dataclass(frozen=True)
class Formula:
    """One number per row, from the features of a schema."""

    edges: ClassVar[tuple[float, ...]] = ()  # it names no class

    text: str
    schema: Schema
    tree: Tree

    @property
    def sides(self) -> tuple[Any, Any]:
        return self, self

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
        return tuple(sorted(columns_in(self.tree)))

    def entry(self) -> dict[str, Any]:
        return {"formula": self.text}

    def reasons(self, x: Tensor) -> list[list[Reason]]:
        return side_reasons("expert", self, x)

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


_Number = Callable[["Tensor"], "Tensor"]  # (n, d) -> (n,), NaN where undefined; a Formula is one
Crossed = Literal["error", "all"]


@dataclass(frozen=True)
class GradeEdges:
    """k - 1 increasing edges make k classes; a number on an edge belongs to the class above it."""

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(float(edge) for edge in self.edges))
        check_edges(self.edges)

    @property
    def classes(self) -> int:
        return len(self.edges) + 1

    def __call__(self, values: Tensor, /) -> Tensor:
        """The class of each number, any shape; a NaN has no class and must be handled before."""
        edges = torch.tensor(self.edges, dtype=values.dtype, device=values.device)
        return torch.bucketize(values.contiguous(), edges, right=True)

    def interval(self, grade: int) -> tuple[float, float]:
        """Where a class begins (included) and ends (excluded)."""
        low = -math.inf if grade == 0 else self.edges[grade - 1]
        high = math.inf if grade == len(self.edges) else self.edges[grade]
        return low, high


@dataclass(frozen=True)
class _Graded:
    """A formula whose values are cut into classes."""

    formula: _Number
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", GradeEdges(self.edges).edges)
        _check_classes(self.formula, self.edges)

    @property
    def text(self) -> str:
        """The formula as it was written."""
        return str(getattr(self.formula, "text", "a formula"))

    def looks_at(self, width: int) -> tuple[int, ...]:
        return list_columns(self.formula, width)

    def entry(self) -> dict[str, Any] | None:
        texts = side_texts({"formula": self.formula})
        return texts and {**texts, "edges": self.edges}

    def reasons(self, x: Tensor) -> list[list[Reason]]:
        return side_reasons("expert", self.formula, x, type(self.formula).__name__)


@dataclass(frozen=True)
class GradedFormula(_Graded):
    """A P-KM: the class in which a formula's value lies; it abstains where it is undefined.

    The formula may be any function that gives one number per row: a simulation is one.
    """

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, d) -> (n, k), one-hot."""
        value = values_of(self.formula, x)
        grading = GradeEdges(self.edges)
        k = grading.classes
        rows = torch.eye(k + 1, k, dtype=value.dtype, device=x.device)  # the last one abstains
        return rows.index_select(0, grading(value).masked_fill_(~value.isfinite(), k))

    @property
    def sides(self) -> tuple[Any, Any]:
        return self.formula, self.formula

    @property
    def kernel_source(self) -> Prediction | None:
        tree = tree_of(self.formula)
        return None if tree is None else Prediction(tree, Grades(self.edges))


@dataclass(frozen=True)
class SoftFormula(_Graded):
    """A soft P-KM: the formula's value blurred by a normal error, cut at the edges.

    A soft row has a weaker property than a one-hot one: f_site >= λ·row, class by class.
    """

    spread: float  # standard deviation of the error

    def __post_init__(self) -> None:
        super().__post_init__()
        check_spread(self.spread)

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, d) -> (n, k); rows sum to 1, or to 0 where the formula is undefined."""
        value = values_of(self.formula, x)
        edges = torch.tensor(self.edges, dtype=torch.float64, device=x.device)
        below = torch.special.ndtr((edges - value.double().unsqueeze(1)) / self.spread)
        rows = torch.diff(
            below, prepend=torch.zeros_like(below[:, :1]), append=torch.ones_like(below[:, :1])
        )
        return rows.masked_fill(~value.isfinite().unsqueeze(1), 0.0).to(value.dtype)

    def entry(self) -> dict[str, Any] | None:
        said = super().entry()
        return said and said | {"spread": self.spread}


class Limits:
    """What ranges between two sides share, each a formula, a function, a number or None."""

    lower: Any
    upper: Any

    @property
    def sides(self) -> tuple[Any, Any]:
        return self.lower, self.upper

    @property
    def text(self) -> str:
        """`lower = 3 * ash, upper = 80`."""
        sides = {"lower": self.lower, "upper": self.upper}
        return ", ".join(f"{key} = {getattr(s, 'text', '')}" for key, s in sides.items() if s)

    def entry(self) -> dict[str, Any] | None:
        return side_texts({"lower": self.lower, "upper": self.upper})

    def looks_at(self, width: int) -> tuple[int, ...]:
        return join_columns([side for side in self.sides if callable(side)], width)

    def reasons(self, x: Tensor) -> list[list[Reason]]:
        both = (side_reasons("lower", self.lower, x), side_reasons("upper", self.upper, x))
        return [low + high for low, high in zip(*both, strict=True)]


@dataclass(frozen=True)
class FormulaRange(Limits):
    """An R-KM: all classes that meet [lower, upper].

    A side that is absent, or undefined in a row, does not limit that row. Where lower > upper by
    more than rounding the two contradict each other: `crossed` refuses, or allows all. Where it
    would allow all, it does so too where a value is missing that either looks at.
    """

    lower: _Number | None = None
    upper: _Number | None = None
    edges: tuple[float, ...] = ()
    crossed: Crossed = "error"

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", GradeEdges(self.edges).edges)
        if self.lower is None and self.upper is None:
            raise KnowledgeError("a range needs a lower or an upper formula")
        for side in (self.lower, self.upper):
            if side is not None:
                _check_classes(side, self.edges)
        if self.crossed not in get_args(Crossed):
            raise KnowledgeError(f"crossed must be error or all, got '{self.crossed}'")

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, d) -> (n, k) bool."""
        low, high = self.limits(x)
        if (low > high).any():
            far = _apart(low, high)
            if self.crossed == "error" and far.any():
                row = int(far.nonzero()[0])
                raise KnowledgeError(
                    f"the lower formula exceeds the upper one in {int(far.sum())} rows, first row "
                    f"{row}: {float(low[row]):g} > {float(high[row]):g}",
                    row=row,
                )
            low, high = torch.minimum(low, high), torch.maximum(low, high)
            low, high = low.masked_fill(far, -torch.inf), high.masked_fill(far, torch.inf)
        grading = GradeEdges(self.edges)
        every = torch.ones(grading.classes, grading.classes, dtype=torch.bool, device=x.device)
        # rows looked up are several times faster than grades compared
        rows = every.triu().index_select(0, grading(low))
        return rows.logical_and_(every.tril().index_select(0, grading(high)))

    def entry(self) -> dict[str, Any] | None:
        texts = super().entry()
        return texts and {**texts, "edges": self.edges, "crossed": self.crossed}

    @property
    def kernel_source(self) -> LimitsSource | None:
        trees = tree_of(self.lower), tree_of(self.upper)
        if [tree is None for tree in trees] != [side is None for side in self.sides]:
            return None
        return LimitsSource(*trees, Grades(self.edges), self.crossed)

    def cross(self, x: Tensor) -> Tensor:
        """Where the two contradict each other, (n,) bool."""
        return _apart(*self.limits(x))

    def limits(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The two ends for each row, (n,); infinite where they do not limit."""
        low, high = end_values(self.lower, x, -torch.inf), end_values(self.upper, x, torch.inf)
        if self.crossed == "all" and self.lower is not None and self.upper is not None:
            lacking = find_lacking(self, x)  # with the value they might cross
            low, high = low.masked_fill(lacking, -torch.inf), high.masked_fill(lacking, torch.inf)
        return low, high


def side_reasons(side: str, number: Any, x: Tensor, text: str = "") -> list[list[Reason]]:
    """What a formula, a function or a number comes to in each row; nothing where it is none."""
    if number is None:
        return [[] for _ in range(len(x))]
    text = getattr(number, "text", text)
    kind, args = (f"formula-{side}", {"text": text}) if text else (f"limit-{side}", {})
    values = end_values(number, x, torch.nan).tolist()
    return [[Reason(kind, {**args, "value": v})] if math.isfinite(v) else [] for v in values]


def side_texts(sides: Mapping[str, Any]) -> dict[str, Any] | None:
    """The sides of a model as keys of a file; None where one is no formula."""
    stated = {key: side for key, side in sides.items() if side is not None}
    written = all(hasattr(side, "tree") for side in stated.values())
    return {key: side.text for key, side in stated.items()} if written else None


def sides_of(model: object) -> tuple[Any, Any] | None:
    """Between which formulas or fixed numbers lies what a model says; None of any other model."""
    sides: tuple[Any, Any] = getattr(model, "sides", (model,) * 2)
    return sides if all(side is None or tree_of(side) for side in sides) else None


def tree_of(side: Any) -> Tree | None:
    """The tree of a formula or a fixed number; None of anything else."""
    if side is None or callable(side):
        tree: Tree | None = getattr(side, "tree", None)
        return tree
    return ("number", float(side))


def _apart(low: Tensor, high: Tensor) -> Tensor:
    """Where the lower end exceeds the upper one by more than rounding."""
    near = torch.finfo(low.dtype).eps * 16 * torch.maximum(low.abs(), high.abs())
    return (low > high) & (low - high > near)


def end_values(side: _Number | float | None, x: Tensor, absent: float) -> Tensor:
    """One end of a range for each row, (n,); `absent` where it does not limit."""
    if side is None or not callable(side):
        end = absent if side is None else float(side)
        return torch.full((len(x),), end, dtype=torch.float64, device=x.device)
    value = values_of(side, x)
    return torch.where(value.isfinite(), value, absent)


def values_of(number: _Number, x: Tensor) -> Tensor:
    """The number of each row, (n,)."""
    value = hear(number, x)
    if value.shape != (len(x),) or not value.is_floating_point():
        raise KnowledgeError(
            f"a formula must give one number per row, shape ({len(x)},): "
            f"got {value.dtype} of shape {tuple(value.shape)}"
        )
    return value.to(x.device)


def _check_classes(number: _Number, edges: tuple[float, ...]) -> None:
    schema = getattr(number, "schema", None)
    if schema is not None and len(schema.classes) != len(edges) + 1:
        k = len(schema.classes)
        raise KnowledgeError(f"{k} classes need {k - 1} edges, got {len(edges)}")
