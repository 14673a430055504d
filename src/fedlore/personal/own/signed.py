"""Linear learners whose weights keep signs: inputs that would go the other way are left out."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .linear import Linear, Ridge
from .ordinal import OrdinalLinear


@dataclass(frozen=True, eq=False)
class SignedLinear:
    """A linear learner of few rows among whose weights none goes against its sign."""

    inner: Ridge | OrdinalLinear
    signs: Tensor  # (i + h,) 1, -1, 0: free, NaN: withheld; what is heard lies behind

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def settings(self) -> Sequence[float]:
        return self.inner.settings

    def near(self, setting: float) -> Sequence[float]:
        return self.inner.near(setting)

    def path(self, inputs: Tensor, target: Tensor, settings: Sequence[float]) -> list[Linear]:
        """One model per penalty: fitted again without what went the wrong way, until none does."""
        signs = self.signs[: inputs.shape[1]]
        found: dict[float, Linear] = {}
        asked = {tuple((~signs.isnan()).tolist()): list(settings)}
        while asked:
            mask, some = asked.popitem()
            kept = torch.tensor(mask, dtype=torch.bool)
            for setting, made in zip(
                some, self.inner.path(inputs[:, kept], target, some), strict=True
            ):
                wrong = signs[kept] * made.weight[:, 0] < 0
                if not bool(wrong.any()):
                    found[setting] = _widen(made, kept)
                    continue
                less = kept.clone()
                less[kept.nonzero()[wrong, 0]] = False
                asked.setdefault(tuple(less.tolist()), []).append(setting)
        return [found[setting] for setting in settings]

    def trace(
        self, inputs: Tensor, target: Tensor, at: Tensor, settings: Sequence[float]
    ) -> Tensor:
        """Outputs at other rows, (s, m, o)."""
        return torch.stack([model(at) for model in self.path(inputs, target, settings)])

    def fit(self, inputs: Tensor, target: Tensor, setting: float) -> Linear:
        return self.path(inputs, target, [setting])[0]


def _widen(made: Linear, kept: Tensor) -> Linear:
    """The same model of all inputs, those that were left out without any weight."""
    mean, weight = (t.new_zeros(len(kept), *t.shape[1:]) for t in (made.mean, made.weight))
    scale = made.scale.new_ones(len(kept))
    mean[kept], scale[kept], weight[kept] = made.mean, made.scale, made.weight
    return Linear(mean, scale, weight, made.constant)
