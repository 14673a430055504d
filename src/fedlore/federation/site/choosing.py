"""A site's half of a recipe that the sites choose together: votes leave it, nothing else does."""

from pathlib import Path

import torch

from ...algorithms import FlatParams, facts_of
from ...core.exact import Posterior
from ...core.tree import Params, Payload
from ...core.wire import Reply, Task, digest
from ...engine import Client, NumberClient, Recipe, Site, ready
from ...engine.exact import exact_rows
from ...engine.loop import own_params, recall
from ...engine.lore import Seat, Trial, part_of, settle, vote
from ...engine.lore.train import mixture_scores
from ..journal import read_state
from ..terms import Terms
from .agreed import CHOOSING
from .folder import Kit
from .settled import (
    PERSONAL,
    is_settled,
    personal_of,
    write_settled,
)
from .store import Store

_Bench = tuple[Site, Recipe, FlatParams]


class Choosing:
    """A site's rows under terms with candidates; the training that runs is kept ready."""

    def __init__(self, kit: Kit, terms: Terms, text: str, client: Client | NumberClient) -> None:
        self._kit, self._terms, self._text = kit, terms, text
        self._common = terms.common()
        if isinstance(client, Client):  # of a number its seat does it, once knowledge has spoken
            client = client.encode(self._common.scaler)
        self._seat = Seat(client, self._common)
        self._bench: tuple[str, _Bench] | None = None

    def bench(self, trial: str) -> _Bench:
        """What trains and scores in one of the trainings; without a name, in the first."""
        if self._bench is None or self._bench[0] != trial:
            named = Trial.read(trial) if trial else Trial(0, -1, self._common.rounds)
            candidate = self._common.candidate(named)
            recipe = self._common.recipe(candidate)
            client, _ = self._seat.part(candidate, named.fold)
            site = ready(client, recipe.model, recipe.scaler)
            self._bench = (trial, (site, recipe, FlatParams(recipe.model)))
        return self._bench[1]

    def takes(self, task: Task) -> bool:
        """Whether a task is about the choice, and not one that every engine answers."""
        return task.kind in CHOOSING or (task.kind == "evaluate" and not task.sent)

    def answer(self, task: Task) -> Reply:
        """The reply to a task about the choice."""
        reply = Reply(self._seat.id, task.round, rows=len(self._seat.member.data))
        if task.kind == "gram":
            return Reply(reply.client, reply.round, {"gram": self._gram()}, reply.rows)
        if task.kind == "vote":
            return Reply(reply.client, reply.round, {"vote": self._vote(task)}, reply.rows)
        if task.kind == "settle":
            self._settle(task)
            return reply
        return Reply(reply.client, reply.round, {}, reply.rows, self._scores())

    def over(self, task: Task, memory: Payload) -> None:
        """After the last round of a training whose network is needed again: what it left here."""
        trial = Trial.read(task.trial)
        if task.round == trial.rounds == self._common.rounds:
            self._store(trial).keep(memory)

    def _gram(self) -> Params:
        exact, common = self._common.menu.exact, self._common
        assert exact is not None  # or it was refused
        client = self._seat.plain
        return exact_rows(client, exact, common.scaler, classes=common.classes).sums()

    def _vote(self, task: Task) -> Params:
        trial = Trial.read(task.trial)
        store = self._store(trial)
        memory = store.settle(task.accepted.get(self._seat.id, 0))
        if trial.rounds == self._common.rounds:
            store.keep(memory)
        return vote(self._seat, trial, self._own(trial, task.sent, memory))

    def _settle(self, task: Task) -> None:
        key, path = digest(task), self._kit.path(PERSONAL)
        if is_settled(self._kit, self._terms.run) and read_state(path)[0]["key"] == key:
            return  # asked again: the same word would give the same model
        trial = Trial.read(task.trial)
        memory = self._store(trial).settle(task.accepted.get(self._seat.id, 0))
        main = self._own(trial, part_of(task.sent, "main"), memory)
        private = settle(
            self._seat,
            trial,
            main,
            folds=self._folds(trial, task.sent),
            posterior=Posterior.of(task.sent["exact"]) if "exact" in task.sent else None,
        )
        about = {"run": self._terms.run, "round": trial.rounds, "terms": self._text}
        about |= {"trial": task.trial, "key": key}
        network = main if private.finished is None else private.finished
        write_settled(self._kit, about, self._seat, private, network)

    def _folds(self, main: Trial, sent: Payload) -> list[Params]:
        """The networks of the folds as they were here; none where this site missed one of them."""
        found = []
        for fold in range(self._common.menu.folds):
            part = part_of(sent, str(fold))
            trial = Trial(main.candidate, fold, main.rounds)
            memory = self._store(trial).kept()
            if not part or (memory is None and self._remembers(trial)):
                return []
            found.append(self._own(trial, part, memory or {}))
        return found

    def _remembers(self, trial: Trial) -> bool:
        candidate = self._common.candidate(trial)
        return facts_of(candidate.algorithm(self._common.algorithm)).memory

    def _own(self, trial: Trial, sent: Payload, memory: Payload) -> Params:
        recipe = self._common.recipe(self._common.candidate(trial))
        return own_params(recipe.algorithm, sent, recall(recipe, sent, memory))

    def _scores(self) -> dict[str, float]:
        """Of the site's own mixture on its test rows; nothing before it has settled."""
        member = self._seat.member
        if member.test is None or not is_settled(self._kit, self._terms.run):
            return {}
        about, payload = read_state(self._kit.path(PERSONAL))
        with torch.no_grad():
            return mixture_scores(personal_of(self._kit, about, payload, self._terms), member)

    def _store(self, trial: Trial) -> Store:
        state: Path = self._kit.state
        return Store(state, self._terms.run, str(trial))
