"""An ONNX file, held against what the kernel's compiler makes of its knowledge.

Every value is known by a hash of how it is computed, down to the rows and the last bit of each
constant; names do not matter. The compiler makes the same hashes of the certified texts: what the
graph gives out must be equal. Free is only what was learned, the scores that are made finite.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..errors import KnowledgeError
from ..kernel.graph.knowledge import (
    KnowledgeNodes,
    Part,
    add_expert,
    choose_class,
    compile_knowledge,
    inside_range,
    mask_range,
    median_class,
    mix_parts,
    squeeze,
)
from ..kernel.graph.numbers import SetNodes, bound_rows, compile_number_knowledge, number_outputs
from ..kernel.graph.ops import BOOL, CODES, DOUBLE, INT64, SINGLE, Array, NamedOps, Node
from ..kernel.knowledge import Known
from .bundles import read_json
from .certificate import digest
from .layers import ROWS, Layer, crossing, infer_shapes

OPSET, FORMAT = 17, "1"
NEAR = 1e-6  # by which weights may miss a sum of 1
_OTHERWISE = "'{}' is not computed as the knowledge demands"


class Hashes(NamedOps):
    """The compiler's backend that names every value by how it is computed."""

    def __init__(self) -> None:
        self.rows = self.named(digest(b"rows"), DOUBLE)
        self.made: set[str] = set()

    def make(self, kind: str, inputs: list[str], count: int, about: dict[str, Any]) -> list[str]:
        found = [_hash(kind, inputs, about, count, place) for place in range(count)]
        self.made.update(found)
        return found

    def constant(self, value: Any, dtype: Any = SINGLE) -> Node:
        return self.named(_tensor(np.asarray(value, dtype)), dtype)

    def weight(self, name: str, values: Array) -> Node:
        return self.named(_tensor(values), values.dtype.type)


def _hash(kind: str, inputs: Sequence[str], about: Mapping[str, Any], count: int, at: int) -> str:
    return digest(json.dumps([kind, *inputs, sorted(about.items()), count, at]).encode())


def _tensor(values: Array) -> str:
    about = f"{values.dtype.str}{values.shape}".encode()
    return digest(about + np.ascontiguousarray(values).tobytes())


class Output(NamedTuple):
    """What a graph must give out: its type, its shape behind the rows, and how it is computed."""

    type: Any
    shape: tuple[int, ...]
    value: Node | None  # None: row by row, however


class Graph:
    """A loaded model: layers, constants, what it says of itself."""

    def __init__(self, data: bytes) -> None:
        import onnx

        try:
            self.model = onnx.load_from_string(data)
            onnx.checker.check_model(self.model, full_check=True)
        except Exception as error:  # protobuf and onnx have classes of their own for every fault
            raise KnowledgeError(f"not a valid ONNX model: {str(error)[:200]}") from None
        graph = self.model.graph
        if any(tensor.external_data for tensor in graph.initializer):
            raise KnowledgeError("it keeps numbers in other files, and those were not certified")
        odd = [t.name for t in graph.initializer if t.data_type not in CODES.values()]
        odd += [i.name for i in graph.input if i.name in {t.name for t in graph.initializer}]
        if odd:
            raise KnowledgeError(f"'{odd[0]}' is a constant of an unknown type")
        attribute = onnx.helper.get_attribute_value
        self.layers = [
            Layer(n.op_type, n.input, n.output, {a.name: _plain(attribute(a)) for a in n.attribute})
            for n in graph.node
        ]
        to_array = onnx.numpy_helper.to_array
        self.constants: dict[str, Array] = {t.name: to_array(t) for t in graph.initializer}
        self.metadata = {entry.key: entry.value for entry in self.model.metadata_props}
        if len(self.metadata) < len(self.model.metadata_props):
            raise KnowledgeError("its metadata has a key twice")
        self.made = {name: layer for layer in self.layers for name in layer.outputs}

    @cached_property
    def values(self) -> dict[str, str]:
        """How each value is computed, hashed."""
        known = {name: _tensor(values) for name, values in self.constants.items()}
        known |= {"": "", "rows": digest(b"rows")}
        for op, inputs, outputs, about in self.layers:
            parts = [known[name] for name in inputs]
            for place, out in enumerate(outputs):
                known[out] = _hash(op, parts, about, len(outputs), place)
        return known

    @property
    def weights(self) -> dict[str, Array]:
        """The network's parameters, by the names they have in the bundle."""
        return {n.removeprefix("model."): v for n, v in self.constants.items() if n[:6] == "model."}

    def knowledge(self) -> dict[str, str]:
        """The texts that it was made from."""
        text = self.metadata.get("fedlore.knowledge.files")
        if text is None:
            raise KnowledgeError("the file does not hold the knowledge it was made from")
        return {str(name): str(one) for name, one in read_json(text.encode(), "a graph").items()}

    def digests(self) -> dict[str, str]:
        return {value.name: self.values[value.name] for value in self.model.graph.output}

    def run(self, x: Array) -> dict[str, Array]:
        """All outputs on rows (n, d), by onnx's own reference evaluator."""
        import warnings

        from onnx.reference import ReferenceEvaluator

        names = [value.name for value in self.model.graph.output]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ReferenceEvaluator(self.model).run(None, {"rows": x.astype(np.float64)})
        return dict(zip(names, found, strict=True))

    def guarded(self, o: Hashes, dtype: Any) -> list[tuple[Node, Node]]:
        """The scores that are made finite, and what comes of them, in the order of the nodes."""
        found = []
        for layer in self.layers:
            chosen = self.made.get(layer.inputs[0]) if layer.op == "Clip" else None
            if chosen is not None and chosen.op == "Where":
                score = o.named(self.values[chosen.inputs[-1]], dtype)
                made = o.guard(score, dtype)
                if made.name == self.values[layer.outputs[0]]:
                    found.append((score, made))
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, int | float):
        return value
    return value.decode() if isinstance(value, bytes) else [_plain(one) for one in value]


