"""What each piece of knowledge says about rows, in words: one list of lines for each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..combine import AllOf, AnyOf, Average, FirstOf
from ..confusion import Recalibrated
from ..missing import find_lacking, is_heard
from ..soft import Softened
from .kind import Asked, Lines
from .lines import first_lines, join_lines, no_lines
from .writing import kind_of_model

if TYPE_CHECKING:
    from torch import Tensor


def words_of(model: Any, x: Tensor, asked: Asked) -> Lines:
    """What limits each row, or made the expert say what he says; nothing where he is silent."""
    if model is None or not len(x):
        return no_lines(x)
    if isinstance(model, Recalibrated):
        inner = words_of(model.expert, x, asked)
        return [[f"{line} (heard through his confusion)" for line in some] for some in inner]
    if isinstance(model, FirstOf):
        spoken = [is_heard(p, x) | find_lacking(p, x) for p in model.predictions]
        said = [words_of(p, x, asked) for p in model.predictions]
        return first_lines(list(zip(said, spoken, strict=True)), x)
    if isinstance(model, AllOf | AnyOf):
        return join_lines([words_of(part, x, asked) for part in model.ranges], x)
    if isinstance(model, Softened):
        return join_lines([words_of(part, x, asked) for part in (model.expert, *model.ranges)], x)
    if isinstance(model, Average):
        return join_lines([words_of(part, x, asked) for part in model.predictions], x)
    kind = kind_of_model(model)
    if kind is not None and kind.words is not None:
        return kind.words(model, x)
    if asked in ("range", "set"):
        return [[f"a range given by a {type(model).__name__}"] for _ in range(len(x))]
    heard = is_heard(model, x).tolist()
    return [[f"a prediction by a {type(model).__name__}"] if h else [] for h in heard]
