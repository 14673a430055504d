"""Shapes: in which direction a feature moves the answer, private to a site and kept for sure."""

from .shape import FeatureShape, SiteShapes

__all__ = ["FeatureShape", "SiteShapes"]
