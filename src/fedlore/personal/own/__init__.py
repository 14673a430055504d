"""A site's own models: what it gets on its own, and what it adds to the shared one."""

from .best import Own, OwnModel, missing_learners, own_classes, own_numbers, own_order
from .crossfit import FOLDS, folds
from .members import ClassMember, ClassVoice, NumberMember, NumberVoice, OrderMember, OwnMember
from .memory import remembering
from .mixture import Mixture, NumberMixture, mix
from .stored import MOST_BYTES, read_own_members, write_own_members
from .weights import class_weights, number_weights, start_weights

_FAULT = "local-baseline"  # the code of errors raised here

__all__ = [
    "ClassMember",
    "ClassVoice",
    "FOLDS",
    "MOST_BYTES",
    "Mixture",
    "NumberMember",
    "NumberMixture",
    "NumberVoice",
    "OrderMember",
    "Own",
    "OwnMember",
    "OwnModel",
    "class_weights",
    "folds",
    "missing_learners",
    "mix",
    "number_weights",
    "own_classes",
    "own_numbers",
    "own_order",
    "read_own_members",
    "remembering",
    "start_weights",
    "write_own_members",
]
