"""Rows of data, with what the knowledge said about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import FedloreError
from .tensors import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows in raw units; `prior` and `allowed` are there once knowledge has been evaluated."""

    x: Tensor  # (n, *features)
    y: Tensor | None = None  # (n,)    class index
    prior: Tensor | None = None  # (n, k)  rows of g_p(x); a zero row abstains
    allowed: Tensor | None = None  # (n, k)  rows of g_r(x), bool
    target: Tensor | None = None  # (n, k)  what the loss aims at, where it is not y alone
    signs: Tensor | None = (
        None  # (n, 3d + 2)  which way features move the answer, see core.lipschitz
    )
    trust: Tensor | None = None  # (n,)  λ of each row, NaN where it is the one number of all others
    place: Tensor | None = None  # (n,)  where the number behind y lies among classes, NaN: unknown
    stated: Tensor | None = (
        None  # (n, 3)  and the expert's, and both ends of his range; NaN: as said
    )

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            value = getattr(self, name)
            if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
                kind = torch.int64 if name == "y" else None
                object.__setattr__(self, name, torch.tensor(value, dtype=kind))
            elif value is not None and not isinstance(value, torch.Tensor):
                raise FedloreError(
                    f"{name} must be a tensor or an array of numbers, got {type(value).__name__}: "
                    "as_examples(data, schema, label) reads frames, records and names"
                )
        if self.x.ndim < 2:
            raise FedloreError(f"x must have a row axis and features, got shape {_shape(self.x)}")
        if not self.x.is_floating_point():
            raise FedloreError(f"x must be floating point, got {self.x.dtype}")
        for name in ("y", "prior", "allowed", "target", "signs", "trust", "place", "stated"):
            value = getattr(self, name)
            if value is not None and len(value) != len(self.x):
                raise FedloreError(f"{name} has {len(value)} rows, x has {len(self.x)}")
        if self.y is not None and (self.y.ndim != 1 or self.y.dtype != torch.int64):
            raise FedloreError(
                f"y must hold one int64 class per row, got {self.y.dtype} of shape {_shape(self.y)}"
            )

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Tensor | slice) -> Examples:
        return self._each(lambda t: t[rows])

    def to(self, device: torch.device | str) -> Examples:
        return self._each(lambda t: t.to(device))

    def split(self, share: float, generator: torch.Generator) -> tuple[Examples, Examples]:
        """Two parts at random: about `share` of the rows, and the rest."""
        order = torch.randperm(len(self), generator=generator)
        cut = round(share * len(self))
        return self[order[:cut]], self[order[cut:]]

    @property
    def aim(self) -> Tensor:
        """What models of a place learn: that of the measured number, where it is known, else y."""
        if self.y is None:
            raise FedloreError("there are no labels to learn from")
        y = self.y.double()
        return y if self.place is None else torch.where(self.place.isfinite(), self.place, y)

    def place_numbers(self, numbers: Tensor, edges: Sequence[float] = ()) -> Examples:
        """The rows with where measured numbers (n,) lie among the classes they were graded into.

        Where edges between the classes are stated they say it. Else the line through numbers and
        classes says where in its class a number lies, and never puts it into another. Nothing is
        known where nothing was measured, or where so few were that there is no line.
        """
        if self.y is None or len(numbers) != len(self.y):
            raise FedloreError(f"{len(numbers)} measured numbers do not fit {len(self)} labels")
        place = torch.full((len(self),), torch.nan, dtype=torch.float64)
        there = numbers.isfinite()
        if len(edges) > 1:
            from .ordinal import place_among  # networks, which a reader of rows needs not

            place[there] = place_among(numbers[there], edges)
            return replace(self, place=place)
        x, grade = numbers[there].double(), self.y[there].double()
        if len(x) > 2 and float(x.var()) > 0:
            slope = ((x - x.mean()) * (grade - grade.mean())).mean() / x.var(correction=0)
            found = grade.mean() + slope * (x - x.mean())
            place[there] = torch.minimum(torch.maximum(found, grade - 0.5), grade + 0.5)
        return replace(self, place=place)

    def check(self, classes: int | None = None, *, holes: Sequence[int] = ()) -> None:
        """Refuse what no training should see: no rows, NaN features, labels outside 0..k-1.

        Values may be missing in the columns `holes`.
        """
        if len(self) == 0:
            raise FedloreError("there are no rows")
        good = self.x.flatten(1).isfinite()
        for column in holes:
            good[:, column] |= self.x[:, column].isnan()
        bad = ~good.all(1)
        if bad.any():
            raise FedloreError(
                f"features must be finite: {int(bad.sum())} rows are not, first row "
                f"{int(bad.nonzero()[0])}"
            )
        if self.y is not None:
            wrong = self.y < 0 if classes is None else (self.y < 0) | (self.y >= classes)
            if wrong.any():
                row = int(wrong.nonzero()[0])
                top = "" if classes is None else f" to {classes - 1}"
                raise FedloreError(f"labels must lie in 0{top}: row {row} has {int(self.y[row])}")

    def _each(self, change: Callable[[Tensor], Tensor]) -> Examples:
        parts: dict[str, Tensor | None] = vars(self)
        return Examples(*(None if t is None else change(t) for t in parts.values()))  # type: ignore[arg-type]

    @staticmethod
    def join(parts: Sequence[Examples]) -> Examples:
        """Rows one after another, with all that each of the parts has."""
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        whole = (None if any(t is None for t in some) else torch.cat(some) for some in columns)
        return Examples(*whole)  # type: ignore[arg-type]


def _shape(t: Tensor) -> tuple[int, ...]:
    return tuple(t.shape)
