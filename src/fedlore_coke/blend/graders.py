"""What a blend is asked for, what is promised of it, and who predicts: classes or a number.

An optimiser finds the blends that a model errs on upwards. `expected` averages over all that the
model may be wrong about, so that plans are right on average; `safe` also bounds how far a single
plan may fall below: the model would have to err by `ERRING` sds of its ignorance before the true
chance is `FALL` under the promised one.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from fedlore import Bins, Examples, Measured, Personal, PersonalRegressor
from fedlore.errors import FedloreError, unknown
from fedlore.knowledge import Schema
from fedlore.models import Distribution, Doubt, doubt_classes, doubt_numbers, member_probabilities

from .coals import Array

_CONDITION = re.compile(r"\s*([A-Za-z_]\w*)\s*(>=|<=|==|=|>|<)\s*(.+?)\s*")


@dataclass(frozen=True)
class BlendTarget:
    """Everything from `low` to `high`, both included: numbers, or positions of classes."""

    text: str  # as a person reads it
    low: float = -math.inf
    high: float = math.inf


def class_target(text: str, classes: Sequence[str], label: str = "grade") -> BlendTarget:
    """A target such as 'grade>=12' or 'grade>=CSR50, grade<=CSR56'.

    What stands behind the sign is the name of a class, or else its position counted from 0.

    >>> class_target("grade>=1", ("poor", "fair", "good")).text
    'grade >= fair'
    """

    def position(word: str) -> tuple[float, str]:
        if word in classes:
            return list(classes).index(word), word
        if re.fullmatch(r"\d+", word):
            if int(word) < len(classes):
                return int(word), classes[int(word)]
            raise FedloreError(
                f"target '{text}': there is no class '{word}', and positions end at "
                f"{len(classes) - 1} ({classes[-1]})"
            )
        raise FedloreError(f"target '{text}': {unknown('class', word, classes)}")

    found = _read_target(
        text, (label, "grade"), position, (0, len(classes) - 1), lambda at, way: at + way
    )
    if found.low > found.high:
        raise FedloreError(f"target '{text}' holds for no class")
    return found


def number_target(text: str, label: str, *, lower: float, upper: float) -> BlendTarget:
    """A target such as 'csr>=60' for a number between the bounds."""

    def number(word: str) -> tuple[float, str]:
        try:
            at = float(word)
        except ValueError:
            at = math.nan
        if not math.isfinite(at):
            raise FedloreError(f"target '{text}': '{word}' is not a finite number")
        return at, word

    found = _read_target(
        text, (label,), number, (lower, upper), lambda at, way: math.nextafter(at, way * math.inf)
    )
    if found.low > found.high:
        raise FedloreError(f"target '{text}' holds for no number in [{lower:g}, {upper:g}]")
    return found


def _read_target(
    text: str,
    labels: Sequence[str],
    read: Callable[[str], tuple[float, str]],  # a word -> its place, and what it is called
    ends: tuple[float, float],
    beyond: Callable[[float, int], float],  # the next place upwards (1) or downwards (-1)
) -> BlendTarget:
    low, high, said = *ends, list[str]()
    for sign, word in _conditions(text, labels):
        at, name = read(word)
        said.append(f"{labels[0]} {sign} {name}")
        if sign in (">=", ">", "="):
            low = max(low, beyond(at, 1) if sign == ">" else at)
        if sign in ("<=", "<", "="):
            high = min(high, beyond(at, -1) if sign == "<" else at)
    return BlendTarget(" and ".join(said), float(low), float(high))


def _conditions(text: str, labels: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    for part in text.split(","):
        match = _CONDITION.fullmatch(part)
        if match is None:
            raise FedloreError(
                f"a target must read like '{labels[0]}>=VALUE', conditions parted by commas, "
                f"got '{text}'"
            )
        name, sign, word = match.groups()
        if name not in labels:
            raise FedloreError(f"target '{text}': {unknown('label', name, labels)}")
        found.append(("=" if sign == "==" else sign, word))
    return found


Promise = Literal["expected", "safe"]

FALL = 0.2  # how far below its promise a plan may come true
ERRING = 1.645  # sds of ignorance: one in twenty


@dataclass(frozen=True)
class Risk:
    """What may go wrong with one blend, and why."""

    expected: float  # P(target), all doubts averaged
    low: float | None = None  # P(target) if the model errs by ERRING sds; None: it cannot tell
    noise: float | None = None  # of 1 - expected: what the noise of the test alone leaves
    ignorance: float | None = None  # and what the model does not know
    noise_sd: float | None = None  # in classes, or in units of the number
    ignorance_sd: float | None = None


@dataclass(frozen=True, eq=False)
class Chances:
    """Of n rows and t targets what is likely, and what is left if the model errs; (n, t) each."""

    expected: Tensor  # with all doubts averaged
    low: Tensor | None = None  # if it errs by ERRING sds; None: the model cannot tell

    def promised(self, promise: Promise) -> Tensor:
        """The chance that may be promised, (n, t)."""
        if promise == "expected" or self.low is None:
            return self.expected
        return torch.minimum(self.expected, self.low + FALL)

    def risk(self, doubt: Doubt | None, known: float | None = None) -> Risk:
        """The first row and target in plain numbers; `known`: P if the place were right."""
        expected = float(self.expected[0, 0])
        low = None if self.low is None else float(self.low[0, 0])
        if doubt is None:
            return Risk(expected, low)
        sds = float(doubt.noise[0]), float(doubt.ignorance[0])
        if known is None:
            return Risk(expected, low, None, None, *sds)
        noise = min(1.0 - known, 1.0 - expected)
        return Risk(expected, low, noise, 1.0 - expected - noise, *sds)


def check_promise(promise: str) -> None:
    if promise not in get_args(Promise):
        raise FedloreError(f"promise must be expected or safe, got '{promise}'")


@torch.no_grad()
def class_chances(
    personal: Personal,
    known: Examples,
    inside: Tensor,  # (k, t) which classes lie in each target
    *,
    ordered: bool,
) -> Chances:
    """The chances of targets of classes."""
    doubt = doubt_classes(personal, known) if ordered else None
    if doubt is not None:
        return doubted_chances(doubt, known.allowed, inside)
    voices, weights = member_probabilities(personal, known)
    if len(voices) < 2:
        return Chances(chance_within(personal.log_probs(known), inside))
    each = torch.stack([chance_within(voice.log(), inside) for voice in voices])  # (j, n, t)
    expected = chance_within(personal.log_probs(known), inside)
    spread = torch.einsum("j,jnt->nt", weights, (each - expected).square()).sqrt()
    return Chances(expected, (expected - ERRING * spread).clamp(min=0.0))


def doubted_chances(doubt: Doubt, allowed: Tensor | None, inside: Tensor) -> Chances:
    """The chances of targets of ordered classes, (k, t), by a place and its doubts."""
    k = len(inside)
    # a target that is open above can only be missed by a place that is lower, and the reverse
    upward, downward = bool(inside[-1].all()), bool(inside[0].all())
    shifts = (-ERRING,) if upward else (ERRING,) if downward else (-ERRING, ERRING)
    # all at once: what is asked of a few blends takes as long as of many
    expected, *ends = chance_within(doubt.weigh(shifts, allowed, k), inside)
    low = ends[0] if len(ends) == 1 else torch.minimum(*ends)
    return Chances(expected, low)


@torch.no_grad()
def number_chances(
    regressor: PersonalRegressor, known: Measured, targets: Sequence[BlendTarget]
) -> Chances:
    """The chances of targets of a number."""
    found, doubt = regressor.distribution(known), doubt_numbers(regressor, known)

    def within(off: Tensor) -> Tensor:
        every = [_number_chance(found, target, regressor.bins, off) for target in targets]
        return torch.stack(every, 1)

    expected = within(torch.zeros(len(known), dtype=torch.float64))
    if doubt is None:
        return Chances(expected)
    low = torch.minimum(*(within(by * doubt.ignorance) for by in (-ERRING, ERRING)))
    # what the range leaves no room for cannot go wrong
    return Chances(expected, torch.where(expected >= 1.0, 1.0, low))


def _number_chance(found: Distribution, target: BlendTarget, bins: Bins, off: Tensor) -> Tensor:
    """P(target), (n,), if all numbers were off by so much, (n,)."""
    upto, below = torch.ones_like(off), torch.zeros_like(off)  # an open end stays open
    if target.high < bins.upper:
        upto = found.cdf(target.high - off)
    if target.low > bins.lower:
        below = found.cdf(torch.nextafter(target.low - off, off.new_tensor(-torch.inf)))
    return (upto - below).clamp(0.0, 1.0)


def chance_within(log_probs: Tensor, inside: Tensor) -> Tensor:
    """The probability of each target, exactly 1 where nothing lies outside of it, (..., n, t)."""
    chances = log_probs.exp().double()
    within, beyond = chances @ inside, chances @ (1.0 - inside)
    return torch.where(beyond == 0, 1.0, within.clamp(max=1.0))


_STEPS = 3  # how many harder and easier targets stand beside the wanted one


@dataclass(frozen=True)
class Forecast:
    """What a model says of one blend."""

    answer: str
    expert: str | None  # the expert's own answer, where there is one
    chances: dict[str, float]  # of each class, or of each part of the scale
    allowed: tuple[str, ...]  # what the range allows


@dataclass(frozen=True, eq=False)
class ClassGrader:
    """A personal model of grades."""

    personal: Personal
    schema: Schema
    promise: Promise = "safe"

    def target(self, text: str) -> BlendTarget:
        """Read a target."""
        return class_target(text, self.schema.classes, self.schema.label)

    def ladder(self, target: BlendTarget) -> tuple[BlendTarget, ...]:
        """The neighbouring grades, where the target is open at one end."""
        last = len(self.schema.classes) - 1
        sign, places = _rungs(target, 0, last, 1)
        least, most = (1, last) if sign == ">=" else (0, last - 1)
        return tuple(
            _grade_target(int(at), self.schema, sign) if way else target
            for way, at in places
            if not way or least <= at <= most
        )

    @torch.no_grad()
    def look(self, x: Tensor, targets: Sequence[BlendTarget]) -> tuple[Array, Array]:
        """Of rows (n, d) the promised chance of targets, and how far the range leaves them, (n, t).

        The latter is 0 where everything that the range allows lies in the target, and at most 1.
        """
        known = self.annotate(x)
        inside = self._inside(targets)
        found = class_chances(self.personal, known, inside, ordered=self.schema.ordered)
        allowed = torch.ones(len(x), len(inside)) if known.allowed is None else known.allowed
        stray = allowed.double() @ (1.0 - inside) / len(inside)
        return found.promised(self.promise).numpy(), stray.numpy()

    @torch.no_grad()
    def weigh(self, x: Tensor, target: BlendTarget) -> Risk:
        """What may go wrong with one row, (1, d)."""
        known, ordered = self.annotate(x), self.schema.ordered
        inside = self._inside((target,))
        found = class_chances(self.personal, known, inside, ordered=ordered)
        doubt = doubt_classes(self.personal, known) if ordered else None
        if doubt is None:
            return found.risk(None)
        at_place = chance_within(doubt.shift_probs(0.0, known.allowed, len(inside)), inside)
        return found.risk(doubt, float(at_place[0, 0]))

    def annotate(self, x: Tensor) -> Examples:
        """What the expert says of rows; a KnowledgeError where he refuses one."""
        return self.personal.annotate(x)

    @torch.no_grad()
    def empty(self, x: Tensor) -> Tensor:
        """For which rows the range allows nothing at all, (n,) bool."""
        allows = self.personal.knowledge.range
        none = torch.zeros(len(x), dtype=torch.bool)
        return none if allows is None else ~allows(x).bool().any(1)

    def _inside(self, targets: Sequence[BlendTarget]) -> Tensor:
        """Which classes lie in each target, (k, t)."""
        at = torch.arange(len(self.schema.classes), dtype=torch.float64)
        return torch.stack([(at >= t.low) & (at <= t.high) for t in targets], 1).double()

    @torch.no_grad()
    def tell(self, x: Tensor) -> Forecast:
        """All about one row, (1, d)."""
        known, classes = self.personal.annotate(x), self.schema.classes
        chances = self.personal.predict_proba(x)[0].double().tolist()
        heard = None if known.prior is None or not known.prior[0].any() else known.prior[0]
        allowed = [True] * len(classes) if known.allowed is None else known.allowed[0].tolist()
        return Forecast(
            classes[int(self.personal.predict(x)[0])],
            None if heard is None else classes[int(heard.argmax())],
            dict(zip(classes, chances, strict=True)),
            tuple(name for name, may in zip(classes, allowed, strict=True) if may),
        )


@dataclass(frozen=True, eq=False)
class NumberGrader:
    """The same of a number."""

    regressor: PersonalRegressor
    label: str
    unit: str = ""
    promise: Promise = "safe"

    def target(self, text: str) -> BlendTarget:
        bins = self.regressor.bins
        return number_target(text, self.label, lower=bins.lower, upper=bins.upper)

    def ladder(self, target: BlendTarget) -> tuple[BlendTarget, ...]:
        """Numbers a twentieth of the scale apart, where the target is open at one end."""
        bins = self.regressor.bins
        sign, places = _rungs(target, bins.lower, bins.upper, (bins.upper - bins.lower) / 20.0)
        return tuple(
            self.target(f"{self.label}{sign}{at:g}") if way else target
            for way, at in places
            if not way or bins.lower < at < bins.upper
        )

    @torch.no_grad()
    def look(self, x: Tensor, targets: Sequence[BlendTarget]) -> tuple[Array, Array]:
        known, bins = self.annotate(x), self.regressor.bins
        n, scale = len(x), bins.upper - bins.lower
        bottom, top = torch.full((n,), bins.lower), torch.full((n,), bins.upper)
        if known.sets is not None:
            bottom = known.sets.lower.nan_to_num(nan=math.inf).amin(1)
            top = known.sets.upper.nan_to_num(nan=-math.inf).amax(1)
        out = [torch.maximum(target.low - bottom, top - target.high) for target in targets]
        stray = torch.stack(out, 1).clamp(min=0.0).double() / scale
        found = number_chances(self.regressor, known, targets)
        return found.promised(self.promise).numpy(), stray.numpy()

    @torch.no_grad()
    def weigh(self, x: Tensor, target: BlendTarget) -> Risk:
        known = self.annotate(x)
        found = number_chances(self.regressor, known, (target,))
        return found.risk(doubt_numbers(self.regressor, known))

    def annotate(self, x: Tensor) -> Measured:
        return self.regressor.annotate(x)

    @torch.no_grad()
    def empty(self, x: Tensor) -> Tensor:
        allows, bins = self.regressor.knowledge.range, self.regressor.bins
        none = torch.zeros(len(x), dtype=torch.bool)
        return none if allows is None else allows(x).clip(bins.lower, bins.upper).empty

    @torch.no_grad()
    def tell(self, x: Tensor) -> Forecast:
        known, bins = self.regressor.annotate(x), self.regressor.bins
        found = self.regressor.distribution(known)
        low, high = found.interval(0.9)
        said = None if known.said is None or known.said[0].isnan() else float(known.said[0])
        edges = bins.edges
        names = [f"[{a:g}, {b:g})" for a, b in zip(edges, edges[1:], strict=False)]
        if known.sets is None:
            pieces = [f"[{bins.lower:g}, {bins.upper:g}]"]
        else:
            ends = zip(known.sets.lower[0].tolist(), known.sets.upper[0].tolist(), strict=True)
            pieces = [f"[{a:g}, {b:g}]" for a, b in ends if not math.isnan(a)]
        unit = f" {self.unit}" if self.unit else ""
        return Forecast(
            f"{float(found.mean()[0]):.1f}{unit}, 90 % between {float(low[0]):.1f} and "
            f"{float(high[0]):.1f}",
            None if said is None else f"{said:.1f}{unit}",
            dict(zip(names, found.classes[0].tolist(), strict=True)),
            tuple(pieces),
        )


Grader = ClassGrader | NumberGrader  # a model that can be asked for targets


def grader_for(
    model: Personal | PersonalRegressor, schema: Schema, *, promise: Promise = "safe"
) -> Grader:
    """The way to ask a model, whether it knows grades or a number."""
    check_promise(promise)
    if isinstance(model, PersonalRegressor):
        return NumberGrader(model, schema.label, promise=promise)
    if isinstance(model, Personal):
        return ClassGrader(model, schema, promise)
    raise FedloreError(f"a blend needs a personal model, got a {type(model).__name__}")


def _rungs(
    target: BlendTarget, lower: float, upper: float, step: float
) -> tuple[str, list[tuple[int, float]]]:
    """The sign of a target, and places from easier to harder; its own where it is not open."""
    upward, downward = target.high >= upper, target.low <= lower
    if upward == downward:
        return "", [(0, target.low)]
    at, sign, way = (target.low, ">=", 1) if upward else (target.high, "<=", -1)
    return sign, [(i, at + i * step * way) for i in range(-_STEPS, _STEPS + 1)]


def _grade_target(at: int, schema: Schema, sign: str) -> BlendTarget:
    low, high = (at, len(schema.classes) - 1) if sign == ">=" else (0, at)
    return BlendTarget(f"{schema.label} {sign} {schema.classes[at]}", float(low), float(high))
