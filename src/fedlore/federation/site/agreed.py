"""What may be asked under the terms: a task outside what was agreed to is never answered."""

from ...core.wire import TASK_KINDS, Task
from ...engine.lore import LORE_TASKS, MAIN, Trial, rungs
from ...errors import FedloreError
from ..remote import Refusal
from ..terms import Terms

_ROUNDED = 1e-9


def refuse_breach(terms: Terms, task: Task) -> None:
    """Raise where a task is none of those that the terms are about."""
    reason = find_breach(terms, task)
    if reason is not None:
        raise Refusal(reason)


def find_breach(terms: Terms, task: Task) -> str | None:
    """Why a task is outside the terms, or None; filters answer for their own tasks."""
    menu, kind = terms.menu, task.kind
    if kind not in TASK_KINDS or kind == "moments":
        if task.trial:
            return f"'{kind}' belongs to no trial, '{task.trial[:40]}' was named"
        if kind == "moments" and (task.round or task.sent):
            return "sums of features are asked for once, before the first round"
        return None
    if menu is None:
        if task.trial or kind in LORE_TASKS:
            return f"'{kind}' of a trial was asked for, and these terms have no candidates"
        last = terms.rounds if kind == "train" else terms.rounds + 1
        if not 1 <= task.round <= last:
            return f"'{kind}' of round {task.round} was asked for, the terms have {terms.rounds}"
        return _find_unplanned(terms, task, terms.rounds)
    if kind == "finish":
        return "last local steps are chosen in private under these terms, not asked for"
    if kind == "gram":
        if menu.exact is None or task.trial:
            return "sums of rows were asked for, and these terms have no model of one round"
        return None
    try:
        trial = Trial.read(task.trial)
    except FedloreError as error:
        return str(error)
    if str(trial) != task.trial or trial not in agreed_trials(terms):
        return f"trial '{task.trial[:40]}' is not one of those agreed to"
    return _find_misplaced(task, trial) or _find_unplanned(terms, task, trial.rounds)


def agreed_trials(terms: Terms) -> set[Trial]:
    """All trainings that the candidates, folds and rounds of the terms allow."""
    assert terms.menu is not None
    count, rounds = len(terms.menu.candidates), terms.rounds
    found = {Trial(c, MAIN, rounds) for c in range(count)}
    if not terms.privacy.spends:  # else there are no trials: each would spend the budget again
        for c in range(count):
            found |= {Trial(c, fold, rounds) for fold in range(terms.menu.folds)}
            found |= {Trial(c, 0, length) for _, length in rungs(count, rounds)}
    return found


def _find_misplaced(task: Task, trial: Trial) -> str | None:
    main = trial.fold == MAIN
    fits = {
        "train": 1 <= task.round <= trial.rounds,
        "vote": not main and task.round == trial.rounds,
        "evaluate": main and 1 <= task.round <= trial.rounds + 1,
        "settle": main and task.round == trial.rounds + 1,
    }[task.kind]
    return None if fits else f"'{task.kind}' does not belong to round {task.round} of {trial}"


def _find_unplanned(terms: Terms, task: Task, rounds: int) -> str | None:
    """Why a training is not by the seed and the learning rate of the plan, or None."""
    if task.kind not in ("train", "finish"):
        return None
    if task.seed != terms.seed:
        return f"seed {task.seed} was asked for, the terms have {terms.seed}"
    planned = terms.plan.rate(min(task.round, rounds), rounds)
    if not abs(task.rate - planned) <= _ROUNDED:  # not a number is none of the plan's either
        return (
            f"'{task.kind}' of round {task.round} came with {task.rate:g} times the learning rate, "
            f"the plan has {planned:g}"
        )
    return None
