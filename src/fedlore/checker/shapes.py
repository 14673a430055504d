"""Whether a bundle keeps its shapes, from its structure: no row is sampled.

A network of the kind `lipschitz` moves the place of a row as a shape says, for any weights; its
bell has one width. What is left to show is that range and prediction move the same way: tables cell
by cell, formulas in which the feature stands once, under sums, differences and constant factors;
and of members beside the network that their weights and trees do. Where a number is concave or
convex only the members speak: lines, knees and squares.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..kernel.answers import value
from ..kernel.cells import single
from ..kernel.expressions import columns_in
from ..kernel.knowledge import HEARD_OF_ORDER, Known
from ..kernel.movement import (
    looks,
    prediction_bends,
    prediction_moves,
    range_bends,
    range_is_whole,
    range_moves,
)
from ..kernel.prove import sample_rows
from ..kernel.search import Verdict
from .bundles import pick_tensors

Array = Any  # of numpy
_LARGEST = np.finfo(np.float32).max
ROUNDING = 1e-5  # by which rounding may move a number in single precision


def monotone(known: Known, header: Mapping[str, Any], tensors: Mapping[str, Any] | None) -> Verdict:
    """Whether more of a feature never moves the answer against its shape, over the whole scope.

    `tensors` are those of the members beside the network.
    """
    model, ensemble = header["model"], header.get("ensemble")
    options = model.get("options", {})
    if model["layer"] != "lipschitz":
        return Verdict("unknown")
    shaped = [column for column, _ in {(d.column, d.shape) for d in known.directions}]
    for shape in known.directions:
        looked = set() if shape.region is None else set(columns_in(shape.region))
        if shaped.count(shape.column) > 1 or looked & ({*shaped} - {shape.column}):
            return Verdict("unknown")
    if known.row_trust is not None and known.row_trust.columns & {*shaped}:
        return Verdict("unknown")  # λ moves with the feature
    for shape in known.directions:
        found = range_moves(known, shape)
        if found.status != "proved":
            return found
    weight = float(header["rely"] if ensemble is None else ensemble["expert"])
    heard = options["hears"] or options["start"] == "expert" or weight > 0
    heard = heard or known.row_trust is not None
    moves = Verdict("proved")
    soft = bool(known.soft)
    for shape in known.directions if known.predict.sources or soft else ():
        found = prediction_moves(known, shape)
        moves = found if moves.status == "proved" else moves
    if heard and moves.status != "proved":
        return moves
    if ensemble is not None and odd_member(known, header, tensors or {}, moves.status == "proved"):
        return Verdict("unknown")
    return Verdict("proved")


def monotone_rows(
    known: Known, run: Callable[[Array], Mapping[str, Array]], expert: float | None
) -> tuple[Verdict, int]:
    """The same of a graph: range and prediction by proof, its network on so many rows; -1: one of
    them moves the answer the other way."""
    moves = Verdict("proved")
    for shape in known.directions:
        found = range_moves(known, shape)
        if found.status == "proved" and (expert or known.row_trust is not None):
            found = prediction_moves(known, shape)
        moves = found if moves.status == "proved" else moves
    if moves.status != "proved":
        return moves, 0
    tested, name = 0, "number" if known.line is not None else "class"
    for shape in known.directions:
        low, drawn = sample_rows(known, 300, seed=3), sample_rows(known, 300, seed=4)
        high = low.copy()
        ends: tuple[Array, Array] = (low[:, shape.column], drawn[:, shape.column])
        if shape.side:
            stay = np.fmin if shape.side == "<=" else np.fmax
            ends = stay(ends[0], shape.turn), stay(ends[1], shape.turn)
        low[:, shape.column], high[:, shape.column] = np.fmin(*ends), np.fmax(*ends)
        if shape.region is not None:  # where the shape says something
            inside = [value(shape.region, x.astype(np.float32)) > 0 for x in (low, high)]
            low, high = (x[inside[0] & inside[1]] for x in (low, high))
        before, after = run(low), run(high)
        there = ~before["refused"] & ~after["refused"]
        moved = (after[name] - before[name])[there] * shape.sign
        if (moved < -ROUNDING * (1 + np.abs(before[name][there]))).any():
            return Verdict("refuted", tuple(low[there][moved.argmin()].tolist())), -1
        tested += int(there.sum())
    return moves, tested


def curvature(
    known: Known, header: Mapping[str, Any], tensors: Mapping[str, Any] | None
) -> Verdict:
    """Whether a number is concave or convex as its shapes say, over the whole scope.

    That is between rows in which it is not stopped at the end of its range that bends the other
    way: the lower end of what is concave, the upper one of what is convex.
    """
    ensemble, unknown = header.get("ensemble"), Verdict("unknown")
    columns = {bend.column for bend in known.bends}
    if ensemble is None or ensemble["network"] != 0 or not ensemble["members"]:
        return unknown
    if not range_is_whole(known) or len(columns) < len(known.bends):
        return unknown
    if known.row_trust is not None and known.row_trust.columns & columns:
        return unknown
    if any(range_bends(known, bend).status != "proved" for bend in known.bends):
        return unknown
    speaks = bool(known.predict.sources or known.soft)
    moves = all(prediction_bends(known, b).status == "proved" for b in known.bends if speaks)
    moves = moves and all(
        prediction_moves(known, one).status == "proved" for one in known.directions if speaks
    )
    if not moves and (ensemble["expert"] > 0 or known.row_trust is not None):
        return unknown
    return unknown if odd_member(known, header, tensors or {}, moves) else Verdict("proved")


def curvature_rows(
    known: Known, run: Callable[[Array], Mapping[str, Array]]
) -> tuple[Verdict, int]:
    """The same of a graph: the range by proof, members on so many rows; -1: some break it."""
    whole = range_is_whole(known)
    if not whole or any(range_bends(known, bend).status != "proved" for bend in known.bends):
        return Verdict("unknown"), 0
    tested = 0
    for bend in known.bends:
        first, drawn = sample_rows(known, 300, seed=5), sample_rows(known, 300, seed=6)
        ends = np.sort(np.stack([first[:, bend.column], drawn[:, bend.column]]), axis=0)
        three = [first.copy() for _ in range(3)]
        for row, at in zip(three, (ends[0], ends.mean(0), ends[1]), strict=True):
            row[:, bend.column] = at.astype(np.float32)
        low, middle, high = (run(row) for row in three)
        x = [row[:, bend.column].astype(np.float32).astype(np.float64) for row in three]
        with np.errstate(all="ignore"):
            line = low["number"] + (x[1] - x[0]) / (x[2] - x[0]) * (high["number"] - low["number"])
            near = ROUNDING * (1 + np.abs(line))
            free = x[0] < x[2]
            for found in (low, high):
                least = np.where(np.isnan(found["lower"]), np.inf, found["lower"]).min(1)
                most = np.where(np.isnan(found["upper"]), -np.inf, found["upper"]).max(1)
                gap = found["number"] - least if bend.sign < 0 else most - found["number"]
                free &= ~found["refused"] & (gap > near)
            free &= ~middle["refused"]
            over = (bend.sign * (middle["number"] - line))[free]
        if (over > near[free]).any():
            return Verdict("refuted", tuple(three[1][free][over.argmax()].tolist())), -1
        tested += int(free.sum())
    return Verdict("proved"), tested


def odd_member(
    known: Known, header: Mapping[str, Any], tensors: Mapping[str, Array], expert: bool
) -> str | None:
    """The name of a member that may break the shapes; `expert`: the prediction keeps them.

    The range is known to keep them.
    """
    signs, count = _signs(known, header, expert), 0
    for one in header["ensemble"]["members"]:
        own = pick_tensors(tensors, f"own.{count}.")
        count += one["kind"] != "one_shot"
        if one["kind"] not in ("order", "number") or not _keeps(one, own, signs):
            return str(one["name"])
    return None


def _signs(known: Known, header: Mapping[str, Any], expert: bool) -> Array:
    """Of every input and what is heard behind: 1, -1, 0 (free), NaN (no weight is allowed).

    (4, i + h): of one that turns the direction before, and below it the ends of its turn; last -1
    where the number is concave in it, 1 where it is convex, 2 where only a line keeps what bends
    before it is heard.
    """
    inputs = header.get("inputs")
    spots = spots_of(inputs, len(known.columns))
    wide = spots_of([*inputs, inputs[0]], len(inputs) + 1)[-1] if inputs else len(known.columns)
    found = np.full((4, wide + HEARD_OF_ORDER), np.nan)
    found[[0, 3]] = 0.0
    bent = [bend.column for bend in known.bends]
    columns = [*(shape.column for shape in known.directions), *bent]
    for bend in known.bends:
        found[3, spots[bend.column]] = bend.sign
    for shape in reversed(known.directions):  # so that the piece before the turn is the last
        found[0, spots[shape.column]] = shape.sign
        if shape.side:
            found[1 if shape.side == "<=" else 2, spots[shape.column]] = single(shape.turn)
    range_, both = known.range.sources, [*known.predict.sources, *known.range.sources]
    middle, place = (float(any(looks(s, c) for c in columns)) for s in (range_, both))
    found[3, wide] = 2.0 if any(looks(both, column) for column in bent) else 0.0
    if any(looks(range_, column) for column in bent):  # its middle need not bend as its end does
        middle = np.nan
        expert = expert and bool(known.predict.sources)  # nobody's place is the middle
    found[0, wide:] = place if expert else np.nan, middle, np.nan if middle else 0.0
    return found


def spots_of(inputs: Sequence[Mapping[str, Any]] | None, features: int) -> list[int]:
    """The input in which each feature's own number stands."""
    if inputs is None:
        return list(range(features))
    widths = [(i["levels"] + i["other"] or 1) + i["missing"] for i in inputs]
    return [sum(widths[:place]) for place in range(features)]


