"""A deployed site under terms with candidates: the client of lore, with the folder as its shelf."""

import torch

from ...algorithms import FlatParams
from ...core.tree import Params, Payload
from ...core.wire import Reply, Task
from ...engine import Client, NumberClient, Recipe, Site, ready
from ...engine.lore import LORE_TASKS, LoreClient, SiteModel, SiteRows, Trial
from ...engine.lore.train import mixture_scores
from ..journal import read_state
from ..terms import Terms
from .folder import Kit
from .settled import PERSONAL, is_settled, personal_of, write_settled
from .store import Store

_Bench = tuple[Site, Recipe, FlatParams]


class FolderShelf:
    """Keeps what trainings leave behind in the site's own folder."""

    def __init__(self, kit: Kit, terms: Terms, text: str, rows: SiteRows) -> None:
        self._kit, self._terms, self._text, self._rows = kit, terms, text, rows

    def store(self, trial: Trial) -> Store:
        return Store(self._kit.state, self._terms.run, str(trial))

    def memory(self, trial: Trial, accepted: int) -> Payload:
        memory = self.store(trial).settle(accepted)
        if trial.fold >= 0 and trial.rounds == self._terms.rounds:
            self.store(trial).keep(memory)
        return memory

    def kept(self, trial: Trial) -> Payload | None:
        return self.store(trial).kept()

    def fitted(self, key: str) -> bool:
        settled = is_settled(self._kit, self._terms.run)
        return settled and read_state(self._kit.path(PERSONAL))[0]["key"] == key

    def keep(self, model: SiteModel, trial: Trial, network: Params, key: str) -> None:
        about = {"run": self._terms.run, "round": trial.rounds, "terms": self._text}
        about |= {"trial": str(trial), "key": key}
        write_settled(self._kit, about, self._rows, model, network)


class ChoosingSite:
    """A site's rows under terms with candidates; the training that runs is kept ready."""

    def __init__(self, kit: Kit, terms: Terms, text: str, client: Client | NumberClient) -> None:
        self._kit, self._terms = kit, terms
        self._common = terms.common()
        if isinstance(client, Client):  # of a number its rows do it, once knowledge has spoken
            client = client.encode(self._common.scaler)
        self._rows = SiteRows(client, self._common)
        self._shelf = FolderShelf(kit, terms, text, self._rows)
        self._client = LoreClient(self._rows, self._shelf)
        self._bench: tuple[str, _Bench] | None = None

    def bench(self, trial: str) -> _Bench:
        """What trains and scores in one of the trainings; without a name, in the first."""
        if self._bench is None or self._bench[0] != trial:
            named = Trial.read(trial) if trial else Trial(0, -1, self._common.rounds)
            candidate = self._common.candidate(named)
            recipe = self._common.recipe(candidate)
            client, _ = self._rows.part(candidate, named.fold)
            site = ready(client, recipe.model, recipe.scaler)
            self._bench = (trial, (site, recipe, FlatParams(recipe.model)))
        return self._bench[1]

    def takes(self, task: Task) -> bool:
        """Whether a task is about the choice, and not one that every engine answers."""
        return task.kind in LORE_TASKS or (task.kind == "evaluate" and not task.sent)

    def answer(self, task: Task) -> Reply:
        """The reply to a task about the choice."""
        if task.kind in LORE_TASKS:
            return self._client.answer(task)
        rows = len(self._rows.member.data)
        return Reply(self._rows.id, task.round, {}, rows, self._scores())

    def over(self, task: Task, memory: Payload) -> None:
        """After the last round of a training whose network is needed again: what it left here."""
        trial = Trial.read(task.trial)
        if task.round == trial.rounds == self._common.rounds:
            self._shelf.store(trial).keep(memory)

    def _scores(self) -> dict[str, float]:
        """Of the site's own ensemble on its test rows; nothing before there is one."""
        member = self._rows.member
        if member.test is None or not is_settled(self._kit, self._terms.run):
            return {}
        about, payload = read_state(self._kit.path(PERSONAL))
        with torch.no_grad():
            return mixture_scores(personal_of(self._kit, about, payload, self._terms), member)
