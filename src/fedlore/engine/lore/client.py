"""The client half of the recipe: a vote for the server, and a model that stays at home.

In one process and deployed the same client answers; only its shelf differs, the place where it
keeps what trainings leave behind: memory, or the site's folder. Nothing but sums and votes leaves.
"""

from collections.abc import Sequence
from typing import Protocol

import torch

from ...algorithms import facts_of
from ...core.examples import Examples
from ...core.one_shot import Posterior
from ...core.tree import Params, Payload
from ...core.wire import Reply, Task, digest
from ...errors import ConfigError
from ...models.regressor import decode_logits
from ..loop import own_params, recall
from ..tuning.oof import Cached, hits, most_hits
from .rows import SiteRows, nll_rows
from .space import MAIN, Trial
from .stacking import SiteModel, StackedMembers, fit_ensemble, stack_members
from .start import read_starts


def vote(rows: SiteRows, trial: Trial, params: Params) -> Params:
    """The loss on the rows that a trial left out, summed, and how many they are."""
    candidate = rows.common.candidate(trial)
    _, held = rows.part(candidate, trial.fold)
    if held is None or not len(held):
        return ballot([0.0], 0)
    logits = rows.logits(candidate, params, held)
    if rows.common.bins is not None:
        assert rows.folds is not None
        away = rows.folds == trial.fold
        predicted = decode_logits(logits, rows.measured[away], 0.0).mean()
        return ballot([float(rows.number_losses(predicted, away).sum())], int(away.sum()))
    if not rows.member.injected:
        held = Examples(held.x, held.y)
    if rows.common.ordered or rows.metric:
        return ballot([float(rows.class_losses(logits, held).sum())], len(held))
    cached = Cached(logits.float(), held)
    wrong = 1.0 - float(hits(cached, [most_hits(cached)])[0].double().mean())
    # equal counts of right rows are common: the likelihood decides between them
    return ballot([wrong * len(held) + 1e-3 * float(nll_rows(logits, held).sum())], len(held))


def ballot(losses: Sequence[float], rows: int) -> Params:
    """A vote as it travels."""
    return {
        "loss": torch.tensor(losses, dtype=torch.float64),
        "rows": torch.tensor([float(rows)], dtype=torch.float64),
    }


class Shelf(Protocol):
    """Where a client keeps what trainings leave behind."""

    def memory(self, trial: Trial, accepted: int) -> Payload:
        """What a training left here, up to the round that the server merged last."""

    def full_training(self, trial: Trial) -> Payload | None:
        """What a training of full length left here; None where this client missed its end."""

    def has_model(self, key: str) -> bool:
        """Whether the model of this very task is kept already."""

    def keep(self, model: SiteModel, trial: Trial, network: Params, key: str) -> None:
        """Keep the client's own model."""


class LoreClient:
    """Answers the tasks of the recipe for one site."""

    def __init__(self, rows: SiteRows, shelf: Shelf) -> None:
        self.rows, self._shelf = rows, shelf
        self._kept: tuple[str, StackedMembers] | None = None

    def answer(self, task: Task) -> Reply:
        """The reply to a task of the recipe."""
        upload: Payload = getattr(self, f"_{task.kind}")(task)
        return Reply(self.rows.id, task.round, upload, len(self.rows.member.data))

    def _gram(self, task: Task) -> Payload:
        """Sums of products of rows, for the one-shot model."""
        search_space = self.rows.common.search_space
        if search_space.one_shot is None:
            raise ConfigError("sums of rows were asked for, and there is no one-shot model")
        if not task.sent:
            return {"gram": self.rows.one_shot_rows(search_space.one_shot).sums()}
        sent = task.sent["one_shot"]
        rows = self.rows.one_shot_rows(search_space.one_shot_at(sent))
        return {"gram": rows.sums(sent["mean"])}

    def _vote(self, task: Task) -> Payload:
        """The loss of a trial on the rows that it left out, of one-shot models, or of starts."""
        if not task.trial:
            return {"vote": self._vote_one_shots(task.sent)}
        trial = Trial.read(task.trial)
        if trial.fold == MAIN:
            found = self._stack_members(trial, task)
            starts = read_starts(task.sent["starts"])
            return {"vote": ballot([found.judge(one) for one in starts], found.row_count)}
        memory = self._shelf.memory(trial, task.accepted.get(self.rows.id, 0))
        return {"vote": vote(self.rows, trial, self._own(trial, task.sent, memory))}

    def _vote_one_shots(self, sent: Payload) -> Params:
        """The losses of every one-shot model, each row left out of it in closed form."""
        known = enumerate(self.rows.common.search_space.one_shots)
        losses = [self.rows.one_shot_loss(one, Posterior.of(sent[str(at)])) for at, one in known]
        return ballot(losses, len(self.rows.plain.data))

    def _ensemble(self, task: Task) -> Payload:
        """The client's own model of all that there is; nothing of it is sent."""
        key, trial = digest(task), Trial.read(task.trial)
        if self._shelf.has_model(key):
            return {}  # asked again: the same task would give the same model
        found = self._stack_members(trial, task)
        start = read_starts(task.sent["start"])[0] if "start" in task.sent else None
        model = fit_ensemble(self.rows, found, start)
        network = found.main if model.finished is None else model.finished
        self._shelf.keep(model, trial, network, key)
        self._kept = None
        return {}

    def _stack_members(self, trial: Trial, task: Task) -> StackedMembers:
        """All that an ensemble may be made of, once for the vote on starts and for itself."""
        sent = {k: b for k, b in task.question().sent.items() if k not in ("start", "starts")}
        key = digest(sent)
        if self._kept is None or self._kept[0] != key:
            memory = self._shelf.memory(trial, task.accepted.get(self.rows.id, 0))
            main, folds = self._own(trial, part_of(sent, "main"), memory), self._folds(trial, sent)
            search_space = self.rows.common.search_space
            one_shot = search_space.read_posterior(sent["one_shot"]) if "one_shot" in sent else None
            self._kept = key, stack_members(self.rows, trial, main, folds, one_shot)
        return self._kept[1]

    def _folds(self, main: Trial, sent: Payload) -> list[Params]:
        """The networks of the folds as they were here; none where this client missed one."""
        found = []
        for fold in range(self.rows.common.search_space.folds):
            part = part_of(sent, str(fold))
            trial = Trial(main.candidate, fold, main.rounds)
            memory = self._shelf.full_training(trial)
            if not part or (memory is None and self._remembers(trial)):
                return []
            found.append(self._own(trial, part, memory or {}))
        return found

    def _remembers(self, trial: Trial) -> bool:
        common = self.rows.common
        return facts_of(common.candidate(trial).algorithm(common.algorithm)).memory

    def _own(self, trial: Trial, sent: Payload, memory: Payload) -> Params:
        """The network that this client has after a training."""
        common = self.rows.common
        recipe = common.recipe(common.candidate(trial))
        return own_params(recipe.algorithm, sent, recall(recipe, sent, memory))


def part_of(sent: Payload, name: str) -> Payload:
    """What the task to fit an ensemble says of one training: `main`, or the number of a fold."""
    prefix = f"{name}."
    return {k.removeprefix(prefix): b for k, b in sent.items() if k.startswith(prefix)}
