"""What a site's own models may cost: bounds by rows, not by a clock, and each made once in a block.

The same rows give the same models on every machine, however busy it is.
"""

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from torch import Tensor

MOST_GAUSSIAN = 1_000  # rows of a Gaussian process: its cost grows with their cube
MOST_TERMS = 1_000  # of a quadratic model
MOST_TRIED = 8_000  # rows of one fit in cross-validation, where everything is fitted many times
MOST_LEARNED = 20_000  # and of a final fit, where a learner has a bounded size
HALVED_FROM = 5_000  # rows from which on the first fold alone chooses modes and settings
MOST_WEIGHED = 5_000  # rows by which members of an ensemble are weighed and made steeper


def thin(rows: int, most: int | None = None) -> slice:
    """Evenly spaced rows, at most so many.

    >>> len(range(1000)[thin(1000)]), len(range(50_000)[thin(50_000)])
    (1000, 16667)
    """
    return slice(None, None, max(1, math.ceil(rows / (most or MOST_LEARNED))))


_P = ParamSpec("_P")
_R = TypeVar("_R")

_KEPT: ContextVar[dict[str, Any] | None] = ContextVar("own models of this block", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """Inside this block a call on the same rows, seed and site gives the models of the first."""
    before = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(before)


def once(make: Callable[_P, _R]) -> Callable[_P, _R]:
    """The same function, which looks first whether a `remembering` block has the answer."""

    @wraps(make)
    def remember(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        kept = _KEPT.get()
        if kept is None:
            return make(*args, **kwargs)
        key = _key(make, args, kwargs)
        if key not in kept:
            kept[key] = make(*args, **kwargs)
        answer: _R = kept[key]
        return answer

    return remember


def keep(make: Callable[..., Any], args: Any, kwargs: Any, answer: Any) -> None:
    """Give a `remembering` block the answer to a call that was made elsewhere."""
    kept = _KEPT.get()
    if kept is not None:
        kept[_key(make, args, kwargs)] = answer


def _key(make: Callable[..., Any], args: Any, kwargs: Any) -> str:
    whole = signature(make).bind(*args, **kwargs)
    whole.apply_defaults()  # what is left out and what is given as usual are one call
    said = (make.__name__, *sorted(whole.arguments.items()))
    return hashlib.sha256(_digest(said)).hexdigest()


def _digest(value: object) -> bytes:
    """Bytes that differ wherever the arguments of a maker do."""
    if isinstance(value, Tensor):
        flat = value.detach().cpu().contiguous()
        return f"{flat.dtype}{tuple(flat.shape)}".encode() + flat.numpy().tobytes()
    if is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in fields(value)]
        return type(value).__name__.encode() + b"".join(_digest(part) for part in parts)
    if isinstance(value, tuple | list):
        return b"(" + b",".join(_digest(part) for part in value) + b")"
    return repr(value).encode()
