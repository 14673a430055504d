"""The blend planner: the cheapest coals that make the grade, with a confidence that is chosen."""

from .check import check
from .coals import Coals, read_coals
from .graders import ClassGrader, Forecast, NumberGrader, grader_for
from .mixing import Mix, MixingRule
from .order import Order, order_for
from .outcome import Blend, BlendPlan, Point, Relaxation
from .plan import plan
from .promise import Promise, Risk
from .recipe import MixingRecipe, read_mixing, recipe_for
from .sides import FeatureLimit, ModelLimit, feature_limit, model_limit
from .target import BlendTarget

_FAULT = "blend"  # the code of errors raised here

__all__ = [
    "Blend",
    "ClassGrader",
    "Coals",
    "Forecast",
    "Mix",
    "NumberGrader",
    "Order",
    "BlendPlan",
    "Point",
    "MixingRecipe",
    "Promise",
    "Relaxation",
    "Risk",
    "MixingRule",
    "BlendTarget",
    "FeatureLimit",
    "ModelLimit",
    "check",
    "feature_limit",
    "grader_for",
    "model_limit",
    "order_for",
    "plan",
    "read_coals",
    "read_mixing",
    "recipe_for",
]
