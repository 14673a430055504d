"""A Python function, known by its name, as a knowledge model."""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from ..errors import KnowledgeError
from .kinds import RangeKind, kind_of

_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def entry_point(target: str, *, allow: bool = False) -> "EntryPoint":
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
