"""The laws for other people's plug-ins, to be called from a test of their own."""

from .algorithm import ALGORITHM_LAWS, check_algorithm
from .engine import ENGINE_LAWS, check_engine
from .laws import check_laws

__all__ = ["ALGORITHM_LAWS", "ENGINE_LAWS", "check_algorithm", "check_engine", "check_laws"]
