"""Whether a site's own range and prediction move the way its shapes say.

What network and answer start from counts as an input of the shape: a range or a prediction that is
proved to keep the order enters with the right sign, any other is withheld from the network, and a
prediction from the answer. Tables are decided exactly, on one row of each of their cells; formulas
by their slopes, others not at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...answers import Axis, Bins, Classes, Line, Sets
from ...core.rng import stream
from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.document import FeatureShape
from ...kernel.expressions import numbers_in
from ...kernel.knowledge import scope_of
from ...kernel.movement import compares_columns, dominates, lay_grid, numbers_rise, sets_rise
from ...kernel.prove import stays_between, stays_inside
from ...kernel.schema import Feature, Schema
from ...kernel.search import BUDGET, Verdict, decide
from ...kernel.slopes import never_against
from ..bridge import known_of, source_of, table_of, tree_of
from ..combine import AllOf, Average, FirstOf
from ..formulas import Formula, sides_of
from ..intervals import Between
from ..missing import list_columns
from ..tables.numbers import NumberTable
from ..tables.table import Table
from .shape import OrderFound, Orders, Pair, SiteShapes

if TYPE_CHECKING:
    from torch import Tensor

FORMULA_BUDGET = 4_000  # boxes
_LINES, _STEPS = 512, 24  # of a sample
_FAR = 1e3  # beyond the last threshold, where the scope has no end

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

    def stays() -> bool:
        if known.conflict in ("error", "project"):  # refused, or moved in, which keeps the order
            return True
        if number:
            return _numbers_inside(known.prediction, known.range, bins)
        return _classes_inside(known.prediction, known.range, shapes.schema)

    strict = not number or known.when_empty == "error"
    found = _ShapedKnowledge(shapes, known.prediction, known.range, ask, stays, strict).orders()
    shapes.verdicts.append((known.prediction, known.range, policies, found))
    return found


@dataclass(frozen=True, eq=False)
class _ShapedKnowledge:
    """A site's knowledge as its shapes see it."""

    shapes: SiteShapes
    prediction: Any
    range: Any
    ask: Callable[[Tensor], _BothSides]  # what is said in the end, policies included
    stays: Callable[[], bool]  # whether the prediction provably never leaves the range
    strict: bool = True  # whether a row that nothing is left of is refused, and not opened

    def orders(self) -> Orders:
        """The verdicts of all shapes."""
        return Orders(
            tuple(self._side(shape, 0, [self.range]) for shape in self.shapes),
            tuple(self._side(shape, 1, [self.prediction, self.range]) for shape in self.shapes),
        )

    def _side(self, shape: FeatureShape, place: int, asked: Sequence[Any]) -> OrderFound:
        """The range (0) or the prediction (1) along one shape."""
        schema, region = self.shapes.schema, self.shapes.place(shape)
        column, width = schema.column(shape.feature), len(schema.features)
        sources = [model for model in asked if model is not None]
        looked = any(column in list_columns(model, width) for model in sources)
        if asked[0] is None or not looked:
            return OrderFound("constant")
        where, tables = region.formula.tree if region.where else None, _tables(*sources)
        grid, steps = None, 0
        if tables is not None:
            grid, steps = lay_grid(schema.features, column, list(map(table_of, tables)), where)
        exact = grid is not None and (where is None or compares_columns(where))
        rows = None if grid is None else torch.from_numpy(grid).double()
        if rows is None:
            formulas = [f for model in sources for f in _formulas(model)]
            numbers = {number for f in formulas for number in numbers_in(f.tree)}
            rows, steps = _draw_lines(schema, column, sorted(numbers | {*region.thresholds}))
        try:
            pair = self._look(shape, rows, steps, place)
        except KnowledgeError:  # rows that are refused: nothing is known of the others
            return OrderFound("unknown")
        if pair is not None:
            return OrderFound("broken", pair)
        proved = exact or self._proved(place, column, shape.sign)
        return OrderFound("ordered" if proved else "unknown")

    def _look(self, shape: FeatureShape, rows: Tensor, steps: int, place: int) -> Pair | None:
        """Two rows of a line that break the order, of the range (0) or the prediction (1)."""
        inside = self.shapes.region(shape, rows)
        line = torch.arange(len(rows)).div(steps, rounding_mode="floor")[inside]
        rows = rows[inside]
        here = (line[1:] == line[:-1]).nonzero()[:, 0]
        lower, upper = (here, here + 1) if shape.sign > 0 else (here + 1, here)
        said = self.ask(rows)[place]
        if said is None:
            return None
        bad = (~self._rises(place, said[lower], said[upper])).nonzero()
        if not len(bad):
            return None
        at = int(here[int(bad[0])])
        return tuple(rows[at].tolist()), tuple(rows[at + 1].tolist())

    def _rises(self, place: int, low: Any, high: Any) -> Tensor:
        """Whether what is said of rows rises from the first to the second, (n,) bool."""
        number = self.shapes.bounds is not None
        if place == 0 and number:
            return _sets_in_order(low, high)
        rises = sets_rise if place == 0 else numbers_rise if number else dominates
        return torch.from_numpy(rises(low.numpy(), high.numpy()))

    def _proved(self, place: int, column: int, sign: int) -> bool:
        """Formulas, by their slopes; a prediction must also never be silenced by the range."""
        if any(feature.may_miss for feature in self.shapes.schema.features):
            return False  # what a formula says of a hole is not its slope's matter
        if place == 0:
            return self.strict and _range_proved(self.range, column, sign)
        return _prediction_proved(self.prediction, column, sign) and self.stays()


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


