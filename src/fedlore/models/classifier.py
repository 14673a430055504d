"""One site's own model: scaler, shared network and private knowledge together, f^m."""

import copy
import math
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ..answers.axis import find_favoured, name_class
from ..core.examples import Examples
from ..core.inject import fill_trust, guard, inject
from ..core.lipschitz import keeps_shapes, lay_shapes
from ..core.metrics import (
    ReliabilityBin,
    accuracy,
    class_reliability,
    class_scores,
    decide,
    nll,
    reliability,
    violation,
)
from ..core.nets import server
from ..core.scaler import Inputs, Scaler
from ..core.tree import Params
from ..errors import FedloreError
from ..kernel.schema import Schema
from ..knowledge import Knowledge
from ..knowledge.missing import check_values
from ..knowledge.shapes.shape import refuse_bends
from ..knowledge.shapes.turns import refuse_unknown_turns
from .answers import BLOCK, BOTH, EXPERT, MODEL, RANGE, Answers, in_scope
from .ensemble import Ensemble, Spoken, with_expert
from .own.members import input_signs, keeps_signs

TaskName = Literal["classification", "regression"]


class Personal(nn.Module):
    """f^m = (1-λ)·softmax(f masked to the range) + λ·P-KM; forward gives log-probabilities.

    For any finite weights a class outside the range has probability exactly 0. With an `ensemble`
    it is a mixture of more members, in which λ is the expert's weight there.
    """

    task: ClassVar[Literal["classification"]] = "classification"
    chunk: ClassVar[int] = 65_536  # rows whose knowledge is evaluated at a time
    bins: ClassVar[None] = None  # how a number is cut, where there is one

    def __init__(
        self,
        model: nn.Module,
        knowledge: Knowledge | None = None,
        *,
        scaler: Scaler | None = None,
        weights: Params | None = None,
        ensemble: Ensemble | None = None,
    ) -> None:
        super().__init__()
        self.model = server(model if weights is None else copy.deepcopy(model))
        self.knowledge = knowledge or Knowledge()
        self.scaler = scaler
        if weights is not None:
            self.model.load_state_dict(weights)
        self.ensemble = admit_shapes(
            self.model, self.knowledge, ensemble, None if scaler is None else scaler.inputs
        )
        for name, values in self.model.named_parameters():
            if not values.isfinite().all():
                raise FedloreError(f"weights must be finite: '{name}' is not")

    @property
    def inner(self) -> "Personal":
        """The network and its scaling, as every kind of personal model has them."""
        return self

    @property
    def hears(self) -> bool:
        """Whether the network is told what the expert says."""
        return bool(self.model.hears)

    def forward(self, x: Tensor) -> Tensor:
        """(n, *features) in raw units -> (n, k) log-probabilities."""
        return self.log_probs(self.annotate(x))

    def annotate(self, x: Tensor) -> Examples:
        """The rows with what the expert says about them; what is no value is refused."""
        check_values(x, self.knowledge.schema)
        return self.encode(self.knowledge.annotate(Examples(x), training=False))

    def encode(self, known: Examples) -> Examples:
        """The rows as network and members take them, before any scaling."""
        if self.scaler is None or self.scaler.inputs is None:
            return known
        return replace(known, x=self.scaler.encode(known.x))

    def log_probs(self, known: Examples) -> Tensor:
        """Log-probabilities of rows whose knowledge has been evaluated already."""
        known = self.encode(known)
        return self._mix(*self._hear(known), known)

    def _hear(self, known: Examples) -> tuple[Tensor, Spoken]:
        """The network's logits, and of an ensemble what each of its members says."""
        logits = self.logits(known)
        return logits, () if self.ensemble is None else self.ensemble.speak(logits, known)

    def _mix(self, logits: Tensor, spoken: Spoken, known: Examples) -> Tensor:
        """Log-probabilities (n, k) of the whole mixture."""
        if self.ensemble is not None:
            return self.ensemble.log_probs(spoken, known)
        trust = fill_trust(known.trust, self.reliance)
        return inject(logits, known.prior, known.allowed, trust)

    def _without_expert(self, logits: Tensor, spoken: Spoken, known: Examples) -> Tensor:
        """What network and members favour inside the range without the expert's part, (n, k)."""
        if self.ensemble is not None:
            return self.ensemble.without_expert(spoken, known)
        return logits if known.allowed is None else logits.masked_fill(~known.allowed, -torch.inf)

    @property
    def reliance(self) -> float:
        """λ at prediction, the expert's own weight, where a row has none of its own."""
        return self.knowledge.trust_at_prediction if self.ensemble is None else self.ensemble.expert

    def logits(self, known: Examples) -> Tensor:
        """What the network alone says, (n, k), before the range."""
        x = known.x if self.scaler is None else self.scaler(known.x)
        seen = lay_shapes(self.model, replace(known, x=x), self.scaler)
        return guard(self.model(seen.x, known.prior, known.allowed))

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """The class of each row, (n,); at an exact tie the expert's class wins.

        Of a site with shapes it is the median of the row's distribution.
        """
        known = self.annotate(x)
        return decide(self.log_probs(known), known.prior, known.signs)

    @torch.no_grad()
    def predict_proba(self, x: Tensor) -> Tensor:
        """Probabilities, (n, k); exactly 0 outside the range."""
        probabilities: Tensor = self(x).exp()
        return probabilities

    def answer(self, schema: Schema, x: Tensor) -> Answers:
        """Answers for a chunk of rows in raw units and in the network's own shape."""
        known = self.annotate(x)
        n, k = len(x), len(schema.classes)
        rely = torch.as_tensor(fill_trust(known.trust, self.reliance), dtype=torch.float64)
        rely = rely.expand(n)  # λ of each row
        allowed = torch.ones(n, k, dtype=torch.bool) if known.allowed is None else known.allowed
        favoured = torch.zeros(n, k, dtype=torch.bool)
        if known.prior is not None:
            favoured = find_favoured(known.prior)
        spoken = favoured.any(1)
        weighed = known.prior is not None and bool((rely > 0).any())
        whole = bool((rely >= 1).any())  # nothing is left of the mixture there
        predicted = torch.empty(n, dtype=torch.int64)
        own = torch.empty(n, dtype=torch.int64) if weighed else predicted  # the network's own class
        probabilities: Tensor | None = None
        opinions: list[Tensor] = []
        for start in range(0, n, BLOCK):
            rows = slice(start, start + BLOCK)
            part = known[rows]
            logits, members = self._hear(part)
            log_probs = self._mix(logits, members, part)
            if self.ensemble is not None:
                opinions.append(self.ensemble.opinions(members, part))
            if weighed and self.ensemble is not None and not whole and part.prior is not None:
                # what is left of the mixture without him
                left = log_probs.double().exp() - rely[rows].unsqueeze(1) * part.prior.double()
                torch.argmax(left, 1, out=own[rows])
            elif weighed:
                torch.argmax(self._without_expert(logits, members, part), 1, out=own[rows])
            predicted[rows] = decide(log_probs, part.prior, part.signs)
            if probabilities is None:
                probabilities = log_probs.new_empty(n, k)
            torch.exp(log_probs, out=probabilities[rows])
        if probabilities is None:  # no rows at all
            probabilities = torch.empty(0, k)
        decided = torch.full((n,), MODEL, dtype=torch.uint8)
        if weighed:
            # of a soft prior the mixture may favour a class that neither puts first
            his, ours = (favoured.gather(1, c.unsqueeze(1)).squeeze(1) for c in (predicted, own))
            both = ours | ((predicted != own) & ~his)
            heard = torch.where(both, BOTH, torch.where(his, EXPERT, MODEL))
            decided = torch.where(spoken & (rely > 0), heard.to(torch.uint8), decided)
        if known.allowed is not None:
            decided.masked_fill_(allowed.sum(1) == 1, RANGE)
        # the least of λ must not become 0 in single precision: it was used
        used = torch.where(rely > 0, rely.clamp(min=torch.finfo(probabilities.dtype).tiny), 0.0)
        trust = spoken * used.to(probabilities.dtype)
        scope = in_scope(schema, x)
        expert = name_class(favoured)
        said = torch.cat(opinions) if opinions else None
        return Answers(
            predicted, probabilities, allowed, expert, trust, decided, scope, opinions=said
        )

    def score(self, schema: Schema, x: Tensor, y: Tensor) -> dict[str, float]:
        """TA, POV, log-loss, calibration, and how often the label itself is called impossible."""
        starts = range(0, max(len(x), 1), self.chunk)
        found = Answers.join([self.answer(schema, x[i : i + self.chunk]) for i in starts])
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

    def reliability(self, x: Tensor, y: Tensor) -> list[ReliabilityBin]:
        """How sure answers are, and how often they are right."""
        return reliability(self.predict_proba(x), y)

    def with_knowledge(self, knowledge: Knowledge | None) -> "Personal":
        """The same network seen through other knowledge, without retraining."""
        return Personal(self.model, knowledge, scaler=self.scaler, ensemble=self.ensemble)

    def with_ensemble(self, ensemble: Ensemble | None) -> "Personal":
        """The same network with other members beside it, or other weights."""
        return Personal(self.model, self.knowledge, scaler=self.scaler, ensemble=ensemble)