def graph_faults(graph: Graph, known: Known, expert: float | None) -> list[str]:
    """Where a graph differs from the one of its knowledge, whatever network is before its scores.

    `expert` is λ where the certificate says one for all rows.
    """
    o = Hashes()
    try:
        if known.line is not None:
            outputs = _number_outputs(o, graph, known)
        else:
            outputs = _class_outputs(o, graph, known, expert)
    except KnowledgeError as error:
        return [f"{error}"]
    if any(column.may_miss or column.other for column in known.columns):
        outputs["unapplied"] = Output(INT64, (len(known.columns),), None)
    wrong = _frame_faults(graph, outputs, len(known.columns))
    for name, one in outputs.items():
        if one.value is not None and one.value.name != graph.values.get(name):
            wrong.append(_OTHERWISE.format(name))
    return wrong or _layer_faults(graph, o)


def _frame_faults(graph: Graph, outputs: Mapping[str, Output], width: int) -> list[str]:
    """What is wrong with inputs and outputs: names, order, types and shapes; and with the file."""
    model, inside = graph.model, graph.model.graph
    wanted = [(name, CODES[one.type], one.shape) for name, one in outputs.items()]
    sets = [(entry.domain, entry.version) for entry in model.opset_import]
    odd = [*model.functions, *model.training_info, *inside.sparse_initializer]
    odd += [*inside.value_info, *inside.quantization_annotation]  # a runtime believes them
    odd += [node for node in inside.node if node.name or node.domain]
    faults = {
        "it uses more than operator set 17": sets != [("", OPSET)] or bool(odd),
        "its input is not rows of float64": list(map(_about, inside.input))
        != [("rows", CODES[DOUBLE], (width,))],
        "its outputs have the wrong names, order or types": list(map(_about, inside.output))
        != wanted,
        "it has nodes or constants that no output uses": _unused(graph),
    }
    return [words for words, wrong in faults.items() if wrong]


def _about(value: Any) -> tuple[str, int, tuple[int, ...]]:
    """Name, type, and shape behind the rows."""
    first, *rest = value.type.tensor_type.shape.dim or [None]
    free = first is not None and first.dim_param == ROWS
    return (
        value.name,
        value.type.tensor_type.elem_type,
        tuple(d.dim_value for d in rest) if free else (-1,),
    )


def _unused(graph: Graph) -> bool:
    wanted = {value.name for value in graph.model.graph.output}
    for layer in reversed(graph.layers):
        if not wanted & set(layer.outputs):
            return True
        wanted |= set(layer.inputs)
    return not set(graph.constants) <= wanted


def _layer_faults(graph: Graph, o: Hashes) -> list[str]:
    compiled = {name for name, value in graph.values.items() if value in o.made}
    shapes = infer_shapes(graph.model)
    across = crossing(graph.layers, graph.constants, shapes, compiled)
    return [] if across is None else [f"before the scores, {across}"]


