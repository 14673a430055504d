"""What each piece of knowledge says about rows: a list of reasons for each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ...words import Reason
from ..combine import AllOf, AnyOf, Average, FirstOf
from ..missing import find_lacking, is_heard
from ..soft import Softened
from ..views import Recalibrated
from .kind import Asked, Reasons
from .lines import first_reasons, join_reasons
from .writing import kind_of_model

if TYPE_CHECKING:
    from torch import Tensor


def reasons_of(model: Any, x: Tensor, asked: Asked) -> Reasons:
    """What limits each row, or made the expert say what he says; nothing where he is silent."""
    if model is None or not len(x):
        return [[] for _ in range(len(x))]
    if isinstance(model, Recalibrated):
        inner = reasons_of(model.expert, x, asked)
        return [[Reason("confusion", {"inner": one}) for one in some] for some in inner]
    if isinstance(model, FirstOf):
        spoken = [is_heard(p, x) | find_lacking(p, x) for p in model.predictions]
        said = [reasons_of(p, x, asked) for p in model.predictions]
        return first_reasons(list(zip(said, spoken, strict=True)), x)
    if isinstance(model, AllOf | AnyOf):
        return join_reasons([reasons_of(part, x, asked) for part in model.ranges], x)
    if isinstance(model, Softened):
        return join_reasons(
            [reasons_of(part, x, asked) for part in (model.expert, *model.ranges)], x
        )
    if isinstance(model, Average):
        return join_reasons([reasons_of(part, x, asked) for part in model.predictions], x)
    kind = kind_of_model(model)
    if kind is not None and kind.words is not None:
        words = kind.words(model, x)
        if isinstance(next((some[0] for some in words if some), None), Reason):
            return cast(Reasons, words)
        # those of other packages may say it in plain text
        return [[Reason("text", {"text": one}) for one in some] for some in words]
    name = {"model": type(model).__name__}
    if asked in ("range", "set"):
        return [[Reason("range-model", name)] for _ in range(len(x))]
    heard = is_heard(model, x).tolist()
    return [[Reason("prediction-model", name)] if h else [] for h in heard]
