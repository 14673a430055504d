"""The operators that knowledge is compiled to: one compiler, and a backend for each use of it.

A backend makes a node, expects one in a given graph, or computes it on rows. A value is an array,
or a `Node` with the arithmetic of one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ...errors import KnowledgeError

Value = Any  # of a backend
Array = Any  # of numpy

SINGLE, DOUBLE, INT64, BOOL = np.float32, np.float64, np.int64, np.bool_
CODES = {SINGLE: 1, DOUBLE: 11, INT64: 7, BOOL: 9}  # of ONNX
LARGEST = float(np.finfo(SINGLE).max)

_TYPES = {code: dtype for dtype, code in CODES.items()}
_TRUTHS = {"And", "Or", "Not", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"}
_TRUTHS |= {"IsNaN", "IsInf"}
_PLACES = {"ArgMax", "ArgMin", "Shape"}


class Answer(NamedTuple):
    """Rows of a prediction (float32) or a range (bool), (n, k), and where they are refused."""

    rows: Value
    refused: Value | None = None  # (n, 1), or never


class Ops(ABC):
    """Operators of ONNX, set 17, and what is often put together from them.

    A plain number beside a value is a constant of that value's type.
    """

    rows: Value  # the graph's input, (n, d) in double precision

    @abstractmethod
    def ops(self, kind: str, *inputs: Value, results: int, **attributes: Any) -> list[Value]:
        """An operator with several results."""

    @abstractmethod
    def constant(self, value: Any, dtype: Any = SINGLE) -> Value:
        """A number or an array."""

    @abstractmethod
    def weight(self, name: str, values: Array) -> Value:
        """A constant that was learned, under a name of its own."""

    def op(self, kind: str, *inputs: Value, **attributes: Any) -> Value:
        """An operator with one result."""
        return self.ops(kind, *inputs, results=1, **attributes)[0]

    def cast(self, value: Value, dtype: Any) -> Value:
        return self.op("Cast", value, to=CODES[dtype])

    def like(self, value: Any, other: Value) -> Value:
        """A value itself; a plain number as a constant of another value's type."""
        plain = isinstance(value, int | float)
        return self.constant(value, np.dtype(other.dtype).type) if plain else value

    def where(self, truth: Value, yes: Any, no: Any) -> Value:
        return self.op("Where", truth, self.like(yes, no), self.like(no, yes))

    def larger(self, value: Value, *others: Any) -> Value:
        return self.op("Max", value, *(self.like(one, value) for one in others))

    def smaller(self, value: Value, *others: Any) -> Value:
        return self.op("Min", value, *(self.like(one, value) for one in others))

    def between(self, value: Value, low: Any, high: Any) -> Value:
        """A value, cut off at both ends."""
        return self.smaller(self.larger(value, low), high)

    def equal(self, value: Value, other: Any) -> Value:
        return self.op("Equal", value, self.like(other, value))

    def isnan(self, value: Value) -> Value:
        return self.op("IsNaN", value)

    def concat(self, *parts: Value) -> Value:
        """Columns side by side."""
        return self.op("Concat", *parts, axis=1)

    def any(self, truths: Value) -> Value:
        """Whether one of (n, k) bool is true, (n, 1)."""
        top = self.op("ReduceMax", self.cast(truths, SINGLE), axes=[1], keepdims=1)
        return self.op("Greater", top, self.constant(0.0))

    def total(self, values: Value) -> Value:
        """The sum of (n, k) along the classes, (n, 1)."""
        return self.op("ReduceSum", values, self.constant([1], INT64), keepdims=1)

    def either(self, *truths: Value | None) -> Value | None:
        """Where one of some truths, (n, 1) each, holds; None is never."""
        found = None
        for truth in truths:
            if truth is not None:
                found = truth if found is None else self.op("Or", found, truth)
        return found

    def columns(self, rows: Value, places: Any) -> Value:
        """Some columns of (n, d); a list keeps the axis, one place gives (n,)."""
        return self.op("Gather", rows, self.constant(places, INT64), axis=1)

    def fill(self, value: Any, width: int, dtype: Any = SINGLE, *, like: Value = None) -> Value:
        """A constant for every row, (n, width)."""
        count = self.op("Shape", self.rows if like is None else like, start=0, end=1)
        shape = self.op("Concat", count, self.constant([width], INT64), axis=0)
        return self.op("Expand", self.constant([[value]], dtype), shape)

    def normalise(self, rows: Value, dtype: Any) -> Value:
        """Rows divided by their sums, where those are positive."""
        total = self.total(rows)
        return rows / self.where(total > self.constant(0.0, dtype), total, 1.0)

    def finite(self, value: Value) -> Value:
        """Where a number of single precision is one."""
        return abs(value) <= self.constant(LARGEST)

    def guard(self, scores: Value, dtype: Any) -> Value:
        """Finite scores, whatever the numbers are."""
        limit = float(np.finfo(dtype).max)
        number = self.where(self.isnan(scores), self.constant(0.0, dtype), scores)
        return self.op("Clip", number, self.constant(-limit, dtype), self.constant(limit, dtype))


def _binary(kind: str, *, turned: bool = False) -> Any:
    def run(self: "Node", other: Any) -> Value:
        other = self.o.like(other, self)
        return self.o.op(kind, *((other, self) if turned else (self, other)))

    return run


