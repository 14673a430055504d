"""That a graph's probabilities are a weighted sum of softmaxes behind the range, by its nodes."""

from typing import Any, NamedTuple

import numpy as np

from ..kernel.graph.ops import DOUBLE, SINGLE, Value
from ..kernel.graph.outputs import Part, add_expert, inside_range, mix_parts
from .expect import Free, Mismatch, Named, Terms, expect

NEAR = 1e-6  # by which weights may miss a sum of 1


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
    told: tuple[Value, Value] | None = None
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