def _keeps(one: Mapping[str, Any], own: Mapping[str, Array], signs: Array) -> bool:
    if one["over"] and np.isnan(signs[0, -HEARD_OF_ORDER]):
        return False
    used = signs if one["hears"] else signs[:, :-HEARD_OF_ORDER]
    if one["body"] in ("linear", "bent"):
        weight, (first, start, end, bend) = own["weight"][:, 0], used
        ways = np.where(np.isnan(start), first, np.nan)
        if one.get("quadratic"):  # of products only the squares of what bends
            left, right = np.triu_indices(len(ways))
            squares = np.where((np.abs(bend) == 1) & (ways == 0), bend, np.nan)
            ways = np.concatenate([ways, np.where(left == right, squares[left], np.nan)])
        if one["body"] == "bent":
            first, start, end, bend = used[:, own["column"].astype(int)]
            ways = np.where(np.isnan(start), first, np.nan)
            ways = np.where((own["low"] >= start) & (own["high"] <= end), 0.0, ways)
            ways = np.where(own["high"] <= start, first, ways)
            ways = np.where(own["low"] >= end, -first, ways)
            # min(x, t) is concave, max(x, t) convex, what is kept between two ends neither
            below, above = own["low"] <= -_LARGEST, own["high"] >= _LARGEST
            knee = np.where(below, -bend, np.where(above, bend, np.nan))
            knee = np.where((first * knee >= 0) & (bend != 2), knee, np.nan)
            ways = np.where((bend == 0) | (below & above), ways, knee)
        if weight.shape != ways.shape or not (own["scale"] > 0).all():
            return False
        return bool(np.where(np.isnan(ways), weight == 0, ways * weight >= 0).all())
    if one["body"] != "trees" or len(own["base"]) != 1 or (own["scale"] < 0).any():
        return False
    return _trees_keep(own, used)


def _trees_keep(own: Mapping[str, Array], signs: Array) -> bool:
    """Of each split by such an input, no leaf on one side may lie beyond any on the other."""
    feature, child = own["feature"].astype(int), own["child"].astype(int)
    if not (child > np.arange(len(child)))[feature >= 0].all():
        return False  # a tree that leads back to itself
    low = own["values"][np.where(feature < 0, child, 0), 0].astype(np.float64)
    high = low.copy()
    for node in np.flatnonzero(feature >= 0)[::-1]:  # children lie behind their parents
        a, b = child[node], child[node] + 1
        way, start, end, bend = signs[:, feature[node]]
        if bend:  # steps are neither concave nor convex
            return False
        if start == start:  # it turns: between the ends of its turn nothing is asked
            at = own["threshold"][node]
            way = way if at < start else -way if at >= end else 0.0
        rises, falls = high[a] <= low[b], low[a] >= high[b]
        if not (rises if way > 0 else falls if way < 0 else way == 0):
            return False
        low[node], high[node] = min(low[a], low[b]), max(high[a], high[b])
    return True
