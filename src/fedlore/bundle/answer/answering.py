"""What a bundle answers about rows: the class, how likely, what was possible, and who decided."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from ...core.inject import inject
from ...core.metrics import decide
from ...errors import FedloreError
from ...knowledge.schema import Schema
from ...personal.classifier import Personal
from ...personal.regressor import PersonalRegressor
from ..contents import Bundle

#: Who decided, by code: the range left one answer; the expert outweighed the network; the network
#: (the expert silent, not trusted, or outweighed); both said the same, or were mixed.
DECIDED = ("range", "expert", "network", "both")
RANGE, EXPERT, NETWORK, BOTH = range(4)

CHUNK = 65_536  # rows whose knowledge is evaluated at a time
BLOCK = 4_096  # rows that go through the network at a time: a hidden layer stays in the cache


@dataclass(frozen=True, eq=False)
class Answers:
    """Columns for n rows. Of a number, `predicted` and `expert` are numbers and k counts bins."""

    predicted: Tensor  # (n,) int64 class, or float64 number
    probabilities: Tensor  # (n, k); exactly 0 outside the range
    allowed: Tensor  # (n, k) bool
    expert: Tensor  # (n,) int64, -1 where he is silent; or float64, NaN where he is silent
    trust: Tensor  # (n,) λ that was really used: 0 where the expert is silent
    decided: Tensor  # (n,) uint8, an index into DECIDED
    in_scope: Tensor  # (n,) bool
    low: Tensor | None = None  # (n,) float64, of a number: the least that the range allows
    high: Tensor | None = None  # (n,) and the greatest

    def __len__(self) -> int:
        return len(self.predicted)


@torch.no_grad()
def answer_rows(bundle: Bundle, x: Tensor) -> Answers:
    """Answers for rows in raw units, (n, d) or in the network's own shape."""
    x = shaped(bundle, x)
    personal = bundle.personal
    if isinstance(personal, Personal):
        starts = range(0, max(len(x), 1), CHUNK)
        parts = [_classes(personal, bundle.schema, x[i : i + CHUNK]) for i in starts]
    else:
        starts = range(0, max(len(x), 1), BLOCK)
        parts = [_numbers(personal, bundle.schema, x[i : i + BLOCK]) for i in starts]
    return parts[0] if len(parts) == 1 else _joined(parts)


def shaped(bundle: Bundle, x: Tensor) -> Tensor:
    """The rows as the network takes them."""
    d = len(bundle.schema.features)
    if x.ndim < 2 or x[:1].numel() != d * min(len(x), 1):
        raise FedloreError(f"rows must have {d} features, got shape {tuple(x.shape)}")
    if not x.is_floating_point():
        raise FedloreError(f"rows must be floating point, got {x.dtype}")
    return x.reshape(len(x), *bundle.shape)


def in_scope(schema: Schema, x: Tensor) -> Tensor:
    """Whether every feature of a row lies where the expert declared, (n, ...) -> (n,) bool."""
    flat = x.flatten(1)
    low = flat.new_tensor([0.0 if f.levels else f.low for f in schema.features])
    high = flat.new_tensor([len(f.levels) - 1.0 if f.levels else f.high for f in schema.features])
    return ((flat >= low) & (flat <= high)).all(1)


def _classes(personal: Personal, schema: Schema, x: Tensor) -> Answers:
    known = personal.annotate(x)
    n, k = len(x), len(schema.classes)
    reliance = personal.knowledge.reliance
    allowed = torch.ones(n, k, dtype=torch.bool) if known.allowed is None else known.allowed
    expert = torch.full((n,), -1, dtype=torch.int64)
    spoken = torch.zeros(n, dtype=torch.bool)
    if known.prior is not None:
        loudest = known.prior.max(1)
        spoken = loudest.values > 0
        expert = torch.where(spoken, loudest.indices, expert)
    weighed = known.prior is not None and reliance > 0
    predicted = torch.empty(n, dtype=torch.int64)
    own = torch.empty(n, dtype=torch.int64) if weighed else predicted  # the network's own class
    probabilities: Tensor | None = None
    for start in range(0, n, BLOCK):
        rows = slice(start, start + BLOCK)
        part = known[rows]
        logits = personal.logits(part)
        log_probs = inject(logits, part.prior, part.allowed, reliance)
        if weighed:
            inside = logits.masked_fill(~allowed[rows], -torch.inf)
            torch.argmax(inside, 1, out=own[rows])
        predicted[rows] = decide(log_probs, part.prior)
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
        decided = torch.where(spoken, heard.to(torch.uint8), decided)
    if known.allowed is not None:
        decided.masked_fill_(allowed.sum(1) == 1, RANGE)
    trust = spoken * probabilities.new_tensor(reliance)
    scope = in_scope(schema, x)
    return Answers(predicted, probabilities, allowed, expert, trust, decided, scope)


def _numbers(personal: PersonalRegressor, schema: Schema, x: Tensor) -> Answers:
    told = personal.annotate(x)
    found = personal.distribution(told)
    n, bins = len(x), personal.bins
    reliance = personal.knowledge.reliance
    silent = torch.full((n,), torch.nan, dtype=torch.float64)
    expert = silent if told.said is None else told.said
    trust = torch.where(expert.isnan(), 0.0, reliance)
    low, high = (torch.full((n,), end, dtype=torch.float64) for end in (bins.lower, bins.upper))
    if told.sets is not None:
        low = told.sets.lower.nan_to_num(nan=torch.inf).amin(1)
        high = told.sets.upper.nan_to_num(nan=-torch.inf).amax(1)
    decided = torch.full((n,), NETWORK, dtype=torch.uint8)
    decided[trust > 0] = EXPERT if reliance >= 1 else BOTH
    decided[low == high] = RANGE
    every = torch.ones(n, bins.k, dtype=torch.bool)
    return Answers(
        found.mean(),
        _bins(found.classes, found.weight, personal, found.said),
        every if told.allowed is None else told.allowed,
        expert,
        trust,
        decided,
        in_scope(schema, x),
        low,
        high,
    )


def _bins(classes: Tensor, weight: Tensor, personal: PersonalRegressor, said: Tensor) -> Tensor:
    """The probability of each bin, the expert's number in its own, (n, k)."""
    bins = personal.bins
    own = bins.encode(torch.where(weight > 0, said, bins.lower))
    mixed = (1 - weight).unsqueeze(1) * classes
    return mixed.scatter_add_(1, own.unsqueeze(1), weight.unsqueeze(1))


def _joined(parts: list[Answers]) -> Answers:
    def column(name: str) -> Tensor | None:
        first = getattr(parts[0], name)
        return None if first is None else torch.cat([getattr(part, name) for part in parts])

    return Answers(**{f.name: column(f.name) for f in fields(Answers)})  # type: ignore[arg-type]
