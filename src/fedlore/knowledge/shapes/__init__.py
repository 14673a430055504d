"""Shapes: in which direction a feature moves the answer, private to a site and kept for sure."""

from .shape import FeatureShape, SiteShapes

_FAULT = "shape"  # the code of errors raised here

__all__ = ["FeatureShape", "SiteShapes"]
