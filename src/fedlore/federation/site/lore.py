"""A deployed site under terms with candidates: the client of lore, with the folder as its shelf."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from ...algorithms import FlatParams
from ...core.conformal import CoveragePromise
from ...core.one_shot import Home, OneShotModel, Posterior
from ...core.store import write_whole
from ...core.tree import Params, Payload
from ...core.wire import LORE_TASKS, Reply, Task
from ...engine import Client, NumberClient, Recipe, Site, ready
from ...engine.lore import LoreClient, SiteModel, SiteRows, Trial
from ...engine.lore.rows import number_task
from ...engine.lore.train import mixture_scores
from ...errors import FedloreError
from ...knowledge.rowtrust import RowTrust
from ...knowledge.views import Recalibrated
from ...models.classifier import Personal
from ...models.ensemble import Ensemble, NumberEnsemble, OneShotMember, OneShotNumber
from ...models.own.members import (
    Sight,
    read_own_members,
    see_classes,
    see_numbers,
    see_order,
    write_own_members,
)
from ...models.regressor import PersonalRegressor
from ..journal import read_state, write_state
from ..terms import Terms
from .folder import Kit, Store, agree_schema

PERSONAL = "personal.weights"
BENEFIT = "benefit.json"  # what taking part brought this site
_EXACT = "one_shot"  # the one-shot model among the members


def write_model(
    kit: Kit, about: Mapping[str, Any], rows: SiteRows, model: SiteModel, network: Params
) -> None:
    """What a site chose for itself, readable by its owner alone."""
    known, ensemble = model.knowledge, model.ensemble
    header = {**about, "trust": known.trust, "rely": known.reliance, "mixture": None}
    header["row_trust"] = "" if known.row_trust is None else known.row_trust.formula
    header["holdings"] = [asdict(one) for one in model.holdings]
    payload: Payload = {"model": network}
    if isinstance(known.prediction, Recalibrated):
        payload["confusion"] = {"rows": known.prediction.confusion}
    if ensemble is not None:
        header["mixture"], more = describe_ensemble(rows, ensemble)
        payload |= more
    write_state(kit.path(PERSONAL), header, payload, private=True)
    if model.benefit is not None:
        text = json.dumps({**about_run(about), **model.benefit.plain()}, indent=1)
        write_whole(kit.path(BENEFIT), text, private=True)
    else:
        kit.path(BENEFIT).unlink(missing_ok=True)  # of an earlier run


def _row_trust(rows: RowTrust | None, about: Mapping[str, Any]) -> RowTrust | None:
    """λ row by row as the file says it, with what the site has learned."""
    return None if rows is None else rows.with_formula(about.get("row_trust", ""))


def about_run(about: Mapping[str, Any]) -> dict[str, Any]:
    return {name: about[name] for name in ("run", "trial")}


def personal_of(
    kit: Kit, about: Mapping[str, Any], payload: Payload, terms: Terms
) -> Personal | PersonalRegressor:
    """The site's own model as it was written, with the knowledge that the site has now."""
    recipe, bins = terms.recipe(about["trial"]), terms.bins
    known = kit.knowledge(bins)
    rows = _row_trust(known.row_trust, about)
    known = replace(known, trust=about["trust"], reliance=about["rely"], row_trust=rows)
    known = replace(known, schema=agree_schema(known.schema, terms.schema))
    if bins is not None:
        candidate = terms.common().candidate(Trial.read(about["trial"]))
        mixed = ensemble_of(about, payload, terms)
        return number_task(candidate, bins).build(
            recipe.model, known, scaler=recipe.scaler, weights=payload["model"], ensemble=mixed
        )
    if "confusion" in payload:
        heard = Recalibrated(known.prediction, payload["confusion"]["rows"])
        known = replace(known, prediction=heard, conflict="restrict")
    ensemble = ensemble_of(about, payload, terms)
    assert not isinstance(ensemble, NumberEnsemble)  # of classes
    return Personal(
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


def describe_ensemble(
    rows: SiteRows, ensemble: Ensemble | NumberEnsemble
) -> tuple[dict[str, Any], Payload]:
    """A mixture as values for JSON and as tensors."""
    own = [m for m in ensemble.members if not isinstance(m, OneShotMember | OneShotNumber)]
    said, tensors = write_own_members(own)  # type: ignore[arg-type]  # what is not exact is own
    values = {
        "members": [
            _EXACT if isinstance(m, OneShotMember | OneShotNumber) else "own"
            for m in ensemble.members
        ],
        "own": said,
        "heard": _sight(rows).heard.shape[1],
        "weights": list(ensemble.weights),
        "network": ensemble.network,
        "expert": ensemble.expert,
        **_last(ensemble),
    }
    payload: Payload = {"members": tensors}
    for member in ensemble.members:
        if isinstance(member, OneShotMember | OneShotNumber):
            home = member.one_shot_model.home
            payload[_EXACT] = member.one_shot_model.found.bundle()
            payload["home"] = {"middle": home.middle, "level": home.level}
            values["rows"] = home.rows
            one_shots = rows.common.search_space.one_shots
            values["link"] = one_shots.index(member.one_shot_model.one_shot)
    return values, payload


def _sight(rows: SiteRows) -> Sight:
    """What members of this site hear of its expert."""
    if rows.common.bins is not None:
        return see_numbers(rows.measured)
    data = rows.plain.data
    return see_order(data, rows.common.classes) if rows.common.ordered else see_classes(data)


def _last(ensemble: Ensemble | NumberEnsemble) -> dict[str, Any]:
    if isinstance(ensemble, Ensemble):
        return {"inverse_temperature": ensemble.inverse_temperature}
    return {"width": ensemble.width}


def ensemble_of(
    about: Mapping[str, Any], payload: Payload, terms: Terms
) -> Ensemble | NumberEnsemble | None:
    """The mixture of a site as it was written; None where its network stands alone."""
    values = about["mixture"]
    if values is None:
        return None
    features, classes = terms.features, len(terms.schema.classes)
    tensors: Mapping[str, Tensor] = payload["members"]
    own = iter(read_own_members(values["own"], tensors, columns=features, heard=values["heard"]))
    members: list[Any] = []
    for said in values["members"]:
        if said != _EXACT:
            members.append(next(own))
            continue
        if terms.search_space is None or terms.search_space.one_shot is None:
            raise FedloreError("a one-shot model that the terms know nothing of")
        home = Home(payload["home"]["middle"], payload["home"]["level"], values["rows"])
        one_shot = terms.search_space.one_shots[values["link"]]
        found = OneShotModel(one_shot, Posterior.of(payload[_EXACT]), home, classes)
        kind = OneShotMember if terms.target is None else OneShotNumber
        members.append(kind(found, terms.scaler()))
    weights = tuple(values["weights"])
    shares = (values["network"], values["expert"])
    if terms.target is not None:
        return NumberEnsemble(tuple(members), weights, *shares, values["width"])
    return Ensemble(tuple(members), weights, *shares, values["inverse_temperature"])


_Setup = tuple[Site, Recipe, FlatParams]


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
        settled = has_model(self._kit, self._terms.run)
        return settled and read_state(self._kit.path(PERSONAL))[0]["key"] == key

    def keep(self, model: SiteModel, trial: Trial, network: Params, key: str) -> None:
        about = {"run": self._terms.run, "round": trial.rounds, "terms": self._text}
        about |= {"trial": str(trial), "key": key}
        write_model(self._kit, about, self._rows, model, network)


class LoreSite:
    """A site's rows under terms with candidates; the training that runs is kept ready."""

    def __init__(self, kit: Kit, terms: Terms, text: str, client: Client | NumberClient) -> None:
        self._kit, self._terms = kit, terms
        self._common = terms.common()
        if isinstance(client, Client):  # of a number its rows do it, once knowledge has spoken
            client = client.encode(self._common.scaler)
        self._rows = SiteRows(client, self._common)
        self._shelf = FolderShelf(kit, terms, text, self._rows)
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
        if member.test is None or not has_model(self._kit, self._terms.run):
            return {}
        about, payload = read_state(self._kit.path(PERSONAL))
        with torch.no_grad():
            return mixture_scores(personal_of(self._kit, about, payload, self._terms), member)
