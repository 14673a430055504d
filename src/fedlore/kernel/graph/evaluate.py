"""A graph computed on rows as it is compiled, with numpy."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ...errors import KnowledgeError
from .ops import CODES, SINGLE, Array, Ops

_TYPES = {code: dtype for dtype, code in CODES.items()}


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
