"""A deployed site under terms with candidates: the client of lore, with the folder as its shelf."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import torch

from ...algorithms import FlatParams
from ...bundle.ensemble import describe_ensemble, restore_ensemble
from ...core.conformal import CoveragePromise
from ...core.store import write_whole
from ...core.tree import Params, Payload
from ...core.wire import LORE_TASKS, TOLD, WORTH, Reply, Task
from ...engine import Client, NumberClient, Recipe, Site, ready
from ...engine.lore import LoreClient, SiteModel, SiteRows, Trial
from ...engine.lore.rows import number_task
from ...knowledge.views import Recalibrated
from ...models.client import Member, PersonalModel
from ...models.tasks import Classification, Regression
from ..journal import read_state, write_state
from ..remote import Refusal
from ..terms import Terms
from .folder import Kit, Store, agree_schema

PERSONAL = "personal.weights"
BENEFIT = "benefit.json"  # what taking part brought this site


def write_model(kit: Kit, about: Mapping[str, Any], model: SiteModel, network: Params) -> None:
    """What a site chose for itself, readable by its owner alone."""
    known, ensemble = model.knowledge, model.ensemble
    header = {**about, "trust": known.trust, "rely": known.reliance, "mixture": None}
    header["row_trust"] = "" if known.row_trust is None else known.row_trust.formula
    header["holdings"] = [asdict(one) for one in model.holdings]
    payload: Payload = {"model": network}
    if isinstance(known.prediction, Recalibrated):
        payload["confusion"] = {"rows": known.prediction.confusion}
    if ensemble is not None:
        header["mixture"], payload["members"] = describe_ensemble(ensemble, known)
    write_state(kit.path(PERSONAL), header, payload, private=True)
    if model.benefit is not None:
        of = {name: about[name] for name in ("run", "trial")}
        text = json.dumps(of | model.benefit.plain(), indent=1)
        write_whole(kit.path(BENEFIT), text, private=True)
    else:
        kit.path(BENEFIT).unlink(missing_ok=True)  # of an earlier run


def personal_of(
    kit: Kit, about: Mapping[str, Any], payload: Payload, terms: Terms
) -> PersonalModel:
    """The site's own model as it was written, with the knowledge that the site has now."""
    recipe, bins = terms.recipe(about["trial"]), terms.bins
    known = kit.knowledge(terms.schema, bins)
    rows = None if known.row_trust is None else known.row_trust.with_formula(about["row_trust"])
    known = replace(known, trust=about["trust"], reliance=about["rely"], row_trust=rows)
    known = replace(known, schema=agree_schema(known.schema, terms.schema))
    ensemble = None
    if about["mixture"] is not None:
        shape, k = (terms.features,), len(terms.schema.classes)
        tensors = payload["members"]
        ensemble = restore_ensemble(about["mixture"], tensors, known, shape=shape, classes=k)
    if "confusion" in payload:
        heard = Recalibrated(known.prediction, payload["confusion"]["rows"])
        known = replace(known, prediction=heard, conflict="restrict")
    task: Classification | Regression = Classification()
    if bins is not None:
        task = number_task(terms.common().candidate(Trial.read(about["trial"])), bins)
    return task.build(
        recipe.model, known, scaler=recipe.scaler, weights=payload["model"], ensemble=ensemble
    )


def holdings_of(about: Mapping[str, Any]) -> tuple[CoveragePromise, ...]:
    """What the site's own rows allow to be said of new ones."""
    return tuple(CoveragePromise(**one) for one in about.get("holdings", ()))


def has_model(kit: Kit, run: str) -> bool:
    """Whether this site has its own model of a run."""
    path = kit.path(PERSONAL)
    if not path.exists():
        return False
    about, _ = read_state(path)
    return about.get("run") == run and "mixture" in about


_Setup = tuple[Site, Recipe, FlatParams]


