"""The recipe at work: trials on training rows, a choice, the main training, last steps at home."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import nn

from ...algorithms import Plan
from ...core.examples import Examples
from ...personal.classifier import Personal
from ...personal.client import Client
from ..fitted import Fitted
from ..training import Training, train
from .candidates import (
    ClassCandidate,
    PrivateTrust,
    Trials,
    choose,
    mean_loss,
    rank_candidates,
    settle_trust,
)
from .curves import Cached
from .folds import held_out, polish
from .recalibrate import recalibrate_client

_ModelMaker = Callable[[bool], nn.Module]  # hears -> a fresh server model
OnTrial = Callable[[int, int], None]  # trainings done, of how many
_Found = dict[str, dict[int, Cached]]  # site -> last steps -> held-out logits


@dataclass(frozen=True, eq=False)
class Lore:
    """A federation trained by the recipe, and how it was chosen."""

    fitted: Fitted[Personal]
    clients: tuple[Client, ...]  # as they were trained: the expert reread where that was chosen
    candidate: ClassCandidate
    losses: dict[ClassCandidate, float]  # mean of what the sites reported, on the folds tried
    private: dict[str, PrivateTrust]  # each site's own; only in one process can they be looked at


def lore(
    clients: Sequence[Client],
    make_model: _ModelMaker,
    training: Training | None = None,
    *,
    trials: Trials | None = None,
    on_trial: OnTrial | None = None,
) -> Lore:
    """Choose the recipe by trials on training rows, then train with all of them."""
    shop = _Shop(clients, make_model, training or Training(), trials or Trials(), on_trial, [])
    setting = shop.trials
    first = {c: shop.attempt(c, [0]) for c in setting.candidates}
    losses = {c: mean_loss(shop.reports(found)) for c, found in first.items()}
    short = rank_candidates({c: shop.reports(found) for c, found in first.items()})[
        : setting.shortlist
    ]
    rest = list(range(1, setting.folds))
    whole = {c: _join(first[c], shop.attempt(c, rest)) for c in short}
    reports = {c: shop.reports(found) for c, found in whole.items()}
    chosen = choose(reports)
    # after a short training more steps and more trust look better than they are
    full = shop.attempt(chosen, list(range(setting.folds)), length=1.0)
    private = {name: settle_trust(found, setting.grid) for name, found in full.items()}
    fitted, known = shop.main(chosen, private)
    losses |= {c: mean_loss(reported) for c, reported in reports.items()}
    return Lore(fitted, tuple(known), chosen, losses, private)


@dataclass(frozen=True, eq=False)
class _Shop:
    """One federation in which candidates are tried."""

    clients: Sequence[Client]
    make_model: _ModelMaker
    training: Training
    trials: Trials
    on_trial: OnTrial | None
    done: list[ClassCandidate]  # trainings so far, for whoever watches

    def train(
        self, candidate: ClassCandidate, clients: Sequence[Client], rounds: int
    ) -> Fitted[Personal]:
        plan = replace(self.training.plan, plain=candidate.plain, finish=0)
        fitted = train(
            [_untrusting(c) for c in clients],
            self.make_model(candidate.hears),
            replace(self.training, plan=plan, rounds=rounds),
        )
        self.done.append(candidate)
        if self.on_trial is not None:
            few = self.trials
            more = (few.folds - 1) * min(few.shortlist, len(few.candidates)) + few.folds
            self.on_trial(len(self.done), len(few.candidates) + more + 1)
        return fitted

    def attempt(
        self, candidate: ClassCandidate, folds: Sequence[int], length: float | None = None
    ) -> _Found:
        """Held-out logits of one candidate after trainings on the other rows, short ones."""
        rounds = math.ceil((length or self.trials.length) * self.training.rounds)
        quiet = replace(self, training=self.training.quiet())
        return held_out(
            self.clients,
            lambda some: quiet.train(candidate, some, rounds),
            folds=self.trials.folds,
            seed=self.training.seed,
            use=folds,
            finishes=self.trials.finishes,
            polishing=self.polishing(candidate),
            prepare=_reread if candidate.reread else None,
        )

    def polishing(self, candidate: ClassCandidate) -> Plan:
        """How the last steps at home are taken."""
        lr = self.trials.finish_rate * self.training.plan.lr
        return replace(self.training.plan, plain=candidate.plain, lr=lr, schedule="constant")

    def reports(self, found: _Found) -> list[float]:
        """All that the sites say about a candidate: one number each."""
        return [settle_trust(mine, self.trials.grid).loss for mine in found.values()]

    def main(
        self, candidate: ClassCandidate, private: Mapping[str, PrivateTrust]
    ) -> tuple[Fitted[Personal], list[Client]]:
        """The main training with all rows, then each site's last steps and its own λ."""
        known = [_untrusting(c) for c in self.clients]
        if candidate.reread:
            known = [recalibrate_client(client)[0] for client in known]
        fitted = self.train(candidate, known, self.training.rounds)
        memories = dict(fitted.memories)
        ready = []
        for client in known:
            mine = private.get(client.id)
            if mine is None:  # too few rows to choose by
                ready.append(client)
                continue
            if mine.finish:
                last = polish(fitted, client, mine.finish, self.polishing(candidate))
                memories[client.id] = memories[client.id] | {"finished": last}
            knowledge = replace(client.knowledge, reliance=mine.reliance)
            ready.append(replace(client, knowledge=knowledge))
        knowledge_of = {c.id: c.knowledge for c in ready}
        return replace(fitted, memories=memories, knowledge=knowledge_of), ready


def _untrusting(client: Client) -> Client:
    """λ = 0 in training; before a site has chosen, at prediction too."""
    return replace(client, knowledge=replace(client.knowledge, trust=0.0, reliance=0.0))


def _reread(client: Client, held: Examples) -> tuple[Client, Examples]:
    changed, (soft,) = recalibrate_client(client, held)
    return changed, soft


def _join(a: _Found, b: _Found) -> _Found:
    return {
        name: {steps: Cached.join([mine[steps], b[name][steps]]) for steps in mine}
        for name, mine in a.items()
    }
