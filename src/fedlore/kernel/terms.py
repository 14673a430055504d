"""Values of a graph as terms, and whether a graph computes a value just so.

A term is what a value must come from, down to the rows and the constants. A graph fits where every
node, attribute and constant on the way is the same; what the nodes are called does not matter.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

Array = Any  # of numpy

SINGLE, DOUBLE, INT64, BOOL = np.float32, np.float64, np.int64, np.bool_
_CODES = {SINGLE: 1, DOUBLE: 11, INT64: 7, BOOL: 9}  # of ONNX


class Mismatch(Exception):
    """A value that is computed in another way than it should be."""


@dataclass(frozen=True, eq=False)
class Term:
    """A node by its operator, attributes and inputs."""

    kind: str
    inputs: tuple["Needed", ...]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Constant:
    """A number or an array, to the last bit."""

    values: Array


@dataclass(frozen=True, eq=False)
class Lazy:
    """A term that hangs on constants which may be chosen: made for what the graph has there."""

    make: Callable[["Nodes", str], "Needed"]


@dataclass(frozen=True, eq=False)
class Named:
    """A value that has a name of its own, and is looked at elsewhere."""

    name: str


Needed = Term | Constant | Lazy | Named


class Nodes(Protocol):
    """What is read of a graph."""

    made: dict[str, Any]
    constants: dict[str, Array]


def expect(graph: Nodes, name: str, needed: Needed) -> int:
    """That a value is computed as needed, and by how many nodes; else `Mismatch`."""
    waiting: list[tuple[str, Needed]] = [(name, needed)]
    seen: set[tuple[str, int]] = set()
    nodes: set[str] = set()
    kept: list[Needed] = []  # an id is only one's own as long as one lives
    while waiting:
        name, needed = waiting.pop()
        if (name, id(needed)) in seen:
            continue
        seen.add((name, id(needed)))
        if isinstance(needed, Named):
            if name != needed.name:
                raise Mismatch(f"'{name}' stands where '{needed.name}' is due")
        elif isinstance(needed, Lazy):
            kept.append(needed.make(graph, name))
            waiting.append((name, kept[-1]))
        elif isinstance(needed, Term):
            waiting.extend(zip(_inputs(graph, name, needed), needed.inputs, strict=True))
            nodes.add(name)
        else:
            _constant(graph, name, needed.values)
    return len(nodes)


def _inputs(graph: Nodes, name: str, needed: Term) -> list[str]:
    node = graph.made.get(name)
    if node is None or node.op_type != needed.kind or node.domain not in ("", "ai.onnx"):
        found = "nothing" if node is None else node.op_type
        raise Mismatch(f"'{name}' comes from {found}, not from {needed.kind}")
    if list(node.output) != [name] or len(node.input) != len(needed.inputs):
        raise Mismatch(f"{node.op_type} that makes '{name}' has other inputs or outputs")
    if attributes_of(node) != needed.attributes:
        raise Mismatch(f"{node.op_type} that makes '{name}' has other attributes")
    return list(node.input)


def attributes_of(node: Any) -> dict[str, Any]:
    """The attributes of a node as plain values."""
    import onnx

    found = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return {
        key: list(v) if not isinstance(v, int | float | bytes) else v for key, v in found.items()
    }


def _constant(graph: Nodes, name: str, wanted: Array) -> None:
    found = graph.constants.get(name)
    if found is None:
        raise Mismatch(f"'{name}' is no constant")
    same = found.dtype == wanted.dtype and found.shape == wanted.shape
    if not same or found.tobytes() != wanted.tobytes():
        raise Mismatch(f"'{name}' holds other numbers than it should")


class Terms:
    """Makes terms; equal constants are one."""

    def __init__(self) -> None:
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Constant] = {}

    def op(self, kind: str, *inputs: Needed, **attributes: Any) -> Term:
        return Term(kind, inputs, attributes)

    def constant(self, value: Any, dtype: Any = SINGLE) -> Constant:
        array = np.asarray(value, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        return self._constants.setdefault(key, Constant(array))

    def cast(self, value: Needed, dtype: Any) -> Term:
        return self.op("Cast", value, to=_CODES[dtype])

    def any(self, truths: Needed) -> Term:
        top = self.op("ReduceMax", self.cast(truths, SINGLE), axes=[1], keepdims=1)
        return self.op("Greater", top, self.constant(0.0))

    def total(self, values: Needed) -> Term:
        return self.op("ReduceSum", values, self.constant([1], INT64), keepdims=1)

    def either(self, *truths: Needed | None) -> Needed | None:
        found: Needed | None = None
        for truth in truths:
            if truth is not None:
                found = truth if found is None else self.op("Or", found, truth)
        return found
