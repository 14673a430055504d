"""Whether a site's own range and prediction move the way its shapes say.

What network and answer start from counts as an input of the shape: a range or a prediction that is
proved to keep the order enters with the right sign, any other is withheld from the network, and a
prediction from the answer. The kernel decides, as it does for a certificate: tables exactly, on one
row of each of their cells; formulas here by their slopes. Lines of rows are tried where it cannot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...answers import Axis, Bins, Classes, Line, Sets
from ...core.rng import stream
from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.answers import value
from ...kernel.cells import after, before, single
from ...kernel.document import FeatureShape, Piece
from ...kernel.expressions import Tree, columns_in, numbers_in
from ...kernel.knowledge import Bend, Direction, Known, read_knowledge, scope_of
from ...kernel.movement import (
    dominates,
    keeps_line,
    keeps_order,
    numbers_rise,
    prediction_bends,
    prediction_moves,
    range_bends,
    range_is_whole,
    range_moves,
    sets_rise,
)
from ...kernel.schema import Feature, Schema
from ...kernel.search import BUDGET, Verdict, decide
from ..missing import list_columns
from ..views import Recalibrated
from .shape import RANK, OrderFound, Orders, Pair, SiteShapes
from .slopes import never_against, never_bends_against

if TYPE_CHECKING:
    from torch import Tensor

FORMULA_BUDGET = 4_000  # boxes
_LINES, _STEPS = 512, 24  # of a sample
_FAR = 1e3  # beyond the last threshold, where the scope has no end
_APART = (1, 2, 5)  # steps between three rows of a line
_TREMBLE = 1e-4  # of a number: what rounding may bend

#: What is said of rows: the range as classes or sets, the prediction as classes or numbers.
_BothSides = tuple["Tensor | Sets | None", "Tensor | None"]


def orders_of(known: Any, shapes: SiteShapes) -> Orders:
    """The verdicts on a `Knowledge`, its policies included; asked once for the same sources."""
    number = shapes.bounds is not None
    policies = (known.conflict, known.when_empty if number else "")
    for prediction, limits, rules, orders in shapes.verdicts:
        if prediction is known.prediction and limits is known.range and rules == policies:
            found: Orders = orders
            return found
    bare, bins = replace(known, shapes=None), Bins(*(shapes.bounds or (0.0, 1.0)), 2)
    axis: Axis = Line(bins) if number else Classes()

    def ask(x: Tensor) -> _BothSides:
        said, allowed = axis.read(bare.annotate(axis.rows(x), axis, training=False))
        return allowed, said

    view = _kernel_view(known, shapes, Line(bins) if number else None)
    found = _ShapedKnowledge(shapes, known.prediction, known.range, ask, view).orders()
    shapes.verdicts.append((known.prediction, known.range, policies, found))
    return found


def _kernel_view(known: Any, shapes: SiteShapes, line: Line | None) -> Known | None:
    """The knowledge as the kernel reads it from files; None where it cannot look into a source."""
    from ..files import describe, pack_knowledge  # here: it knows all kinds of sources

    said: Any = known.prediction
    confusion, binding = None, replace(shapes, shapes=shapes.binding) if shapes.binding else None
    if isinstance(said, Recalibrated):
        if said.expert is None:  # his rows came with the data
            return None
        confusion = said.confusion.double().cpu().numpy()
        said = said.expert
    plain = {"prediction": said, "shapes": binding, "schema": shapes.schema, "row_trust": None}
    try:
        files = pack_knowledge(describe(replace(known, line=line or known.line, **plain)))
        texts = {n: d.decode() for n, d in files.items() if n.endswith((".toml", ".csv"))}
        return replace(read_knowledge(texts), confusion=confusion)
    except KnowledgeError:
        return None


@dataclass(frozen=True, eq=False)
class _ShapedKnowledge:
    """A site's knowledge as its shapes see it."""

    shapes: SiteShapes
    prediction: Any
    range: Any
    ask: Callable[[Tensor], _BothSides]  # what is said in the end, policies included
    known: Known | None  # the kernel's view

    def orders(self) -> Orders:
        """The verdicts of all shapes."""
        each = list(enumerate(self.shapes.binding))
        bends = self.shapes.bends
        if bends and self.range is not None and (not self.known or not range_is_whole(self.known)):
            raise KnowledgeError(
                f"'{bends[0]}' does not go with a range that may have gaps, or is a program's: "
                'say hit = "intersect" and combine = "all", or leave the shape out'
            )
        return Orders(
            tuple(self._side(at, shape, 0, [self.range]) for at, shape in each),
            tuple(self._side(at, shape, 1, [self.prediction, self.range]) for at, shape in each),
            tuple(bool(shape.bend) for _, shape in each),
        )

    def _side(self, at: int, shape: FeatureShape, side: int, asked: Sequence[Any]) -> OrderFound:
        """The range (0) or the prediction (1) along one shape: the worst of its pieces."""
        if shape.bend:
            return self._bent(at, shape, side, asked)
        pieces = [p for p in self.known.directions if p.shape == at] if self.known else []
        found = [
            self._piece(shape, piece, pieces[i] if pieces else None, side, asked)
            for i, piece in enumerate(shape.pieces)
        ]
        return max(found, key=lambda one: RANK.index(one.status))

    def _piece(
        self,
        shape: FeatureShape,
        piece: Piece,
        along: Direction | None,  # the same, as the kernel reads it
        side: int,
        asked: Sequence[Any],
    ) -> OrderFound:
        schema, column = self.shapes.schema, self.shapes.schema.column(shape.feature)
        sources = [model for model in asked if model is not None]
        looked = any(column in list_columns(model, len(schema.features)) for model in sources)
        if asked[0] is None or not looked:
            return OrderFound("constant")
        found, trees = Verdict("unknown"), list[Tree]()
        if self.known is not None and along is not None:
            moves = prediction_moves if side else range_moves
            found = moves(self.known, along, _keeps)
            both = (self.known.range, self.known.predict)[: side + 1]
            trees = [tree for one in both for source in one.sources for tree in source.trees]
        if found.example is not None and found.other is not None:
            return OrderFound("broken", (found.example, found.other))
        if found.status == "unknown" and (self.known is None or trees or self.known.soft):
            hints = {number for tree in trees for number in numbers_in(tree)}
            hints |= {*self.shapes.place(shape).thresholds, *shape.turns}
            lines = _draw_lines(schema, column, sorted(hints))
            pair = self._look(shape, piece, *lines, side)
            if pair is not None:
                return OrderFound("broken", pair)
        return OrderFound("ordered" if found.status == "proved" else "unknown")

    def _look(
        self, shape: FeatureShape, piece: Piece, rows: Tensor, steps: int, place: int
    ) -> Pair | None:
        """Two rows of a line that break the order, of the range (0) or the prediction (1)."""
        inside = self.shapes.region(shape, rows, piece)
        line = torch.arange(len(rows)).div(steps, rounding_mode="floor")[inside]
        rows = rows[inside]
        here = (line[1:] == line[:-1]).nonzero()[:, 0]
        lower, upper = (here, here + 1) if piece.sign > 0 else (here + 1, here)
        try:
            said = self.ask(rows)[place]
        except KnowledgeError:  # rows that are refused: nothing is known of the others
            return None
        if said is None:
            return None
        bad = (~self._rises(place, said[lower], said[upper])).nonzero()
        if not len(bad):
            return None
        at = int(here[int(bad[0])])
        return tuple(rows[at].tolist()), tuple(rows[at + 1].tolist())

    def _bent(self, at: int, shape: FeatureShape, side: int, asked: Sequence[Any]) -> OrderFound:
        """The range (0) or the prediction (1) along a shape that is concave or convex."""
        schema, column = self.shapes.schema, self.shapes.schema.column(shape.feature)
        sources = [model for model in asked if model is not None]
        looked = any(column in list_columns(model, len(schema.features)) for model in sources)
        if asked[0] is None or not looked:
            return OrderFound("constant")
        hints = set[float]()
        if self.known is not None:
            bend = next(one for one in self.known.bends if one.shape == at)
            moves = prediction_bends if side else range_bends
            if moves(self.known, bend, _keeps_bend).status == "proved":
                return OrderFound("ordered")
            for one in (self.known.range, self.known.predict)[: side + 1]:
                for source in one.sources:
                    hints |= {n for tree in source.trees for n in numbers_in(tree)}
                    hints |= set() if source.trees else {*source.cuts(column)}
        return self._look_bent(shape, *_draw_lines(schema, column, sorted(hints)), side)

    def _look_bent(self, shape: FeatureShape, rows: Tensor, steps: int, side: int) -> OrderFound:
        """Three rows of a line of which the middle one breaks the shape most, if any does."""
        column = self.shapes.schema.column(shape.feature)
        try:
            found: Any = self.ask(rows)[side]
        except KnowledgeError:  # rows that are refused: nothing is known of the others
            found = None
        if found is None:
            return OrderFound("unknown")
        said: Tensor = found
        if not side:  # the end of the range that a number is stopped at
            upper = found.upper.nan_to_num(nan=-math.inf).amax(1)
            said = upper if shape.bend < 0 else found.lower.nan_to_num(nan=math.inf).amin(1)
        x, y = (part.reshape(-1, steps) for part in (rows[:, column], said.double()))
        verdict, missed = OrderFound("unknown"), _TREMBLE
        for apart in _APART:  # near each other they show jumps, further apart knees
            low, at, high = (slice(k * apart, steps - (2 - k) * apart) for k in range(3))
            share = (x[:, at] - x[:, low]) / (x[:, high] - x[:, low])
            line = y[:, low] + share * (y[:, high] - y[:, low])
            off = shape.bend * (y[:, at] - line) / (1.0 + line.abs())
            most = off.nan_to_num(nan=-math.inf).max()
            if float(most) > missed:
                here, first = divmod(int(off.nan_to_num(nan=-math.inf).argmax()), off.shape[1])
                told, missed = (
                    (float(y[here, first + apart]), float(line[here, first])),
                    float(most),
                )
                begin = here * steps + first
                three = tuple(tuple(rows[begin + k * apart].tolist()) for k in range(3))
                verdict = OrderFound("broken", three, told)
        return verdict

    def _rises(self, place: int, low: Any, high: Any) -> Tensor:
        """Whether what is said of rows rises from the first to the second, (n,) bool."""
        number = self.shapes.bounds is not None
        if place == 0 and number:
            return _sets_in_order(low, high)
        rises = sets_rise if place == 0 else numbers_rise if number else dominates
        return torch.from_numpy(rises(low.numpy(), high.numpy()))


