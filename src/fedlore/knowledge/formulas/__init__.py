"""Formulas: arithmetic on features, graded into classes, and what can be proved about it."""

from .formula import Formula
from .grading import FormulaRange, GradedFormula, Grading, SoftFormula

_FAULT = "formula"  # the code of errors raised here

__all__ = ["Formula", "FormulaRange", "GradedFormula", "Grading", "SoftFormula"]
