"""What a kind of knowledge source is: its keys in a file, and its faces."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.findings import Finding, Place
from ...kernel.schema import Schema
from ...words import Reason
from ..content import Files
from ..protocols import RangeKind, kind_of
from ..views import look_through

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
    dated: bool = False  # whether rules of all days are read, to be written and not asked
    errors: Mapping[int, float] = field(default_factory=dict)  # of columns, for ranges to take in
    columns: tuple[str, ...] = ()  # of models that see all that the file names; (): all there are


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
    inside: Callable[[Any], tuple[Any, ...]] = lambda model: ()  # models that this one asks
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


_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def entry_point(target: str, *, allow: bool = False) -> EntryPoint:
    """A function `package.module:function` as a knowledge model, only where this is allowed.

    Importing a module runs it: `allow` must come from the site's own file, never from elsewhere.
    """
    if not allow:
        raise KnowledgeError(
            f"'{target}' is code: it runs only where the site's own file allows entry points"
        )
    if not _TARGET.fullmatch(target) or "__" in target:
        raise KnowledgeError(f"an entry point is package.module:function, got '{target}'")
    place, name = target.split(":")
    try:
        function = getattr(importlib.import_module(place), name)
    except (ImportError, AttributeError) as error:
        raise KnowledgeError(f"cannot load '{target}': {error}") from error
    if not callable(function):
        raise KnowledgeError(f"'{target}' is a {type(function).__name__}, not a function")
    return EntryPoint(target, function)


@dataclass(frozen=True)
class EntryPoint:
    """A function known by its name; made by `entry_point`."""

    target: str
    function: Callable[[Tensor], Tensor] = field(repr=False)

    @property
    def kind(self) -> RangeKind:
        return kind_of(self.function)

    def __call__(self, x: Tensor, /) -> Tensor:
        return self.function(x)


@dataclass(frozen=True)
class FunctionEntry:
    """The keys of a function."""

    entry: str  # package.module:function
    columns: tuple[str, ...] = ()  # what it sees; all by default
    pool: int | None = None  # or p×p max-pooled images


def _read(entry: FunctionEntry, asked: Asked, setting: Setting) -> Any:
    function = entry_point(entry.entry, allow=setting.entry_points)
    columns = entry.columns or setting.columns
    return look_through(function, columns=columns, pool=entry.pool, schema=setting.schema)


ENTRY = SourceKind(
    name="entry",
    entry=FunctionEntry,
    models=(EntryPoint,),
    asked=("prediction", "range", "number", "set"),
    read=_read,
    write=lambda model, inner: {"entry": model.target},
    lint=lambda model, place: (),
    code=True,
)
