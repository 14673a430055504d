"""Learning one of k classes."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ...answers import Bins
from ...core.inject import fill_trust
from ...core.marks import class_scores
from ...core.metrics import accuracy, decide, nll, violation
from ...core.reliability import class_reliability
from ...core.scaler import Scaler
from ...core.tree import Params
from ...errors import ConfigError, KnowledgeError
from ...kernel.schema import Schema
from ...knowledge import Knowledge
from ..answers import BLOCK, BOTH, EXPERT, NETWORK, RANGE, Answers, in_scope
from ..beside import Beside, NumberBeside
from ..classifier import Personal
from ..client import Client, Member, Predictor
from .base import TaskName, wrong_client


@dataclass(frozen=True)
class Classification:
    """The label is a class; a `Client` is in the loop's own terms already."""

    name: ClassVar[TaskName] = "classification"
    predictor: ClassVar[type[Personal]] = Personal
    chunk: ClassVar[int] = 65_536  # rows whose knowledge is evaluated at a time
    bins: ClassVar[Bins | None] = None
    told: ClassVar[int] = 0  # a network that hears gets prior and range beside its rows

    def enter(self, client: Member[Predictor]) -> Client:
        if not isinstance(client, Client):
            raise wrong_client(self.name, "Client", client)
        return client

    def check(self, model: nn.Module, client: Client) -> None:
        """Nothing to say before the engine makes its sites ready: it names the client."""

    def suit(self, model: nn.Module) -> "Classification":
        return self

    def build(
        self,
        model: nn.Module,
        knowledge: Knowledge | None,
        *,
        scaler: Scaler | None = None,
        weights: Params | None = None,
        beside: Beside | NumberBeside | None = None,
    ) -> Personal:
        if knowledge is not None and knowledge.line is not None:
            raise KnowledgeError("a network for classes and knowledge about a number do not fit")
        if isinstance(beside, NumberBeside):
            raise KnowledgeError("a network for classes and members for a number do not fit")
        return Personal(model, knowledge, scaler=scaler, weights=weights, beside=beside)

    def answer(self, personal: Personal, schema: Schema, x: Tensor) -> Answers:
        known = personal.annotate(x)
        n, k = len(x), len(schema.classes)
        rely = torch.as_tensor(fill_trust(known.trust, personal.reliance), dtype=torch.float64)
        rely = rely.expand(n)  # λ of each row
        allowed = torch.ones(n, k, dtype=torch.bool) if known.allowed is None else known.allowed
        expert = torch.full((n,), -1, dtype=torch.int64)
        spoken = torch.zeros(n, dtype=torch.bool)
        if known.prior is not None:
            loudest = known.prior.max(1)
            spoken = loudest.values > 0
            expert = torch.where(spoken, loudest.indices, expert)
        weighed = known.prior is not None and bool((rely > 0).any())
        whole = bool((rely >= 1).any())  # nothing is left of the mixture there
        predicted = torch.empty(n, dtype=torch.int64)
        own = torch.empty(n, dtype=torch.int64) if weighed else predicted  # the network's own class
        probabilities: Tensor | None = None
        for start in range(0, n, BLOCK):
            rows = slice(start, start + BLOCK)
            part = known[rows]
            logits = personal.logits(part)
            log_probs = personal.mixed(logits, part)
            if weighed and personal.beside is not None and not whole and part.prior is not None:
                # what is left of the mixture without him; its members speak once
                left = log_probs.double().exp() - rely[rows].unsqueeze(1) * part.prior.double()
                torch.argmax(left, 1, out=own[rows])
            elif weighed:
                torch.argmax(personal.learned(logits, part), 1, out=own[rows])
            predicted[rows] = decide(log_probs, part.prior, part.signs)
            if probabilities is None:
                probabilities = log_probs.new_empty(n, k)
            torch.exp(log_probs, out=probabilities[rows])
        if probabilities is None:  # no rows at all
            probabilities = torch.empty(0, k)
        decided = torch.full((n,), NETWORK, dtype=torch.uint8)
        if weighed:
            # of a soft prior the mixture may favour a class that neither puts first
            both = (own == expert) | ((predicted != own) & (predicted != expert))
            heard = torch.where(both, BOTH, torch.where(predicted == expert, EXPERT, NETWORK))
            decided = torch.where(spoken & (rely > 0), heard.to(torch.uint8), decided)
        if known.allowed is not None:
            decided.masked_fill_(allowed.sum(1) == 1, RANGE)
        # the least of λ must not become 0 in single precision: it was used
        used = torch.where(rely > 0, rely.clamp(min=torch.finfo(probabilities.dtype).tiny), 0.0)
        trust = spoken * used.to(probabilities.dtype)
        scope = in_scope(schema, x)
        return Answers(predicted, probabilities, allowed, expert, trust, decided, scope)

    def score(self, personal: Personal, schema: Schema, x: Tensor, y: Tensor) -> dict[str, float]:
        """TA, POV, log-loss, calibration, and how often the label itself is called impossible."""
        starts = range(0, max(len(x), 1), self.chunk)
        found = Answers.join([self.answer(personal, schema, x[i : i + self.chunk]) for i in starts])
        loss = nll(found.probabilities.log(), y)
        inside = found.allowed.gather(1, y.unsqueeze(1)).double().mean()
        scores = {
            "ta": accuracy(found.predicted, y),
            "pov": violation(found.predicted, found.allowed),
            "labels outside the range": 1 - float(inside),
        }
        scores |= class_scores(found.predicted, y, len(schema.classes), ordered=schema.ordered)
        scores |= {"nll": loss} if math.isfinite(loss) else {}
        return scores | class_reliability(found.probabilities, y, ordered=schema.ordered)

    def listens(self, model: nn.Module) -> bool:
        return bool(model.hears)

    @classmethod
    def chosen(cls, bins: Bins | None, *, ordinal: float, hears: bool) -> "Classification":
        if bins is not None or ordinal or hears:
            raise ConfigError("bins, ordinal and hears belong to task = regression")
        return cls()

    @classmethod
    def of(cls, personal: Personal) -> "Classification":
        return cls()

    @classmethod
    def stored(cls, bins: Bins | None, *, hears: bool) -> "Classification":
        return cls()  # its network says for itself whether it hears
