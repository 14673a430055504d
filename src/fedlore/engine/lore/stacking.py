"""Stacking: a site's ensemble of all that it has, weighed by what members say of unseen rows.

Out-of-fold predictions of every member decide the weights (Wolpert 1992, *Stacked generalization*),
drawn to a fixed start. One implementation for classes, one for numbers.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...core.conformal import CoveragePromise, list_promises
from ...core.examples import Examples
from ...core.inject import fill_trust, inject
from ...core.metrics import decide, row_costs
from ...core.one_shot import OneShot, OneShotModel, Posterior
from ...core.tree import Params
from ...errors import FedloreError
from ...knowledge.models import Knowledge
from ...models.benefit import Benefit, BenefitLine
from ...models.client import raw_rows
from ...models.ensemble import CorrectedMember, Ensemble, OneShotMember
from ...models.own.baseline import (
    FOLDS,
    Own,
    OwnModel,
    correct_number,
    judge_places,
    own_classes,
    own_numbers,
    own_order,
)
from ...models.own.limits import thin
from ...models.own.members import NumberMember, OrderMember, mask_logits, within
from ...models.own.mixture import (
    SHARED,
    class_weights,
    mix,
    number_weights,
)
from ...models.regressor import network_number
from ..one_shot import one_shot_rows
from .one_shot import judge_network, out_of_fold, sign_line
from .report import StackMember, add_line, compare, gain_of, judge_unseen, left_out
from .rows import WORST, SiteRows, nll_rows
from .space import MAIN, Candidate, Trial
from .start import (
    CORRECTED,
    ONE_SHOT,
    StartShares,
    first_weights,
    is_local,
    keep_local,
    lift_expert,
    prune_members,
)
from .temperature import (
    BY_ROW,
    EXPERT,
    NETWORK,
    best_factor,
    judge_classes,
    judge_number,
    network_factor,
    number_width,
    root_miss,
    temper,
    trust_classes,
    trust_numbers,
    weighed_rows,
)

MOST_VALUED, MOST_COLUMNS = 1_000, 10  # rows and columns of which a column's worth is told
LOCAL_BEST, MIXTURE = "local best", "mixture"


@dataclass(frozen=True, eq=False)
class SiteModel:
    """What one site made for itself: it stays there, in its own bundle."""

    ensemble: Ensemble | None
    knowledge: (
        Knowledge  # what the network is seen through, the expert reread where that was chosen
    )
    finished: Params | None = None  # the network after last steps at home, where they paid
    benefit: Benefit | None = None
    scores: Tensor | None = None  # (n,) how far labels lie from answers, out of fold

    @property
    def holdings(self) -> tuple[CoveragePromise, ...]:
        """What these scores allow to be said of the site's new rows."""
        return () if self.scores is None else list_promises(self.scores, "unseen")


@dataclass(frozen=True, eq=False)
class ChosenMembers:
    """Members that count, by name their weights, and what they say together of unseen rows."""

    among: tuple[StackMember, ...]
    members: tuple[Any, ...]
    weights: tuple[float, ...]
    share: dict[str, float]
    said: Tensor  # what an ensemble says of each row that was learned from the others
    report: Benefit


