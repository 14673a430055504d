"""Whether a bundle keeps its shapes, from its structure: no row is sampled.

A network of the kind `lipschitz` moves the place of a row as a shape says, for any weights; its
bell has one width. What is left to show is that range and prediction move the same way: tables cell
by cell, formulas in which the feature stands once, under sums, differences and constant factors;
and of members beside the network that their weights and trees do.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..kernel.answers import said_of
from ..kernel.directions import Direction
from ..kernel.expressions import columns_in
from ..kernel.graded import Graded, Limits
from ..kernel.knowledge import Known
from ..kernel.movement import along, has_holes, looks, moves
from ..kernel.numbersets import NumberKnown
from ..kernel.numbershapes import number_prediction_moves, number_range_moves
from ..kernel.proofs import Verdict, inside
from ..kernel.soft import Soft
from ..kernel.tables import Table
from .shapedmembers import odd_member

Array = Any  # of numpy


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
        found = _range_moves(known, shape)
        if found.status != "proved":
            return found
    weight = float(header["rely"] if beside is None else beside["expert"])
    heard = options["hears"] or options["start"] == "expert" or weight > 0
    heard = heard or known.leaning is not None
    told = Verdict("proved")
    soft = isinstance(known, Known) and bool(known.soft)
    for shape in known.directions if known.predict.sources or soft else ():
        found = _prediction_moves(known, shape)
        told = found if told.status == "proved" else told
    if heard and told.status != "proved":
        return told
    if beside is not None and odd_member(known, header, tensors or {}, told.status == "proved"):
        return Verdict("unknown")
    return Verdict("proved")


def _range_moves(known: Known | NumberKnown, shape: Direction) -> Verdict:
    if isinstance(known, NumberKnown):
        return number_range_moves(known, shape)
    sources = known.range.sources
    if not looks(sources, shape.column):
        return Verdict("proved")
    if all(isinstance(source, Table) for source in sources):
        return along(known, shape, sources, lambda x: said_of(known, x).allowed, _rises)
    strict = known.range.combine == "all" and (len(sources) == 1 or known.range.empty == "error")
    kept = all(
        not looks([source], shape.column)
        or (
            isinstance(source, Limits)
            and source.crossed == "error"
            and all(moves(tree, shape) for tree in source.trees)
        )
        for source in sources
    )
    return Verdict("proved" if strict and kept and not has_holes(known) else "unknown")


def _prediction_moves(known: Known | NumberKnown, shape: Direction) -> Verdict:
    if isinstance(known, NumberKnown):
        return number_prediction_moves(known, shape)
    sources = known.predict.sources
    around = [*sources, *known.range.sources, *known.soft]
    if not looks(around, shape.column):
        return Verdict("proved")
    if all(isinstance(source, Table) for source in around):
        return along(known, shape, around, lambda x: said_of(known, x).prior, _dominates)
    if known.soft or isinstance(sources[0], Soft):
        return Verdict("unknown")
    first = sources[0]
    kept = isinstance(first, Graded) and moves(first.tree, shape) and known.confusion is None
    silent = known.range.sources and known.conflict != "error"
    if not kept or has_holes(known) or (silent and inside(known).status != "proved"):
        return Verdict("unknown")
    return Verdict("proved")


def _rises(low: Array, high: Array) -> Array:
    """The strong set order of two ranges, (n, k) each."""
    at, k = np.arange(low.shape[1]), low.shape[1]
    lost = np.where(low & ~high, at, -1).max(1) < np.where(high, at, k).min(1)
    won = np.where(high & ~low, at, k).min(1) > np.where(low, at, -1).max(1)
    return lost & won


def _dominates(low: Array, high: Array) -> Array:
    """First-order dominance, where both speak or neither does."""
    rises = (high.cumsum(1) <= low.cumsum(1) + 1e-6).all(1)
    return rises & (low.any(1) == high.any(1))
