"""λ as a private function of the row: where the owner says so, and as a site has learned it.

"I would trust the equation for our own coals, not for imports": in the rows of a region λ is what
its owner says there, elsewhere what the site has learned from its own rows, else one number. The
paper's properties are of single rows, so that they hold for any such λ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..core.tensors import torch, without_gradient
from ..errors import KnowledgeError
from ..kernel.document import TrustRegion, TrustTable, check_trust
from ..kernel.expressions import FormulaError, parse
from ..kernel.schema import Feature, Schema
from ..words import Reason
from .formulas import Formula
from .regions import RowRegion
from .shapes.shape import Orders

if TYPE_CHECKING:
    from torch import Tensor

_FAULT = "trust"  # the code of errors raised here


@dataclass(frozen=True)
class RowTrust:
    """λ of a row, or nothing where it is the one number of all others."""

    schema: Schema
    regions: tuple[TrustRegion, ...] = ()
    features: tuple[str, ...] = ()
    formula: str = ""

    def __post_init__(self) -> None:
        if not (self.regions or self.features or self.formula):
            raise KnowledgeError("[trust] needs regions or features: one number is trust = 0.3")
        for name in self.features:
            self.schema.column(name)
            if self.features.count(name) > 1:
                raise KnowledgeError(f"[trust] names the feature '{name}' twice")
        for place, region in enumerate(self.regions, 1):
            try:
                self._check(place, region)
            except KnowledgeError as error:
                raise KnowledgeError(f"[trust] region {place}: {error}") from None
        self._check_formula()

    @without_gradient
    def __call__(self, x: Tensor) -> Tensor:
        """λ of each row, (n, d) -> (n,) float64; NaN where it is the one number.

        That is so where a value is missing which decides whether the row lies in a region.
        """
        x = x.flatten(1)
        found = torch.full((len(x),), torch.nan, dtype=torch.float64, device=x.device)
        if self.learned_formula is not None:
            found = self.learned_formula(x).double().clamp(0.0, 1.0)
        said, unknown = torch.full_like(found, torch.nan), torch.zeros_like(found).bool()
        for trust, region in self.stated_regions:
            inside = region.formula(x)
            said = torch.where(inside > 0, trust, said)
            unknown |= inside.isnan()
        return torch.where(said.isnan() & ~unknown, found, said)

    @cached_property
    def stated_regions(self) -> tuple[tuple[float, RowRegion], ...]:
        """The regions whose λ the owner says."""
        return tuple(
            (r.trust, RowRegion(r.where, self.schema)) for r in self.regions if r.trust is not None
        )

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that λ looks at, or may once it is learned."""
        width = len(self.schema.features)
        found = {column for region in self.regions for column in self._place(region).columns}
        found |= {self.schema.column(name) for name in self.features}
        found |= set(self.learned_formula.looks_at(width) if self.learned_formula else ())
        return tuple(sorted(found))

    @property
    def terms(self) -> tuple[str, ...]:
        """What λ is learned from, as formulas: numbers, and 1 or 0 for levels and regions."""
        features = [self.schema.features[self.schema.column(name)] for name in self.features]
        found = [text for feature in features for text in _feature_terms(feature)]
        found += [f"where({r.where}, 1, 0)" for r in self.regions if r.trust is None]
        return tuple(found)

    @property
    def speaks(self) -> bool:
        """Whether any row has a λ of its own by now."""
        return bool(self.stated_regions or self.formula)

    def with_formula(self, text: str) -> RowTrust:
        """The same with what was learned; with nothing, λ is one number there."""
        return replace(self, formula=text)

    def stay(self) -> RowTrust | None:
        """What the owner says, without anything learned or to be learned; None: nothing."""
        said = tuple(region for region in self.regions if region.trust is not None)
        return replace(self, regions=said, features=(), formula="") if said else None

    def design(self, x: Tensor) -> Tensor:
        """The terms of rows, (n, d) -> (n, t) float64; NaN where a value is missing."""
        columns = [Formula.parse(text, self.schema, words=True)(x).double() for text in self.terms]
        return torch.stack(columns, 1) if columns else x.new_zeros(len(x), 0).double()

    def reasons(self, x: Tensor, constant: float) -> list[Reason | None]:
        x = x.flatten(1)
        found = self(x)
        trusts = torch.where(found.isnan(), constant, found).tolist()
        why: list[Reason | None] = [
            None if value != value else Reason("trust-learned", {"trust": trust})
            for value, trust in zip(found.tolist(), trusts, strict=True)
        ]
        for _, region in self.stated_regions:
            for row in region.holds(x).nonzero().flatten().tolist():
                args = {"trust": trusts[row], "where": region.where}
                why[row] = Reason("trust-stated", args)
        for column in self.columns if self.speaks else ():
            name = self.schema.names[column]
            for row in x[:, column].isnan().nonzero().flatten().tolist():
                args = {"trust": trusts[row], "missing": name}
                why[row] = why[row] or Reason("trust-usual", args)
        return why

    def __str__(self) -> str:
        """All of it on one line."""
        said = [f"{trust:g} where {region.where}" for trust, region in self.stated_regions]
        if self.formula:
            said.append(f"{'elsewhere ' if said else ''}{self.formula} (learned)")
        elif self.terms:
            said.append(f"to be learned from {', '.join(self.terms)}")
        return "; ".join(said)

    def values(self, constant: float) -> dict[str, Any]:
        """As the table [trust] of a file."""
        regions = [
            {"where": r.where, **({} if r.trust is None else {"trust": r.trust})}
            for r in self.regions
        ]
        found = {"value": constant, "features": list(self.features), "formula": self.formula}
        return {k: v for k, v in found.items() if v not in ([], "")} | (
            {"regions": regions} if regions else {}
        )

    @cached_property
    def learned_formula(self) -> Formula | None:
        """What the site has learned of λ."""
        return Formula.parse(self.formula, self.schema, words=True) if self.formula else None

    def _check_formula(self) -> None:
        try:
            parse(self.formula or "0", self.schema.features, words=True)
        except FormulaError as error:
            said = str(error).splitlines()[0]
            raise KnowledgeError(
                f"[trust] formula cannot be read at character {error.position + 1}: {said}"
            ) from None

    def _place(self, region: TrustRegion) -> RowRegion:
        return RowRegion(region.where, self.schema)

    def _check(self, place: int, region: TrustRegion) -> None:
        check_trust(trust=region.trust, least_trust=0.0, by_row=True)
        here = self._place(region)
        here.check()
        for other in self.regions[: place - 1]:
            if other.trust is not None and other.trust == region.trust:
                continue  # they agree wherever they meet
            here.check_apart(
                self._place(other),
                f"'{region.where}' ({_say(region)}) and '{other.where}' ({_say(other)}) disagree "
                "in the same rows",
                f"'{region.where}' cannot be told apart from '{other.where}', which says "
                f"{_say(other)}",
                code="trust",
            )