def _tables(*models: Any) -> list[Table] | None:
    """The tables that models are put together from; None where there is anything else."""
    found: list[Table] = []
    for model in models:
        if isinstance(model, Table | NumberTable):
            found.append(model.table)
        else:
            inner = _tables(*parts) if (parts := _parts(model)) else None
            if inner is None:
                return None
            found += inner
    return found


def _parts(model: Any) -> Sequence[Any]:
    """What the models are combined from, or the expert behind his confusion."""
    other = hasattr(model, "see") or hasattr(model, "within")  # a view, or soft
    return () if other else getattr(model, "parts", ())


def _formulas(model: Any) -> list[Formula]:
    if isinstance(model, Formula):
        return [model]
    inner = [model.formula] if hasattr(model, "formula") else getattr(model, "sides", ())
    return [f for part in inner or _parts(model) for f in _formulas(part)]


def _keeps(formula: Any, column: int, sign: int) -> bool:
    """Whether a formula is defined all over the scope and never moves against the sign."""
    if not isinstance(formula, Formula):
        return False
    return find_trend(formula, column, sign, budget=FORMULA_BUDGET).status == "proved"


def find_trend(formula: Formula, column: int, sign: int, budget: int = BUDGET) -> Verdict:
    """Whether more of a column never moves a formula against the sign, and it is always defined.

    A refuted one comes with a row from which a larger value of the column goes the wrong way, or
    in which the formula is undefined.
    """
    tree, scope = formula.tree, scope_of(formula.schema.features)
    top = min(float(scope.high[column]), 1e6)

    def broken(rows: Any) -> Any:
        x = torch.from_numpy(rows).double()
        here = formula(x)
        wrong = ~here.isfinite()
        for share in (0.02, 0.2, 1.0):
            more = x.clone()
            more[:, column] = x[:, column] + share * (top - x[:, column])
            # clear of rounding: what is flat may tremble
            wrong |= sign * (formula(more) - here) < -1e-6 * (1 + here.abs())
        return wrong.numpy()

    return decide(
        scope,
        lambda boxes: never_against(tree, column, sign, boxes),
        broken,
        columns=formula.looks_at(len(scope.low)) or (column,),
        marks=[sorted(numbers_in(tree))] * len(scope.low),
        budget=budget,
    )


def _range_proved(model: Any, column: int, sign: int) -> bool:
    if hasattr(model, "sides"):
        sides = sides_of(model)
        return (
            sides is not None
            and model.crossed == "error"
            and all(_keeps(side, column, sign) for side in sides if isinstance(side, Formula))
        )
    if isinstance(model, AllOf):  # a range that nothing is left of is refused
        return model.empty == "error" and all(
            _range_proved(part, column, sign) for part in model.ranges
        )
    tables = _tables(model)
    return tables is not None and column not in list_columns(model, 1 << 20)


def _prediction_proved(model: Any, column: int, sign: int) -> bool:
    if isinstance(model, FirstOf):  # the first always speaks: nobody else is asked
        return _prediction_proved(model.predictions[0], column, sign)
    if isinstance(model, Average):
        return all(_prediction_proved(part, column, sign) for part in model.predictions)
    return _keeps(getattr(model, "formula", model), column, sign)


def _classes_inside(prediction: Any, limits: Any, schema: Schema) -> bool:
    """Whether a prediction of classes is proved to stay in the range all over the scope."""
    if limits is None:
        return True
    ranges, experts = (_parts(one) or (one,) for one in (limits, prediction))
    views, spoken = [source_of(one) for one in ranges], [source_of(one) for one in experts]
    if None in views or None in spoken:
        return False
    named, said = (getattr(one, "file_keys", {}) for one in (limits, prediction))
    known = known_of(
        schema,
        spoken,
        views,
        alternatives=named.get("combine") == "any",
        empty=named.get("empty", "error"),
        averaged=said.get("combine") == "average",
    )
    return stays_inside(known, BUDGET).status == "proved"


def _numbers_inside(prediction: Any, limits: Any, bins: Bins) -> bool:
    """Whether a formula of a number is proved to stay within the bounds and between limits."""
    formula = prediction.predictions[0] if isinstance(prediction, FirstOf) else prediction
    ranges = limits.ranges if isinstance(limits, AllOf) else () if limits is None else (limits,)
    if not isinstance(formula, Formula):
        return False
    low, high = formula.bounds()
    if not (bins.lower <= low and high <= bins.upper):
        return False
    return all(isinstance(one, Between) and _between(formula, one) for one in ranges)


def _between(formula: Formula, one: Between) -> bool:
    if sides_of(one) is None:
        return False
    pair, scope = (tree_of(one.lower), tree_of(one.upper)), scope_of(formula.schema.features)
    return stays_between(formula.tree, pair, scope).status == "proved"
