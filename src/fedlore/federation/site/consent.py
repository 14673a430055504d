"""What a site agreed to: its owner accepts terms, and no task outside of them is answered."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ...core import tree
from ...core.store import write_whole
from ...core.wire import LORE_TASKS, TASK_KINDS, TRAININGS, Task
from ...engine.lore import MAIN, Trial, rungs
from ...engine.one_shot import most_sums
from ...errors import FedloreError
from ..remote import Refusal
from ..terms import Terms, read_terms
from .folder import Kit, read_kit

TERMS, OFFERED = "terms.json", "terms.offered.json"
_LARGEST = 1_000_000  # characters of terms that are kept for the owner to look at


def keep_offer(kit: Kit, terms: Terms, text: str) -> None:
    """Keep terms that were not agreed to for the owner to look at, whatever his policy says."""
    agreed = read_kit(kit.folder).file.agreed
    if agreed != terms.fingerprint() and len(text) <= _LARGEST:
        write_whole(kit.path(OFFERED), text, private=True)


def refuse_other_terms(kit: Kit, terms: Terms) -> None:
    """Raise where these are not the terms agreed to."""
    asked = terms.fingerprint()
    agreed = read_kit(kit.folder).file.agreed  # the owner may have changed his mind meanwhile
    if agreed == asked:
        return
    of = "none" if agreed is None else agreed[:12]
    raise Refusal(
        f"these terms ({asked[:12]}) are not those that this site agreed to ({of}): its owner "
        "looks at them and accepts them with fedlore accept"
    )


def offered_terms(kit: Kit) -> Terms:
    """The terms that were asked for and refused, else those of the kit."""
    path = kit.path(OFFERED)
    return read_terms(path.read_text(encoding="utf-8")) if path.exists() else kit.terms()


def accept_terms(kit: Kit, terms: Terms, *, policy: bool = False) -> str:
    """Agree to terms from now on; their hash.

    With `policy` the site also demands from now on what they promise, and nothing else.
    """
    agreed = terms.fingerprint()
    write_whole(kit.path(TERMS), terms.text(), private=True)
    path = kit.path("site.toml")
    text = path.read_text(encoding="utf-8")
    table = re.search(r"(?m)^\[", text)
    top = len(text) if table is None else table.start()
    head = _set(text[:top], "agreed", agreed)
    rest = text[top:]
    if policy:
        for what in ("model", "algorithm"):
            rest = _set(rest, f"{what}s", [name for kind, name in terms.parts() if kind == what])
        rest = _set(rest, "secure_aggregation", terms.privacy.secure_aggregation)
    write_whole(path, head + rest, private=True)
    if read_kit(kit.folder).file.agreed != agreed:
        raise FedloreError(f"'{path}' could not be changed: write into it agreed = \"{agreed}\"")
    kit.path(OFFERED).unlink(missing_ok=True)
    return agreed


def _set(text: str, key: str, value: object) -> str:
    """TOML with one key set on its line, or added; the comment behind it stays."""
    line = f"{key} = {json.dumps(value)}"
    found = re.search(rf"(?m)^{key}[ \t]*=[^#\n]*", text)
    if found is None:
        return f"{text.rstrip()}\n{line}\n\n"
    gap = " " * (len(found[0]) - len(found[0].rstrip()))
    return f"{text[: found.start()]}{line}{gap}{text[found.end() :]}"


def describe_changes(before: Terms | None, after: Terms) -> list[str]:
    """What is new in terms, one line for each value."""
    old = {} if before is None else dict(_flat(asdict(before.agreement())))
    new = dict(_flat(asdict(after.agreement())))
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if before is None:
        return [f"{name} = {json.dumps(new[name])}" for name in names]
    blank = "nothing"
    return [
        f"{name}: {json.dumps(old.get(name, blank))} -> {json.dumps(new.get(name, blank))}"
        for name in names
    ]


def _flat(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from _flat(inner, f"{above}{_plain(name)}.")
        else:
            yield above + _plain(name), inner


def _plain(name: str) -> str:
    """A key as it may be shown: those of settings are the coordinator's words."""
    return json.dumps(name)[1:-1]


