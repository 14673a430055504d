"""What predicts at a site: the shared network seen through its own knowledge."""

from .classifier import Personal
from .client import Client, Known, Member, NumberClient
from .distribution import Distribution
from .regressor import PersonalRegressor
from .tasks import TASKS, Classification, Regression, TaskKind, TaskName, task_for, task_of

_FAULT = "model"  # the code of errors raised here

__all__ = [
    "TASKS",
    "Classification",
    "Client",
    "Distribution",
    "Known",
    "Member",
    "NumberClient",
    "Personal",
    "PersonalRegressor",
    "Regression",
    "TaskKind",
    "TaskName",
    "task_for",
    "task_of",
]
