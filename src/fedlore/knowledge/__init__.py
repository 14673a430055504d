"""What a client knows: prediction-type and range-type knowledge models, and their audit."""

from ..kernel.findings import Finding, Place
from ..kernel.schema import Feature, Schema, name_columns
from .audit import Audit, count
from .combine import AllOf, AnyOf, Average, FirstOf
from .conformal import ConformalInterval, ConformalRange, quantile
from .content import dump
from .estimators import Lookup, from_sklearn, from_torch
from .formulas import Formula, FormulaRange, GradedFormula, GradeEdges, SoftFormula
from .intervals import Band, Between
from .models import Knowledge
from .protocols import Card, PredictionModel, RangeKind, RangeModel
from .sources.kind import entry_point
from .sources.onnx import OnnxModel
from .tables import Rule, Table, read_rules, table_of, write_table
from .views import Mask, MaxPool, SeenModel

_FAULT = "knowledge"  # the code of errors raised here

__all__ = [
    "AllOf",
    "AnyOf",
    "Audit",
    "Average",
    "Band",
    "Between",
    "Card",
    "ConformalInterval",
    "ConformalRange",
    "Feature",
    "Finding",
    "FirstOf",
    "Formula",
    "FormulaRange",
    "GradedFormula",
    "GradeEdges",
    "Knowledge",
    "Lookup",
    "Mask",
    "MaxPool",
    "OnnxModel",
    "Place",
    "PredictionModel",
    "RangeKind",
    "RangeModel",
    "Rule",
    "Schema",
    "SeenModel",
    "SoftFormula",
    "Table",
    "count",
    "dump",
    "entry_point",
    "from_sklearn",
    "from_torch",
    "name_columns",
    "quantile",
    "read_rules",
    "table_of",
    "write_table",
]
