"""The paper's hash map: what was written down for rows seen before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..answers import Sets
from ..core.tensors import torch
from ..errors import KnowledgeError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Lookup:
    """Answers keyed by the exact features: predictions of classes, or ranges of either kind.

    A row that was never written down gets the last answer: a P-KM abstains, an R-KM allows all.
    """

    places: Mapping[bytes, int]  # features -> which answer
    answers: Any  # (m + 1, k), or so many `Sets`

    @staticmethod
    def of(x: Tensor, answers: Tensor | Sets) -> Lookup:
        """Write down one answer per row, (n, *features) and (n, k) or n sets.

        Rows with the same features share one answer: ranges are joined; predictions must agree.
        """
        places: dict[bytes, int] = {}
        counts: dict[bytes, int] = {}
        written = []  # of each row its answer, and how many wrote there before
        for name in _keys(x):
            place, before = places.setdefault(name, len(places)), counts.get(name, 0)
            written.append((place, before))
            counts[name] = before + 1
        at, nth = torch.tensor(written, dtype=torch.int64).reshape(-1, 2).T

        def spread(rows: Tensor, blank: float) -> Tensor:
            """All that was written for each answer side by side, (m + 1, most, k)."""
            most = max(counts.values(), default=1)
            out = rows.new_full((len(places) + 1, most, rows.shape[1]), blank)
            out[at, nth] = rows
            return out

        if isinstance(answers, Sets):
            low, high = (
                spread(side, torch.nan).flatten(1) for side in (answers.lower, answers.upper)
            )
            low[-1, 0], high[-1, 0] = -torch.inf, torch.inf
            return Lookup(places, Sets.of(low, high))
        if answers.dtype == torch.bool:
            ranges = spread(answers, False).any(1)
            ranges[-1] = True
            return Lookup(places, ranges)
        said = spread(answers, 0.0)[:, 0]
        if len(places) < len(at) and not torch.equal(said[at], answers):
            raise KnowledgeError("two rows have the same features and different predictions")
        return Lookup(places, said)

    def __call__(self, x: Tensor, /) -> Any:
        found = [self.places.get(name, len(self.places)) for name in _keys(x)]
        return self.answers[torch.tensor(found, dtype=torch.int64)].to(x.device)


def _keys(x: Tensor) -> list[bytes]:
    return [row.tobytes() for row in x.detach().cpu().flatten(1).numpy()]
