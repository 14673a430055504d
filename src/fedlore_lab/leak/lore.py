"""The recipe lore as a curious coordinator sees it: trials, votes and the sums of one round."""

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from fedlore import Personal
from fedlore.algorithms import FedAvg
from fedlore.core import tree
from fedlore.core.nets import server
from fedlore.core.one_shot import Basis, OneShot, unpack_gram
from fedlore.core.tree import Params
from fedlore.core.wire import Transport
from fedlore.engine import Client, Fitted, Training
from fedlore.engine.lore import Candidate, SearchSpace, Trial, default_space, train_lore
from fedlore.experiments import Drawing
from fedlore.privacy import Privacy

from .coordinator import Spy, names_seen
from .score import auc, known_rows, member_by_loss, over_time, sum_up
from .settings import LeakSetting, View
from .uploads import Anatomy, Seen, class_signs, find_untouched, site_signs

_LITTLE = 1e-9


def sum_signs(sums: Params, one_shot: OneShot, features: int, classes: int) -> Tensor:
    """What the sums say about the site as a whole, (g,): spreads, and how well the expert fits."""
    free = sums["free"].double().clamp(min=1.0)
    spread = sums["energy"].double() / free  # of the labels less the start, in classes²
    if not one_shot.hears:
        return (spread + _LITTLE).log10().reshape(1)
    gram, cross = _gram(sums), sums["cross"].double()
    place, gap = features, features + 1  # the columns of the expert's place and its distance
    unit = classes / 4  # of a place that is heard, in classes
    missed = spread + (unit**2 * gram[place, place] - 2 * unit * cross[place]) / free
    sizes = [spread, gram[place, place] / free, gram[gap, gap] / free, missed.clamp(min=0.0)]
    fits = [
        cross[i] / (gram[i, i] * sums["energy"].double()).clamp(min=_LITTLE).sqrt()
        for i in (place, gap)
    ]
    return torch.stack([*((s + _LITTLE).log10() for s in sizes), *fits])


def sum_class_signs(sums: Params, one_shot: OneShot, features: int, classes: int) -> Tensor:
    """What the sums say about each class, (k, f): how likely it is under the spreads they tell."""
    free = sums["free"].double().clamp(min=1.0)
    away = (torch.arange(classes, dtype=torch.float64) - (classes - 1) / 2).square()
    spreads = [sums["energy"].double() / free]
    if one_shot.hears:
        spreads.append((classes / 4) ** 2 * _gram(sums)[features, features] / free)
    return torch.stack([-away / (2 * spread.clamp(min=0.01)) for spread in spreads], 1)


def member_by_leverage(
    sums: Params, one_shot: OneShot, x: Tensor, *, relative: bool = False
) -> Tensor:
    """How little a known row sticks out of the rows behind the sums, (n, d) -> (n,); high is in.

    A row that is in the sums lies in what they span. `relative`: against how far it sticks out of
    each group of features by itself, as an unusual row does that is in. The attacker knows the
    row but not what the expert said of it, so that only its own features are looked at.
    """
    d, basis = x.shape[1], one_shot.basis
    known = _of_features(one_shot.basis, one_shot.columns(d), d)
    gram = _gram(sums)[known][:, known]
    phi = basis(x)
    phi = phi - phi.mean(0)  # the site's own middle stays at home: that of all known rows is near
    ridge = 1e-6 * gram.diagonal().mean().clamp(min=_LITTLE)
    gram = gram + ridge * torch.eye(len(gram)).to(gram)

    def leverage(some: Tensor) -> Tensor:
        inside: Tensor = torch.linalg.solve(gram[some][:, some], phi[:, some].T)
        return (phi[:, some].T * inside).sum(0)

    whole = leverage(torch.ones(len(gram), dtype=torch.bool))
    groups = basis.groups(d)
    if not relative or not bool(groups.any()):  # one group is the whole
        return -whole
    parts = torch.stack([leverage(groups == g) for g in range(int(groups.max()) + 1)]).sum(0)
    return -(whole / parts.clamp(min=_LITTLE)).clamp(min=_LITTLE).log()


