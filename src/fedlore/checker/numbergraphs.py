"""The graph of a number: that its structure keeps the set, and that the set is the knowledge's."""

import json
from typing import Any

import numpy as np

from ..kernel.expressions import value
from ..kernel.graph.numbers import number_outputs
from ..kernel.graph.sets import SetNodes
from ..kernel.numbersets import NumberKnown, refused_rows, sets_of
from ..kernel.prove import sample_rows
from .expect import Free, Mismatch, Named, Terms, expect
from .graphs import Graph, learned_names, plain_faults, row_text
from .headers import name_faults

Array = Any  # of numpy
_OUTPUTS = {"number", "interval", "lower", "upper", "refused"}
_NEAR = 1e-5  # of an end's size: what computing a formula in another order may change


def number_structure(graph: Graph) -> list[str]:
    """What keeps the number from lying in its set by structure alone; nothing where it does."""
    wrong = plain_faults(graph)
    outputs = {value.name for value in graph.model.graph.output}
    if outputs - {"unapplied"} != _OUTPUTS:  # which tells of rules, and decides nothing
        return [*wrong, "it does not give number, interval, lower, upper and refused alone"]
    for name in ("lower", "upper"):
        learned = learned_names(graph, name)
        if learned:
            wrong.append(f"the set depends on the network: {learned[0]}")
    o = Terms()
    sets = SetNodes(Named("lower"), Named("upper"))
    number, interval, refused = number_outputs(o, sets, Free(), [Free(), Free(), Free()])
    free: dict[Free, str] = {}
    try:
        for name, term in (("number", number), ("interval", interval), ("refused", refused)):
            expect(graph, name, term, free)
    except Mismatch as error:
        wrong.append(f"its number is not the nearest one of the set that it gives out: {error}")
    return wrong


def other_target(graph: Graph, known: NumberKnown) -> list[str]:
    """What the graph says of its number otherwise than the knowledge does."""
    try:
        said = json.loads(graph.metadata["fedlore.target"])
    except (KeyError, ValueError):
        return ["it does not say what its number is"]
    own = {"lower": known.lower, "upper": known.upper, "name": known.target.get("name", "y")}
    try:
        features = json.loads(graph.metadata["fedlore.features"])
    except (KeyError, ValueError):
        return ["it does not name its features"]
    other = [key for key, told in own.items() if said.get(key) != told]
    wrong = [f"its target has another '{other[0]}' than the knowledge"] if other else []
    return wrong + name_faults([], features, known)


def number_differences(graph: Graph, known: NumberKnown, x: Array) -> list[str]:
    """Where the graph does not do on rows what the knowledge demands."""
    single = x.astype(np.float32)
    sets, refused = sets_of(known, single), refused_rows(known, single)
    clear = ~undecided_rows(known, single)
    got = graph.run(x)
    wrong = []
    other = (got["refused"] != refused) & clear
    if other.any():
        row = int(np.flatnonzero(other)[0])
        wrong.append(f"it refuses other rows than the knowledge does, such as {row_text(x, row)}")
    for row in np.flatnonzero(clear & ~refused & ~got["refused"]).tolist():
        own, told = sets.row(known, row), _told(got, row)
        if not _alike(own, told):
            wrong.append(f"its set is {told}, the knowledge's {own} at {row_text(x, row)}")
            break
    answered = ~got["refused"]
    for what, values in (("number", got["number"]), ("interval", got["interval"].T)):
        for part in np.atleast_2d(values):
            if not _in_told(got, part)[answered].all():
                wrong.append(f"its {what} is outside the set that it gives out")
    return wrong


def number_rows(known: NumberKnown, seed: int) -> Array:
    """Rows to run a graph on: random ones, corners, and both sides of every threshold."""
    return sample_rows(known, 500, seed)


def _told(got: dict[str, Array], row: int) -> list[tuple[float, float]]:
    """The intervals of one row as the graph gives them out, those that touch made one."""
    pairs = sorted(
        (float(a), float(b))
        for a, b in zip(got["lower"][row], got["upper"][row], strict=True)
        if not np.isnan(a)
    )
    joined: list[tuple[float, float]] = []
    for low, high in pairs:
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def _alike(a: list[tuple[float, float]], b: list[tuple[float, float]]) -> bool:
    if len(a) != len(b):
        return False
    ends = zip(np.ravel(a), np.ravel(b), strict=True)
    return all(abs(p - q) <= _NEAR * max(abs(p), abs(q), 1.0) for p, q in ends)


def _in_told(got: dict[str, Array], values: Array) -> Array:
    with np.errstate(invalid="ignore"):
        here = (got["lower"] <= values[:, None]) & (values[:, None] <= got["upper"])
    found: Array = here.any(1)
    return found


def undecided_rows(known: NumberKnown, x: Array) -> Array:
    """Rows where a formula lies so near to another end that rounding decides what is left."""
    near = np.zeros(len(x), bool)
    sources = (*known.range.sources, *known.predict.sources)
    trees = {str(tree): tree for source in sources for tree in source.trees}  # equal ones are one
    values = [value(tree, x).astype(float) for tree in trees.values()]
    fixed = [end for end in np.unique(known.pieces) if np.isfinite(end)]
    for place, one in enumerate(values):
        for other in (*values[place + 1 :], *fixed):
            size = np.maximum(np.maximum(np.abs(one), np.abs(other)), 1.0)
            with np.errstate(invalid="ignore"):
                near |= np.abs(one - other) <= 1e-4 * size
    return near
