"""The blend planner: the cheapest coals that make the grade, with a confidence that is chosen."""

from .check import check
from .coals import Coals, read_coals
from .graders import BlendTarget, ClassGrader, Forecast, NumberGrader, Promise, Risk, grader_for
from .mixing import Mix, MixingRecipe, MixingRule, read_mixing, recipe_for
from .order import Blend, BlendPlan, Order, Point, Relaxation, order_for
from .plan import plan
from .sides import FeatureLimit, ModelLimit, feature_limit, model_limit

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
