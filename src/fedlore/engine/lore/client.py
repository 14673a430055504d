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
from ...models.client import NumberClient
from ...models.regressor import decode_logits
from ..loop import own_params, recall
from ..one_shot import one_shot_rows
from ..tuning.oof import Cached, hits, most_hits
from .rows import WORST, SiteRows, nll_rows
from .space import Trial
from .stacking import SiteModel, choose_members, judge_network, stack_of


class Shelf(Protocol):
    """Where a client keeps what trainings leave behind."""

    def memory(self, trial: Trial, accepted: int) -> Payload:
        """What a training left here, up to the round that the server merged last."""

    def kept(self, trial: Trial) -> Payload | None:
        """What a training of full length left here; None where this client missed its end."""

    def fitted(self, key: str) -> bool:
        """Whether the model of this very task is kept already."""

    def keep(self, model: SiteModel, trial: Trial, network: Params, key: str) -> None:
        """Keep the client's own model."""


class LoreClient:
    """Answers the tasks of the recipe for one site."""

    def __init__(self, rows: SiteRows, shelf: Shelf) -> None:
        self.rows, self._shelf = rows, shelf

    def answer(self, task: Task) -> Reply:
        """The reply to a task of the recipe."""
        upload: Payload = getattr(self, f"_{task.kind}")(task)
        return Reply(self.rows.id, task.round, upload, len(self.rows.member.data))

    def _gram(self, task: Task) -> Payload:
        """Sums of products of rows, for the one-shot model."""
        common = self.rows.common
        if common.search_space.one_shot is None:
            raise ConfigError(
                "sums of rows were asked for, and the search space has no one-shot model"
            )
        rows = one_shot_rows(
            self.rows.plain, common.search_space.one_shot, common.scaler, classes=common.classes
        )
        return {"gram": rows.sums()}

    def _vote(self, task: Task) -> Payload:
        """The loss of a trial on the rows that it left out."""
        trial = Trial.read(task.trial)
        memory = self._shelf.memory(trial, task.accepted.get(self.rows.id, 0))
        return {"vote": vote(self.rows, trial, self._own(trial, task.sent, memory))}

    def _ensemble(self, task: Task) -> Payload:
        """The client's own model of all that there is; nothing of it is sent."""
        key, trial = digest(task), Trial.read(task.trial)
        if self._shelf.fitted(key):
            return {}  # asked again: the same task would give the same model
        memory = self._shelf.memory(trial, task.accepted.get(self.rows.id, 0))
        main = self._own(trial, part_of(task.sent, "main"), memory)
        posterior = Posterior.of(task.sent["one_shot"]) if "one_shot" in task.sent else None
        folds = self._folds(trial, task.sent)
        model = fit_ensemble(self.rows, trial, main, folds=folds, posterior=posterior)
        network = main if model.finished is None else model.finished
        self._shelf.keep(model, trial, network, key)
        return {}

    def _folds(self, main: Trial, sent: Payload) -> list[Params]:
        """The networks of the folds as they were here; none where this client missed one."""
        found = []
        for fold in range(self.rows.common.search_space.folds):
            part = part_of(sent, str(fold))
            trial = Trial(main.candidate, fold, main.rounds)
            memory = self._shelf.kept(trial)
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


@torch.no_grad()
def fit_ensemble(
    rows: SiteRows,
    trial: Trial,
    main: Params,
    *,
    folds: Sequence[Params] = (),
    posterior: Posterior | None = None,
) -> SiteModel:
    """A site's own ensemble of all that it has, from networks that had not seen its folds.

    Stacking by out-of-fold predictions, then one temperature or width on the same rows.
    """
    candidate = rows.common.candidate(trial)
    stack = stack_of(rows, candidate)
    if stack is None:  # too few rows to choose by
        return SiteModel(None, rows.member.knowledge)
    members, seen, finished = judge_network(stack, main, folds)
    members += [*stack.one_shot(posterior), *stack.local()]
    if not members:  # nothing is known of any row that was not learned from
        return SiteModel(None, stack.knowledge, finished)
    if rows.hears_expert:
        members += stack.expert(members[0].oof)
    return stack.finish(members, choose_members(members, stack, seen), finished)


def vote(rows: SiteRows, trial: Trial, params: Params) -> Params:
    """The loss on the rows that a trial left out, summed, and how many they are."""
    candidate = rows.common.candidate(trial)
    _, held = rows.part(candidate, trial.fold)
    if held is None or not len(held):
        return _ballot(0.0, 0)
    logits = rows.logits(candidate, params, held)
    if isinstance(rows.member, NumberClient):
        assert rows.folds is not None
        measured = rows.measured
        some = measured[rows.folds == trial.fold]
        assert measured.y is not None and some.y is not None
        # in units of the site's own variance, so that no site counts for more by its scale
        spread = measured.y.double().var(correction=0).clamp(min=1e-12)
        missed = decode_logits(logits, some, 0.0).mean() - some.y
        # no row counts for more than the worst of classes does
        losses = (missed.square() / spread).clamp(max=-WORST)
        return _ballot(float(losses.sum()), len(some))
    if not rows.member.injected:
        held = Examples(held.x, held.y)
    if rows.common.ordered:
        return _ballot(float(nll_rows(logits, held).sum()), len(held))
    cached = Cached(logits.float(), held)
    wrong = 1.0 - float(hits(cached, [most_hits(cached)])[0].double().mean())
    # equal counts of right rows are common: the likelihood decides between them
    return _ballot(wrong * len(held) + 1e-3 * float(nll_rows(logits, held).sum()), len(held))


def part_of(sent: Payload, name: str) -> Payload:
    """What the task to fit an ensemble says of one training: `main`, or the number of a fold."""
    prefix = f"{name}."
    return {k.removeprefix(prefix): b for k, b in sent.items() if k.startswith(prefix)}


def _ballot(loss: float, rows: int) -> Params:
    return {
        "loss": torch.tensor([loss], dtype=torch.float64),
        "rows": torch.tensor([float(rows)], dtype=torch.float64),
    }
