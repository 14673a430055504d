"""What training reads: rows with everything the loss needs, worked out once."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .errors import FedloreError
from .examples import Examples
from .inject import log_odds


@dataclass(frozen=True, eq=False)
class Lesson:
    """Training rows. The network hears `prior` and `allowed`; the loss uses `within` and `odds`."""

    x: Tensor  # (n, *features), scaled
    y: Tensor  # (n,)
    prior: Tensor | None = None  # (n, k)
    allowed: Tensor | None = None  # (n, k)
    within: Tensor | None = None  # (n, k)  the range in the loss, widened where the policy says so
    odds: Tensor | None = None  # (n,)    see inject.log_odds

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Tensor) -> "Lesson":
        return self._each(lambda t: t[rows])

    def to(self, device: torch.device | str) -> "Lesson":
        return self._each(lambda t: t.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Lesson":
        def apply(t: Tensor | None) -> Tensor | None:
            return None if t is None else change(t)

        return Lesson(
            change(self.x),
            change(self.y),
            apply(self.prior),
            apply(self.allowed),
            apply(self.within),
            apply(self.odds),
        )


def teach(data: Examples, *, trust: float = 0.0, outside: str = "error") -> Lesson:
    """Annotated examples as a lesson, with the policy for labels outside the range applied."""
    if data.y is None:
        raise FedloreError("training needs labels, these examples have none")
    if trust >= 1.0:
        raise FedloreError(
            f"trust must be below 1 in training (nothing is left to learn), got {trust:g}"
        )
    within = data.allowed
    if within is not None:
        label = data.y.unsqueeze(-1)
        inside = within.gather(-1, label).squeeze(-1)
        if not inside.all():
            if outside == "drop":
                data = data[inside]
                if len(data) == 0:
                    raise FedloreError("every label is outside its range: nothing is left to learn")
                return teach(data, trust=trust)
            if outside != "widen":
                raise FedloreError(
                    f"{int((~inside).sum())} labels lie outside their range, first row "
                    f"{int((~inside).nonzero()[0])}"
                )
            within = within.scatter(-1, label, True)
    assert data.y is not None  # for the type checker: kept by indexing
    told = data.prior is not None and trust > 0
    odds = log_odds(data.prior, data.y, trust).to(data.x.dtype) if told else None
    return Lesson(data.x, data.y, data.prior, data.allowed, within, odds)
