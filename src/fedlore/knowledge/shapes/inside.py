"""Whether a prediction is never silenced for leaving its range: a silent row has another trust."""

from typing import Any

from ...answers import Bins
from ...kernel.schema import Schema
from ..combine import AllOf, AnyOf, Average, FirstOf
from ..formulas.formula import Formula
from ..formulas.grading import FormulaRange
from ..formulas.proofs import never_crossed
from ..lint.over import view_prediction, view_range
from ..lint.together import AllSources
from ..numbers.ranges import Between


def classes_inside(prediction: Any, limits: Any, schema: Schema) -> bool:
    """Whether a prediction of classes is proved to stay in the range all over the scope."""
    if limits is None:
        return True
    ranges = limits.ranges if isinstance(limits, AllOf | AnyOf) else (limits,)
    experts = prediction.predictions if isinstance(prediction, FirstOf | Average) else (prediction,)
    views = [view_range(one) for one in ranges]
    spoken = [view_prediction(one) for one in experts]
    known, heard = [v for v in views if v is not None], [v for v in spoken if v is not None]
    if len(known) < len(views) or len(heard) < len(spoken):
        return False
    together = AllSources(
        schema,
        known,
        heard,
        alternatives=isinstance(limits, AnyOf),
        empty=limits.empty if isinstance(limits, AllOf) else "error",
        averaged=isinstance(prediction, Average),
    )
    return together.stays_inside().status == "proved"


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
    edges = tuple(map(float, range(len(formula.schema.classes) - 1)))
    for lower, upper in ((one.lower, formula), (formula, one.upper)):
        if lower is None or upper is None:
            continue
        pair = [
            Formula.parse(repr(float(side)), formula.schema)
            if isinstance(side, int | float)
            else side
            for side in (lower, upper)
        ]
        if not all(isinstance(side, Formula) for side in pair):
            return False
        if never_crossed(FormulaRange(pair[0], pair[1], edges)).status != "proved":
            return False
    return True
