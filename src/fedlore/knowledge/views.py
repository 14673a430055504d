"""What a source sees of a row: some columns, or images in low resolution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..core.examples import Examples
from ..core.tensors import torch
from ..errors import KnowledgeError
from ..kernel.schema import Schema
from .missing import hear, list_columns
from .protocols import PredictionModel

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

    @property
    def parts(self) -> tuple[SeenModel]:
        return (self.model,)

    def looks_at(self, width: int) -> tuple[int, ...]:
        seen = list_columns(self.model, len(self.columns))
        return tuple(sorted({self.columns[place] for place in seen}))


@dataclass(frozen=True)
class MaxPool:
    """The view of an expert who sees images in low resolution: the maximum of p×p patches."""

    size: int  # p in the paper
    model: SeenModel

    def __call__(self, x: Tensor, /) -> Tensor:
        return self.model(self.see(x))

    @property
    def parts(self) -> tuple[SeenModel]:
        return (self.model,)

    def see(self, x: Tensor) -> Tensor:
        """The pooled images."""
        height, width = x.shape[-2:]
        if self.size < 1 or height % self.size or width % self.size:
            raise KnowledgeError(f"{height}×{width} images cannot be pooled by {self.size}")
        images = x if x.ndim == 4 else x.unsqueeze(1)
        pooled = torch.nn.functional.max_pool2d(images, self.size)
        return pooled.reshape(*x.shape[:-2], *pooled.shape[-2:])


@dataclass(frozen=True, eq=False)
class Recalibrated:
    """A P-KM behind its own confusion: soft rows, silent where the expert is silent."""

    expert: PredictionModel | None  # None where his rows came with the data
    confusion: Tensor  # (k, k)  row i: how labels fell where the expert said i; sums to 1

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k)."""
        if self.expert is None:
            raise KnowledgeError("this expert's rows came with the data: there is nobody to ask")
        return reread(hear(self.expert, x), self.confusion)

    @property
    def parts(self) -> tuple[PredictionModel | None]:
        return (self.expert,)

    def with_parts(self, parts: tuple[Any, ...]) -> Recalibrated:
        return replace(self, expert=parts[0])


def unveil(model: Any) -> tuple[Any, tuple[int, ...] | None]:
    """The model behind views of columns and a confusion, and the columns it sees; None: all."""
    columns: tuple[int, ...] | None = None
    while isinstance(model, Mask | Recalibrated):
        own = getattr(model, "columns", None)
        if own is not None:
            columns = own if columns is None else tuple(columns[c] for c in own)
        (model,) = model.parts
    return model, columns


def reread(prior: Tensor, confusion: Tensor, allowed: Tensor | None = None) -> Tensor:
    """The expert's rows as distributions within the range, (n, k)."""
    soft = prior.double() @ confusion.to(prior.device)
    if allowed is not None:
        soft = soft * allowed
    total = soft.sum(1, keepdim=True)
    return (soft / torch.where(total > 0, total, 1.0)).to(prior.dtype)


def reread_rows(expert: PredictionModel | None, rows: Examples) -> Examples:
    """Rows that came with the word of an expert, as this model of him has it."""
    if rows.prior is None or not isinstance(expert, Recalibrated):
        return rows
    return replace(rows, prior=reread(rows.prior, expert.confusion, rows.allowed))


def look_through(
    model: Any, *, columns: tuple[str, ...], pool: int | None = None, schema: Schema
) -> Any:
    """The model behind its view; itself where it sees everything."""
    if columns:
        model = Mask(tuple(schema.column(name) for name in columns), model)
    return model if pool is None else MaxPool(pool, model)


def view_keys(model: Any, schema: Schema) -> tuple[Any, dict[str, Any]]:
    """The model behind the views that `look_through` puts before it, and those as keys."""
    keys: dict[str, Any] = {}
    if isinstance(model, MaxPool):
        keys["pool"], model = model.size, model.model
    if isinstance(model, Mask):
        keys["columns"] = [schema.names[column] for column in model.columns]
        model = model.model
    return model, keys
