"""The tasks by name, and which of them clients, a model or knowledge belong to."""

from collections.abc import Sequence
from typing import cast

from ...answers import Bins
from ...errors import ConfigError, FedloreError
from ..client import Member, P, Predictor
from .base import TaskKind, TaskName
from .classification import Classification
from .regression import Regression

__all__ = [
    "TASKS",
    "Classification",
    "Regression",
    "TaskKind",
    "TaskName",
    "name_for",
    "task_for",
    "task_of",
]

TASKS: dict[TaskName, type[Classification] | type[Regression]] = {
    "classification": Classification,
    "regression": Regression,
}


def task_for(
    clients: Sequence[Member[P]],
    task: TaskName | TaskKind[P] | None = None,
    *,
    bins: Bins | None = None,
    ordinal: float = 0.0,
    hears: bool = False,
) -> TaskKind[P]:
    """The task of these clients; where none is named, the one that their rows are for."""
    if task is not None and not isinstance(task, str):
        if bins is not None or ordinal or hears:
            raise ConfigError("a task given as an object brings its own bins, ordinal and hears")
        return task
    found = TASKS[name_for(clients, task)].chosen(bins, ordinal=ordinal, hears=hears)
    return cast(TaskKind[P], found)  # a client of another task is refused when it enters


def name_for(clients: Sequence[Member[P]], task: TaskName | TaskKind[P] | None = None) -> TaskName:
    """What the task of these clients is called."""
    if task is None:
        return _name_of(clients[0].predictor) if clients else "classification"
    if not isinstance(task, str):
        return task.name
    if task not in TASKS:
        raise ConfigError(f"task must be {' or '.join(TASKS)}, got '{task}'")
    return task


def task_of(personal: P) -> TaskKind[P]:
    """The task that a personal model answers."""
    kind = cast(type[TaskKind[P]], TASKS[_name_of(type(personal))])
    return kind.of(personal)


def _name_of(predictor: type[Predictor]) -> TaskName:
    for name, kind in TASKS.items():
        if predictor is kind.predictor:
            return name
    raise FedloreError(f"no task has personal models of type {predictor.__name__}")
