"""What a kind of knowledge source is: its keys in a file, and its faces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.findings import Finding, Place
from ...kernel.schema import Schema
from ...words import Reason
from ..content import Files
from ..formulas import Formula
from ..missing import hear

if TYPE_CHECKING:
    from torch import Tensor


Asked = Literal["prediction", "range", "number", "set"]  # of classes twice, of a number twice
Values = Mapping[str, Any]  # one table of a TOML file
Reasons = list[list[Reason]]  # about each row
Opened = tuple[Any, list[Finding]]  # a model, or None and what keeps it from being one


@dataclass(frozen=True)
class Setting:
    """What a source needs to know of the file around it."""

    files: Files
    schema: Schema
    inner: Callable[[Values, Asked, Setting], Any]  # opens a source that stands inside another
    edges: tuple[float, ...] = ()  # of formulas that have none of their own
    entry_points: bool = False


@dataclass(frozen=True)
class Attached:
    """A file beside knowledge.toml; in described knowledge it stands in place of its name."""

    said: object  # plain values: what the file says, compared and hashed
    pack: Callable[[], bytes]
    called: Callable[[int], str]  # its name, given its place among the files
    check: Callable[[], None] = lambda: None  # refuses what would not read back as it was


def check_nothing(model: Any, place: Place) -> list[Finding]:
    """The word of `lint` about a source that it cannot look into."""
    return [Finding("info", "unchecked", place, {"model": type(model).__name__})]


def refuse_of_number(confidence: float | None) -> None:
    """Refuse a confidence where a number is asked for."""
    if confidence is not None:
        raise KnowledgeError(
            f"confidence = {confidence:g} needs classes, and here a number is predicted: give "
            "[predict] a spread, or calibrate an interval from data (fedlore calibrate)"
        )


def nothing_inside(model: Any) -> tuple[Any, ...]:
    return ()


@dataclass(frozen=True)
class SourceKind:
    """A kind of source. A package of one's own gives one to the entry points `fedlore.sources`.

    `read` makes a model of an entry, (entry, asked, setting); `write` an entry of a model, with a
    function that does so for a model inside, or None where this one cannot be written.
    """

    name: str  # the key that names it in a file
    entry: type  # a dataclass: its fields are the keys
    models: tuple[type, ...]  # what it is read as
    asked: tuple[Asked, ...]  # what it can answer
    read: Callable[[Any, Asked, Setting], Any]
    write: Callable[[Any, Callable[[Any], dict[str, Any]]], dict[str, Any] | None]
    words: Callable[[Any, Tensor], Sequence[Sequence[Reason | str]]] | None = None  # about rows
    examine: Callable[[Any, Asked, Setting], Opened] | None = None  # `read` with every complaint
    lint: Callable[[Any, Place], Iterable[Finding]] = check_nothing  # over the whole scope
    inside: Callable[[Any], tuple[Any, ...]] = nothing_inside  # models that this one asks
    code: bool = False  # whether it names Python: no bundle holds it
    graph: Callable[..., Any] | None = None  # (builder, rows, rank, model): nodes of an ONNX graph

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(self.entry))


def join_reasons(parts: list[Reasons], x: Tensor) -> Reasons:
    return [[line for part in parts for line in part[row]] for row in range(len(x))]


def first_reasons(parts: list[tuple[Reasons, Tensor]], x: Tensor) -> Reasons:
    """The reasons of the first who is not silent; with each whether he speaks, (n,) bool."""
    found: Reasons = [[] for _ in range(len(x))]
    left = torch.ones(len(x), dtype=torch.bool)
    for reasons, spoken in parts:
        for row in (left & spoken).nonzero().flatten().tolist():
            found[row] = reasons[row]
        left &= ~spoken
    return found


def formula_reasons(side: str, formula: Any, x: Tensor) -> Reasons:
    """What a formula comes to in each row; nothing where it is undefined."""
    text = getattr(formula, "text", type(formula).__name__)
    values = hear(formula, x)
    return [
        [Reason("formula", {"side": side, "text": text, "value": v})] if ok else []
        for v, ok in zip(values.tolist(), values.isfinite().tolist(), strict=True)
    ]


def limit_reasons(lower: Any, upper: Any, x: Tensor) -> Reasons:
    """The two ends of a range, each a formula, a function, a number or absent."""
    parts: list[Reasons] = []
    for name, side in (("lower", lower), ("upper", upper)):
        if isinstance(side, Formula):
            parts.append(formula_reasons(name, side, x))
        elif side is not None:
            found = hear(side, x).tolist() if callable(side) else [float(side)] * len(x)
            values = ({"side": name, "value": v} if math.isfinite(v) else None for v in found)
            parts.append([[Reason("limit", one)] if one else [] for one in values])
    return join_reasons(parts, x)
