"""The grammar of what may stand before the scores of a graph: layers that see one row alone.

Every value is a constant, rows (its first axis is that of the rows), or the shape of rows, which
may do nothing but lengthen a constant. A node has one result, the attributes listed here and no
others, and numbers that are finite. What does not fit a rule is refused.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from ..errors import KnowledgeError
from ..kernel.graph.ops import LARGEST

Array = Any  # of numpy
TYPES = (1, 7, 9, 11)  # float32, int64, bool, float64

#: Value by value: rows meet rows of the same rank, and constants that have one row or none.
EACH = set(
    "Abs Add And Cast Clip Div Equal Erf Exp Greater GreaterOrEqual Identity IsInf IsNaN LeakyRelu "
    "Less LessOrEqual Log Max Min Mul Neg Not Or Pow Relu Sigmoid Sin Softplus Sqrt Sub Tanh "
    "Where".split()
)
#: Along axes within a row, which an attribute or a constant names.
ALONG = set(
    "ArgMax ArgMin Concat CumSum GatherElements LayerNormalization ReduceMax ReduceMin ReduceSum "
    "Unsqueeze".split()
)
OTHER = set("Expand Flatten Gather Gemm MatMul".split())
#: The attributes that operators have, all of them or none.
ATTRIBUTES = {
    **dict.fromkeys(("ArgMax", "ArgMin"), {"axis", "keepdims"}),
    **dict.fromkeys(("Concat", "Flatten", "Gather", "GatherElements"), {"axis"}),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), {"axes", "keepdims"}),
    "Cast": {"to"},
    "Gemm": {"transB"},
    "LayerNormalization": {"axis", "epsilon"},
    "LeakyRelu": {"alpha"},
    "ReduceSum": {"keepdims"},
}


class Value(NamedTuple):
    """What is known of a value."""

    kind: str  # constant, rows, or shape
    dims: tuple[int | None, ...]  # None where it is not fixed


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
    shapes: Mapping[str, tuple[int | None, ...]],
    compiled: Set[str] = frozenset(),
) -> str | None:
    """The first node that may mix rows or is not in the grammar, in words; None: there is none.

    `compiled` are values that the compiler of knowledge makes; they need no second look.
    """
    known = {name: Value("constant", tuple(v.shape)) for name, v in constants.items()}
    known["rows"] = Value("rows", shapes["rows"])
    for layer in layers:
        values = [known[name] for name in layer.inputs]
        try:
            if layer.outputs[0] in compiled:
                kind = _trusted(layer.op, values)
            else:
                _check_numbers(layer, constants)
                kind = _follow(layer, values, constants)
        except (_Odd, LookupError, TypeError, ValueError) as error:
            words = f"{error}" if isinstance(error, _Odd) else "is of no known form"
            return f"{layer.op} that makes '{layer.outputs[0]}' {words}"
        for out in layer.outputs:
            known[out] = Value(kind, shapes[out])
            if kind == "rows" and (not shapes[out] or shapes[out][0] is not None):
                return f"{layer.op} that makes '{out}' has no axis of rows in front"
    return None


def infer_shapes(model: Any) -> dict[str, tuple[int | None, ...]]:
    """The shape of every value that is not a constant; one of another type is refused."""
    import onnx

    try:
        full = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    except Exception as error:  # onnx has classes of its own for every fault
        raise KnowledgeError(f"its shapes cannot be found: {str(error)[:200]}") from None
    found: dict[str, tuple[int | None, ...]] = {}
    for value in (*full.input, *full.value_info, *full.output):
        about = value.type.tensor_type
        if about.elem_type not in TYPES or not about.HasField("shape"):
            raise KnowledgeError(f"'{value.name}' has a type or a shape that is not understood")
        found[value.name] = tuple(
            d.dim_value if d.HasField("dim_value") else None for d in about.shape.dim
        )
    return found


def _trusted(op: str, values: Sequence[Value]) -> str:
    kinds = {value.kind for value in values}
    if op == "Shape" or (op == "Concat" and "shape" in kinds):
        return "shape"
    return "constant" if kinds == {"constant"} else "rows"


def _check_numbers(layer: Layer, constants: Mapping[str, Array]) -> None:
    """Every constant is finite, in single precision too; one number that a Where picks need not."""
    for name in layer.inputs:
        values = constants.get(name)
        if values is None or (layer.op == "Where" and not values.shape):
            continue
        if values.dtype.kind == "f" and not (np.abs(values) <= LARGEST).all():
            raise _Odd(f"has numbers in '{name}' that are not finite")


def _follow(layer: Layer, values: list[Value], constants: Mapping[str, Array]) -> str:
    """What a node makes of its inputs, or why it may not stand here."""
    op, about, kinds = layer.op, layer.about, {value.kind for value in values}
    known = op in EACH or op in ALONG or op in OTHER
    if op == "Shape" and about.keys() in ({"start", "end"}, set()):
        return _shape(values[0], about)
    if not known or len(layer.outputs) != 1 or about.keys() != ATTRIBUTES.get(op, set()):
        raise _Odd("is of no known form")
    if kinds == {"constant"}:
        return "constant"
    if op == "Concat" and "shape" in kinds:
        # the number of rows once, in front: twice it would become a width
        if [v.kind for v in values] != ["shape"] + ["constant"] * (len(values) - 1):
            raise _Odd("uses the number of rows as a width")
        return "shape"
    if op == "Expand":
        return _expand(*values)
    if "shape" in kinds:
        raise _Odd("looks at the number of rows")
    if op in EACH:
        _side_by_side(values)
    elif op == "Gather":
        _gather(values, about["axis"])
    else:
        beside = op in ("Concat", "GatherElements")
        ranks = {len(value.dims) for value in values}
        rest = {value.kind for value in values[1:]}
        if values[0].kind != "rows" or (rest - {"rows" if beside else "constant"}):
            raise _Odd("takes rows where a constant belongs, or a constant for rows")
        if beside and len(ranks) > 1:
            raise _Odd("lays rows across rows")
        _off_rows(_axes(layer, values, constants), len(values[0].dims))
    return "rows"


def _axes(layer: Layer, values: list[Value], constants: Mapping[str, Array]) -> list[int]:
    """The axes along which an operator goes; those that it adds behind the rows do not count."""
    op, first = layer.op, values[0]
    if "axis" in layer.about:
        if op == "Flatten" and layer.about["axis"] != 1:
            raise _Odd("flattens rows into each other")
        return [layer.about["axis"]]
    if "axes" in layer.about:
        return list(layer.about["axes"])
    if op in ("CumSum", "ReduceSum", "Unsqueeze"):
        axes: list[int] = np.ravel(constants[layer.inputs[1]]).tolist()
        if op == "Unsqueeze":
            return [axis for axis in axes if not 1 <= axis <= len(first.dims)] or [1]
        return axes
    if len(values[1].dims) > 2:  # of Gemm and MatMul
        raise _Odd("lays rows across rows")
    for bias in values[2:]:
        _by_place(bias, 2)
    return [1]


def _shape(value: Value, about: Mapping[str, Any]) -> str:
    start, end = about.get("start", 0), about.get("end", len(value.dims))
    dims = value.dims[start:end]
    rows = value.kind == "rows" and start == 0
    if value.kind == "shape" or start < 0 or end < 1 or None in (dims[1:] if rows else dims):
        raise _Odd("has a shape that is not fixed")
    return "shape" if rows else "constant"


def _expand(data: Value, shape: Value) -> str:
    """A constant for every row, or rows that are there already."""
    if data.kind == "shape" or shape.kind != "shape":
        raise _Odd("repeats rows")
    (length,) = shape.dims
    if length is None or (data.kind == "rows" and len(data.dims) != length):
        raise _Odd("lays rows across rows")
    _by_place(data, length)
    return "rows"


def _side_by_side(values: list[Value]) -> None:
    ranks = {len(value.dims) for value in values if value.kind == "rows"}
    if len(ranks) > 1 or 0 in ranks:
        raise _Odd("lays rows across rows")
    (rank,) = ranks
    for value in values:
        _by_place(value, rank)


def _by_place(value: Value, rank: int) -> None:
    """A constant has one row, or none."""
    if value.kind == "constant" and len(value.dims) >= rank:
        if len(value.dims) > rank or value.dims[0] != 1:
            raise _Odd("treats rows by their place")


def _gather(values: list[Value], axis: int) -> None:
    data, index = values
    if data.kind == "rows" and index.kind == "constant":
        _off_rows([axis], len(data.dims))
    elif not (data.kind == "constant" and index.kind == "rows" and axis == 0 and index.dims):
        raise _Odd("looks rows up in rows")


def _off_rows(axes: list[int], rank: int) -> None:
    if not axes or not rank or any(axis % rank == 0 or not -rank <= axis < rank for axis in axes):
        raise _Odd("goes along the rows")
