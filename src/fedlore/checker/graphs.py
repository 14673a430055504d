"""An ONNX file: that its structure keeps the range, and that it says what the knowledge says."""

import json
from typing import Any

import numpy as np

from ..errors import KnowledgeError
from ..kernel.knowledge import Known
from .bundles import digest
from .headers import name_faults, read_json
from .rowwise import OPERATORS, crossing

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
