"""The grammar of what may stand before the scores of a graph: layers that see one row alone.

A value is a constant, rows, (n, ...) with sizes that are fixed behind the first, or the shape of
rows, which may do nothing but lengthen a constant. A node has one result, the attributes listed
here and no others, and numbers that are finite. What does not fit is refused.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from ..errors import KnowledgeError
from ..kernel.graph.ops import CODES, LARGEST

Array = Any  # of numpy
Dims = tuple[int | str, ...]
ROWS = "n"  # the first size of everything that is computed from rows

#: Operators by their attributes. Value by value:
EACH: dict[str, set[str]] = {
    **dict.fromkeys(
        "Abs Add And Clip Div Equal Erf Exp Greater GreaterOrEqual Identity IsInf IsNaN Less "
        "LessOrEqual Log Max Min Mul Neg Not Or Pow Relu Sigmoid Sin Softplus Sqrt Sub Tanh "
        "Where".split(),
        set(),
    ),
    "Cast": {"to"},
    "LeakyRelu": {"alpha"},
}
#: Along axes behind the first, of rows and constants,
ALONG = {
    **dict.fromkeys(("ArgMax", "ArgMin"), {"axis", "keepdims"}),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), {"axes", "keepdims"}),
    **dict.fromkeys(("CumSum", "MatMul", "Unsqueeze"), set[str]()),
    "Flatten": {"axis"},
    "Gemm": {"transB"},
    "LayerNormalization": {"axis", "epsilon"},
    "ReduceSum": {"keepdims"},
}
#: and of rows and rows.
BESIDE = {"Concat": {"axis"}, "GatherElements": {"axis"}}
OPERATORS = {**EACH, **ALONG, **BESIDE, "Expand": set[str](), "Gather": {"axis"}}


class Layer(NamedTuple):
    """A node with its attributes as plain values."""

    op: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    about: Mapping[str, Any]


class _Odd(Exception):
    """A node that is not in the grammar."""


def crossing(
    layers: Sequence[Layer],
    constants: Mapping[str, Array],
    shapes: Mapping[str, Dims],
    compiled: Set[str] = frozenset(),
) -> str | None:
    """The first node that may mix rows or is not in the grammar, in words; None: all are fine.

    `compiled` are values that the compiler of knowledge makes: of them only the sizes are asked.
    """
    kinds = {**dict.fromkeys(constants, "constant"), "rows": "rows"}
    sizes = {**shapes, **{name: values.shape for name, values in constants.items()}}
    for layer in layers:
        inputs, out = [kinds[name] for name in layer.inputs], layer.outputs[0]
        try:
            if out in compiled:
                kind = _trusted(layer.op, inputs)
            else:
                kind = _follow(layer, inputs, constants)
                _check_numbers(layer, constants)
            if kind == "rows":
                _check_sizes(layer, inputs, sizes)
        except (_Odd, LookupError, TypeError, ValueError) as error:
            words = f"{error}" if isinstance(error, _Odd) else "has an unknown form"
            return f"{layer.op} that makes '{out}' {words}"
        kinds |= dict.fromkeys(layer.outputs, kind)
    return None


def infer_shapes(model: Any) -> dict[str, Dims]:
    """The shape of every value that is not a constant; one of another type is refused."""
    import onnx

    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    bare.graph.ClearField("value_info")  # what a file says of its values is not asked
    try:
        full = onnx.shape_inference.infer_shapes(bare, strict_mode=True, data_prop=True).graph
    except Exception as error:  # onnx has classes of its own for every fault
        raise KnowledgeError(f"its shapes cannot be found: {str(error)[:200]}") from None
    found: dict[str, Dims] = {}
    for value in (*full.input, *full.value_info, *full.output):
        about = value.type.tensor_type
        if about.elem_type not in CODES.values() or not about.HasField("shape"):
            raise KnowledgeError(f"'{value.name}' has a type or a shape that is not understood")
        found[value.name] = tuple(
            d.dim_value if d.HasField("dim_value") else d.dim_param for d in about.shape.dim
        )
    return found


def _check_sizes(layer: Layer, inputs: Sequence[str], shapes: Mapping[str, Dims]) -> None:
    """That rows meet rows of the same rank, and constants that say the same of every row."""
    op, made, sizes = layer.op, shapes[layer.outputs[0]], [shapes[name] for name in layer.inputs]
    whole = op == "LayerNormalization" and len(sizes[0]) < 2  # its last axis is that of the rows
    if whole or made[:1] != (ROWS,) or not all(isinstance(size, int) for size in made[1:]):
        raise _Odd("mixes rows, or depends on their position")
    ranks = {len(size) for size, kind in zip(sizes, inputs, strict=True) if kind == "rows"}
    if op == "Expand" and inputs[0] == "rows":
        ranks |= {int(sizes[1][0])}
    if len(ranks) > 1:
        raise _Odd("mixes rows")
    most = {"Clip": (1, 0), "Gemm": (2, 1), "LayerNormalization": (1, 1)}.get(op)
    if most is not None and any(len(size) > most[1] for size in sizes[most[0] :]):
        raise _Odd("depends on the position of rows")


def _trusted(op: str, inputs: Sequence[str]) -> str:
    if op == "Shape" or (op == "Concat" and "shape" in inputs):
        return "shape"
    return "constant" if set(inputs) == {"constant"} else "rows"


def _check_numbers(layer: Layer, constants: Mapping[str, Array]) -> None:
    """Every constant is finite, in single precision too; one number that a Where picks need not."""
    for name in layer.inputs:
        values = constants.get(name)
        if values is None or (layer.op == "Where" and not values.shape):
            continue
        if values.dtype.kind == "f" and not (np.abs(values) <= LARGEST).all():
            raise _Odd(f"has numbers in '{name}' that are not finite")


def _follow(layer: Layer, inputs: Sequence[str], constants: Mapping[str, Array]) -> str:
    """What a node makes of its inputs, or why it may not stand here."""
    op, about, kinds = layer.op, layer.about, set(inputs)
    if op == "Shape" and about in ({"start": 0, "end": 1}, {}) and kinds == {"rows"}:
        return "shape"
    if about.keys() != OPERATORS[op] or len(layer.outputs) != 1:
        raise _Odd("has an unknown form")
    if kinds == {"constant"}:
        return "constant"
    first, rest = inputs[0], set(inputs[1:])
    if "shape" in kinds:  # once, in front: twice it would become a width
        if op == "Concat" and first == "shape" and rest == {"constant"}:
            return "shape"
        if op != "Expand" or first == "shape":
            raise _Odd("depends on the number of rows")
    elif op == "Gather":
        if kinds != {"rows", "constant"}:  # along which axis is seen by the sizes
            raise _Odd("indexes rows by rows")
    elif op not in EACH:
        if first != "rows" or not rest <= {"rows" if op in BESIDE else "constant"}:
            raise _Odd("takes rows where a constant belongs, or a constant for rows")
        _off_rows(layer, constants)
    return "rows"


def _off_rows(layer: Layer, constants: Mapping[str, Array]) -> None:
    """That an operator goes along axes behind the first."""
    axes = layer.about.get("axes", [layer.about.get("axis", 1)])
    if layer.op in ("CumSum", "ReduceSum", "Unsqueeze"):
        axes = np.ravel(constants[layer.inputs[1]]).tolist()
    if layer.op == "LayerNormalization":  # whose axes go to the last
        axes = [1 if axis == -1 else 0 for axis in axes]
    if not axes or min(axes) < 1 or (layer.op == "Flatten" and axes != [1]):
        raise _Odd("runs along the rows")
