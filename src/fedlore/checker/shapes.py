"""Whether a bundle keeps its shapes, from its structure: no row is sampled.

A network of the kind `lipschitz` moves the place of a row as a shape says, for any weights; its
bell has one width. What is left to show is that range and prediction move the same way: tables cell
by cell, formulas in which the feature stands once, under sums, differences and constant factors;
and of members beside the network that their weights and trees do.
"""

from collections.abc import Mapping
from typing import Any

from ..kernel.expressions import columns_in
from ..kernel.knowledge import Known
from ..kernel.movement import prediction_moves, range_moves
from ..kernel.numbersets import NumberKnown
from ..kernel.search import Verdict
from .shapedmembers import odd_member


def monotone(
    known: Known | NumberKnown, header: Mapping[str, Any], tensors: Mapping[str, Any] | None
) -> Verdict:
    """Whether more of a feature never moves the answer against its shape, over the whole scope.

    `tensors` are those of the members beside the network.
    """
    model, beside = header["model"], header.get("beside")
    options = model.get("options", {})
    if model["layer"] != "lipschitz":
        return Verdict("unknown")
    shaped = [shape.column for shape in known.directions]
    for shape in known.directions:
        looked = set() if shape.region is None else set(columns_in(shape.region))
        if shaped.count(shape.column) > 1 or looked & ({*shaped} - {shape.column}):
            return Verdict("unknown")
    if known.leaning is not None and known.leaning.columns & {*shaped}:
        return Verdict("unknown")  # λ moves with the feature
    for shape in known.directions:
        found = range_moves(known, shape)
        if found.status != "proved":
            return found
    weight = float(header["rely"] if beside is None else beside["expert"])
    heard = options["hears"] or options["start"] == "expert" or weight > 0
    heard = heard or known.leaning is not None
    told = Verdict("proved")
    soft = isinstance(known, Known) and bool(known.soft)
    for shape in known.directions if known.predict.sources or soft else ():
        found = prediction_moves(known, shape)
        told = found if told.status == "proved" else told
    if heard and told.status != "proved":
        return told
    if beside is not None and odd_member(known, header, tensors or {}, told.status == "proved"):
        return Verdict("unknown")
    return Verdict("proved")
