"""What a client knows: prediction-type and range-type knowledge models, and their audit."""

from .audit import Audit
from .lookup import Lookup
from .models import Knowledge, PredictionModel, RangeModel
from .views import Mask, MaxPool

__all__ = ["Audit", "Knowledge", "Lookup", "Mask", "MaxPool", "PredictionModel", "RangeModel"]