class Node:
    """A value that is known by a name, with the arithmetic that arrays have."""

    def __init__(self, o: Ops, name: str, dtype: Any) -> None:
        self.o, self.name, self.dtype = o, name, dtype

    __add__, __radd__ = _binary("Add"), _binary("Add", turned=True)
    __sub__, __rsub__ = _binary("Sub"), _binary("Sub", turned=True)
    __mul__, __rmul__ = _binary("Mul"), _binary("Mul", turned=True)
    __truediv__, __rtruediv__ = _binary("Div"), _binary("Div", turned=True)
    __lt__, __le__ = _binary("Less"), _binary("LessOrEqual")
    __gt__, __ge__ = _binary("Greater"), _binary("GreaterOrEqual")
    __and__, __or__ = _binary("And"), _binary("Or")

    def __invert__(self) -> Value:
        return self.o.op("Not", self)

    def __neg__(self) -> Value:
        return self.o.op("Neg", self)

    def __abs__(self) -> Value:
        return self.o.op("Abs", self)


class NamedOps(Ops):
    """A backend that computes nothing: it makes or expects nodes, whose values have names."""

    @abstractmethod
    def make(self, kind: str, inputs: list[str], count: int, about: dict[str, Any]) -> list[str]:
        """The names of so many results of a node."""

    def named(self, name: str, dtype: Any) -> Node:
        """A value that a node makes, or will."""
        return Node(self, name, dtype)

    def ops(self, kind: str, *inputs: Node, results: int, **attributes: Any) -> list[Node]:
        made = self.make(kind, [one.name for one in inputs], results, attributes)
        types = (dtype_of(kind, inputs, attributes), INT64)  # TopK has places behind the numbers
        return list(map(self.named, made, types))


def dtype_of(kind: str, inputs: Any, attributes: Any) -> Any:
    """The type of what an operator makes."""
    if kind in _TRUTHS:
        return BOOL
    if kind in _PLACES:
        return INT64
    if kind == "Cast":
        return _TYPES.get(attributes["to"])
    return inputs[1 if kind == "Where" else 2 if kind == "OneHot" else 0].dtype


class Numpy(Ops):
    """Values are arrays; warnings of undefined numbers are the caller's to silence."""

    def __init__(self, rows: Array) -> None:
        self.rows = np.asarray(rows, np.float64)

    def ops(self, kind: str, *inputs: Array, results: int, **attributes: Any) -> list[Array]:
        run = _OPERATORS.get(kind)
        if run is None:
            raise KnowledgeError(f"the operator {kind}")
        found = run(*inputs, **attributes)
        return list(found) if results > 1 else [found]

    def constant(self, value: Any, dtype: Any = SINGLE) -> Array:
        return np.asarray(value, dtype)

    def weight(self, name: str, values: Array) -> Array:
        return values


def _reduce(run: Callable[..., Array]) -> Callable[..., Array]:
    def reduced(x: Array, axes: Any, keepdims: int = 1) -> Array:
        return run(x, axis=tuple(np.ravel(axes).tolist()), keepdims=bool(keepdims))

    return reduced


def _softmax(x: Array, axis: int) -> Array:
    raised = np.exp(x - x.max(axis=axis, keepdims=True))
    return raised / raised.sum(axis=axis, keepdims=True)


def _top(x: Array, count: Array, axis: int, largest: int, sorted: int) -> tuple[Array, Array]:
    order = np.argsort(-x if largest else x, axis=axis, kind="stable")
    order = np.take(order, np.arange(int(count[0])), axis=axis)
    return np.take_along_axis(x, order, axis), order


def _gemm(x: Array, weight: Array, bias: Array | None = None, transB: int = 0) -> Array:
    made = x @ (weight.T if transB else weight)
    return made if bias is None else made + bias


def _flatten(x: Array, axis: int) -> Array:
    return x.reshape(len(x), int(np.prod(x.shape[1:])))


def _shape(x: Array, start: int = 0, end: int | None = None) -> Array:
    return np.array(x.shape[start:end], np.int64)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Add": np.add,
    "And": np.logical_and,
    "ArgMax": np.argmax,
    "ArgMin": np.argmin,
    "Cast": lambda x, to: np.asarray(x).astype(_TYPES[to]),
    "Clip": lambda x, low, high: np.clip(x, low, high),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "CumSum": lambda x, axis: np.cumsum(x, axis=int(axis), dtype=x.dtype),
    "Div": np.divide,
    "Equal": np.equal,
    "Exp": np.exp,
    "Expand": lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))),
    "Flatten": _flatten,
    "Gather": lambda x, places, axis: np.take(x, places, axis=axis),
    "GatherElements": lambda x, places, axis: np.take_along_axis(x, places, axis),
    "Gemm": _gemm,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Identity": lambda x: x,
    "IsInf": np.isinf,
    "IsNaN": np.isnan,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Log": np.log,
    "MatMul": np.matmul,
    "Max": lambda *parts: reduce(np.maximum, parts),
    "Min": lambda *parts: reduce(np.minimum, parts),
    "Mul": np.multiply,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Pow": np.power,
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "ReduceSum": _reduce(np.sum),
    "Relu": lambda x: np.maximum(x, 0),
    "Shape": _shape,
    "Sin": np.sin,
    "Softmax": _softmax,
    "Softplus": lambda x: np.logaddexp(0, x),
    "Sqrt": np.sqrt,
    "Squeeze": lambda x, axes: np.squeeze(x, tuple(axes.tolist())),
    "Sub": np.subtract,
    "Tanh": np.tanh,
    "TopK": _top,
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes.tolist())),
    "Where": np.where,
}
