"""Models as the kernel sees them, so that what is asked over the whole scope is asked there."""

from collections.abc import Sequence
from typing import Any

from ..kernel.expressions import Tree
from ..kernel.knowledge import Known
from ..kernel.schema import Schema
from ..kernel.sources import Grades, Limits, Prediction, Side
from ..kernel.sources import Table as KernelTable
from .formulas import Formula, FormulaRange, GradedFormula
from .tables.table import Table


def tree_of(number: object) -> Tree | None:
    """The tree of a formula or a fixed number; None of anything else."""
    if isinstance(number, Formula):
        return number.tree
    return ("number", float(number)) if isinstance(number, int | float) else None


def source_of(model: object) -> Any | None:
    """A source about classes; None where nothing can be said of it over a scope."""
    if isinstance(model, Table):
        return table_of(model)
    if isinstance(model, GradedFormula) and isinstance(model.formula, Formula):
        return Prediction(model.formula.tree, Grades(model.edges))
    if isinstance(model, FormulaRange):
        sides = [side for side in (model.lower, model.upper) if side is not None]
        if all(isinstance(side, Formula) for side in sides):
            limits = tree_of(model.lower), tree_of(model.upper)
            return Limits(*limits, Grades(model.edges), model.crossed)
    return None


def table_of(table: Table) -> KernelTable:
    """A table as rows of single precision see it, its rules in the order in which they speak."""
    rules = [table.rules[index] for index in table.order]
    return KernelTable(table.name, rules, table.policy, len(table.schema.classes))


def known_of(
    schema: Schema,
    predict: Sequence[Any],
    ranges: Sequence[Any],
    *,
    alternatives: bool = False,
    empty: str = "error",
    averaged: bool = False,
) -> Known:
    """Sources of the kernel as they act together; `alternatives`: of the ranges one is enough."""
    combine = "average" if averaged else "first"
    return Known(
        tuple(schema.features),
        tuple(schema.classes),
        0.0,
        "abstain",
        Side(list(predict), combine, weights=(1.0,) * len(predict)),
        Side(list(ranges), "any" if alternatives else "all", empty),
    )
