"""Why a row got its answer: what each source says of it, and what missing values left open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, cast

from ...core.tensors import torch
from ...kernel.schema import Schema
from ...words import Reason
from ..combine import AllOf, AnyOf, Average, FirstOf
from ..missing import allow, find_lacking, has_prediction, hear, list_columns
from ..soft import Softened
from ..tables.table import Table
from ..views import Mask, Recalibrated
from .catalog import kind_of_model, parts_of
from .kind import Asked, Reasons, first_reasons, join_reasons

if TYPE_CHECKING:
    from torch import Tensor

    from ..models import Knowledge


def reasons_of(model: Any, x: Tensor, asked: Asked) -> Reasons:
    """What limits each row, or made the expert say what he says; nothing where he is silent."""
    if model is None or not len(x):
        return [[] for _ in range(len(x))]
    if type(model) in _JOIN:
        return _JOIN[type(model)](model, [reasons_of(part, x, asked) for part in model.parts], x)
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
    heard = has_prediction(model, x).tolist()
    return [[Reason("prediction-model", name)] if h else [] for h in heard]


def _each(model: Any, parts: list[Reasons], x: Tensor) -> Reasons:
    return join_reasons(parts, x)


def _first(model: FirstOf, parts: list[Reasons], x: Tensor) -> Reasons:
    heard = [has_prediction(part, x) | find_lacking(part, x) for part in model.parts]
    return first_reasons(list(zip(parts, heard, strict=True)), x)


def _confused(model: Recalibrated, parts: list[Reasons], x: Tensor) -> Reasons:
    return [[Reason("confusion", {"inner": one}) for one in some] for some in parts[0]]


#: How the reasons of what is combined become those of the whole.
_JOIN: dict[type, Callable[[Any, list[Reasons], Tensor], Reasons]] = {
    **dict.fromkeys((AllOf, AnyOf, Average, Softened), _each),
    FirstOf: _first,
    Recalibrated: _confused,
}


def forbidden_words(known: Knowledge, x: Tensor) -> list[str]:
    """What the expert says of each row although the range forbids it; empty where he does not."""
    words = [""] * len(x)
    if known.prediction is None or known.range is None or not len(x):
        return words
    said, allowed = hear(known.prediction, x), allow(known.range, x)
    rows = known.answers.find_conflicts(said, allowed).nonzero().flatten()
    if known.line is not None:
        outcomes = [f"{value:.6g}" for value in said[rows].tolist()]
    else:
        classes = known.require_schema().classes
        outside = ((said[rows] > 0) & ~allowed[rows].bool()).tolist()
        outcomes = [", ".join(compress(classes, one)) for one in outside]
    for row, text in zip(rows.tolist(), outcomes, strict=True):
        words[row] = text
    return words


def favoured_words(favoured: Tensor, classes: Sequence[str]) -> list[str]:
    """What the expert holds to be most likely in each row, several classes where they are equal."""
    return [" or ".join(compress(classes, row)) for row in favoured.tolist()]


def count_unapplied(models: Iterable[Any], x: Tensor) -> Tensor:
    """For each missing value how many rules and formulas it leaves open, (n, d) int64."""
    found = torch.zeros(x.shape, dtype=torch.int64)
    for model in models:
        if isinstance(model, Mask):
            columns = list(model.columns)
            found[:, columns] += count_unapplied([model.model], x[:, columns])
            continue
        table, parts = getattr(model, "table", None), parts_of(model)
        if parts is not None:
            found += count_unapplied(parts, x)
        elif table is not None:
            found += _count_rules(table, x)
        else:
            looks = torch.zeros(x.shape[1], dtype=torch.bool)
            looks[list(list_columns(model, x.shape[1]))] = True
            found += x.isnan().cpu() & looks
    return found


def _count_rules(table: Table, x: Tensor) -> Tensor:
    asks = torch.zeros(len(table.rules), x.shape[1])
    for place, rule in enumerate(table.rules):
        asks[place, [column for column, _ in rule.conditions]] = 1.0
    open_ = table.undecided(x).float().cpu()
    return ((open_ @ asks) * x.isnan().cpu()).long()


def missing_reasons(models: Iterable[Any], x: Tensor, schema: Schema) -> Reasons:
    """What is missing in each row, and how many rules that leaves open."""
    found: Reasons = [[] for _ in range(len(x))]
    rows = x.isnan().any(1).nonzero().flatten()
    if not len(rows):
        return found
    holes, counts = x[rows].isnan().tolist(), count_unapplied(models, x[rows]).tolist()
    for row, hole, count in zip(rows.tolist(), holes, counts, strict=True):
        for feature, gone, many in zip(schema.features, hole, count, strict=True):
            if gone:
                found[row].append(Reason("missing", {"feature": feature.name, "rules": many}))
    return found
