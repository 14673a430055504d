"""An ONNX file: that its structure keeps the range, and that it says what the knowledge says."""

import json
from typing import Any

import numpy as np

from ..errors import KnowledgeError
from ..kernel.answers import said_of
from ..kernel.expressions import value
from ..kernel.graded import Limits
from ..kernel.graph.knowledge import compile_knowledge
from ..kernel.graph.outputs import choose_class, mask_range, median_class, squeeze
from ..kernel.knowledge import Known
from .bundles import digest
from .expect import Mismatch, Named, Terms, expect
from .headers import name_faults, read_json
from .probabilities import Mixture, read_mixture
from .rowwise import OPERATORS, crossing

Array = Any  # of numpy

OPSET = 17  # whose operators the checker knows
_LEARNED = ("scaler.", "beside.")  # how constants are called that were learned from rows


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


def structure(graph: Graph) -> list[str]:
    """What keeps the graph from being safe by its structure alone; nothing where it is."""
    wrong = plain_faults(graph)
    outputs = {value.name for value in graph.model.graph.output}
    if not {"probabilities", "allowed", "class", "refused"} <= outputs:
        return [*wrong, "it does not give probabilities, class, allowed and refused"]
    learned = learned_names(graph, "allowed")
    if learned:
        wrong.append(f"the range depends on the network: {learned[0]}")
    try:
        read_mixture(graph)
    except Mismatch as error:
        wrong.append(f"its probabilities are no weighted sum of softmaxes in the range: {error}")
    return wrong


def other_names(graph: Graph, known: Known) -> list[str]:
    """What the graph calls its columns and classes otherwise than the knowledge does."""
    try:
        told = [
            read_json(graph.metadata[f"fedlore.{key}"].encode(), f"the graph's {key}")
            for key in ("classes", "features")
        ]
    except KeyError:
        return ["it does not name its features and classes"]
    return name_faults(told[0], told[1], known)


def other_forms(graph: Graph, known: Known) -> tuple[list[str], int]:
    """What the graph computes otherwise than the knowledge demands, and how many nodes say so."""
    o, p = Terms(), Named("probabilities")
    needed = compile_knowledge(o, known)
    chosen = choose_class(o, p, needed.prior, needed.refused)
    outputs = {
        "allowed": mask_range(o, needed, known.k),
        "refused": squeeze(o, needed.refused),
        "class": median_class(o, p, needed.refused) if known.directions else chosen,
    }
    wrong, count = [], 0
    try:
        found = read_mixture(graph)
        wrong += _other_trust(found, known)
        if found.prior is not None and needed.prior is not None:
            outputs[found.prior] = needed.prior
        # of a mixture λ lies in [0, 1], which is all that matters here
        if isinstance(found.trust, str) and needed.trust is not None and found.single:
            outputs[found.trust] = needed.trust
    except Mismatch as error:
        wrong.append(f"{error}")
    for name, term in outputs.items():
        try:
            count += expect(graph, name, term)
        except Mismatch as error:
            wrong.append(f"{error}")
    return wrong, count


def _other_trust(found: Mixture, known: Known) -> list[str]:
    """How the expert is trusted otherwise than the knowledge says."""
    spoken = bool(known.predict.sources or known.soft)
    if (found.prior is not None) != spoken:
        return ["the expert's part of the probabilities is not the knowledge's"]
    if isinstance(found.trust, str):
        by_row = known.leaning is not None
        return [] if by_row else ["it trusts the expert row by row, the knowledge by one number"]
    withheld = bool(known.directions) and found.trust == 0  # what moves another way
    if not spoken or not found.single or withheld:
        return []
    if known.leaning is not None:
        return ["it trusts the expert by one number, the knowledge row by row"]
    if found.trust != np.float32(known.trust):
        return [f"it trusts the expert by {found.trust:g}, not by {known.trust:g}"]
    return []


def differences(graph: Graph, known: Known, x: Array) -> list[str]:
    """Where the graph does not do on rows what the knowledge and the definition demand."""
    single = x.astype(np.float32)
    clear = ~_on_an_edge(known, single)
    said = said_of(known, single)
    got = graph.run(x)
    p, allowed, refused = got["probabilities"], got["allowed"], got["refused"]
    wrong = []
    outside = p != 0
    outside &= ~(said.allowed & ~said.refused[:, None])
    if outside[clear].any():
        row = int(np.flatnonzero(outside.any(1) & clear)[0])
        wrong.append(
            f"a class outside the range has probability {p[row].max():g} at {row_text(x, row)}"
        )
    if (refused != said.refused)[clear].any():
        row = int(np.flatnonzero((refused != said.refused) & clear)[0])
        wrong.append(f"it refuses other rows than the knowledge does, such as {row_text(x, row)}")
    answered = clear & ~refused & ~said.refused
    if (allowed != said.allowed)[answered].any():
        row = int(np.flatnonzero((allowed != said.allowed).any(1) & answered)[0])
        wrong.append(f"its range is not that of the knowledge at {row_text(x, row)}")
    if not np.isfinite(p).all() or (np.abs(p[answered].sum(1) - 1) > 1e-4).any():
        wrong.append("its probabilities are not numbers that sum to 1")
    chosen = got["class"]
    if not said.allowed[answered, chosen[answered]].all():
        wrong.append("it predicts a class outside the range")
    return wrong


def _on_an_edge(known: Known, x: Array) -> Array:
    """Rows where a formula lies so near to an edge that rounding decides."""
    near = np.zeros(len(x), bool)
    for source in (*known.range.sources, *known.predict.sources, *known.soft):
        values = [value(tree, x) for tree in source.trees]
        for one in values:
            away = np.abs(one[:, None] - source.edges[None])
            near |= (away <= 1e-5 * np.maximum(np.abs(source.edges), 1)).any(1)
        if isinstance(source, Limits) and len(values) == 2:
            apart = np.abs(values[0] - values[1])
            near |= apart <= 1e-4 * np.maximum(np.abs(values[0]), np.abs(values[1]))
    return near


def row_text(x: Array, row: int) -> list[float]:
    """A row of a table as plain numbers."""
    found: list[float] = x[row].tolist()
    return found
