"""That each row of a graph is answered by itself: no operator sees one row beside another.

Every value is a constant, rows (its first axis is that of the rows), or the shape of rows, which
may do nothing but lengthen a constant. What does not fit a rule below is refused.
"""

from typing import Any, NamedTuple

import numpy as np

from ..errors import KnowledgeError

#: Value by value: rows meet rows of the same rank, and constants that have one row or none.
EACH = set(
    "Abs Add And Cast Clip Div Equal Erf Exp Greater GreaterOrEqual Identity IsInf IsNaN LeakyRelu "
    "Less LessOrEqual Log Max Min Mul Neg Not Or Pow Relu Sigmoid Sin Softplus Sqrt Sub Tanh "
    "Where".split()
)
#: Along an axis that an attribute names, with its default.
ALONG = {
    "ArgMax": 0,
    "ArgMin": 0,
    "Concat": 0,
    "GatherElements": 0,
    "LayerNormalization": -1,
    "ScatterElements": 0,
    "Softmax": -1,
    "TopK": -1,
}
#: Along axes that a constant input names: its place.
NAMED = {"CumSum": 1, "ReduceSum": 1, "Slice": 3, "Squeeze": 1, "Unsqueeze": 1}
#: Rows first, then constants: what networks are made of.
LAYERS = {"AveragePool", "Conv", "Gemm", "InstanceNormalization", "MatMul", "MaxPool"}
OPERATORS = {*EACH, *ALONG, *NAMED, *LAYERS}
OPERATORS |= {"Expand", "Flatten", "Gather", "ReduceMax", "ReduceMin", "Reshape", "Shape"}


class Value(NamedTuple):
    """What is known of a value."""

    kind: str  # constant, rows, or shape
    dims: tuple[int | None, ...]  # None where it is not fixed


class _RowsMeet(Exception):
    """An operator that could see one row beside another."""


def crossing(model: Any, constants: dict[str, Any]) -> str | None:
    """The first node that may mix rows, in words; None where there is none."""
    shapes = _shapes(model)
    known = {name: Value("constant", tuple(v.shape)) for name, v in constants.items()}
    known |= {"rows": Value("rows", shapes.get("rows", ())), "": Value("constant", ())}
    if len(known["rows"].dims) < 2 or known["rows"].dims[0] is not None:
        return "the rows have no number of their own"
    for node in model.graph.node:
        try:
            kind = _kind(node, known, constants)
        except _RowsMeet as error:
            return f"{node.op_type} that makes '{node.output[0]}' {error}"
        except (LookupError, TypeError, ValueError):
            return f"{node.op_type} that makes '{node.output[0]}' is of no known form"
        for out in node.output:
            if out and kind != "shape" and out not in shapes:
                return f"'{out}' has no known shape"
            known[out] = Value(kind, shapes.get(out, ()))
            if kind == "rows" and (not known[out].dims or known[out].dims[0] is not None):
                return f"{node.op_type} that makes '{out}' has no axis of rows in front"
    for value in model.graph.output:
        if known[value.name].kind != "rows":
            return f"'{value.name}' is not computed row by row"
    return None


def _shapes(model: Any) -> dict[str, tuple[int | None, ...]]:
    import onnx

    try:
        full = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    except Exception as error:  # onnx has classes of its own for every fault
        raise KnowledgeError(f"its shapes cannot be found: {str(error)[:200]}") from None
    found: dict[str, tuple[int | None, ...]] = {}
    for value in (*full.input, *full.value_info, *full.output):
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            found[value.name] = tuple(
                d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim
            )
    return found


