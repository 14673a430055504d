"""A Python function, known by its name, as a source: code, so only where a site allows it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import KnowledgeError
from ..protocols import RangeKind, kind_of
from ..views import look_through
from .kind import Asked, Setting, SourceKind

if TYPE_CHECKING:
    from torch import Tensor

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
