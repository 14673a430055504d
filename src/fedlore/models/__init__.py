"""What predicts at a site: the shared network seen through its own knowledge."""

from .classifier import Personal, TaskName
from .client import Client, Member, NumberClient
from .distribution import Distribution
from .doubt import (
    INFLATION,
    Doubt,
    doubt_classes,
    doubt_numbers,
    find_one_shot,
    member_probabilities,
    one_shot_doubt,
    take_tests,
)
from .ensemble import OneShotMember
from .regressor import LEVEL, PersonalRegressor
from .tasks import TASKS, Classification, Regression, TaskKind, task_for
from .wrapped import KnowingNet, with_knowledge

_FAULT = "model"  # the code of errors raised here

__all__ = [
    "Classification",
    "Client",
    "Distribution",
    "Doubt",
    "OneShotMember",
    "INFLATION",
    "KnowingNet",
    "LEVEL",
    "Member",
    "NumberClient",
    "Personal",
    "PersonalRegressor",
    "Regression",
    "TASKS",
    "TaskKind",
    "TaskName",
    "member_probabilities",
    "doubt_classes",
    "doubt_numbers",
    "find_one_shot",
    "one_shot_doubt",
    "take_tests",
    "task_for",
    "with_knowledge",
]
