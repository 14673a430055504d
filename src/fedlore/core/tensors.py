"""torch, loaded when something is asked of it: who checks a table does not wait seconds for it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch:
        """Stands for the library; each name is looked up once."""

        def __getattr__(self, name: str) -> object:
            value = getattr(importlib.import_module("torch"), name)
            setattr(self, name, value)
            return value

    torch = _Torch()


_P = ParamSpec("_P")
_R = TypeVar("_R")


def without_gradient(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`torch.no_grad()` over a function, asked for at the call and not where it is defined."""

    @functools.wraps(function)
    def still(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with torch.no_grad():
            return function(*args, **kwargs)

    return still
