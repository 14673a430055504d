"""What a client knows: prediction-type and range-type knowledge models, and their audit."""

from ..kernel.findings import Finding, Place
from ..kernel.schema import Feature, Schema
from .audit import Audit
from .card import Card
from .combine import AllOf, AnyOf, Average, FirstOf
from .conformal import ConformalRange
from .formulas import Formula, FormulaRange, GradedFormula, Grading, SoftFormula
from .learned import from_sklearn, from_torch
from .lookup import Lookup
from .models import Knowledge
from .protocols import PredictionModel, RangeModel
from .sources.entry import entry_point
from .sources.onnx import OnnxModel
from .tables import Rule, Table, read_rules, table_of, write_table
from .views import Mask, MaxPool

_FAULT = "knowledge"  # the code of errors raised here

__all__ = [
    "AllOf",
    "AnyOf",
    "Audit",
    "Average",
    "Card",
    "ConformalRange",
    "Feature",
    "Finding",
    "FirstOf",
    "Formula",
    "FormulaRange",
    "GradedFormula",
    "Grading",
    "Knowledge",
    "Lookup",
    "Mask",
    "MaxPool",
    "OnnxModel",
    "Place",
    "PredictionModel",
    "RangeModel",
    "Rule",
    "Schema",
    "SoftFormula",
    "Table",
    "entry_point",
    "from_sklearn",
    "from_torch",
    "read_rules",
    "table_of",
    "write_table",
]
