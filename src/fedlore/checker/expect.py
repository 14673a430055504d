"""Whether a graph computes a value just so: the compiler's nodes held against those of a graph.

A term is what a value must come from, down to the rows and the constants. A graph fits where every
node, attribute and constant on the way is the same; what the nodes are called does not matter.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..kernel.graph.ops import SINGLE, Array, Ops


class Mismatch(Exception):
    """A value that is computed in another way than it should be."""


@dataclass(frozen=True, eq=False)
class Term:
    """One of the results of a node, by its operator, attributes and inputs."""

    kind: str
    inputs: tuple["Needed", ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    place: int = 0
    results: int = 1


@dataclass(frozen=True, eq=False)
class Constant:
    """A number or an array, to the last bit."""

    values: Array


@dataclass(frozen=True, eq=False)
class Named:
    """A value that has a name of its own, and is looked at elsewhere."""

    name: str


@dataclass(frozen=True, eq=False)
class Free:
    """Any value, the same wherever this stands; of a `constant` its numbers must be one."""

    constant: bool = False


Needed = Term | Constant | Named | Free


class Terms(Ops):
    """Makes terms; equal constants are one."""

    def __init__(self) -> None:
        self.rows = Named("rows")
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Constant] = {}

    def ops(self, kind: str, *inputs: Needed, results: int, **attributes: Any) -> list[Term]:
        return [Term(kind, inputs, attributes, place, results) for place in range(results)]

    def constant(self, value: Any, dtype: Any = SINGLE) -> Constant:
        array = np.asarray(value, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        return self._constants.setdefault(key, Constant(array))

    def weight(self, name: str, values: Array) -> Named:
        return Named(name)


def expect(graph: Any, name: str, needed: Needed, free: dict[Free, str] | None = None) -> int:
    """That a value is computed as needed, and by how many nodes; else `Mismatch`.

    What `Free` values were found to be is written to `free`.
    """
    waiting: list[tuple[str, Needed]] = [(name, needed)]
    seen: set[tuple[str, int]] = set()
    nodes: set[str] = set()
    free = {} if free is None else free
    while waiting:
        name, needed = waiting.pop()
        if (name, id(needed)) in seen:
            continue
        seen.add((name, id(needed)))
        if isinstance(needed, Term):
            waiting.extend(zip(_inputs(graph, name, needed), needed.inputs, strict=True))
            nodes.add(name)
        elif isinstance(needed, Constant):
            _constant(graph, name, needed.values)
        else:
            due = needed.name if isinstance(needed, Named) else free.setdefault(needed, name)
            if name != due:
                raise Mismatch(f"'{name}' stands where '{due}' is due")
            if isinstance(needed, Free) and needed.constant and name not in graph.constants:
                raise Mismatch(f"'{name}' is not a constant")
    return len(nodes)


def _inputs(graph: Any, name: str, needed: Term) -> list[str]:
    node = graph.made.get(name)
    if node is None or node.op_type != needed.kind or node.domain not in ("", "ai.onnx"):
        found = "nothing" if node is None else node.op_type
        raise Mismatch(f"'{name}' comes from {found}, not from {needed.kind}")
    outputs = list(node.output)
    fits = len(outputs) == needed.results and outputs[needed.place] == name
    if not fits or len(node.input) != len(needed.inputs):
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


def _constant(graph: Any, name: str, wanted: Array) -> None:
    found = graph.constants.get(name)
    if found is None:
        raise Mismatch(f"'{name}' is not a constant")
    same = found.dtype == wanted.dtype and found.shape == wanted.shape
    if not same or found.tobytes() != wanted.tobytes():
        raise Mismatch(f"'{name}' holds other numbers than it should")
