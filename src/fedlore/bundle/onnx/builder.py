"""An ONNX graph in the making: nodes, constants and fresh names."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FedloreError

OPSET = 17  # LayerNormalization is the youngest operator in use
SINGLE, DOUBLE, INT64, BOOL = np.float32, np.float64, np.int64, np.bool_


def onnx_package() -> Any:
    """The `onnx` package, asked for only where a graph is made."""
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise FedloreError("an ONNX graph needs: pip install 'fedlore[onnx]'") from error


@dataclass(eq=False)
class Builder:
    """Collects nodes one by one; a value is known by its name."""

    onnx: Any = field(default_factory=onnx_package)
    nodes: list[Any] = field(default_factory=list)
    initializers: list[Any] = field(default_factory=list)
    domains: dict[str, int] = field(default_factory=dict)  # of other operator sets, from inlining
    width: int = 0  # columns of the rows in sight, where some may be missing; 0 where none may
    ranges: dict[tuple[int, str], Any] = field(default_factory=dict)  # see `sources.add_range`
    _constants: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)
    _count: int = 0

    def op(self, kind: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """Add a node with one result, and give the name of that."""
        out = name or self.fresh(kind.lower())
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [out], **attributes))
        return out

    def ops(self, kind: str, *inputs: str, results: int, **attributes: Any) -> list[str]:
        """Add a node with several results."""
        out = [self.fresh(kind.lower()) for _ in range(results)]
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, out, **attributes))
        return out

    def fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}_{self._count}"

    def constant(self, value: Any, dtype: Any = SINGLE) -> str:
        """A constant of any shape; equal ones are one."""
        array = np.asarray(value, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.weight(self.fresh("constant"), array)
        return self._constants[key]

    def weight(self, name: str, array: NDArray[Any]) -> str:
        """A constant under a name of its own: a parameter of the network."""
        self.initializers.append(self.onnx.numpy_helper.from_array(array.copy(), name))
        return name

    def cast(self, value: str, dtype: Any) -> str:
        code = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.op("Cast", value, to=code)

    def column(self, rows: str, index: int) -> str:
        """One column of (n, d), as (n,)."""
        return self.op("Gather", rows, self.constant(index, INT64), axis=1)

    def any(self, truths: str) -> str:
        """Whether one of (n, k) bool is true, (n, 1)."""
        ones = self.cast(truths, SINGLE)
        return self.op(
            "Greater", self.op("ReduceMax", ones, axes=[1], keepdims=1), self.constant(0.0)
        )

    def total(self, values: str) -> str:
        """The sum of (n, k) along the classes, (n, 1)."""
        return self.op("ReduceSum", values, self.constant([1], INT64), keepdims=1)

    @contextmanager
    def narrowed(self, width: int) -> Iterator[None]:
        """A view of fewer columns, as long as it is open."""
        around = self.width
        self.width = width if around else 0
        yield
        self.width = around

    def either(self, *truths: str | None) -> str | None:
        """Where one of some truths, (n, 1) each, holds; None is never."""
        found = None
        for truth in truths:
            if truth is not None:
                found = truth if found is None else self.op("Or", found, truth)
        return found
