"""What a bundle answers about rows: the class, how likely, what was possible, and who decided."""

import torch
from torch import Tensor

from ...errors import FedloreError
from ...personal.answers import DECIDED, Answers, in_scope
from ...personal.tasks import task_of
from ..contents import Bundle

__all__ = ["DECIDED", "Answers", "answer_rows", "in_scope", "shape_rows"]


@torch.no_grad()
def answer_rows(bundle: Bundle, x: Tensor) -> Answers:
    """Answers for rows in raw units, (n, d) or in the network's own shape."""
    x = shape_rows(bundle, x)
    personal = bundle.personal
    task = task_of(personal)
    starts = range(0, max(len(x), 1), task.chunk)
    parts = (x[i : i + task.chunk] for i in starts)
    return Answers.join([task.answer(personal, bundle.schema, part) for part in parts])


def shape_rows(bundle: Bundle, x: Tensor) -> Tensor:
    """The rows as the network takes them."""
    d = len(bundle.schema.features)
    if x.ndim < 2 or x[:1].numel() != d * min(len(x), 1):
        raise FedloreError(f"rows must have {d} features, got shape {tuple(x.shape)}")
    if not x.is_floating_point():
        raise FedloreError(f"rows must be floating point, got {x.dtype}")
    return x.reshape(len(x), *bundle.shape)
