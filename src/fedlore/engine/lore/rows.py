"""A site's rows as the recipe uses them: folds, the rows of each part, and networks on them."""

import copy
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from ...algorithms import FlatParams, Solo
from ...answers import Bins, Line, Measured
from ...core.examples import Examples
from ...core.inject import guard, inject
from ...core.metrics import row_costs
from ...core.one_shot import OneShot, OneShotModel, OneShotRows, Posterior
from ...core.tree import Params
from ...knowledge.shapes import SiteShapes
from ...models.client import Client, NumberClient
from ...models.own.members import input_signs, within
from ...models.tasks import Classification, Regression
from ..client import ready, see_rows
from ..one_shot import one_shot_rows
from ..tuning.oof import fold_of, recalibrate_client
from .space import Agreement, Candidate

WORST = -20.0  # log-probability of a label that is called impossible


@dataclass(frozen=True, eq=False)
class SiteRows:
    """The rows and knowledge of one site, under what all sites agreed to."""

    member: Client | NumberClient
    common: Agreement

    @property
    def id(self) -> str:
        return self.member.id

    @property
    def metric(self) -> str:
        return self.common.search_space.metric

    def client(self, candidate: Candidate) -> Client:
        """The site in the loop's terms; λ at prediction is 0 until it has chosen."""
        found = self.task(candidate).enter(self.member).encode(self.common.scale(candidate))
        trust = found.knowledge.trust if candidate.trusts else 0.0
        return replace(found, knowledge=replace(found.knowledge, trust=trust, reliance=0.0))

    @cached_property
    def plain(self) -> Client:
        """The site as the one-shot model reads it: the features alone."""
        return self.client(Candidate(head="ordered"))

    def one_shot_rows(self, one_shot: OneShot) -> OneShotRows:
        """The rows as the one-shot model takes them."""
        common = self.common
        return one_shot_rows(self.plain, one_shot, common.scaler, classes=common.classes)

    @property
    def _class_rows(self) -> Examples:
        """The rows of classes with what the expert says; a bare site hears nothing."""
        data = self.plain.data
        return data if self.member.injected else Examples(data.x, data.y, place=data.place)

    @torch.no_grad()
    def one_shot_loss(self, one_shot: OneShot, found: Posterior) -> float:
        """The summed loss of a one-shot model on the rows, each left out of it."""
        rows = self.one_shot_rows(one_shot)
        model = OneShotModel(one_shot, found, rows.home(found), self.common.classes)
        if self.common.bins is not None:
            said = self.measured.bins.numbers(model.leave_out(rows)[0])
            return float(self.number_losses(within(said, self.measured)).sum())
        return float(self.class_losses(model.out_of_fold_logits(rows), self._class_rows).sum())

    def class_losses(self, logits: Tensor, known: Examples) -> Tensor:
        """What each row costs by the metric, else its likelihood, (n,)."""
        likely = nll_rows(logits, known)
        if self.metric in ("", "log_loss"):
            return likely
        assert known.y is not None
        said = inject(logits.double(), None, known.allowed)
        return row_costs(self.metric, said, known.y) + 1e-3 * likely  # which decides between equals

    def number_losses(self, said: Tensor, some: Tensor | slice = slice(None)) -> Tensor:
        """Squared misses of some rows, (n,), in units of the variance of all the site has.

        No site counts for more by its scale then, and no row for more than the worst of classes.
        """
        y = self.measured.y
        assert y is not None
        spread = y.double().var(correction=0).clamp(min=1e-12)
        missed = (said - y[some]).square() / spread
        return (missed.sqrt() if self.metric == "mae" else missed).clamp(max=-WORST)

    def task(self, candidate: Candidate) -> Classification | Regression:
        """What is learned here."""
        bins = self.common.bins
        return Classification() if bins is None else number_task(candidate, bins)

    @cached_property
    def measured(self) -> Measured:
        """Rows as members take them, with what the expert says; a bare site hears nothing."""
        member, bins = self.member, self.common.bins
        assert isinstance(member, NumberClient) and bins is not None
        found = member.knowledge.annotate(member.data, Line(bins))
        scaler = self.common.scaler
        if scaler is not None and not member.numeric:
            found = replace(found, x=scaler.encode(found.x))
        return found if member.injected else replace(found, said=None, sets=None)

    @property
    def shapes(self) -> SiteShapes | None:
        """What its model must keep; nothing where its knowledge stays outside."""
        return self.member.knowledge.shapes if self.member.injected else None

    @cached_property
    def signs(self) -> Tensor | None:
        """Which way the inputs of its own members may move the answer, where it has shapes."""
        if self.shapes is None:
            return None
        scaler = self.common.scaler
        inputs = None if scaler is None or self.member.numeric else scaler.inputs
        return input_signs(self.member.knowledge, inputs)

    @property
    def linear(self) -> bool:
        """Whether its shapes bend, which no network keeps: only its linear members count."""
        return self.shapes is not None and bool(self.shapes.bends)

    @property
    def hears_expert(self) -> bool:
        """Whether its expert may speak for himself: where there are shapes, if he keeps them."""
        orders = None if self.shapes is None else self.member.knowledge.orders
        return orders is None or orders.hears_prediction

    def without(self, column: int) -> "SiteRows":
        """The rows as if the site did not measure a column: empty, its knowledge silent on it."""
        member = self.member.without(column).encode(self.common.scaler)
        return SiteRows(member, self.common)

    @cached_property
    def folds(self) -> Tensor | None:
        """The fold of each training row, (n,), labels dealt out evenly; None: too few rows."""
        count = self.common.search_space.folds
        client = self.plain
        if len(client.data) < max(count, 2):
            return None
        return fold_of(client, count, self.common.seed)

    def part(self, candidate: Candidate, fold: int) -> tuple[Client, Examples | None]:
        """The site less a fold, and the fold; fold -1 holds nothing back."""
        client = self.client(candidate)
        places = self.folds if fold >= 0 else None
        if places is None:
            whole = recalibrate_client(client)[0] if candidate.reread else client
            return (replace(whole, test=None, measure=None) if fold >= 0 else whole), None
        away = places == fold
        rest = replace(client, data=client.data[~away], test=None, measure=None)
        held = client.data[away]
        if candidate.reread:
            rest, (held,) = recalibrate_client(rest, held)
        return rest, held

    def logits(self, candidate: Candidate, params: Params, rows: Examples) -> Tensor:
        """What a network with these weights says of rows in raw units, (n, k)."""
        model = self._model(candidate)
        model.load_state_dict(params)
        with torch.no_grad():
            inside = self.member.injected
            known = see_rows(inside, rows, self.common.scale(candidate), model)
            heard = (known.prior, known.allowed) if inside else (None, None)
            return guard(model(known.x, *heard)).cpu()

    def polish(self, candidate: Candidate, client: Client, params: Params, steps: int) -> Params:
        """A network's weights after `steps` more steps on the site's own rows."""
        common = self.common
        model = common.recipe(candidate).model
        plan = candidate.plan(common.plan)
        plan = replace(plan, lr=common.search_space.finish_rate * plan.lr, schedule="constant")
        lesson = ready(client, model, common.scale(candidate)).lesson
        address = common.rounds + 1
        work = Solo(
            FlatParams(model), lesson, plan, client=self.id, seed=common.seed, round=address
        )
        with torch.enable_grad():
            return work.descend(params, steps=steps)

    def _model(self, candidate: Candidate) -> nn.Module:
        """A network to load weights into, the same one for a candidate."""
        if candidate not in self._models:
            self._models[candidate] = copy.deepcopy(self.common.recipe(candidate).model)
        return self._models[candidate]

    @cached_property
    def _models(self) -> dict[Candidate, nn.Module]:
        return {}


def number_task(candidate: Candidate, bins: Bins) -> Regression:
    """What a candidate learns of a number: an ordered head hears by itself."""
    free = candidate.head == "classes"
    return Regression(
        bins, ordinal=candidate.soft, hears=candidate.hears and free, between=not free
    )


def nll_rows(logits: Tensor, known: Examples) -> Tensor:
    """-log p of each label behind the range, (n,); one outside counts as very improbable."""
    assert known.y is not None
    log_probs = inject(logits.double(), None, known.allowed)
    return -log_probs.gather(1, known.y.unsqueeze(1)).squeeze(1).clamp(min=WORST)