def _class_outputs(
    o: Hashes, graph: Graph, known: Known, expert: float | None
) -> dict[str, Output]:
    """What a graph of classes must give out."""
    nodes = compile_knowledge(o, known if expert is None else replace(known, trust=expert))
    allowed = mask_range(o, nodes, known.k)
    if graph.values.get("allowed") != allowed.name:
        raise KnowledgeError(_OTHERWISE.format("allowed"))
    dtype: Any = SINGLE
    scores = [made for _, made in graph.guarded(o, SINGLE)]
    if len(scores) == 1:
        parts = [Part(scores[0])]
        if expert is not None and expert != known.trust and not (known.directions and expert == 0):
            raise KnowledgeError(
                f"its trust in the expert is {expert:g}, the knowledge says {known.trust:g}"
            )
    else:  # an ensemble: the second are the network's at their temperature
        dtype = DOUBLE
        members = [made for _, made in graph.guarded(o, DOUBLE)]
        parts = _weigh(o, graph, [*(o.cast(one, DOUBLE) for one in scores[1:2]), *members], allowed)
    mixed = mix_parts(o, parts, allowed, dtype)
    p = inside_range(o, _hear(o, graph, nodes, mixed, expert, allowed, dtype), allowed, dtype)
    if known.directions:
        chosen = median_class(o, p, nodes.refused)
    else:
        chosen = choose_class(o, p, nodes.prior, nodes.refused)
    return {
        "probabilities": Output(SINGLE, (known.k,), p),
        "class": Output(INT64, (), chosen),
        "allowed": Output(BOOL, (known.k,), allowed),
        "refused": Output(BOOL, (), squeeze(o, nodes.refused)),
    }


def _hear(
    o: Hashes, graph: Graph, nodes: KnowledgeNodes, mixed: Node, expert: float | None,
    allowed: Node, dtype: Any,
) -> Node:  # fmt: skip
    """The ensemble with the expert's part: λ of each row where the knowledge says so."""
    if nodes.prior is None:
        return mixed
    prior = nodes.prior if dtype is SINGLE else o.cast(nodes.prior, dtype)
    ways = [] if expert is None else [o.constant(expert, dtype)]
    if nodes.trust is not None:
        rows = nodes.trust if dtype is SINGLE else o.cast(nodes.trust, dtype)
        # withheld where he moves against a shape: then λ is 0 for all rows
        ways = [rows, *(ways if expert == 0 else [])]
    found: list[Node] = [add_expert(o, mixed, prior, trust, dtype) for trust in ways]
    values = set(graph.values.values())
    there = [one for one in found if inside_range(o, one, allowed, dtype).name in values]
    if not found:
        raise KnowledgeError("the certificate does not state the expert's weight")
    return (there or found)[0]


def _weigh(o: Hashes, graph: Graph, scores: list[Node], allowed: Node) -> list[Part]:
    """The members with the constants that they are multiplied by, which sum to 1."""
    if len(scores) < 2:
        return [Part(score) for score in scores]
    values = graph.values
    times = {values[l.inputs[0]]: l.inputs[1] for l in graph.layers if l.op == "Mul"}
    shares = [mix_parts(o, [Part(score)], allowed, DOUBLE) for score in scores]
    names = [times.get(share.name, "") for share in shares]
    weights = [graph.constants.get(name, np.zeros(0)) for name in names]
    total = float(sum(w.sum() for w in weights))
    fine = all(w.shape == () and w.dtype == DOUBLE and 0 <= w <= 1 for w in weights)
    if not fine or not abs(total - 1) <= NEAR:
        raise KnowledgeError("the weights of its members are not numbers in [0, 1] that sum to 1")
    named = (o.named(values[name], DOUBLE) for name in names)
    return [Part(score, weight) for score, weight in zip(scores, named, strict=True)]


def _number_outputs(o: Hashes, graph: Graph, known: Known) -> dict[str, Output]:
    """What a graph of a number must give out."""
    nodes = compile_number_knowledge(o, known)
    sets = nodes.sets or bound_rows(o, (known.number.lower, known.number.upper))
    ends = SetNodes(o.op("Identity", sets.lower), o.op("Identity", sets.upper))
    numbers = [score for score, _ in graph.guarded(o, DOUBLE)]
    if len(numbers) < 3:
        raise KnowledgeError("number and interval are not made finite")
    number, interval, refused = number_outputs(o, ends, nodes.refused, numbers[-3:])
    return {
        "number": Output(DOUBLE, (), number),
        "interval": Output(DOUBLE, (2,), interval),
        "lower": Output(DOUBLE, (sets.width,), ends.lower),
        "upper": Output(DOUBLE, (sets.width,), ends.upper),
        "refused": Output(BOOL, (), refused),
    }
