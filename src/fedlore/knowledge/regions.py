"""Where something holds: a comparison over the features of a row, as an expert writes it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..core.tensors import torch
from ..errors import KnowledgeError
from ..kernel.expressions import FormulaError, parse
from ..kernel.knowledge import scope_of
from ..kernel.schema import Schema
from ..kernel.search import Verdict
from .formulas import Formula
from .limits import stays_among

if TYPE_CHECKING:
    from torch import Tensor

APART = 8_000  # boxes that are looked at to tell two regions apart


@dataclass(frozen=True)
class RowRegion:
    """The rows in which a comparison holds; everywhere where it is empty."""

    where: str
    schema: Schema

    def check(self) -> None:
        """Refuse a text that cannot be read, with the place of the fault."""
        try:
            parse(self.where, self.schema.features, truth=True, words=True)
        except FormulaError as error:
            said = str(error).splitlines()[0]
            raise KnowledgeError(
                f"its region cannot be read at character {error.position + 1} of "
                f"'{self.where}': {said}"
            ) from None

    @cached_property
    def formula(self) -> Formula:
        """1 inside, 0 outside, undefined where a value that it looks at is missing."""
        return Formula.parse(f"where({self.where}, 1, 0)", self.schema, words=True)

    def holds(self, x: Tensor) -> Tensor:
        """The rows that surely lie inside, (n, d) -> (n,) bool."""
        if not self.where:
            return torch.ones(len(x), dtype=torch.bool, device=x.device)
        return self.formula(x) > 0

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that it looks at."""
        return self.formula.looks_at(len(self.schema.features)) if self.where else ()

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The numbers that it names."""
        steps = self.formula.steps if self.where else ()
        return tuple(step.value for step in steps if step.op == "number")

    def find_meeting(self, other: RowRegion) -> Verdict:
        """Whether it is apart from another one over the whole scope, or a row of both."""
        both = " and ".join(f"({text})" for text in (self.where, other.where) if text)
        if not both:
            return Verdict("refuted")
        tree = RowRegion(both, self.schema).formula.tree
        scope = scope_of(self.schema.features)
        return stays_among(tree, (True, False), np.array([0.5]), scope, APART)

    def check_apart(self, other: RowRegion, meet: str, unsure: str, *, code: str) -> None:
        """Refuse a region that meets another in a row of the scope, or may do so."""
        found = self.find_meeting(other)
        if found.example is not None:
            row = self._row_words(found.example, other)
            raise KnowledgeError(f"{meet}, such as {row}", code=code)
        if found.status != "proved":
            raise KnowledgeError(unsure, code=code)

    def _row_words(self, row: tuple[float, ...], other: RowRegion) -> str:
        """What a row has in the features that either of two regions looks at."""
        columns = sorted({*self.columns, *other.columns})
        features = self.schema.features
        return ", ".join(
            f"{features[c].name} = "
            + (features[c].levels[int(row[c])] if features[c].levels else f"{row[c]:g}")
            for c in columns
        )
