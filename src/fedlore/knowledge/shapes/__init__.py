"""Shapes: in which direction a feature moves the answer, private to a site and kept for sure."""

from ...kernel.document import FeatureShape
from .shape import SiteShapes

_FAULT = "shape"  # the code of errors raised here

__all__ = ["FeatureShape", "SiteShapes"]
