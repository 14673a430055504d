"""Personal models asked one question: how likely, and how surely, does a row reach a target?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedlore import Examples, Personal, PersonalRegressor
from fedlore.answers import Measured
from fedlore.errors import FedloreError
from fedlore.knowledge import Schema
from fedlore.personal import doubt_classes, doubt_numbers

from .coals import Array
from .promise import Promise, Risk, chance_within, check_promise, class_chances, number_chances
from .target import BlendTarget, class_target, number_target

_STEPS = 3  # how many harder and easier targets stand beside the wanted one


@dataclass(frozen=True)
class Forecast:
    """What a model says of one blend."""

    answer: str
    expert: str | None  # the expert's own answer, where there is one
    chances: dict[str, float]  # of each class, or of each part of the scale
    allowed: tuple[str, ...]  # what the range allows


class Grader(Protocol):
    """A model that can be asked for targets."""

    def target(self, text: str) -> BlendTarget:
        """Read a target."""
        ...

    def ladder(self, target: BlendTarget) -> tuple[BlendTarget, ...]:
        """Easier and harder targets, in order, the target itself among them."""
        ...

    def look(self, x: Tensor, targets: Sequence[BlendTarget]) -> tuple[Array, Array]:
        """Of rows (n, d) the promised chance of targets, and how far the range leaves them, (n, t).

        The latter is 0 where everything that the range allows lies in the target, and at most 1.
        """
        ...

    def tell(self, x: Tensor) -> Forecast:
        """All about one row, (1, d)."""
        ...

    def weigh(self, x: Tensor, target: BlendTarget) -> Risk:
        """What may go wrong with one row, (1, d)."""
        ...

    def annotate(self, x: Tensor) -> object:
        """What the expert says of rows; a KnowledgeError where he refuses one."""
        ...

    def empty(self, x: Tensor) -> Tensor:
        """For which rows the range allows nothing at all, (n,) bool."""
        ...


@dataclass(frozen=True, eq=False)
class ClassGrader:
    """A personal model of grades."""

    personal: Personal
    schema: Schema
    promise: Promise = "safe"

    def target(self, text: str) -> BlendTarget:
        return class_target(text, self.schema.classes, self.schema.label)

    def ladder(self, target: BlendTarget) -> tuple[BlendTarget, ...]:
        """The neighbouring grades, where the target is open at one end."""
        classes, label = self.schema.classes, self.schema.label
        last = len(classes) - 1
        upward, downward = target.high == last, target.low == 0
        if upward == downward:
            return (target,)
        at, sign = (int(target.low), ">=") if upward else (int(target.high), "<=")
        way = 1 if upward else -1
        steps = range(at - way * _STEPS, at + way * (_STEPS + 1), way)
        return tuple(
            target if i == at else _grade_target(i, classes, label, sign)
            for i in steps
            if (0 < i <= last if upward else 0 <= i < last)
        )

    @torch.no_grad()
    def look(self, x: Tensor, targets: Sequence[BlendTarget]) -> tuple[Array, Array]:
        known = self.annotate(x)
        inside = self._inside(targets)
        found = class_chances(self.personal, known, inside, ordered=self.schema.ordered)
        allowed = torch.ones(len(x), len(inside)) if known.allowed is None else known.allowed
        stray = allowed.double() @ (1.0 - inside) / len(inside)
        return found.promised(self.promise).numpy(), stray.numpy()

    @torch.no_grad()
    def weigh(self, x: Tensor, target: BlendTarget) -> Risk:
        known, ordered = self.annotate(x), self.schema.ordered
        inside = self._inside((target,))
        found = class_chances(self.personal, known, inside, ordered=ordered)
        doubt = doubt_classes(self.personal, known) if ordered else None
        if doubt is None:
            return found.risk(None)
        at_place = chance_within(doubt.shifted(0.0, known.allowed, len(inside)), inside)
        return found.risk(doubt, float(at_place[0, 0]))

    def annotate(self, x: Tensor) -> Examples:
        return self.personal.annotate(x)

    @torch.no_grad()
    def empty(self, x: Tensor) -> Tensor:
        allows = self.personal.knowledge.range
        none = torch.zeros(len(x), dtype=torch.bool)
        return none if allows is None else ~allows(x).bool().any(1)

    def _inside(self, targets: Sequence[BlendTarget]) -> Tensor:
        """Which classes lie in each target, (k, t)."""
        at = torch.arange(len(self.schema.classes), dtype=torch.float64)
        return torch.stack([(at >= t.low) & (at <= t.high) for t in targets], 1).double()

    @torch.no_grad()
    def tell(self, x: Tensor) -> Forecast:
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
    """A personal model of a number."""

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
        upward, downward = target.high >= bins.upper, target.low <= bins.lower
        if upward == downward:
            return (target,)
        step = (bins.upper - bins.lower) / 20.0
        at, sign = (target.low, ">=") if upward else (target.high, "<=")
        numbers = [at + i * step * (1 if upward else -1) for i in range(-_STEPS, _STEPS + 1)]
        return tuple(
            target if value == at else self.target(f"{self.label}{sign}{value:g}")
            for value in numbers
            if bins.lower < value < bins.upper
        )

    @torch.no_grad()
    def look(self, x: Tensor, targets: Sequence[BlendTarget]) -> tuple[Array, Array]:
        told, bins = self.annotate(x), self.regressor.bins
        n, scale = len(x), bins.upper - bins.lower
        bottom, top = torch.full((n,), bins.lower), torch.full((n,), bins.upper)
        if told.sets is not None:
            bottom = told.sets.lower.nan_to_num(nan=math.inf).amin(1)
            top = told.sets.upper.nan_to_num(nan=-math.inf).amax(1)
        out = [torch.maximum(target.low - bottom, top - target.high) for target in targets]
        stray = torch.stack(out, 1).clamp(min=0.0).double() / scale
        found = number_chances(self.regressor, told, targets)
        return found.promised(self.promise).numpy(), stray.numpy()

    @torch.no_grad()
    def weigh(self, x: Tensor, target: BlendTarget) -> Risk:
        told = self.annotate(x)
        found = number_chances(self.regressor, told, (target,))
        return found.risk(doubt_numbers(self.regressor, told))

    def annotate(self, x: Tensor) -> Measured:
        return self.regressor.annotate(x)

    @torch.no_grad()
    def empty(self, x: Tensor) -> Tensor:
        allows, bins = self.regressor.knowledge.range, self.regressor.bins
        none = torch.zeros(len(x), dtype=torch.bool)
        return none if allows is None else allows(x).clip(bins.lower, bins.upper).empty

    @torch.no_grad()
    def tell(self, x: Tensor) -> Forecast:
        told, bins = self.regressor.annotate(x), self.regressor.bins
        found = self.regressor.distribution(told)
        low, high = found.interval(0.9)
        said = None if told.said is None or told.said[0].isnan() else float(told.said[0])
        edges = bins.edges
        names = [f"[{a:g}, {b:g})" for a, b in zip(edges, edges[1:], strict=False)]
        if told.sets is None:
            pieces = [f"[{bins.lower:g}, {bins.upper:g}]"]
        else:
            ends = zip(told.sets.lower[0].tolist(), told.sets.upper[0].tolist(), strict=True)
            pieces = [f"[{a:g}, {b:g}]" for a, b in ends if not math.isnan(a)]
        unit = f" {self.unit}" if self.unit else ""
        return Forecast(
            f"{float(found.mean()[0]):.1f}{unit}, 90 % between {float(low[0]):.1f} and "
            f"{float(high[0]):.1f}",
            None if said is None else f"{said:.1f}{unit}",
            dict(zip(names, found.classes[0].tolist(), strict=True)),
            tuple(pieces),
        )


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


def _grade_target(at: int, classes: Sequence[str], label: str, sign: str) -> BlendTarget:
    low, high = (at, len(classes) - 1) if sign == ">=" else (0, at)
    return BlendTarget(f"{label} {sign} {classes[at]}", float(low), float(high))
