"""Formulas: arithmetic on features, graded into classes, and what can be proved about it."""

from .formula import Formula
from .grading import FormulaRange, GradedFormula, Grading, SoftFormula

__all__ = ["Formula", "FormulaRange", "GradedFormula", "Grading", "SoftFormula"]
