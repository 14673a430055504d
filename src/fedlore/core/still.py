"""Functions through which no gradient goes; torch is not touched before one is called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .tensors import torch

_P = ParamSpec("_P")
_R = TypeVar("_R")


def without_gradient(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`torch.no_grad()` over a function, asked for at the call and not where it is defined."""

    @functools.wraps(function)
    def still(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with torch.no_grad():
            return function(*args, **kwargs)

    return still