def find_trust(rows: RowTrust | None, orders: Orders | None, x: Tensor) -> Tensor | None:
    """λ of each row, (n,), NaN where it is the one number; None where it always is.

    An expert who is not shown to move as the shapes say is not heard in any row.
    """
    if rows is None or not rows.speaks or (orders is not None and not orders.hears_prediction):
        return None
    return rows(x)


def trust_reasons(known: Any, x: Tensor, constant: float) -> list[Reason | None]:
    """Why λ of each row is what it is; None where it is as usual, or the expert is not heard."""
    rows: RowTrust | None = known.row_trust
    if rows is None or (known.orders is not None and not known.orders.hears_prediction):
        return [None] * len(x)
    return rows.reasons(x, constant)


def read_trust(table: float | TrustTable, schema: Schema) -> tuple[float, RowTrust | None]:
    """The one number of a file, and λ row by row where it says so."""
    if not isinstance(table, TrustTable):
        return table, None
    return table.value, RowTrust(schema, table.regions, table.features, table.formula)


def trust_values(constant: float, rows: RowTrust | None) -> float | Mapping[str, Any]:
    """The same as it stands in a file."""
    return constant if rows is None else rows.values(constant)


def check_row_trust(rows: RowTrust | None, shaped: Sequence[int]) -> None:
    """Refuse a λ that varies with a feature which has a shape: it would break the order."""
    if rows is None:
        return
    for column in rows.columns:
        if column in shaped:
            name = rows.schema.names[column]
            raise KnowledgeError(
                f"[trust] looks at '{name}', which has a shape: where λ varies with it, more of "
                f"it could move the answer the other way; take '{name}' out of [trust] or [shape]"
            )


def _feature_terms(feature: Feature) -> list[str]:
    """A number by itself, levels one by one but the first."""
    if not feature.levels:
        return [feature.name]
    return [f"where({feature.name} == {_quote(level)}, 1, 0)" for level in feature.levels[1:]]


def _quote(level: str) -> str:
    if "'" in level and '"' in level:
        raise KnowledgeError(f"[trust] cannot name the level {level!r}, which has both quotes")
    return f'"{level}"' if "'" in level else f"'{level}'"


def _say(region: TrustRegion) -> str:
    return "learned" if region.trust is None else f"{region.trust:g}"
