"""The laws for other people's plug-ins, to be called from a test of their own."""

from .algorithm import ALGORITHM_LAWS, ENGINE_LAWS, check_algorithm, check_engine
from .clients import check_laws
from .filter import FILTER_LAWS, PASSAGE_LAWS, check_filter
from .model import MODEL_LAWS, check_model
from .source import SOURCE_LAWS, check_source

_FAULT = "law"  # the code of errors raised here

__all__ = [
    "ALGORITHM_LAWS",
    "ENGINE_LAWS",
    "FILTER_LAWS",
    "MODEL_LAWS",
    "PASSAGE_LAWS",
    "SOURCE_LAWS",
    "check_algorithm",
    "check_engine",
    "check_filter",
    "check_laws",
    "check_model",
    "check_source",
]
