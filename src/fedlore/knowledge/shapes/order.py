"""Whether a site's own range and prediction move the way its shapes say.

What network and answer start from counts as an input of the shape: a range or a prediction that is
proved to keep the order enters with the right sign, any other is withheld from the network, and a
prediction from the answer. Tables are decided exactly, formulas by their slopes, others not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...answers import Sets
from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.expressions import numbers_in
from ...kernel.knowledge import scope_of
from ...kernel.search import BUDGET, Verdict, decide
from ...kernel.slopes import never_against
from ..combine import AllOf, AnyOf, Average, FirstOf
from ..confusion import Recalibrated
from ..formulas.formula import Formula
from ..formulas.grading import FormulaRange, GradedFormula, SoftFormula
from ..intervals import Between
from ..missing import list_columns
from ..tables.numbers import IntervalTable, NumberTable
from ..tables.table import Table
from .lines import (
    RowLines,
    draw_lines,
    lay_grid,
    masks_in_order,
    rows_in_order,
    sets_in_order,
)
from .shape import FeatureShape, SiteShapes
from .verdicts import OrderFound, Orders, Pair

if TYPE_CHECKING:
    from torch import Tensor


FORMULA_BUDGET = 4_000  # boxes

#: What is said of rows: the range as classes or sets, the prediction as classes or numbers.
BothSides = tuple["Tensor | Sets | None", "Tensor | None"]
Ask = Callable[["Tensor"], BothSides]


@dataclass(frozen=True, eq=False)
class ShapeStand:
    """A site's knowledge as its shapes see it."""

    shapes: SiteShapes
    prediction: Any
    range: Any
    ask: Ask  # what is said in the end, policies included
    inside: Callable[[], bool]  # whether the prediction provably never leaves the range
    strict: bool = True  # whether a row that nothing is left of is refused, and not opened

    def orders(self) -> Orders:
        """The verdicts of all shapes."""
        found = [self._decide(shape) for shape in self.shapes]
        return Orders(tuple(a for a, _ in found), tuple(b for _, b in found))

    def _decide(self, shape: FeatureShape) -> tuple[OrderFound, OrderFound]:
        limits = self._side(shape, 0, [self.range])
        return limits, self._side(shape, 1, [self.prediction, self.range])

    def _side(self, shape: FeatureShape, place: int, asked: Sequence[Any]) -> OrderFound:
        """The range (0) or the prediction (1) along one shape."""
        column, schema = self.shapes.schema.column(shape.feature), self.shapes.schema
        sources = [model for model in asked if model is not None]
        if asked[0] is None or not any(self._moves(model, column) for model in sources):
            return OrderFound("constant")
        tables = _tables(*sources)
        numbers = self.shapes.thresholds(shape)
        grid = None
        if tables is not None:
            marks = [(at, number) for at in self.shapes.looks_at(shape) for number in numbers]
            grid = lay_grid(schema, column, tables, marks)
        if grid is None:
            hints = sorted({*numbers, *(h for model in sources for h in _numbers(model))})
            grid = draw_lines(schema, column, hints)
        try:
            pair = self._look(shape, grid, place)
        except KnowledgeError:  # rows that are refused: nothing is known of the others
            return OrderFound("unknown")
        if pair is not None:
            return OrderFound("broken", pair)
        exact = grid.whole and self.shapes.is_plain(shape)
        return OrderFound(
            "ordered" if exact or self._proved(place, column, shape.sign) else "unknown"
        )

    def _moves(self, model: Any, column: int) -> bool:
        """Whether a source looks at the column."""
        return column in list_columns(model, len(self.shapes.schema.features))

    def _look(self, shape: FeatureShape, grid: RowLines, place: int) -> Pair | None:
        """Two rows of a line that break the order, of the range (0) or the prediction (1)."""
        inside = self.shapes.region(shape, grid.rows)
        rows = grid.rows[inside]
        line = torch.arange(len(grid.rows)).div(len(grid.rows) // grid.lines, rounding_mode="floor")
        line = line[inside]
        here = (line[1:] == line[:-1]).nonzero()[:, 0]
        lower, upper = (here, here + 1) if shape.sign > 0 else (here + 1, here)
        said = self.ask(rows)[place]
        if isinstance(said, Sets):
            kept = sets_in_order(said[lower], said[upper])
        elif said is None:
            return None
        elif said.dtype == torch.bool:
            kept = masks_in_order(said[lower], said[upper])
        elif said.ndim == 2:
            kept = rows_in_order(said[lower], said[upper])
        else:
            a, b = said[lower], said[upper]
            kept = (a <= b) | (a.isnan() & b.isnan())
        bad = (~kept).nonzero()
        if not len(bad):
            return None
        at = int(here[int(bad[0])])
        return tuple(rows[at].tolist()), tuple(rows[at + 1].tolist())

    def _proved(self, place: int, column: int, sign: int) -> bool:
        """Formulas, by their slopes; a prediction must also never be silenced by the range."""
        if any(feature.may_miss for feature in self.shapes.schema.features):
            return False  # what a formula says of a hole is not its slope's matter
        if place == 0:
            return self.strict and _range_proved(self.range, column, sign)
        return _prediction_proved(self.prediction, column, sign) and self.inside()


def _tables(*models: Any) -> list[Table] | None:
    """The tables that models are put together from; None where there is anything else."""
    found: list[Table] = []
    for model in models:
        if isinstance(model, NumberTable | IntervalTable):
            found.append(model.table)
        elif isinstance(model, Table):
            found.append(model)
        else:
            inner = _tables(*parts) if (parts := _parts(model)) else None
            if inner is None:
                return None
            found += inner
    return found


def _parts(model: Any) -> Sequence[Any]:
    if isinstance(model, AllOf | AnyOf):
        return tuple(model.ranges)
    if isinstance(model, FirstOf | Average):
        return tuple(model.predictions)
    return (model.expert,) if isinstance(model, Recalibrated) else ()


def _formulas(model: Any) -> list[Formula]:
    if isinstance(model, Formula):
        return [model]
    if isinstance(model, GradedFormula | SoftFormula):
        return _formulas(model.formula)
    if isinstance(model, FormulaRange | Between):
        return [f for side in (model.lower, model.upper) for f in _formulas(side)]
    return [f for part in _parts(model) for f in _formulas(part)]


def _numbers(model: Any) -> set[float]:
    """Numbers that something may happen at."""
    found = {step.value for f in _formulas(model) for step in f.steps if step.op == "number"}
    return found


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
    if isinstance(model, FormulaRange | Between):
        if isinstance(model, FormulaRange) and model.crossed != "error":
            return False
        sides = [side for side in (model.lower, model.upper) if side is not None]
        return all(isinstance(s, int | float) or _keeps(s, column, sign) for s in sides)
    if isinstance(model, AllOf):  # a range that nothing is left of is refused
        return model.empty == "error" and all(
            _range_proved(part, column, sign) for part in model.ranges
        )
    tables = _tables(model)
    return tables is not None and column not in list_columns(model, 1 << 20)


def _prediction_proved(model: Any, column: int, sign: int) -> bool:
    if isinstance(model, GradedFormula | SoftFormula):
        return _keeps(model.formula, column, sign)
    if isinstance(model, Formula):
        return _keeps(model, column, sign)
    if isinstance(model, FirstOf):  # the first always speaks: nobody else is asked
        return _prediction_proved(model.predictions[0], column, sign)
    if isinstance(model, Average):
        return all(_prediction_proved(part, column, sign) for part in model.predictions)
    return False