def _kind(node: Any, known: dict[str, Value], constants: dict[str, Any]) -> str:
    """What a node makes of its inputs, or why it may not stand here."""
    op, values = node.op_type, [known[name] for name in node.input]
    about = {a.name: a for a in node.attribute}
    kinds = {value.kind for value in values}
    if op == "Shape":
        return _shape(values[0], about)
    if kinds == {"constant"}:
        return "constant"
    if op == "Concat" and "shape" in kinds:
        # the number of rows once, in front: twice it would become a width
        if [v.kind for v in values] != ["shape"] + ["constant"] * (len(values) - 1):
            raise _RowsMeet("uses the number of rows as a width")
        return "shape"
    if op in ("Expand", "Reshape"):
        return _reform(op, values, node, constants, about)
    if "shape" in kinds:
        raise _RowsMeet("looks at the number of rows")
    if op in EACH:
        _side_by_side(values)
        return "rows"
    if op == "Gather":
        return _gather(values, about)
    first, rest = values[0], values[1:]
    if op in ALONG:
        axis = about["axis"].i if "axis" in about else ALONG[op]
        _off_rows([axis], len(first.dims))
        if op in ("Concat", "GatherElements", "ScatterElements"):
            if kinds != {"rows"} or len({len(v.dims) for v in values}) > 1:
                raise _RowsMeet("puts constants beside rows")
        elif first.kind != "rows" or any(v.kind != "constant" for v in rest):
            raise _RowsMeet("takes rows where a constant belongs")
        return "rows"
    if first.kind != "rows" or any(v.kind != "constant" for v in rest):
        raise _RowsMeet("takes rows where a constant belongs")
    if op in NAMED:
        axes = np.ravel(constants[node.input[NAMED[op]]]).tolist()
        _off_rows(axes, len(first.dims) + (len(axes) if op == "Unsqueeze" else 0))
    elif op in ("ReduceMax", "ReduceMin"):
        _off_rows(list(about["axes"].ints), len(first.dims))
    elif op == "Flatten":
        if "axis" in about and about["axis"].i != 1:
            raise _RowsMeet("flattens rows into each other")
    else:
        _layer(op, first, rest, about)
    return "rows"


def _shape(value: Value, about: dict[str, Any]) -> str:
    if value.kind == "shape":
        raise _RowsMeet("looks at the number of rows")
    start = about["start"].i if "start" in about else 0
    end = about["end"].i if "end" in about else len(value.dims)
    dims = value.dims[start:end]
    rows = value.kind == "rows" and start == 0
    if start < 0 or end < 1 or None in (dims[1:] if rows else dims):
        raise _RowsMeet("has a shape that is not fixed")
    return "shape" if rows else "constant"


def _reform(
    op: str, values: list[Value], node: Any, constants: dict[str, Any], about: dict[str, Any]
) -> str:
    """A constant for every row, or each row in another form."""
    data, shape = values
    if data.kind == "shape" or shape.kind == "rows":
        raise _RowsMeet("looks at the number of rows")
    if op == "Expand":
        if shape.kind != "shape":
            raise _RowsMeet("repeats rows")
        (length,) = shape.dims
        if length is None or (data.kind == "rows" and len(data.dims) != length):
            raise _RowsMeet("lays rows across rows")
        if data.kind == "constant" and len(data.dims) >= length:
            if len(data.dims) > length or data.dims[0] != 1:
                raise _RowsMeet("treats rows by their place")
        return "rows"
    if "allowzero" in about and about["allowzero"].i:
        raise _RowsMeet("is of no known form")
    if data.kind != "rows" or (shape.kind == "constant" and constants[node.input[1]][0] != 0):
        raise _RowsMeet("puts rows into each other")
    return "rows"


def _side_by_side(values: list[Value]) -> None:
    ranks = {len(value.dims) for value in values if value.kind == "rows"}
    if len(ranks) > 1 or 0 in ranks:
        raise _RowsMeet("lays rows across rows")
    (rank,) = ranks
    for value in values:
        if value.kind == "constant" and len(value.dims) >= rank:
            if len(value.dims) > rank or value.dims[0] != 1:
                raise _RowsMeet("treats rows by their place")


def _gather(values: list[Value], about: dict[str, Any]) -> str:
    data, index = values
    axis = about["axis"].i if "axis" in about else 0
    if data.kind == "rows" and index.kind == "constant":
        _off_rows([axis], len(data.dims))
    elif not (data.kind == "constant" and index.kind == "rows" and axis == 0 and index.dims):
        raise _RowsMeet("looks rows up in rows")
    return "rows"


def _off_rows(axes: list[int], rank: int) -> None:
    if not axes or not rank or any(axis % rank == 0 or not -rank <= axis < rank for axis in axes):
        raise _RowsMeet("goes along the rows")


def _layer(op: str, first: Value, rest: list[Value], about: dict[str, Any]) -> None:
    if op not in LAYERS:
        raise _RowsMeet("is of no known form")
    if len(first.dims) < (2 if op in ("Gemm", "MatMul") else 3):
        raise _RowsMeet("goes along the rows")
    if op in ("Gemm", "MatMul") and len(rest[0].dims) > 2:
        raise _RowsMeet("lays rows across rows")
    if op == "Gemm":
        if "transA" in about and about["transA"].i:
            raise _RowsMeet("goes along the rows")
        if len(rest) > 1 and len(rest[1].dims) == 2 and rest[1].dims[0] != 1:
            raise _RowsMeet("treats rows by their place")
