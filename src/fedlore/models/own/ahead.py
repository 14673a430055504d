"""Own models of several sites at a time, in processes; `fedlore run` asks for it."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from multiprocessing import active_children, get_context, parent_process
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.history import tell_step
from ...errors import FedloreError
from . import baseline, limits

_PROCESSES: ContextVar[int] = ContextVar("processes for own models", default=1)
_WORTH = 10_000  # values of all sites' rows below which starting processes takes longer

Call = tuple[tuple[Any, ...], dict[str, Any]]  # rows first; `site` among the others


@contextmanager
def processes(count: int) -> Iterator[None]:
    """Inside this block `make_ahead` may use so many processes."""
    before = _PROCESSES.set(count)
    try:
        yield
    finally:
        _PROCESSES.reset(before)


def make_ahead(make: Callable[..., baseline.Own], calls: Sequence[Call]) -> None:
    """Let a `remembering` block know the answers of these calls before each is made.

    An answer does not depend on the process it is made in. A call that fails is left to be made.
    """
    count = min(_PROCESSES.get(), len(calls))
    if count < 2 or sum(args[0].x.numel() for args, _ in calls) < _WORTH:
        return
    context, others = get_context("spawn"), {*active_children()}
    with ProcessPoolExecutor(count, context, _begin, (torch.get_num_threads(),)) as pool:
        jobs = [pool.submit(_work, make.__name__, _as_arrays(call)) for call in calls]
        try:
            for done, (job, (args, named)) in enumerate(zip(jobs, calls, strict=True), 1):
                limits.keep(make, args, named, _as_tensors(job.result()))
                tell_step(f"own models of {named['site']}", done=done, total=len(calls))
        except (FedloreError, BrokenExecutor):
            pool.shutdown(wait=False, cancel_futures=True)
        except BaseException:  # who stops it does not wait for what is under way
            pool.shutdown(wait=False, cancel_futures=True)
            for child in {*active_children()} - others:
                child.terminate()
            raise


def _begin(threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who pressed it is told by the first process
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A run that was killed cannot end its processes, which would wait for it for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(name: str, call: Any) -> Any:
    args, named = _as_tensors(call)
    return _as_arrays(getattr(baseline, name)(*args, **named))


@dataclass(frozen=True, eq=False)
class _Array:
    """A tensor between processes: torch itself would keep a file open for each."""

    values: np.ndarray


def _as_arrays(value: Any) -> Any:
    return _rebuild(value, lambda v: _Array(v.numpy()) if isinstance(v, Tensor) else None)


def _as_tensors(value: Any) -> Any:
    return _rebuild(value, lambda v: torch.from_numpy(v.values) if isinstance(v, _Array) else None)


def _rebuild(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same value with some parts exchanged, wherever they stand in it."""
    found = change(value)
    if found is not None:
        return found
    if is_dataclass(value) and not isinstance(value, type):
        made = object.__new__(type(value))
        for one in fields(value):
            object.__setattr__(made, one.name, _rebuild(getattr(value, one.name), change))
        return made
    if isinstance(value, dict):
        return {key: _rebuild(one, change) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_rebuild(one, change) for one in value)
    return value
