"""An ONNX file: its nodes and constants, and that each row is answered by itself.

Every value is a constant, rows (its first axis is that of the rows), or the shape of rows, which
may do nothing but lengthen a constant. What does not fit a rule below is refused.
"""

import json
from typing import Any, NamedTuple

import numpy as np

from ..errors import KnowledgeError
from ..kernel.knowledge import Known
from .bundles import digest, name_faults, read_json

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


Array = Any  # of numpy

OPSET = 17  # whose operators the checker knows
_LEARNED = ("scaler.", "ensemble.")  # how constants are called that were learned from rows


class Graph:
    """A loaded model: who makes which value, and its constants."""

    def __init__(self, data: bytes) -> None:
        import onnx
        import onnx.numpy_helper

        try:
            self.model = onnx.load_from_string(data)
            onnx.checker.check_model(self.model, full_check=True)
        except Exception as error:  # protobuf and onnx have classes of their own for every fault
            raise KnowledgeError(f"no valid ONNX model: {str(error)[:200]}") from None
        graph = self.model.graph
        if any(tensor.external_data for tensor in graph.initializer):
            raise KnowledgeError("it keeps numbers in other files, and those were not certified")
        self.nodes = list(graph.node)
        self.made = {out: node for node in self.nodes for out in node.output}
        to_array = onnx.numpy_helper.to_array
        self.constants = {tensor.name: to_array(tensor) for tensor in graph.initializer}
        self.metadata = {entry.key: entry.value for entry in self.model.metadata_props}
        if len(self.metadata) < len(self.model.metadata_props):
            raise KnowledgeError("a key stands twice in its metadata")

    @property
    def weights(self) -> dict[str, Array]:
        """The network's parameters, by the names they have in the bundle."""
        return {n.removeprefix("model."): v for n, v in self.constants.items() if _is_weight(n)}

    def knowledge(self) -> dict[str, str]:
        try:
            text = self.metadata["fedlore.knowledge.files"]
            files = read_json(text.encode(), "the knowledge of the graph")
            return {str(name): str(text) for name, text in files.items()}
        except (KeyError, AttributeError):
            raise KnowledgeError("the file does not hold the knowledge it was made from") from None

    def digests(self) -> dict[str, str]:
        """A hash of how each output is computed, down to the last constant; names do not matter."""
        known = {name: digest(_tensor(values)) for name, values in self.constants.items()}
        known |= {"": "", "rows": digest(b"rows")}
        for node in self.nodes:
            about = sorted(part.SerializeToString(deterministic=True) for part in node.attribute)
            said = [node.op_type, *(known[name] for name in node.input), *(a.hex() for a in about)]
            for place, out in enumerate(node.output):
                known[out] = digest(json.dumps([place, *said]).encode())
        return {value.name: known[value.name] for value in self.model.graph.output}

    def behind(self, name: str) -> tuple[set[str], list[Any]]:
        """Everything that a value is computed from: names, and the nodes among them."""
        names, nodes, waiting = set(), {}, [name]
        while waiting:
            one = waiting.pop()
            if one in names:
                continue
            names.add(one)
            node = self.made.get(one)
            if node is not None:
                nodes[id(node)] = node
                waiting.extend(part for part in node.input if part)
        return names, list(nodes.values())

    def run(self, x: Array) -> dict[str, Array]:
        """All outputs on rows (n, d), by onnx's own reference evaluator."""
        import warnings

        from onnx.reference import ReferenceEvaluator

        names = [value.name for value in self.model.graph.output]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ReferenceEvaluator(self.model).run(None, {"rows": x.astype(np.float64)})
        return dict(zip(names, found, strict=True))


def _tensor(values: Array) -> bytes:
    return f"{values.dtype.str}{values.shape}".encode() + np.ascontiguousarray(values).tobytes()


def _is_weight(name: str) -> bool:
    return name.startswith("model.")


def plain_faults(graph: Graph) -> list[str]:
    """What keeps a graph of any task from being understood, row by row; nothing where it is."""
    wrong = []
    odd = sorted(
        {
            f"{n.domain}:{n.op_type}"
            for n in graph.nodes
            if n.domain not in ("", "ai.onnx") or n.op_type not in OPERATORS
        }
    )
    if odd:
        wrong.append(f"it has operators that are not understood: {', '.join(odd)}")
    sets = [(entry.domain, entry.version) for entry in graph.model.opset_import]
    if sets not in ([("", OPSET)], [("ai.onnx", OPSET)]):
        wrong.append(f"its operators are those of {sets}, not of set {OPSET}")
    if graph.model.functions:
        wrong.append("it defines functions of its own")
    inputs = [value.name for value in graph.model.graph.input]
    if inputs != ["rows"]:
        wrong.append(f"its inputs are {inputs}, not the rows alone")
    across = crossing(graph.model, graph.constants) if not odd else None
    if across is not None:
        wrong.append(f"a row's answer may hang on other rows: {across}")
    return wrong


def learned_names(graph: Graph, name: str) -> list[str]:
    """The constants learned from rows that a value is computed from."""
    names, _ = graph.behind(name)
    return sorted(one for one in names if _is_weight(one) or one.startswith(_LEARNED))


def other_names(graph: Graph, known: Known) -> list[str]:
    """What the graph calls its columns, and its classes or number, otherwise than the knowledge."""
    try:
        features = _metadata(graph, "features")
        if known.line is None:
            return name_faults(_metadata(graph, "classes"), features, known)
        target = _metadata(graph, "target")
    except KeyError as error:
        return [f"it does not say {error}"]
    own = {"lower": known.number.lower, "upper": known.number.upper, "name": known.number.name}
    other = [key for key, told in own.items() if target.get(key) != told]
    wrong = [f"its target has another '{other[0]}' than the knowledge"] if other else []
    return wrong + name_faults([], features, known)


def _metadata(graph: Graph, key: str) -> Any:
    return read_json(graph.metadata[f"fedlore.{key}"].encode(), f"the graph's {key}")