def _of_features(basis: Basis, columns: int, features: int) -> Tensor:
    """Which functions of a row are of its features alone, bool (f,)."""
    linear = torch.arange(columns) < features
    parts = [linear]
    if basis.terms != "linear":
        parts.append(linear)
    if basis.terms == "quadratic":
        i, j = torch.triu_indices(columns, columns, 1)
        parts.append(linear[i] & linear[j])
    parts += [linear] * basis.curves
    return torch.cat(parts)


def _gram(sums: Params) -> Tensor:
    return unpack_gram(sums, len(sums["cross"])).double()


#: Of all candidates the one whose uploads speak most of classes: it hears, and has a class head.
TELLING = Candidate(True, 0.5)


@dataclass(frozen=True, eq=False)
class Overheard:
    """A run of the recipe, and all that its server saw."""

    fitted: Fitted[Personal]
    spy: Spy
    search_space: SearchSpace
    it: Drawing

    @property
    def features(self) -> int:
        return self.it.class_clients[0].data.x.shape[1:].numel()

    @property
    def classes(self) -> int:
        allowed = self.it.class_clients[0].data.allowed
        assert allowed is not None  # or the audit would have nothing to find
        return allowed.shape[1]

    def start(self, trial: Trial) -> Params:
        """Where a training began, as the coordinator knows it; of class heads all layers."""
        if not self.has_classes(trial):
            return self.spy.kept[str(trial)][0].sent
        made = server(self.it.make_model(self.search_space.candidates[trial.candidate].hears))
        return {n: p.detach() for n, p in made.named_parameters()}

    def looks(self, trial: Trial, site: str, view: View) -> list[Seen]:
        rounds, start = self.spy.kept[str(trial)], self.start(trial)
        return [one.seen(site, view, start) for one in rounds]

    def main(self, site: str, view: View) -> list[Seen]:
        """Of the main training; what stays at the sites is known at its start."""
        start = {n: p.detach() for n, p in self.fitted.recipe.model.named_parameters()}
        *_, last = self.spy.kept.values()
        return [one.seen(site, view, start) for one in last]

    @property
    def trials(self) -> list[Trial]:
        return [Trial.read(name) for name in self.spy.kept]

    @property
    def first(self) -> list[Trial]:
        """The shortest trials, which are the same in every run."""
        trials = self.trials
        return [t for t in trials if (t.fold, t.rounds) == (trials[0].fold, trials[0].rounds)]

    def has_classes(self, trial: Trial) -> bool:
        return self.search_space.candidates[trial.candidate].head == "classes"

    @property
    def informative(self) -> Trial | None:
        """The trial whose class signs are looked at; none where all heads are ordinal."""
        found = [t for t in self.first if self.has_classes(t)]
        best = [t for t in found if self.search_space.candidates[t.candidate] == TELLING]
        return next(iter([*best, *found]), None)

    def anatomy(self, trial: Trial) -> Anatomy:
        """Where its network keeps what speaks of classes; an ordinal head has no such place."""
        if not self.has_classes(trial):
            return Anatomy(self.classes, "", None)
        shapes = {n: tuple(t.shape) for n, t in self.start(trial).items()}
        return Anatomy.of(shapes, hears=self.search_space.candidates[trial.candidate].hears)

    def said(self, what: str, site: str, view: View) -> Params | None:
        """What one question brought, as far as the view shows it."""
        sums = self.spy.answers.get(what)
        if sums is None:
            return None
        names = names_seen(list(sums), site, view)
        return tree.mean([({"": sums[name]}, 1.0) for name in names])[""]


