"""What predicts at a site: the shared network seen through its own knowledge."""

from .classifier import Personal
from .distribution import Distribution
from .regressor import PersonalRegressor
from .reliance import best_reliance

__all__ = ["Distribution", "Personal", "PersonalRegressor", "best_reliance"]