class Stack(ABC):
    """What stacking needs to know of one kind of answer."""

    measure: ClassVar[str]  # accuracy or rmse
    y: Tensor  # (n,) labels
    knowledge: Knowledge  # what the finished network is seen through
    start: StartShares | None = None  # where weights begin, as the sites voted; None: the usual
    _own: Own | None  # the site's own learners; none for images and for a handful of rows

    def __init__(self, site: SiteRows, candidate: Candidate) -> None:
        self.site, self.candidate = site, candidate

    @abstractmethod
    def network(self, folds: Sequence[Params]) -> tuple[StackMember, int]:
        """The network of each fold on the rows it had not seen, and the last steps that pay."""

    def in_sample(self, main: Params) -> StackMember:
        """The main network on the rows that it was trained on."""
        folds = [main] * self.site.common.search_space.folds
        return self._as_member(out_of_fold(self, folds, finish=False)[0])

    @abstractmethod
    def _as_member(self, outputs: Tensor) -> StackMember:
        """The network as a member, from what was read of it."""

    @abstractmethod
    def read(self, logits: Tensor, away: Tensor) -> Tensor:
        """What a network says of rows that were left out, as it is kept."""

    @abstractmethod
    def step_losses(self, outputs: Tensor) -> Tensor:
        """What last steps must lower."""

    @abstractmethod
    def one_shot(self, one_shot: OneShot, found: Posterior) -> list[StackMember]:
        """The one-shot model with the site's own level, each row left out in closed form."""

    def local(self) -> list[StackMember]:
        """The site's own learners."""
        own = self._own
        return [] if own is None else _members_of(own.best_ways(self.site.metric, self.y))

    @cached_property
    def own_losses(self) -> list[tuple[StackMember, Tensor]]:
        """All own models, and what each loses on each row, (n,)."""
        every = () if self._own is None else self._own.candidates
        return [(one, self.losses(one.oof)) for one in _members_of(every)]

    @abstractmethod
    def expert(self, silent: Tensor) -> list[StackMember]:
        """The expert; where he is silent he says what `silent` says."""

    def weigh(self, members: Sequence[StackMember], rows: Tensor) -> Tensor:
        """The weights of members by these rows, (j,)."""
        rows, start = weighed_rows(rows), first_weights(members, self.start)
        found = self.find_weights([m.oof[rows] for m in members], self.y[rows], start)
        return lift_expert([m.name for m in members], found, self.knowledge.least_trust)

    @staticmethod
    @abstractmethod
    def find_weights(held: Sequence[Tensor], y: Tensor, start: Tensor) -> Tensor: ...

    @abstractmethod
    def mix(self, members: Sequence[StackMember], weights: Tensor) -> Tensor: ...

    @abstractmethod
    def blend(self, members: Sequence[StackMember], rows: Tensor) -> Tensor:
        """What they say together of all rows, with all that is learned learned from `rows`."""

    @abstractmethod
    def errors(self, outputs: Tensor) -> Tensor: ...

    @abstractmethod
    def losses(self, outputs: Tensor) -> Tensor: ...

    def vote_losses(self, outputs: Tensor) -> Tensor:
        """The losses in units in which those of all sites may be summed."""
        return self.losses(outputs)

    @abstractmethod
    def finish(self, chosen: ChosenMembers, finished: Params | None) -> SiteModel:
        """The site's model: temperature or width, row trust, and its report."""


def stack_of(rows: SiteRows, candidate: Candidate) -> Stack | None:
    """The stack for what a site learns; None where it has too few rows to choose by."""
    if rows.folds is None:
        return None
    if rows.common.bins is not None:
        return None if rows.measured.y is None else NumberStack(rows, candidate)
    return None if rows.member.data.y is None else ClassStack(rows, candidate)


@dataclass(frozen=True, eq=False)
class StackedMembers:
    """All that a site's ensemble may be made of, and what it says of rows it had not seen."""

    stack: Stack | None  # None: too few rows to choose by
    members: tuple[StackMember, ...]
    main: Params  # the shared network
    seen: StackMember | None  # what it says of the rows that it was trained on
    finished: Params | None  # the same after last steps at home, where they pay

    @property
    def row_count(self) -> int:
        """How many rows they can be judged by."""
        return 0 if self.stack is None or not self.members else len(self.stack.y)

    @torch.no_grad()
    def judge(self, start: StartShares) -> float:
        """The loss of these rows if the weights stayed where they begin."""
        if self.stack is None or not self.row_count:
            return 0.0
        weights = first_weights(self.members, start)
        return float(self.stack.vote_losses(self.stack.mix(self.members, weights)).sum())


@torch.no_grad()
def stack_members(
    rows: SiteRows,
    trial: Trial,
    main: Params,
    folds: Sequence[Params] = (),
    one_shot: tuple[OneShot, Posterior] | None = None,
) -> StackedMembers:
    """Members of a site's ensemble, from networks that had not seen its folds."""
    stack = stack_of(rows, rows.common.candidate(trial))
    if stack is None:
        return StackedMembers(None, (), main, None, None)
    members, seen, finished = judge_network(stack, main, () if rows.linear else folds)
    shared = [] if one_shot is None else stack.one_shot(*one_shot)
    members += [*shared, *stack.local()]
    if members and rows.hears_expert:
        members += stack.expert(members[0].oof)
    return StackedMembers(stack, tuple(members), main, seen, finished)


