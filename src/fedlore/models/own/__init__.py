"""A site's own models: what it gets on its own, and what it adds to the shared one."""

from .baseline import (
    FOLDS,
    LocalBest,
    Own,
    OwnModel,
    folds,
    missing_learners,
    own_classes,
    own_numbers,
    own_order,
)
from .members import (
    MOST_BYTES,
    ClassMember,
    ClassPredictor,
    NumberMember,
    NumberPredictor,
    OrderMember,
    OwnMember,
    read_own_members,
    write_own_members,
)
from .memory import remembering
from .mixture import Mixture, NumberMixture, class_weights, mix, number_weights, start_weights

_FAULT = "local-baseline"  # the code of errors raised here

__all__ = [
    "ClassMember",
    "ClassPredictor",
    "FOLDS",
    "LocalBest",
    "MOST_BYTES",
    "Mixture",
    "NumberMember",
    "NumberMixture",
    "NumberPredictor",
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
