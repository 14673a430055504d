"""How the server makes one upload of many: the mean, or a robust centre of single replies.

Yin, Chen, Kannan, Bartlett (2018), Byzantine-Robust Distributed Learning: Towards Optimal
Statistical Rates, Definitions 1 (coordinate-wise median) and 2 (trimmed mean).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from ..errors import ConfigError, unknown
from . import tree
from .tree import Payload

_Weighted = Sequence[tuple[Payload, float]]  # uploads with their weights


class Aggregate(Protocol):
    """One payload from the uploads of a round."""

    name: ClassVar[str]
    needs_individuals: ClassVar[bool]  # looks at single uploads, not only at their sum

    def __call__(self, uploads: _Weighted, /) -> Payload: ...


@dataclass(frozen=True)
class Mean:
    """The weighted mean: all it needs is a sum, so it bears secure aggregation."""

    name: ClassVar[str] = "mean"
    needs_individuals: ClassVar[bool] = False

    def __call__(self, uploads: _Weighted, /) -> Payload:
        return tree.mean(uploads)


@dataclass(frozen=True)
class Median:
    """The coordinate-wise median: bears bad replies from fewer than half of the clients."""

    name: ClassVar[str] = "median"
    needs_individuals: ClassVar[bool] = True

    def __call__(self, uploads: _Weighted, /) -> Payload:
        return _each(uploads, _middle)


@dataclass(frozen=True)
class Trimmed:
    """The coordinate-wise mean without the smallest and the largest values."""

    share: float = 0.2  # β: part of the replies cut off at either end

    name: ClassVar[str] = "trimmed"
    needs_individuals: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 <= self.share < 0.5:
            raise ConfigError(f"share must lie in [0, 0.5), got {self.share}")

    def __call__(self, uploads: _Weighted, /) -> Payload:
        return _each(uploads, self._trim)

    def _trim(self, stack: Tensor) -> Tensor:
        """(m, ...) -> (...)."""
        cut = int(self.share * len(stack) + 1e-9)
        return stack.sort(0).values[cut : len(stack) - cut].mean(0)


AGGREGATES: dict[str, type[Aggregate]] = {"mean": Mean, "median": Median, "trimmed": Trimmed}


def aggregate_of(choice: str | Aggregate) -> Aggregate:
    """An aggregate by its name, or itself."""
    if not isinstance(choice, str):
        return choice
    if choice not in AGGREGATES:
        raise ConfigError(unknown("aggregate", choice, AGGREGATES))
    return AGGREGATES[choice]()


def refuse_individuals(aggregate: Aggregate, *, hidden_by: str) -> None:
    """Refuse an aggregate of single replies where something hides them from the server."""
    if aggregate.needs_individuals:
        raise ConfigError(
            f"aggregate '{aggregate.name}' compares single replies, which {hidden_by} hides "
            "from the server: use the mean"
        )


def _middle(stack: Tensor) -> Tensor:
    """(m, ...) -> (...); of an even number the mean of the middle two, unlike torch.median."""
    ranked, m = stack.sort(0).values, len(stack)
    return (ranked[(m - 1) // 2] + ranked[m // 2]) / 2


def _each(uploads: _Weighted, centre: Callable[[Tensor], Tensor]) -> Payload:
    payloads = [payload for payload, _ in uploads]
    return {
        key: {n: centre(torch.stack([p[key][n] for p in payloads])) for n in bundle}
        for key, bundle in payloads[0].items()
    }
