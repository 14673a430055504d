"""Whether a prediction is never silenced for leaving its range: a silent row has another trust."""

from typing import Any

from ...answers import Bins
from ...kernel.knowledge import scope_of
from ...kernel.prove import inside, stays_between
from ...kernel.schema import Schema
from ...kernel.search import BUDGET
from ..bridge import known_of, source_of, tree_of
from ..combine import AllOf, AnyOf, Average, FirstOf
from ..formulas.formula import Formula
from ..intervals import Between


def classes_inside(prediction: Any, limits: Any, schema: Schema) -> bool:
    """Whether a prediction of classes is proved to stay in the range all over the scope."""
    if limits is None:
        return True
    ranges = limits.ranges if isinstance(limits, AllOf | AnyOf) else (limits,)
    experts = prediction.predictions if isinstance(prediction, FirstOf | Average) else (prediction,)
    views, spoken = [source_of(one) for one in ranges], [source_of(one) for one in experts]
    if None in views or None in spoken:
        return False
    known = known_of(
        schema,
        spoken,
        views,
        alternatives=isinstance(limits, AnyOf),
        empty=limits.empty if isinstance(limits, AllOf) else "error",
        averaged=isinstance(prediction, Average),
    )
    return inside(known, BUDGET).status == "proved"


def numbers_inside(prediction: Any, limits: Any, bins: Bins) -> bool:
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
    sides = [side for side in (one.lower, one.upper) if side is not None]
    if not all(isinstance(side, Formula | int | float) for side in sides):
        return False
    pair, scope = (tree_of(one.lower), tree_of(one.upper)), scope_of(formula.schema.features)
    return stays_between(formula.tree, pair, scope).status == "proved"
