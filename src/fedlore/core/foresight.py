"""The one-round model on ordered classes: what it reads of a row, and what it says of one."""

from dataclasses import dataclass, field, replace
from typing import get_args

import torch
from torch import Tensor

from ..errors import ConfigError
from .exact import Basis, Home, Posterior, foresee, leave_out, sum_rows, take_in
from .ordinal import Start, find_places, heard_numbers, log_cells
from .tree import Params

__all__ = ["Exact", "Foresight"]


@dataclass(frozen=True)
class Exact:
    """A one-round model of the number of the class, or of how far it lies from the start."""

    basis: Basis = field(default_factory=Basis)
    start: Start = "none"  # what its output is added to
    hears: bool = True  # the expert's place, and its distance from the middle of the range

    def __post_init__(self) -> None:
        if self.start not in get_args(Start):
            raise ConfigError(
                f"start must be one of {', '.join(get_args(Start))}, got '{self.start}'"
            )

    def columns(self, features: int) -> int:
        """How many columns the rows of so many scaled features have here."""
        return features + 2 * self.hears

    def rows(
        self, x: Tensor, prior: Tensor | None, allowed: Tensor | None, *, classes: int
    ) -> tuple[Tensor, Tensor]:
        """Scaled rows and what the expert says of them -> features (n, f) and start (n,)."""
        flat = x.flatten(1).double()
        middle, told = find_places(prior, allowed, like=flat[:, 0], classes=classes)
        nothing = torch.full_like(middle, (classes - 1) / 2)
        start = {"none": nothing, "middle": middle, "expert": told}[self.start]
        if self.hears:
            flat = torch.cat([flat, heard_numbers(middle, told, classes)[:, 1:]], 1)
        return self.basis(flat), start


@dataclass(frozen=True, eq=False)
class ExactRows:
    """A site's training rows as the one-round model takes them."""

    features: Tensor  # (n, f)
    target: Tensor  # (n,)  the number of the class, less the start
    start: Tensor  # (n,)

    def sums(self) -> Params:
        return sum_rows(self.features, self.target)[1]

    @property
    def home(self) -> Home:
        return sum_rows(self.features, self.target)[0]


@dataclass(frozen=True, eq=False)
class Foresight:
    """The one-round model at one site: a normal for every row, and its classes."""

    exact: Exact
    found: Posterior
    home: Home
    classes: int

    def normal(
        self, x: Tensor, prior: Tensor | None = None, allowed: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance for scaled rows, on the scale of the class numbers, (n,) each."""
        features, start = self.exact.rows(x, prior, allowed, classes=self.classes)
        mean, variance = foresee(self.found, self.home, features)
        return start + mean, variance

    def logits(
        self, x: Tensor, prior: Tensor | None = None, allowed: Tensor | None = None
    ) -> Tensor:
        """Log-probabilities before the range is applied, (n, k)."""
        mean, variance = self.normal(x, prior, allowed)
        return log_cells(mean, variance.sqrt(), self.classes, "normal")

    def held_out(self, rows: ExactRows) -> Tensor:
        """The same for the site's own training rows, each as if it had been left out, (n, k)."""
        mean, variance = leave_out(self.found, self.home, rows.features, rows.target)
        return log_cells(rows.start + mean, variance.sqrt(), self.classes, "normal")

    def taught(
        self,
        x: Tensor,
        y: Tensor,
        prior: Tensor | None = None,
        allowed: Tensor | None = None,
        *,
        weight: float = 1.0,  # as how many rows each counts
    ) -> "Foresight":
        """The same after more tests at the site: scaled rows and the classes that came out."""
        features, start = self.exact.rows(x, prior, allowed, classes=self.classes)
        target = y.double() - start
        found, home = take_in(self.found, self.home, features, target, weight=weight)
        return replace(self, found=found, home=home)
