"""An ONNX graph in the making: nodes, constants and fresh names."""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FedloreError
from ...kernel.graph.ops import SINGLE, Ops

OPSET = 17  # LayerNormalization is the youngest operator in use


def onnx_package() -> Any:
    """The `onnx` package, asked for only where a graph is made."""
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise FedloreError("an ONNX graph needs: pip install 'fedlore[onnx]'") from error


class Builder(Ops):
    """The backend that emits a graph: collects nodes one by one, a value is known by its name."""

    def __init__(self) -> None:
        self.onnx = onnx_package()
        self.rows = "rows"
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.domains: dict[str, int] = {}  # of other operator sets, from inlining
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._count = 0

    def ops(self, kind: str, *inputs: str, results: int, **attributes: Any) -> list[str]:
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

    def weight(self, name: str, values: NDArray[Any]) -> str:
        self.initializers.append(self.onnx.numpy_helper.from_array(values.copy(), name))
        return name