def _sets_in_order(a: Sets, b: Sets) -> Tensor:
    """Whether sets of numbers rise: intervals by their ends, others where they stay the same."""
    single = (~a.lower.isnan()).sum(1).eq(1) & (~b.lower.isnan()).sum(1).eq(1)

    def ends(s: Sets) -> tuple[Tensor, Tensor]:
        return s.lower.nan_to_num(nan=math.inf).amin(1), s.upper.nan_to_num(nan=-math.inf).amax(1)

    (a_low, a_high), (b_low, b_high) = ends(a), ends(b)
    same = (a.lower.nan_to_num() == b.lower.nan_to_num()).all(1)
    same &= (a.upper.nan_to_num() == b.upper.nan_to_num()).all(1)
    return same | (single & (a_low <= b_low) & (a_high <= b_high))


def _draw_lines(schema: Schema, column: int, hints: Sequence[float]) -> tuple[Tensor, int]:
    """Some lines at random over the scope, and how many rows stand on each."""
    draw = stream("shape lines", column)
    ends = [_ends(feature, hints) for feature in schema.features]
    low, high = torch.tensor(ends, dtype=torch.float64).T
    rows = low + (high - low) * torch.rand(_LINES, len(ends), generator=draw).double()
    for i, feature in enumerate(schema.features):
        if feature.levels:
            rows[:, i] = rows[:, i].floor().clamp(max=len(feature.levels) - 1.0)
    a, b = ends[column]
    along = torch.linspace(a, b, _STEPS - 2 * min(len(hints), 4), dtype=torch.float64).tolist()
    inside = [h for h in hints if a < h < b][:4]
    along = sorted({*along, *inside, *(math.nextafter(h, math.inf) for h in inside)})
    rows = rows.repeat_interleave(len(along), 0)
    rows[:, column] = torch.tensor(along, dtype=torch.float64).repeat(_LINES)
    return rows.float().double(), len(along)