@torch.no_grad()
def fit_ensemble(
    rows: SiteRows, found: StackedMembers, start: StartShares | None = None
) -> SiteModel:
    """A site's own ensemble of all that it has.

    Stacking by out-of-fold predictions, then one temperature or width on the same rows.
    """
    if rows.linear and not any(one.model is not None for one in found.members):
        said = ", ".join(str(one) for one in rows.shapes or () if one.bend)
        raise FedloreError(
            f"site '{rows.id}' has nothing that can be held to '{said}': no network can, and its "
            "rows are too few for own models; leave the shape out there"
        )
    if found.stack is None:
        return SiteModel(None, rows.member.knowledge)
    if not found.members:  # nothing is known of any row that was not learned from
        return SiteModel(None, found.stack.knowledge, found.finished)
    found.stack.start = start
    chosen = choose_members(found.members, found.stack, found.seen)
    model = found.stack.finish(chosen, found.finished)
    assert model.benefit is not None
    return replace(model, benefit=replace(model.benefit, columns=value_columns(rows, found.stack)))


def value_columns(rows: SiteRows, stack: Stack) -> tuple[BenefitLine, ...]:
    """What the site's own models would lose without each column that may be missing elsewhere.

    They are made anew from rows in which it is empty, where knowledge that needs it is unknown. A
    site that lacks a column works as long as others, who can see when it answers.
    """
    schema, count = rows.member.knowledge.schema, len(stack.y)
    features = () if schema is None or not stack.own_losses else schema.features
    lost = [at for at, one in enumerate(features) if one.may_miss][:MOST_COLUMNS]
    if schema is None or not lost:
        return ()
    if count > MOST_VALUED:
        some = torch.arange(count)[thin(count, MOST_VALUED)]
        rows = SiteRows(rows.member.select(some), rows.common)
        stack = stack_of(rows, stack.candidate) or stack
    empty = raw_rows(rows.member.data.x, schema).isnan().all(0)
    errors, found = _own_errors(stack), []
    for at in lost:
        without = _own_errors(stack_of(rows.without(at), stack.candidate) or stack)
        found.append(replace(gain_of(without, errors, stack.measure), name=schema.names[at]))
    return tuple(line for at, line in zip(lost, found, strict=True) if not empty[at])


def _own_errors(stack: Stack) -> Tensor:
    """What the site's own models together miss of each row that they had not seen, (n,)."""
    unseen = judge_unseen(stack.local(), stack.blend, own=stack.own_losses, rows=len(stack.y))
    return stack.errors(unseen)


