"""The operators that knowledge is compiled to: one compiler, and a backend for each use of it.

A backend makes a node, expects one in a given graph, or computes it on rows. What a value is, a
name, a term or an array, is the backend's own matter.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

Value = Any  # of a backend
Array = Any  # of numpy

SINGLE, DOUBLE, INT64, BOOL = np.float32, np.float64, np.int64, np.bool_
CODES = {SINGLE: 1, DOUBLE: 11, INT64: 7, BOOL: 9}  # of ONNX
LARGEST = float(np.finfo(SINGLE).max)


class Answer(NamedTuple):
    """Rows of a prediction (float32) or a range (bool), (n, k), and where they are refused."""

    rows: Value
    refused: Value | None = None  # (n, 1), or never


class Ops(ABC):
    """Operators of ONNX, set 17, and what is often put together from them."""

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
        some = self.op("Greater", total, self.constant(0.0, dtype))
        return self.op("Div", rows, self.op("Where", some, total, self.constant(1.0, dtype)))

    def finite(self, value: Value) -> Value:
        """Where a number of single precision is one."""
        return self.op("LessOrEqual", self.op("Abs", value), self.constant(LARGEST))

    def guard(self, scores: Value, dtype: Any) -> Value:
        """Finite scores, whatever the numbers are."""
        limit = float(np.finfo(dtype).max)
        number = self.op("Where", self.op("IsNaN", scores), self.constant(0.0, dtype), scores)
        return self.op("Clip", number, self.constant(-limit, dtype), self.constant(limit, dtype))
