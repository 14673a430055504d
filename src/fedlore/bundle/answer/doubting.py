"""Of each row what part of the doubt is noise of the test, and what part the model's ignorance."""

import torch
from torch import Tensor

from ...errors import FedloreError
from ...personal.classifier import Personal
from ...personal.doubt import Doubt, doubt_classes, doubt_numbers, find_foreseen
from ..contents import Bundle
from .answering import shape_rows


def can_doubt(bundle: Bundle) -> bool:
    """Whether the model knows of its own ignorance, found out without any row."""
    personal = bundle.personal
    if not isinstance(personal, Personal):
        return personal.beside is not None and bool(personal.beside.members)
    beside = personal.beside
    if beside is None or not bundle.schema.ordered:
        return False
    spoken = sum(weight > 0 for weight in (beside.network, *beside.weights))
    return find_foreseen(personal) is not None or spoken > 1


@torch.no_grad()
def doubt_rows(bundle: Bundle, x: Tensor) -> Doubt:
    """Doubts about rows in raw units, in classes or units of the number; refused by a model alone.

    Where ignorance is larger than noise the row is far from all that was learned from.
    """
    personal, x = bundle.personal, shape_rows(bundle, x)
    found: Doubt | None = None
    if isinstance(personal, Personal):
        known = personal.annotate(x)
        found = doubt_classes(personal, known) if bundle.schema.ordered else None
    else:
        found = doubt_numbers(personal, personal.annotate(x))
    if found is None:
        raise FedloreError(
            "this bundle cannot tell its own ignorance: that takes a mixture of members over "
            'ordered classes or a number, as recipe = "lore" makes'
        )
    return found