def choose_members(
    members: Sequence[StackMember], stack: Stack, seen: StackMember | None = None
) -> ChosenMembers:
    """Weights from rows that no member had seen, and the site's report.

    Where no network could be tried on unseen rows it gets what shared members start with, unless
    the others do better without it even on rows that it has `seen`. Where the rows show that the
    site is better off without the others, it keeps its local best model.
    """
    rows, measure = len(stack.y), stack.measure
    weighed = stack.weigh(members, torch.ones(rows, dtype=torch.bool))
    kept, shares = prune_members(members, weighed)
    unseen = partial(judge_unseen, own=stack.own_losses, rows=rows)
    mixed = unseen(members, stack.blend)
    costs = {}
    for member in kept if len(kept) > 1 else []:
        less = unseen([m for m in members if m is not member], stack.blend)
        costs[member.name] = gain_of(stack.errors(less), stack.errors(mixed), measure).value
    share = {member.name: w for member, w in zip(kept, shares, strict=True)}
    if NETWORK not in share:
        part = 0.0 if stack.site.linear else SHARED
        if seen is not None:
            with_it = torch.tensor([part, *((1.0 - part) * w for w in shares)], dtype=torch.float64)
            alone = torch.tensor(shares, dtype=torch.float64)
            both, others = stack.mix([seen, *kept], with_it), stack.mix(kept, alone)
            part = part if stack.losses(both).mean() <= stack.losses(others).mean() else 0.0
        share = {NETWORK: part, **{name: (1.0 - part) * w for name, w in share.items()}}
        now = torch.tensor(list(share.values()), dtype=torch.float64)
        lifted = lift_expert(list(share), now, stack.knowledge.least_trust)
        share = dict(zip(share, lifted.tolist(), strict=True))
    own = [m for m in members if is_local(m)]
    outputs = {LOCAL_BEST: unseen(own, stack.blend)} if own else {}
    outputs |= {m.name: m.oof for m in members if m.shared or m.name == EXPERT}
    outputs[MIXTURE] = mixed
    errors = {name: stack.errors(values) for name, values in outputs.items()}
    against = next((n for n in (LOCAL_BEST, EXPERT, NETWORK) if n in errors), MIXTURE)
    report = compare(errors, against, weights=share, costs=costs, measure=measure)
    if against == LOCAL_BEST and report.gain.high < 0.0:
        members, kept, share, mixed, report = keep_local(
            members, stack, outputs[LOCAL_BEST], report
        )
    used = [member for member in kept if member.model is not None]
    models, weights = (m.model for m in used), (share[m.name] for m in used)
    return ChosenMembers(tuple(members), tuple(models), tuple(weights), share, mixed, report)


def _members_of(own: Sequence[OwnModel]) -> list[StackMember]:
    return [StackMember(c.member.name, c.held, shared=False, model=c.member) for c in own]