def _ends(feature: Feature, hints: Sequence[float]) -> tuple[float, float]:
    if feature.levels:
        return 0.0, float(len(feature.levels))
    near = [h for h in hints if feature.low <= h <= feature.high] or [0.0]
    low = feature.low if math.isfinite(feature.low) else min(near) - _FAR
    return low, feature.high if math.isfinite(feature.high) else max(near) + _FAR


def _keeps(known: Known, tree: Tree, shape: Direction) -> bool:
    """Whether a formula is defined all over a shape's scope and its slope never against it."""
    if keeps_order(known, tree, shape):  # what the checker proves is known here too
        return True
    columns = list(known.columns)
    if shape.side:
        # a step of single precision aside: 1.4 in a formula is not quite the 1.4 of rows, and what
        # has slopes cannot jump within that step
        whole = columns[shape.column]
        columns[shape.column] = (
            replace(whole, high=float(before(single(shape.turn))))
            if shape.side == "<="
            else replace(whole, low=float(after(shape.turn)))
        )
    found = find_trend(tree, columns, shape.column, shape.sign, budget=FORMULA_BUDGET)
    return found.status == "proved"


def _keeps_bend(known: Known, tree: Tree, bend: Bend) -> bool:
    """Whether a formula is defined all over the scope and its slope never moves the other way."""
    if keeps_line(known, tree, bend):  # what the checker proves is known here too
        return True
    scope, column = scope_of(known.columns), bend.column
    top = min(float(scope.high[column]), 1e6)

    def broken(x: Any) -> Any:
        rows = [x.copy() for _ in range(3)]
        for share, row in zip((0.0, 0.5, 1.0), rows, strict=True):
            row[:, column] += share * (top - x[:, column])
        first, middle, last = (value(tree, row).astype(np.float64) for row in rows)
        line = (first + last) / 2
        return np.isnan(first) | (bend.sign * (middle - line) > _TREMBLE * (1 + np.abs(line)))

    found = decide(
        scope,
        lambda boxes: never_bends_against(tree, column, bend.sign, boxes),
        broken,
        columns=sorted(columns_in(tree)),
        marks=[sorted(numbers_in(tree))] * len(known.columns),
        budget=FORMULA_BUDGET,
    )
    return found.status == "proved"


def find_trend(
    tree: Tree, features: Sequence[Feature], column: int, sign: int, *, budget: int = BUDGET
) -> Verdict:
    """Whether more of a column never moves a formula against the sign, and it is always defined.

    A refuted one comes with a row from which a larger value of the column goes the wrong way, or
    in which the formula is undefined.
    """
    scope = scope_of(features)
    top = min(float(scope.high[column]), 1e6)

    def broken(x: Any) -> Any:
        here = value(tree, x)
        wrong = np.isnan(here)
        for share in (0.02, 0.2, 1.0):
            more = x.copy()
            more[:, column] = x[:, column] + share * (top - x[:, column])
            # clear of rounding: what is flat may tremble
            wrong |= sign * (value(tree, more) - here) < -1e-6 * (1 + np.abs(here))
        return wrong

    return decide(
        scope,
        lambda boxes: never_against(tree, column, sign, boxes),
        broken,
        columns=sorted(columns_in(tree)) or (column,),
        marks=[sorted(numbers_in(tree))] * len(scope.low),
        budget=budget,
    )
