"""What a knowledge model is, and the policies around it (Fan et al. 2022, Definition 4.2).

A model is called on rows. Beside that it may have any of these, and is asked for them where it has:

`looks_at(width)`: the columns it looks at, of so many; without it, all. `parts`: the models it
combines, and `with_parts(parts)`: the same combination of others. `sides`: the ends between which
lies what it says, each a formula, a function, a number or None. `see(x)`: what a view shows of rows
to its `model`. `kernel_source`: the model as the kernel proves things about it, None where it
cannot look inside. `entry()`: the model as keys of a file, None where it cannot be written, and
`file_keys`: how a file says that parts are combined. `reasons(x)`: why it answers each row so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..kernel.document import Card as Card
from ..kernel.document import Conflict as Conflict
from ..kernel.document import Outside as Outside

if TYPE_CHECKING:
    from torch import Tensor


Number = Callable[["Tensor"], "Tensor"]  # (n, *features) -> (n,), NaN to abstain; a Formula is one


class PredictionModel(Protocol):
    """P-KM: what the expert would answer."""

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k), rows of sum 1, or 0 to abstain; a number: (n,), or NaN."""


class RangeModel(Protocol):
    """R-KM: which answers are possible."""

    def __call__(self, x: Tensor, /) -> Any:
        """(n, *features) -> (n, k) bool, no empty row; of numbers n closed `Sets`."""


RangeKind = Literal["certain", "statistical"]


def kind_of(model: object) -> RangeKind:
    """The kind of a range: what it says itself, else statistical where a model inside it is.

    A range that says nothing is an expert's, as the paper has it: certain. Where one certain part
    would make a union certain, it is marked with care all the same.
    """
    said = getattr(model, "kind", None)
    if said is not None or model is None:
        return "statistical" if said == "statistical" else "certain"
    parts = getattr(model, "parts", (getattr(model, "model", None),))
    return "statistical" if "statistical" in map(kind_of, parts) else "certain"
