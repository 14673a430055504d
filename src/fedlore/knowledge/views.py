"""What an expert sees of a row (Fan et al. 2022, appendix B)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.tensors import torch
from ..errors import KnowledgeError
from .missing import list_columns

if TYPE_CHECKING:
    from torch import Tensor

SeenModel = Callable[["Tensor"], "Tensor"]


@dataclass(frozen=True)
class Mask:
    """The view of an expert who knows only some columns, in the order given."""

    columns: tuple[int, ...]  # Ω in the paper
    model: SeenModel

    def __call__(self, x: Tensor, /) -> Tensor:
        return self.model(self.see(x))

    def see(self, x: Tensor) -> Tensor:
        """The columns that the expert knows."""
        if max(self.columns, default=0) >= x.shape[1] or min(self.columns, default=0) < 0:
            raise KnowledgeError(f"the view needs columns {self.columns}, rows have {x.shape[1]}")
        return x[:, torch.tensor(self.columns, device=x.device)]

    def looks_at(self, width: int) -> tuple[int, ...]:
        """Those of the columns that his model looks at."""
        seen = list_columns(self.model, len(self.columns))
        return tuple(sorted({self.columns[place] for place in seen}))


@dataclass(frozen=True)
class MaxPool:
    """The view of an expert who sees images in low resolution: the maximum of p×p patches."""

    size: int  # p in the paper
    model: SeenModel

    def __call__(self, x: Tensor, /) -> Tensor:
        return self.model(self.see(x))

    def see(self, x: Tensor) -> Tensor:
        """The pooled images."""
        height, width = x.shape[-2:]
        if self.size < 1 or height % self.size or width % self.size:
            raise KnowledgeError(f"{height}×{width} images cannot be pooled by {self.size}")
        images = x if x.ndim == 4 else x.unsqueeze(1)
        pooled = torch.nn.functional.max_pool2d(images, self.size)
        return pooled.reshape(*x.shape[:-2], *pooled.shape[-2:])