def overhear(it: Drawing, setting: LeakSetting) -> Overheard:
    """Train as `fit(recipe="lore")` does, with a spy at the server's door."""
    spies: list[Spy] = []

    def door(transport: Transport) -> Spy:
        spies.append(Spy(transport))
        return spies[-1]

    x = it.class_clients[0].data.x
    search_space = default_space(x.shape[1:].numel(), ordered=bool(it.ordered) and x.ndim == 2)
    privacy = Privacy(secure_aggregation=True) if setting.masked else None
    training = Training(
        algorithm=setting.approach.algorithm or FedAvg(),
        plan=it.plan,
        rounds=it.rounds,
        scale=it.scale,
        seed=it.seed,
        privacy=privacy,
        workers=1,
    )
    fitted = train_lore(
        it.class_clients,
        training,
        model=it.make_model,
        search_space=search_space,
        ordered=bool(it.ordered),
        door=door,
    )
    return Overheard(fitted, spies[0], search_space, it)


def look_at(run: Overheard, it: Drawing, setting: LeakSetting) -> dict[str, Tensor]:
    """What the recipe shows of every site, and the secrets behind it."""
    view = setting.view

    def look(client: Client) -> dict[str, Tensor]:
        return {
            "still": _still(run, client.id, view),
            "classes": _classes(run, client.id, view),
            "whole": _whole(run, client, view),
            "member": _member(run, client, view, it.seed),
        }

    return sum_up(it.class_clients, look, setting, run.fitted)


def _still(run: Overheard, site: str, view: View) -> Tensor:
    """Classes that every training which can show it shows as never allowed, (k,)."""
    flags = [
        find_untouched(run.looks(t, site, view)[0], run.anatomy(t))
        for t in run.trials
        if run.has_classes(t)
    ]
    shown = [f for f in flags if f.any()]
    if not shown:
        return torch.zeros(run.classes, dtype=torch.bool)
    return torch.stack(shown).all(0)


def _classes(run: Overheard, site: str, view: View) -> Tensor:
    parts = [torch.zeros(run.classes, 1, dtype=torch.float64)]
    if run.informative is not None:
        at = run.anatomy(run.informative)
        looks = run.looks(run.informative, site, view)
        parts.append(over_time(looks, partial(class_signs, at=at)))
    sums = run.said("gram", site, view)
    if sums is not None:
        parts.append(sum_class_signs(sums, _one_shot(run), run.features, run.classes))
    return torch.cat(parts, 1)


def _whole(run: Overheard, client: Client, view: View) -> Tensor:
    """Sizes of what moved, the sums, the votes, and in single uploads the number of rows."""
    parts = [torch.tensor([float(view == "single") * math.log(len(client.data))]).double()]
    for trial in dict.fromkeys([run.first[0], run.informative or run.first[0]]):
        looks, at = run.looks(trial, client.id, view), run.anatomy(trial)
        parts.append(over_time(looks, partial(site_signs, at=at)))
    sums = run.said("gram", client.id, view)
    if sums is not None:
        parts.append(sum_signs(sums, _one_shot(run), run.features, run.classes))
    for trial in run.first:
        vote = run.said(f"vote {trial}", client.id, view)
        if vote is not None:
            parts.append((vote["loss"] / vote["rows"].clamp(min=1.0)).reshape(1))
    return torch.cat(parts)


def _member(run: Overheard, client: Client, view: View, seed: int) -> Tensor:
    """AUC by fall and height of the loss, and by how little a row sticks out of the sums.

    Of the first sums, and of all of them together: behind a bend rows are weighed anew each time.
    """
    recipe = run.fitted.recipe
    found = member_by_loss(recipe, run.main(client.id, view), client, seed)
    steps = [name for name in run.spy.answers if name.partition(" ")[0] == "gram"]
    sums = [one for name in steps if (one := run.said(name, client.id, view)) is not None]
    if not sums:
        return found
    x, _, n = known_rows(client, recipe, seed)
    scores = []
    for relative in (False, True):
        near = torch.stack(
            [member_by_leverage(one, _one_shot(run), x.double(), relative=relative) for one in sums]
        )
        scores += [auc(s[:n], s[n:]) for s in (near[0], near.sum(0))]
    return torch.cat([found, torch.tensor(scores, dtype=torch.float64)])


def _one_shot(run: Overheard) -> OneShot:
    assert run.search_space.one_shot is not None  # or nobody would have been asked for sums
    return run.search_space.one_shot