class FolderShelf:
    """Keeps what trainings leave behind in the site's own folder."""

    def __init__(self, kit: Kit, terms: Terms, text: str) -> None:
        self._kit, self._terms, self._text = kit, terms, text

    def store(self, trial: Trial) -> Store:
        return Store(self._kit.state, self._terms.run, str(trial))

    def memory(self, trial: Trial, accepted: int) -> Payload:
        memory = self.store(trial).settle(accepted)
        if trial.fold >= 0 and trial.rounds == self._terms.rounds:
            self.store(trial).keep(memory)
        return memory

    def full_training(self, trial: Trial) -> Payload | None:
        return self.store(trial).kept()

    def has_model(self, key: str) -> bool:
        settled = has_model(self._kit, self._terms.run)
        return settled and read_state(self._kit.path(PERSONAL))[0]["key"] == key

    def keep(self, model: SiteModel, trial: Trial, network: Params, key: str) -> None:
        about = {"run": self._terms.run, "round": trial.rounds, "terms": self._text}
        about |= {"trial": str(trial), "key": key}
        write_model(self._kit, about, model, network)


class LoreSite:
    """A site's rows under terms with candidates; the training that runs is kept ready."""

    def __init__(self, kit: Kit, terms: Terms, text: str, client: Client | NumberClient) -> None:
        self._kit, self._terms = kit, terms
        self._common = terms.common()
        if isinstance(client, Client):  # of a number its rows do it, once knowledge has spoken
            client = client.encode(self._common.scaler)
        self._rows = SiteRows(client, self._common)
        self._shelf = FolderShelf(kit, terms, text)
        self._client = LoreClient(self._rows, self._shelf)
        self._setup: tuple[str, _Setup] | None = None

    def setup(self, trial: str) -> _Setup:
        """What trains and scores in one of the trainings; without a name, in the first."""
        if self._setup is None or self._setup[0] != trial:
            named = Trial.read(trial) if trial else Trial(0, -1, self._common.rounds)
            candidate = self._common.candidate(named)
            recipe = self._common.recipe(candidate)
            client, _ = self._rows.part(candidate, named.fold)
            site = ready(client, recipe.model, recipe.scaler)
            self._setup = (trial, (site, recipe, FlatParams(recipe.model)))
        return self._setup[1]

    def answer(self, task: Task) -> Reply | None:
        """The reply to a task about the choice, None for those that every engine answers."""
        if task.kind in LORE_TASKS:
            return self._client.answer(task)
        if task.kind != "evaluate" or task.sent.keys() - {TOLD}:
            return None
        rows = len(self._rows.member.data)
        if TOLD in task.sent:
            self._take(task.sent[TOLD])
            return Reply(self._rows.id, task.round, {}, rows)
        return Reply(self._rows.id, task.round, {}, rows, self._scores() | self._worths())

    def done(self, task: Task, memory: Payload) -> None:
        """After the last round of a training whose network is needed again: what it left here."""
        trial = Trial.read(task.trial) if task.kind == "train" else None
        if trial is not None and task.round == trial.rounds == self._common.rounds:
            self._shelf.store(trial).keep(memory)

    def _scores(self) -> dict[str, float]:
        """Of the site's own ensemble on its test rows; nothing before there is one."""
        member: Member[Any] = self._rows.member
        if self._rows.member.test is None or not has_model(self._kit, self._terms.run):
            return {}
        about, payload = read_state(self._kit.path(PERSONAL))
        with torch.no_grad():
            return member.score(personal_of(self._kit, about, payload, self._terms))

    def _worths(self) -> dict[str, float]:
        """What its columns are worth here, of which the policy lets some be told."""
        table, names = self._benefit(), self._terms.schema.names
        return {
            one.format(names.index(line["name"])): line[key]
            for line in table.get("columns", ())
            for one, key in zip(WORTH, ("value", "low", "high"), strict=True)
        }

    def _take(self, told: Params) -> None:
        """Keep what other sites said that their columns are worth to them."""
        table = self._benefit()
        for name, rows in told.items():
            if name not in self._terms.schema.names or rows.ndim != 2 or rows.shape[1] != 3:
                raise Refusal("what columns are worth came for another column, or in another shape")
        if table:
            table["others"] = {name: rows.tolist() for name, rows in told.items()}
            write_whole(self._kit.path(BENEFIT), json.dumps(table, indent=1), private=True)

    def _benefit(self) -> dict[str, Any]:
        """The site's own table of this run; empty where it has none."""
        path = self._kit.path(BENEFIT)
        table: dict[str, Any] = (
            json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        )
        return table if table.get("run") == self._terms.run else {}
