"""Knowledge models and the door where they become tensors (Fan et al. 2022, Definition 4.2).

A P-KM names a class or a number, an R-KM the classes or the closed set S(x) of numbers that are
possible (appendix C). The axis of the answers says what each must look like.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, overload

from ..answers import Axis, Bins, Classes, Line, Measured
from ..core.examples import Examples
from ..core.tensors import torch, without_gradient
from ..errors import KnowledgeError
from ..kernel.document import check_spread, check_trust
from ..kernel.schema import Feature, Schema
from .audit import Audit, count
from .combine import Empty
from .content import Where
from .formulas import end_values
from .missing import allow, find_lacking, hear, hide_others
from .protocols import Card, Conflict, Outside, PredictionModel, RangeModel
from .rowtrust import RowTrust, check_row_trust, find_trust
from .shapes.shape import Orders, SiteShapes, ears_for
from .soft import place_within
from .timeline import Timeline
from .views import unveil

if TYPE_CHECKING:
    from datetime import date

    from torch import Tensor


@dataclass(frozen=True)
class Knowledge:
    """One site's knowledge and how far it is trusted. It never leaves the site."""

    prediction: PredictionModel | None = None  # g_p
    range: RangeModel | None = None  # g_r
    trust: float = 0.0  # λ in the paper, in [0, 1]
    reliance: float | None = None  # λ at prediction, where it should differ from training
    outside: Outside = "error"  # a training label outside the range: refuse, widen or drop
    conflict: Conflict = "abstain"  # a P-KM outside the range: silence, move it in, or refuse
    schema: Schema | None = None  # what the columns and classes are called, where it is known
    card: Card | None = None
    floor: float = 0.0  # ε: weight of classes outside the range in the training loss alone
    shapes: SiteShapes | None = None  # in which direction features move the answer
    row_trust: RowTrust | None = None  # λ at prediction row by row, where it is not one number
    line: Line | None = None  # of a number: its bounds, bins and unit
    spread: float | None = None  # σ of a number: the P-KM as a normal around it, not one bin
    empty: Empty | None = None  # where ranges leave nothing; None: as they say themselves
    least_trust: float = 0.0  # λ at prediction, at least, whatever rows say (lore weighs by rows)
    # of rules with dates: all of them, and the day that this is as of
    timeline: Timeline | None = field(default=None, compare=False, repr=False)
    measured: str = ""  # the column of the number behind ordered classes, to learn places from

    def __post_init__(self) -> None:
        object.__setattr__(self, "prediction", place_within(self.prediction, self.range))
        check_trust(trust=self.trust, reliance=self.reliance, least_trust=self.least_trust,
                    by_row=self.row_trust is not None)  # fmt: skip
        if self.measured and (self.line is not None or (self.schema and not self.schema.ordered)):
            raise KnowledgeError(
                f"measured = '{self.measured}' is the number that classes in order are grades of: "
                "say ordered = true where they rise, or leave it out"
            )
        if not 0.0 <= self.floor < 1.0:
            raise KnowledgeError(f"floor must lie in [0, 1), got {self.floor:g}")
        if self.spread is not None:
            check_spread(self.spread)
        if self.outside not in get_args(Outside):
            raise KnowledgeError(f"outside must be error, widen or drop, got '{self.outside}'")
        self._check_policies(self.line)
        if self._own_empty and self.empty not in (None, self._own_empty):
            combined: Any = self.range
            object.__setattr__(self, "range", replace(combined, empty=self.empty))
        if self.line is not None and self.shapes is not None and self.shapes.bounds is None:
            raise KnowledgeError(
                "shapes of a number need its bounds: SiteShapes(..., bounds=(0, 100))"
            )
        check_row_trust(self.row_trust, () if self.shapes is None else self.shapes.columns)

    def _check_policies(self, axis: Axis | None) -> None:
        """Refuse what the axis has no meaning for; None where it is not known yet."""
        conflicts = get_args(Conflict) if axis is None else axis.conflicts
        empties = get_args(Empty) if axis is None else axis.empties
        for name, value, kinds in (
            ("conflict", self.conflict, conflicts),
            ("empty", self.when_empty, empties),
        ):
            if value not in kinds:
                raise KnowledgeError(f"{name} must be one of {', '.join(kinds)}, got '{value}'")

    def __repr__(self) -> str:
        """One line: columns and rules stand in its file."""
        models = (("prediction", self.prediction), ("range", self.range))
        parts = [f"{name}={_kind_words(model)}" for name, model in models if model is not None]
        parts += [f"trust={self.trust:g}"]
        parts += [] if self.reliance is None else [f"reliance={self.reliance:g}"]
        if self.schema is not None:
            parts.append(f"{len(self.schema.features)} features")
            about = f"{len(self.schema.classes)} classes"
            parts.append(about if self.line is None else f"a number, {about} as bins")
        return f"Knowledge({', '.join(parts)})"

    @staticmethod
    def read(
        where: Where, asked: Sequence[Feature] = (), *, as_of: date | str | None = None
    ) -> Knowledge:
        """Read a knowledge.toml, with the tables and models it names: a path, or bytes by name.

        Where rules have dates it is what is valid today, or on another day. Of the features
        `asked` for by a federation, those that it leaves out are absent here.
        """
        from .files import read_parts
        from .sources.catalog import naming

        name, parts = read_parts(where, asked, as_of)
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

    def require_schema(self) -> Schema:
        """The names of columns and classes, which knowledge from a file always has."""
        if self.schema is None:
            raise KnowledgeError("this knowledge does not say what its columns are called")
        return self.schema

    @property
    def answers(self) -> Axis:
        """What is answered: a number, or classes by the names of the schema."""
        if self.line is not None:
            return self.line
        return Classes() if self.schema is None else Classes(self.schema.classes)

    @property
    def when_empty(self) -> Empty:
        """The policy where ranges leave nothing."""
        return self.empty or self._own_empty or "error"

    @property
    def _own_empty(self) -> Empty | None:
        """The policy of ranges that are combined."""
        found: Empty | None = getattr(self.range, "file_keys", {}).get("empty")
        return found

    @property
    def bins(self) -> Bins | None:
        """How a number is cut; None of classes."""
        return None if self.line is None else self.line.bins

    @property
    def trust_at_prediction(self) -> float:
        """λ at prediction; none where the prediction is not shown to move as the shapes say."""
        if self.orders is not None and not self.orders.hears_prediction:
            return 0.0
        return max(self.trust if self.reliance is None else self.reliance, self.least_trust)

    @property
    def orders(self) -> Orders | None:
        """Whether range and prediction move the way the shapes say; None without shapes."""
        if self.shapes is None:
            return None
        from .shapes.order import orders_of  # here: it knows all kinds of sources

        return orders_of(self, self.shapes)

    def of_number(self, bins: Bins | None = None) -> Knowledge:
        """The same knowledge about a number that is cut like this."""
        if self.line is not None and bins in (None, self.line.bins):
            return self
        unit = "" if self.schema is None else self.schema.unit
        return replace(self, line=Line(bins, unit))

    @overload
    def annotate(
        self, data: Examples, answers: Axis | None = None, *, training: bool = True
    ) -> Examples: ...

    @overload
    def annotate(
        self, data: Measured, answers: Axis | None = None, *, training: bool = True
    ) -> Measured: ...

    @without_gradient
    def annotate(
        self, data: Examples | Measured, answers: Axis | None = None, *, training: bool = True
    ) -> Examples | Measured:
        """Evaluate both models once and check what they say; the result carries it as tensors.

        Labels outside their range matter in training only; of test rows they are counted.
        """
        axis = answers or self._axis(data)
        known, _ = self._evaluate(data, axis)
        found: Examples | Measured = axis.admit(known, self.outside) if training else known
        return found

    @without_gradient
    def audit(self, data: Examples, answers: Axis | None = None) -> Audit:
        """Count how the knowledge fits the data: abstentions, conflicts, labels outside."""
        calm = "abstain" if self.conflict == "error" else self.conflict
        known, conflicts = replace(self, conflict=calm)._evaluate(data, answers or Classes())
        return count(known, conflicts=conflicts)

    def _axis(self, data: Examples | Measured) -> Axis:
        return (self.line or Line()) if isinstance(data, Measured) else Classes()

    def _evaluate(self, data: Any, axis: Axis) -> tuple[Any, int]:
        """The rows with what the models say, and on how many the P-KM left the range."""
        self._check_policies(axis)
        x = hide_others(data.x, self.schema)
        said, allowed, conflicts = None, None, 0
        if self.prediction is not None:
            said = axis.check_prediction(hear(self.prediction, x), len(x))
        if self.range is not None:
            opened = find_lacking(self.range, x) if self.when_empty == "all" else None
            allowed = axis.check_range(allow(self.range, x), x, opened)
        if said is not None:
            said, conflicts = self._inside(axis, said, allowed)
        signs = None
        if self.shapes is not None and self.orders is not None:
            signs = ears_for(self.shapes.signs(x), self.orders)
        trust = find_trust(self.row_trust, self.orders, x)
        known = axis.annotate(data, said, allowed)
        if isinstance(known, Measured):
            known = replace(known, conflicts=conflicts, spread=self.spread)
        elif self.states_numbers:
            known = replace(known, stated=self._state_places(x, said))
        return replace(known, signs=signs, trust=trust), conflicts

    @property
    def edges(self) -> tuple[float, ...]:
        """Where a number is cut into classes, as a formula states it; nothing where none does."""
        models = [unveil(model)[0] for model in (self.prediction, self.range)]
        found: list[tuple[float, ...]] = [
            getattr(m, "edges", ()) for m in models if getattr(m, "sides", None) is not None
        ]
        return next((edges for edges in found if len(edges) > 1), ())

    @property
    def states_numbers(self) -> bool:
        """Whether models hear the numbers behind classes; shapes are shown of classes alone."""
        return bool(self.measured and self.edges) and self.shapes is None

    def _state_places(self, x: Tensor, said: Tensor | None) -> Tensor:
        """Where the expert's number and the ends of his range lie among classes, (n, 3).

        NaN where he is silent, and where not both ends are stated.
        """
        expert, _ = self._places_of(self.prediction, x)
        low, high = self._places_of(self.range, x)
        silent = expert.isinf() if said is None else said.sum(1) <= 0
        open_ = ~((low <= high) & low.isfinite() & high.isfinite())
        ends = (low.masked_fill(open_, math.nan), high.masked_fill(open_, math.nan))
        return torch.stack([expert.masked_fill(silent, math.nan), *ends], 1)

    def _places_of(self, model: Any, x: Tensor) -> list[Tensor]:
        """The places of both sides of what a model says, (n,) each, NaN where it states none."""
        from ..core.ordinal import place_among  # networks, which a reader of rules needs not

        inner, columns = unveil(model)
        cut = getattr(inner, "edges", ()) == self.edges
        seen = x if columns is None else x[:, list(columns)]
        sides = getattr(inner, "sides", (None, None)) if cut else (None, None)
        return [place_among(end_values(side, seen, math.nan), self.edges) for side in sides]

    def _inside(self, axis: Axis, said: Tensor, allowed: Any) -> tuple[Tensor, int]:
        """The prediction, silenced or moved where it leaves the range, and on how many rows."""
        conflicts = axis.find_conflicts(said, allowed)
        count = int(conflicts.sum())
        if not count:
            return said, 0
        if self.conflict == "error":
            row = int(conflicts.nonzero()[0])
            raise KnowledgeError(
                f"the prediction leaves the range in {count} rows, first row {row}", row=row
            )
        if self.conflict == "abstain":
            return axis.silence(said, conflicts), count
        return axis.choose(conflicts, axis.move_inside(said, allowed), said), count


def _kind_words(model: Any) -> str:
    """What kind of model it is; of several, how they are combined."""
    kind = getattr(model, "__name__", None) or type(model).__name__
    many = getattr(model, "parts", ())
    return f"{kind}({', '.join(map(_kind_words, many))})" if many else kind
