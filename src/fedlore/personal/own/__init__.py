"""A site's own models: what it gets without anybody, and what it adds to the shared one."""

from .best import Candidate, Own, missing, own_classes, own_numbers, own_order
from .crossfit import FOLDS, folds
from .members import ClassMember, ClassVoice, Member, NumberMember, NumberVoice, OrderMember
from .mixture import Mixture, NumberMixture, mix
from .stored import MOST_BYTES, read_members, write_members
from .weights import class_weights, number_weights, start_weights

__all__ = [
    "FOLDS",
    "MOST_BYTES",
    "Candidate",
    "ClassMember",
    "ClassVoice",
    "Member",
    "Mixture",
    "NumberMember",
    "NumberMixture",
    "NumberVoice",
    "OrderMember",
    "Own",
    "class_weights",
    "folds",
    "missing",
    "mix",
    "number_weights",
    "own_classes",
    "own_numbers",
    "own_order",
    "read_members",
    "start_weights",
    "write_members",
]
