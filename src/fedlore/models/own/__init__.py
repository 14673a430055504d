"""A site's own models: what it gets on its own, and what it adds to the shared one."""

from .baseline import (
    folds,
    missing_learners,
    own_classes,
    own_numbers,
    own_order,
)
from .limits import remembering
from .members import (
    ClassMember,
    NumberMember,
    OrderMember,
    OwnMember,
    read_own_members,
    write_own_members,
)
from .mixture import Mixture, NumberMixture, class_weights, number_weights, start_weights

_FAULT = "local-baseline"  # the code of errors raised here

__all__ = [
    "ClassMember",
    "Mixture",
    "NumberMember",
    "NumberMixture",
    "OrderMember",
    "OwnMember",
    "class_weights",
    "folds",
    "missing_learners",
    "number_weights",
    "own_classes",
    "own_numbers",
    "own_order",
    "read_own_members",
    "remembering",
    "start_weights",
    "write_own_members",
]
