"""Whether a graph keeps its answers in the range by its structure, and computes the knowledge.

The nodes that the compiler makes are expected one by one, with attributes and constants; what they
are called does not matter. Free is only what was learned, the scores of the members, which are made
finite behind it.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..kernel.answers import numbers_of, said_of, sets_of
from ..kernel.graph.knowledge import (
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
from ..kernel.graph.ops import DOUBLE, SINGLE, Array, Ops
from ..kernel.knowledge import Known
from .graphs import Graph, learned_names, plain_faults


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


NEAR = 1e-6  # by which weights may miss a sum of 1
_CLASSES = {"probabilities", "allowed", "class", "refused"}
_NUMBER = {"number", "interval", "lower", "upper", "refused"}


def structure(graph: Graph, *, number: bool) -> list[str]:
    """What keeps the graph from being safe by its structure alone; nothing where it is."""
    wrong, what = plain_faults(graph), "set" if number else "range"
    outputs = {value.name for value in graph.model.graph.output} - {"unapplied"}
    if outputs != (_NUMBER if number else _CLASSES):  # `unapplied` decides nothing
        return [*wrong, f"its outputs are {', '.join(sorted(outputs))}"]
    for name in ("lower", "upper") if number else ("allowed",):
        learned = learned_names(graph, name)
        if learned:
            wrong.append(f"the {what} depends on the network: {learned[0]}")
    try:
        _read_number(graph) if number else read_mixture(graph)
    except Mismatch as error:
        how = "the nearest one of the set" if number else "a weighted sum of softmaxes in the range"
        wrong.append(f"what it gives out is not {how}: {error}")
    return wrong


def other_forms(graph: Graph, known: Known) -> tuple[list[str], int]:
    """What the graph computes otherwise than the knowledge demands, and how many nodes say so."""
    try:
        if known.line is not None:
            outputs = _number_forms(graph, known)
        else:
            outputs = _class_forms(graph, known)
    except Mismatch as error:
        return [f"{error}"], 0
    wrong, count = [], 0
    for name, term in outputs.items():
        try:
            count += expect(graph, name, term)
        except Mismatch as error:
            wrong.append(f"{error}")
    return wrong, count


def differences(graph: Graph, known: Known, x: Array) -> list[str]:
    """Where the graph does not do on rows what the knowledge and the definition demand."""
    got = graph.run(x)
    if known.line is not None:
        return _other_number(got, known, x)
    return _other_class(got, known, x)


class Mixture(NamedTuple):
    """The weights of the members, of what the expert leaves them, and the values of his part."""

    weights: list[float]
    prior: str | None  # his rows; None where there is none
    trust: str | float  # λ, or the value that computes it for each row
    single: bool  # whether there is the network alone


def read_mixture(graph: Any) -> Mixture:
    """How the probabilities are put together; `Mismatch` where they are no such sum."""
    o, free = Terms(), dict[Free, str]()
    name = _input(graph, "probabilities", "Where", 1)
    single = _kind(graph, name) != "Cast"
    dtype = SINGLE if single else DOUBLE
    name = name if single else _input(graph, name, "Cast", 0)
    kept = _input(graph, name, "Add", 0) if _kind(graph, name) == "Add" else ""
    expert = kept and _kind(graph, _input(graph, kept, "Mul", 1)) == "Sub"
    prior, trust = Free(), Free()
    told: tuple[Needed, Needed] | None = None
    if expert:
        told = prior, trust
        if not single:
            weight = _input(graph, _input(graph, name, "Add", 1), "Mul", 1)
            rows = _kind(graph, weight) == "Cast"
            told = o.cast(prior, DOUBLE), o.cast(trust, DOUBLE) if rows else trust
        name = _input(graph, kept, "Mul", 0)
    count = 1
    while _kind(graph, name) == "Add":
        name, count = _input(graph, name, "Add", 0), count + 1
    shares = [Free(constant=True) for _ in range(count)] if count > 1 else [None]
    scores = [o.guard(Free(), dtype if place else SINGLE) for place in range(count)]
    scores[0] = scores[0] if single else o.cast(scores[0], DOUBLE)
    mixed = mix_parts(o, [*map(Part, scores, shares)], Named("allowed"), dtype)
    mixed = mixed if told is None else add_expert(o, mixed, *told, dtype)
    expect(graph, "probabilities", inside_range(o, mixed, Named("allowed"), dtype), free)
    weights = [1.0 if one is None else _number(graph, free[one]) for one in shares]
    if any(not 0.0 <= w <= 1.0 for w in weights) or abs(sum(weights) - 1.0) > NEAR:
        raise Mismatch(f"the weights of its members are {weights}, which do not sum to 1")
    if told is None:
        return Mixture(weights, None, 0.0, single)
    return Mixture(weights, free[prior], _trust(graph, free[trust]), single)


def _trust(graph: Any, name: str) -> str | float:
    """λ in [0, 1]: a number, or what cuts it off at both ends for each row."""
    if name in graph.constants:
        found = _number(graph, name)
        if not 0.0 <= found <= 1.0:
            raise Mismatch(f"λ is {found:g}")
        return found
    o, value = Terms(), Free()
    number = o.op("Where", o.op("IsNaN", value), o.constant(0.0), value)
    expect(graph, name, o.op("Clip", number, o.constant(0.0), o.constant(1.0)))
    return name


def _kind(graph: Any, name: str) -> str:
    node = graph.made.get(name)
    return "" if node is None else str(node.op_type)


def _input(graph: Any, name: str, kind: str, place: int) -> str:
    if _kind(graph, name) != kind or len(graph.made[name].input) <= place:
        raise Mismatch(f"'{name}' should come from {kind}, it comes from {_kind(graph, name)}")
    return str(graph.made[name].input[place])


def _number(graph: Any, name: str) -> float:
    value = graph.constants[name]
    if value.size != 1 or not np.isfinite(value).all():
        raise Mismatch(f"'{name}' should be one constant number")
    return float(value.ravel()[0])


def _class_forms(graph: Graph, known: Known) -> dict[str, Needed]:
    """The terms of all that a graph of classes must compute in one way."""
    o, p, found = Terms(), Named("probabilities"), read_mixture(graph)
    needed = compile_knowledge(o, known)
    other = _other_trust(found, known)
    if other is not None:
        raise Mismatch(other)
    chosen = choose_class(o, p, needed.prior, needed.refused)
    outputs = {
        "allowed": mask_range(o, needed, known.k),
        "refused": squeeze(o, needed.refused),
        "class": median_class(o, p, needed.refused) if known.directions else chosen,
    }
    if found.prior is not None:
        outputs[found.prior] = needed.prior
    # of a mixture λ lies in [0, 1], which is all that matters here
    if isinstance(found.trust, str) and found.single:
        outputs[found.trust] = needed.trust
    return outputs


def _other_trust(found: Mixture, known: Known) -> str | None:
    """How the expert is trusted otherwise than the knowledge says."""
    spoken = bool(known.predict.sources or known.soft)
    if (found.prior is not None) != spoken:
        return "the expert's part of the probabilities is not the knowledge's"
    by_row = known.row_trust is not None
    if isinstance(found.trust, str):
        return None if by_row else "it trusts the expert row by row, the knowledge by one number"
    withheld = bool(known.directions) and found.trust == 0  # what moves another way
    if not spoken or not found.single or withheld:
        return None
    if by_row:
        return "it trusts the expert by one number, the knowledge row by row"
    same = found.trust == np.float32(known.trust)
    return None if same else f"it trusts the expert by {found.trust:g}, not by {known.trust:g}"


def _read_number(graph: Graph) -> str:
    """The value that refuses rows, once number and interval were found to lie in the set."""
    o, refused, free = Terms(), Free(), dict[Free, str]()
    sets = SetNodes(Named("lower"), Named("upper"))
    terms = number_outputs(o, sets, refused, [Free(), Free(), Free()])
    for name, term in zip(("number", "interval", "refused"), terms, strict=True):
        expect(graph, name, term, free)
    return free[refused]


def _number_forms(graph: Graph, known: Known) -> dict[str, Needed]:
    """The terms of all that a graph of a number must compute in one way."""
    o = Terms()
    needed = compile_number_knowledge(o, known)
    sets = needed.sets or bound_rows(o, (known.number.lower, known.number.upper))
    return {
        "lower": o.op("Identity", sets.lower),
        "upper": o.op("Identity", sets.upper),
        _read_number(graph): needed.refused,
    }


def _other_class(got: dict[str, Array], known: Known, x: Array) -> list[str]:
    said = said_of(known, x.astype(SINGLE))
    p, allowed, refused = got["probabilities"], got["allowed"], got["refused"]
    wrong = _first(x, refused != said.refused, "it refuses other rows than the knowledge does")
    answered = ~refused & ~said.refused
    outside = (p != 0) & ~(said.allowed & ~said.refused[:, None])
    wrong += _first(x, outside.any(1), "a class outside the range has a probability")
    other = np.any(allowed != said.allowed, axis=1) & answered
    wrong += _first(x, other, "its range is not that of the knowledge")
    if not np.isfinite(p).all() or (np.abs(p[answered].sum(1) - 1) > 1e-4).any():
        wrong.append("its probabilities are not numbers that sum to 1")
    if not said.allowed[answered, got["class"][answered]].all():
        wrong.append("it predicts a class outside the range")
    return wrong


def _other_number(got: dict[str, Array], known: Known, x: Array) -> list[str]:
    single = x.astype(SINGLE)
    sets, refused = sets_of(known, single), numbers_of(known, single)[1]
    wrong = _first(x, got["refused"] != refused, "it refuses other rows than the knowledge does")
    answered = ~refused & ~got["refused"]
    if got["lower"].shape != sets.lower.shape:
        return [*wrong, "its set has another number of intervals"]
    for name, ours in (("lower", sets.lower), ("upper", sets.upper)):
        same = np.all(np.isclose(ours, got[name], 1e-12, 1e-12, equal_nan=True), axis=1)
        wrong += _first(x, ~same & answered, "its set is not that of the knowledge")
    for what, values in (("number", got["number"]), ("interval", got["interval"].T)):
        for part in np.atleast_2d(values):
            outside = answered & ~sets.holds(part)
            wrong += _first(x, outside, f"its {what} is outside the set that it gives out")
    return wrong


def _first(x: Array, wrong: Array, words: str) -> list[str]:
    """What is wrong with some rows, and the first of them."""
    return [f"{words}, such as {x[wrong.argmax()].tolist()}"] if wrong.any() else []