class ClassStack(Stack):
    """Stacking of classes."""

    measure = "accuracy"
    find_weights = staticmethod(class_weights)

    def __init__(self, site: SiteRows, candidate: Candidate) -> None:
        super().__init__(site, candidate)
        self.client, _ = site.part(candidate, MAIN)
        data = self.client.data
        if not self.client.injected:
            data = Examples(data.x, data.y, place=data.place)
        assert data.y is not None
        self.y, self.data, self.heard = data.y, data, data
        self.knowledge = replace(self.client.knowledge, trust=0.0)  # the expert's weight is λ now
        self.factor = 1.0  # on the network's logits
        self._own = self._local_models()

    def network(self, folds: Sequence[Params]) -> tuple[StackMember, int]:
        self.heard = self._without_folds(len(folds))
        logits, steps = out_of_fold(self, folds)
        self.factor = network_factor(logits, self.heard)
        return self._as_member(logits), steps

    def _as_member(self, outputs: Tensor) -> StackMember:
        inside = inject(self.factor * outputs, None, self.heard.allowed)
        return StackMember(NETWORK, inside, shared=True)

    def read(self, logits: Tensor, away: Tensor) -> Tensor:
        return logits.double()

    def step_losses(self, outputs: Tensor) -> Tensor:
        """The likelihood where classes have an order, else errors."""
        if self.site.common.ordered:
            return nll_rows(outputs, self.heard)
        return inject(outputs, None, self.heard.allowed).argmax(1).ne(self.y).double()

    def _without_folds(self, folds: int) -> Examples:
        """The rows as their folds have them: a reread expert was reread without them."""
        data, places = self.client.data, self.site.folds
        if not self.client.injected:
            return Examples(data.x, data.y)
        prior = None if data.prior is None else torch.empty_like(data.prior)
        for fold in range(folds):
            _, held = self.site.part(self.candidate, fold)
            if prior is not None and held is not None and held.prior is not None:
                prior[places == fold] = held.prior
        return Examples(data.x, data.y, prior, data.allowed, signs=data.signs, trust=data.trust)

    def one_shot(self, one_shot: OneShot, found: Posterior) -> list[StackMember]:
        common, client, k = self.site.common, self.client, self.site.common.classes
        rows = one_shot_rows(client, one_shot, common.scaler, classes=k)
        if self.site.signs is not None:
            line = sign_line(common, one_shot, rows, found, self.site.signs)
            if line is None:
                return []
            judged = judge_places(line.held, client.data, k)
            member = OrderMember(ONE_SHOT, line.body, line.hears, line.over, judged.width, k)
            return [StackMember(ONE_SHOT, judged.held, True, member)]
        one_shot_model = OneShotModel(one_shot, found, rows.home(found), k)
        allowed = client.data.allowed if client.injected else None
        outputs = mask_logits(one_shot_model.out_of_fold_logits(rows), allowed)
        return [
            StackMember(
                ONE_SHOT, outputs, True, OneShotMember(one_shot_model, common.scaler), firm=True
            )
        ]

    def _local_models(self) -> Own | None:
        common, data = self.site.common, self.data
        if not common.search_space.own or data.x.ndim != 2 or len(data) < FOLDS:
            return None
        if common.ordered:
            signs = self.site.signs
            return own_order(data, common.classes, seed=common.seed, site=self.site.id, signs=signs)
        return own_classes(data, common.classes, seed=common.seed, site=self.site.id)

    def expert(self, silent: Tensor) -> list[StackMember]:
        if self.heard.prior is None:
            return []
        outputs = self.heard.prior.double()
        total = outputs.sum(1, keepdim=True)
        spoken = torch.where(total > 0, outputs / torch.where(total > 0, total, 1.0), silent.exp())
        return [StackMember(EXPERT, spoken.log(), shared=False, firm=True)]

    def mix(self, members: Sequence[StackMember], weights: Tensor) -> Tensor:
        return mix(torch.stack([m.oof.double().exp() for m in members]), weights.tolist()).log()

    def blend(
        self, members: Sequence[StackMember], rows: Tensor, trust: Tensor | None = None
    ) -> Tensor:
        kept, weights = prune_members(members, self.weigh(members, rows))
        share = {member.name: weight for member, weight in zip(kept, weights, strict=True)}
        factor = best_factor(kept, share, self.y, rows)
        parts = torch.stack([temper(member, factor).exp() for member in kept])
        if trust is None:
            return mix(parts, weights).log()
        others = torch.tensor([member.name != EXPERT for member in kept])
        rest = [weight for name, weight in share.items() if name != EXPERT]
        one = fill_trust(trust, share.get(EXPERT, 0.0))
        return mix(parts[others], rest, self.heard.prior, one).log()

    def errors(self, outputs: Tensor) -> Tensor:
        return (decide(outputs, self.heard.prior, self.heard.signs) != self.y).double()

    def losses(self, outputs: Tensor) -> Tensor:
        """As the local baseline is chosen: by likelihood where classes have an order."""
        if self.site.metric:
            return row_costs(self.site.metric, outputs, self.y)
        if not self.site.common.ordered:
            return self.errors(outputs)
        return -outputs.gather(1, self.y.unsqueeze(1)).squeeze(1).clamp(min=WORST)

    def finish(self, chosen: ChosenMembers, finished: Params | None) -> SiteModel:
        common, share, members = self.site.common, chosen.share, chosen.among
        kept = [member for member in members if member.name in share]
        factor = best_factor(kept, share, self.y)
        ensemble = Ensemble(
            tuple(model.with_temperature(factor) for model in chosen.members),
            chosen.weights,
            share[NETWORK],
            share.get(EXPERT, 0.0),
            factor * self.factor,
        )
        trust = trust_classes(
            self.knowledge,
            self.heard,
            [(member, temper(member, factor).exp()) for member in members],
            share,
            ordered=common.ordered,
            scaler=common.scaler,
            seed=common.seed,
        )
        outputs, report = chosen.said, chosen.report
        if trust.rows is not None:
            blend = partial(self.blend, trust=trust.rows)
            outputs = judge_unseen(members, blend, own=self.own_losses, rows=len(self.y))
            report = add_line(report, BY_ROW, self.errors(outputs))
        verdict = judge_classes(outputs.exp(), self.y, ordered=common.ordered)
        report = verdict.add_to(report)
        report = replace(report, left_out=left_out(self.site))
        known = trust.knowledge(self.knowledge)
        return SiteModel(ensemble, known, finished, report, verdict.scores)