_ROUNDED = 1e-9


def refuse_breach(terms: Terms, task: Task) -> None:
    """Raise where a task is none of those that the terms are about."""
    reason = find_breach(terms, task)
    if not tree.finite(task.sent):
        reason = f"'{task.kind}' of round {task.round} came with values that are not finite"
    if reason is not None:
        raise Refusal(reason)


def find_breach(terms: Terms, task: Task) -> str | None:
    """Why a task is outside the terms, or None; filters answer for their own tasks."""
    search_space, kind = terms.search_space, task.kind
    if kind not in TASK_KINDS or kind == "moments":
        if task.trial:
            return f"'{kind}' belongs to no trial, '{task.trial[:40]}' was named"
        if kind == "moments" and (task.round or task.sent):
            return "sums of features are asked for once, before the first round"
        return None
    if search_space is None:
        if task.trial or kind in LORE_TASKS:
            return f"'{kind}' of a trial was asked for, and these terms have no candidates"
        last = terms.rounds if kind == "train" else terms.rounds + 1
        if not 1 <= task.round <= last:
            return f"'{kind}' of round {task.round} was asked for, the terms have {terms.rounds}"
        return _find_unplanned(terms, task, terms.rounds)
    if kind == "finish":
        return "last local steps are chosen in private under these terms, not asked for"
    if kind == "gram" or (kind == "vote" and not task.trial):
        return _find_unbent(terms, task)
    try:
        trial = Trial.read(task.trial)
    except FedloreError as error:
        return str(error)
    if str(trial) != task.trial or trial not in agreed_trials(terms):
        return f"trial '{task.trial[:40]}' is not one of those agreed to"
    return _find_misplaced(terms, task, trial) or _find_unplanned(terms, task, trial.rounds)


def _find_unbent(terms: Terms, task: Task) -> str | None:
    """Why sums for the one-shot model, or votes on its links, were not agreed to, or None."""
    assert terms.search_space is not None
    # under a privacy budget there are the first sums alone: each would spend it again
    links = 0 if terms.privacy.spends else len(terms.search_space.links)
    if terms.search_space.one_shot is None or task.trial:
        return "sums of rows were asked for, and these terms have no one-shot model"
    if task.kind == "vote":
        return None if links else "a vote on links was asked for, and these terms have none"
    if not 0 <= task.round < most_sums(links) or bool(task.round) != bool(task.sent):
        return f"sums of rows for step {task.round} were asked for, {most_sums(links)} are agreed"
    return None


def agreed_trials(terms: Terms) -> set[Trial]:
    """All trainings that the candidates, folds and rounds of the terms allow."""
    assert terms.search_space is not None
    count, rounds = len(terms.search_space.candidates), terms.rounds
    found = {Trial(c, MAIN, rounds) for c in range(count)}
    if not terms.privacy.spends:  # else there are no trials: each would spend the budget again
        for c in range(count):
            found |= {Trial(c, fold, rounds) for fold in range(terms.search_space.folds)}
            found |= {Trial(c, 0, length) for _, length in rungs(count, rounds)}
    return found


def _find_misplaced(terms: Terms, task: Task, trial: Trial) -> str | None:
    main, space = trial.fold == MAIN, terms.search_space
    if main and task.kind == "vote":  # on where the weights of ensembles begin
        voted = not terms.privacy.spends and space is not None and space.one_shot is not None
        fits = voted and task.round == trial.rounds + 1 and "starts" in task.sent
        return None if fits else f"'vote' does not belong to round {task.round} of {trial}"
    fits = {
        "train": 1 <= task.round <= trial.rounds,
        "vote": task.round == trial.rounds and "starts" not in task.sent,
        "evaluate": main and 1 <= task.round <= trial.rounds + 1,
        "ensemble": main and task.round == trial.rounds + 1,
    }[task.kind]
    return None if fits else f"'{task.kind}' does not belong to round {task.round} of {trial}"


def _find_unplanned(terms: Terms, task: Task, rounds: int) -> str | None:
    """Why a training is not by the seed and the learning rate of the plan, or None."""
    if task.kind not in TRAININGS:
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
