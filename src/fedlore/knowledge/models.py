"""Knowledge models and the door where they become tensors (Fan et al. 2022, Definition 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from ..core.examples import Examples
from ..core.still import without_gradient
from ..core.tensors import torch
from ..errors import KnowledgeError
from ..kernel.schema import Schema
from .audit import Audit, count
from .card import Card
from .content import Where
from .door import hide_others
from .missing import allow, hear
from .policies import Conflict, Outside
from .protocols import PredictionModel, RangeModel
from .rowtrust import RowTrust, check_row_trust, find_trust
from .shapes.shape import SiteShapes
from .shapes.verdicts import Orders, ears_for
from .soft import place_within

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Knowledge:
    """One site's knowledge and how far it is trusted. It never leaves the site."""

    prediction: PredictionModel | None = None  # g_p
    range: RangeModel | None = None  # g_r
    trust: float = 0.0  # λ in the paper, in [0, 1]
    reliance: float | None = None  # λ at prediction, where it should differ from training
    outside: Outside = "error"  # a training label outside the range: refuse, widen or drop
    conflict: Conflict = "abstain"  # a P-KM row outside the range: silence, restrict or refuse
    schema: Schema | None = None  # what the columns and classes are called, where it is known
    card: Card | None = None
    floor: float = 0.0  # ε: weight of classes outside the range in the training loss alone
    shapes: SiteShapes | None = None  # in which direction features move the answer
    row_trust: RowTrust | None = None  # λ at prediction row by row, where it is not one number

    def __post_init__(self) -> None:
        object.__setattr__(self, "prediction", place_within(self.prediction, self.range))
        reliance = self.trust if self.reliance is None else self.reliance
        for name, value in (("trust", self.trust), ("reliance", reliance)):
            if not 0.0 <= value <= 1.0:
                raise KnowledgeError(f"{name} must lie in [0, 1], got {value:g}")
        if not 0.0 <= self.floor < 1.0:
            raise KnowledgeError(f"floor must lie in [0, 1), got {self.floor:g}")
        if self.outside not in get_args(Outside):
            raise KnowledgeError(f"outside must be error, widen or drop, got '{self.outside}'")
        if self.conflict not in get_args(Conflict):
            raise KnowledgeError(
                f"conflict must be abstain, restrict or error, got '{self.conflict}'"
            )
        check_row_trust(self.row_trust, () if self.shapes is None else self.shapes.columns)

    @staticmethod
    def read(where: Where) -> Knowledge:
        """Read a knowledge.toml, with the tables and models it names: a path, or bytes by name."""
        from .files import read_parts
        from .sources.opening import naming

        name, parts = read_parts(where)
        with naming(name):
            return Knowledge(**parts)

    def write(self, path: str | Path) -> None:
        """Write a knowledge.toml, with its tables and models beside it."""
        from .files import write

        write(self, path)

    @property
    def fingerprint(self) -> str:
        """A hash of everything this knowledge says; it changes when any rule does."""
        from .files import fingerprint

        return fingerprint(self)

    @property
    def trust_at_prediction(self) -> float:
        """λ at prediction; none where the prediction is not shown to move as the shapes say."""
        if self.orders is not None and not self.orders.hears_prediction:
            return 0.0
        return self.trust if self.reliance is None else self.reliance

    @property
    def orders(self) -> Orders | None:
        """Whether range and prediction move the way the shapes say; None without shapes."""
        if self.shapes is None:
            return None
        from .shapes.standing import orders_of_classes  # here: it knows all kinds of sources

        return orders_of_classes(self, self.shapes)

    @without_gradient
    def annotate(self, data: Examples, classes: int | None = None) -> Examples:
        """Evaluate both models once and check what they say; the result carries it as tensors."""
        known, _ = self._evaluate(data, classes)
        if data.y is not None and self.outside == "error":  # counting costs as much as a rule
            _refuse_outside(count(known))
        return known

    @without_gradient
    def audit(self, data: Examples, classes: int | None = None) -> Audit:
        """Count how the knowledge fits the data: abstentions, conflicts, labels outside."""
        calm = "abstain" if self.conflict == "error" else self.conflict
        known, conflicts = replace(self, conflict=calm)._evaluate(data, classes)
        return count(known, conflicts=conflicts)

    def _evaluate(self, data: Examples, classes: int | None) -> tuple[Examples, int]:
        """The rows with what the models say, and on how many the P-KM left the range."""
        x = hide_others(data.x, self.schema)
        prior = (
            None
            if self.prediction is None
            else _check_prior(hear(self.prediction, x), len(data), classes)
        )
        allowed = (
            None if self.range is None else _check_allowed(allow(self.range, x), len(data), classes)
        )
        left_range = 0
        if prior is not None and allowed is not None:
            if prior.shape != allowed.shape:
                raise KnowledgeError(
                    f"the P-KM knows {prior.shape[1]} classes, the R-KM {allowed.shape[1]}"
                )
            conflicts = ((prior > 0) & ~allowed).any(1)
            left_range = int(conflicts.sum())
            if left_range:
                if self.conflict == "error":
                    raise KnowledgeError(
                        f"the P-KM leaves the range in {left_range} rows, first row "
                        f"{int(conflicts.nonzero()[0])}"
                    )
                inside = torch.zeros_like(prior[:1])  # the expert is silent
                if self.conflict == "restrict":
                    inside = prior * allowed
                    left = inside.sum(1, keepdim=True)  # nothing left: he is silent too
                    inside = inside / torch.where(left > 0, left, 1.0)
                prior = torch.where(conflicts.unsqueeze(1), inside, prior)
        signs = None if self.shapes is None else self._signs(x)
        trust = find_trust(self.row_trust, self.orders, x)
        return replace(data, prior=prior, allowed=allowed, signs=signs, trust=trust), left_range

    def _signs(self, x: Tensor) -> Tensor:
        """Which way each feature moves the answer, and what of range and prediction is heard."""
        assert self.shapes is not None and self.orders is not None
        return ears_for(self.shapes.signs(x), self.orders)