class NumberStack(Stack):
    """Stacking of a number."""

    measure = "rmse"
    find_weights = staticmethod(number_weights)

    def __init__(self, site: SiteRows, candidate: Candidate) -> None:
        super().__init__(site, candidate)
        self.measured = site.measured
        assert self.measured.y is not None
        self.y, self.knowledge = self.measured.y, site.member.knowledge
        self._own: Own | None = None
        common, measured = site.common, self.measured
        if common.search_space.own and measured.x.ndim == 2 and len(measured) >= FOLDS:
            self._own = own_numbers(measured, seed=common.seed, site=site.id, signs=site.signs)

    def network(self, folds: Sequence[Params]) -> tuple[StackMember, int]:
        outputs, steps = out_of_fold(self, folds)
        return self._as_member(outputs), steps

    def _as_member(self, outputs: Tensor) -> StackMember:
        return StackMember(NETWORK, outputs, shared=True)

    def read(self, logits: Tensor, away: Tensor) -> Tensor:
        return network_number(logits, self.measured[away]).double()

    def step_losses(self, outputs: Tensor) -> Tensor:
        return self.errors(outputs)

    def one_shot(self, one_shot: OneShot, found: Posterior) -> list[StackMember]:
        common, measured = self.site.common, self.measured
        rows = self.site.one_shot_rows(one_shot)
        if self.site.signs is not None:
            line = sign_line(common, one_shot, rows, found, self.site.signs)
            if line is None:
                return []
            outputs = within(line.held, measured)
            width = max(float(self.errors(outputs).mean()) ** 0.5, 1e-12)
            member = NumberMember(ONE_SHOT, line.body, line.hears, line.over, width)
            return [StackMember(ONE_SHOT, outputs, True, member)]
        one_shot_model = OneShotModel(one_shot, found, rows.home(found), common.classes)
        outputs = within(measured.bins.numbers(one_shot_model.leave_out(rows)[0]), measured)
        shared = OneShotMember(one_shot_model, common.scaler)
        members = [StackMember(ONE_SHOT, outputs, True, shared)]
        if self._own is not None:
            own = correct_number(measured, outputs, seed=common.seed, site=self.site.id)
            if own is not None:
                model = CorrectedMember(own[0], shared)
                members.append(StackMember(CORRECTED, own[1], False, model))
        return members

    def expert(self, silent: Tensor) -> list[StackMember]:
        if self.measured.said is None:
            return []
        spoken = torch.where(self.measured.said.isnan(), silent, self.measured.said)
        return [StackMember(EXPERT, spoken, shared=False)]

    def mix(self, members: Sequence[StackMember], weights: Tensor) -> Tensor:
        return within(weights @ torch.stack([m.oof for m in members]), self.measured)

    def blend(self, members: Sequence[StackMember], rows: Tensor) -> Tensor:
        kept, weights = prune_members(members, self.weigh(members, rows))
        return self.mix(kept, torch.tensor(weights, dtype=torch.float64))

    def errors(self, outputs: Tensor) -> Tensor:
        return (outputs - self.y).square()

    def losses(self, outputs: Tensor) -> Tensor:
        return row_costs(self.site.metric or "rmse", outputs, self.y)

    def vote_losses(self, outputs: Tensor) -> Tensor:
        return self.site.number_losses(outputs)

    def finish(self, chosen: ChosenMembers, finished: Params | None) -> SiteModel:
        common, measured, share = self.site.common, self.measured, chosen.share
        trust, mixed = trust_numbers(
            self.knowledge,
            measured,
            chosen.among,
            share,
            chosen.said,
            scaler=common.scaler,
            seed=common.seed,
        )
        width = number_width(mixed, measured, root_miss(mixed, self.y))
        ensemble = Ensemble(
            chosen.members, chosen.weights, share[NETWORK], share.get(EXPERT, 0.0), width=width
        )
        verdict = judge_number(mixed, measured, width)
        report = verdict.add_to(chosen.report)
        if trust.rows is not None:
            report = add_line(report, BY_ROW, self.errors(mixed))
        report = replace(report, left_out=left_out(self.site))
        known = trust.knowledge(self.knowledge)
        return SiteModel(ensemble, known, finished, report, verdict.scores)
