"""An ONNX graph in the making: nodes, constants and fresh names, then a whole model, written."""

import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...answers import Bins
from ...core.store import write_whole
from ...errors import FedloreError
from ...kernel.graph.ops import DOUBLE, SINGLE, NamedOps, Node
from ...knowledge import Schema

OPSET = 17  # LayerNormalization is the youngest operator in use


def onnx_package() -> Any:
    """The `onnx` package, asked for only where a graph is made."""
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise FedloreError("an ONNX graph needs: pip install 'fedlore[onnx]'") from error


class Builder(NamedOps):
    """The backend that emits a graph: it collects nodes one by one."""

    def __init__(self) -> None:
        self.onnx = onnx_package()
        self.rows = self.named("rows", DOUBLE)
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.domains: dict[str, int] = {}  # of other operator sets, from inlining
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Node] = {}
        self._count = 0

    def make(self, kind: str, inputs: list[str], count: int, about: dict[str, Any]) -> list[str]:
        out = [self.fresh(kind.lower()) for _ in range(count)]
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, out, **about))
        return out

    def fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}_{self._count}"

    def constant(self, value: Any, dtype: Any = SINGLE) -> Node:
        """A constant of any shape; equal ones are one."""
        array = np.asarray(value, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.weight(self.fresh("constant"), array)
        return self._constants[key]

    def weight(self, name: str, values: NDArray[Any]) -> Node:
        self.initializers.append(self.onnx.numpy_helper.from_array(values.copy(), name))
        return self.named(name, values.dtype.type)


IR = 8  # the file format of operator set 17
GRAPH_FORMAT = "1"  # of the metadata


class GraphOutput(NamedTuple):
    """What a graph gives out: its name, the value, kind of number, and shape behind the rows."""

    name: str
    value: Node
    kind: str
    shape: tuple[int, ...] = ()


def finish_graph(
    build: Builder,
    row: tuple[int, ...],
    results: Sequence[GraphOutput],
    metadata: Mapping[str, str],
) -> Any:
    """The model of all nodes that an output depends on; values become outputs by their names."""
    helper, proto = build.onnx.helper, build.onnx.TensorProto
    rows = helper.make_tensor_value_info("rows", proto.DOUBLE, ["n", *row])
    outputs = [
        helper.make_tensor_value_info(one.name, getattr(proto, one.kind), ["n", *one.shape])
        for one in results
    ]
    names = {one.value.name: one.name for one in results}
    for node in build.nodes:
        for part in (node.input, node.output):
            part[:] = [names.get(value, value) for value in part]
    nodes, constants = _drop_unused(build, [one.name for one in results])
    graph = helper.make_graph(nodes, "fedlore", [rows], outputs, constants)
    sets = [helper.make_opsetid("", OPSET)]
    sets += [helper.make_opsetid(domain, version) for domain, version in build.domains.items()]
    model = helper.make_model(graph, opset_imports=sets, ir_version=IR, producer_name="fedlore")
    helper.set_model_props(model, dict(metadata))
    build.onnx.checker.check_model(model, full_check=True)
    return model


def describe_graph(schema: Schema | None, *, bins: Bins | None = None) -> dict[str, str]:
    """What the graph is, as text: its columns, and its classes or its number."""
    found = {"fedlore.format": GRAPH_FORMAT, "fedlore.opset": str(OPSET)}
    if schema is None:
        return found
    found["fedlore.features"] = json.dumps([feature.values() for feature in schema.features])
    if schema.absent:
        found["fedlore.absent"] = json.dumps(schema.absent)
    if bins is None:
        return found | {"fedlore.classes": json.dumps(schema.classes)}
    target = {"name": schema.label, "unit": schema.unit, "lower": bins.lower, "upper": bins.upper}
    return found | {"fedlore.target": json.dumps(target)}


def save_graph(model: Any, path: str | Path) -> None:
    """Write a model; a crash leaves what was there before."""
    path = Path(path)
    try:
        write_whole(path, model.SerializeToString())
    except OSError as error:
        raise FedloreError(f"cannot write '{path}': {error.strerror}") from None


def _drop_unused(build: Builder, outputs: Sequence[str]) -> tuple[list[Any], list[Any]]:
    """The nodes and constants that an output depends on, in their order."""
    wanted = set(outputs)
    nodes = []
    for node in reversed(build.nodes):
        if wanted & set(node.output):
            nodes.append(node)
            wanted |= set(node.input)
    return nodes[::-1], [tensor for tensor in build.initializers if tensor.name in wanted]