def _refuse_outside(report: Audit) -> None:
    if report.outside:
        raise KnowledgeError(
            f"{report.outside} labels lie outside their range, first row {report.first_outside}"
            " (policy outside = error; widen and drop are the alternatives)"
        )


def _check_prior(rows: Tensor, n: int, classes: int | None) -> Tensor:
    _check_shape("P-KM", rows, n, classes)
    if not rows.is_floating_point():
        rows = rows.float()
    total = rows.sum(1)
    legal = (rows >= 0).all(1) & ((total == 0) | ((total - 1).abs() <= 1e-4))
    if not legal.all():
        row = int((~legal).nonzero()[0])
        raise KnowledgeError(
            "a P-KM row must be one-hot, a distribution, or zero to abstain: "
            f"row {row} is {[round(v, 4) for v in rows[row].tolist()]}"
        )
    return rows


def _check_allowed(rows: Tensor, n: int, classes: int | None) -> Tensor:
    _check_shape("R-KM", rows, n, classes)
    if rows.dtype != torch.bool:
        if not ((rows == 0) | (rows == 1)).all():
            raise KnowledgeError("an R-KM row must hold booleans (or 0 and 1)")
        rows = rows.bool()
    empty = ~rows.any(1)
    if empty.any():
        raise KnowledgeError(
            f"an R-KM row must allow at least one class: {int(empty.sum())} rows are empty, "
            f"first row {int(empty.nonzero()[0])}"
        )
    return rows


def _check_shape(who: str, rows: Tensor, n: int, classes: int | None) -> None:
    wanted = f"({n}, {'k' if classes is None else classes})"
    fits = rows.ndim == 2 and rows.shape[0] == n and classes in (None, rows.shape[1])
    if not fits:
        raise KnowledgeError(f"the {who} must return shape {wanted}, got {tuple(rows.shape)}")