def admit_shapes(
    model: nn.Module,
    known: Knowledge,
    ensemble: Ensemble | None,
    inputs: Inputs | None,
) -> Ensemble | None:
    """The members beside the network, the expert only where he is shown to move as shapes say.

    A network or a member that cannot keep the shapes is refused.
    """
    if known.shapes is None:
        return replace(ensemble, once=False) if ensemble is not None else None
    refuse_unknown_turns(known.shapes)
    said, bends = ", ".join(map(str, known.shapes)), known.shapes.bends
    if bends and (ensemble is None or ensemble.network > 0.0 or not ensemble.members):
        refuse_bends(known.shapes)
    if known.shapes.directed is not None and not keeps_shapes(model):
        raise FedloreError(
            f"this network cannot keep the shapes ({said}): set [model] lipschitz = true at every "
            "site"
        )
    signs = input_signs(known, inputs)
    if ensemble is None or signs is None:
        return ensemble
    for member in ensemble.members:
        if not keeps_signs(member, signs):
            name = getattr(member, "name", type(member).__name__)
            raise FedloreError(
                f"'{name}' in the ensemble does not keep the shapes ({said}): the ensemble must be "
                "fitted again with them in the knowledge"
            )
    assert known.orders is not None
    ensemble = replace(ensemble, once=bool(bends))
    return ensemble if known.orders.hears_prediction else with_expert(ensemble, 0.0)
