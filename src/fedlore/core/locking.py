"""A lock on an open file that all systems know: flock, or the first byte on Windows."""

import importlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import FedloreError

_WINDOWS: bool = sys.platform == "win32"
_PATIENCE = 0.05  # seconds between two looks at a byte that somebody else holds


def lock_file(handle: int, *, wait: bool) -> None:
    """Hold a file for this process until it is closed; without `wait` an OSError says it is held.

    The modules are looked up by name: each exists on its own system alone.
    """
    if not _WINDOWS:
        unix = importlib.import_module("fcntl")
        unix.flock(handle, unix.LOCK_EX | (0 if wait else unix.LOCK_NB))
        return
    windows = importlib.import_module("msvcrt")
    while True:
        os.lseek(handle, 0, os.SEEK_SET)
        try:
            windows.locking(handle, windows.LK_NBLCK, 1)
            return
        except OSError:
            if not wait:
                raise
            time.sleep(_PATIENCE)


@contextmanager
def alone(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file: two processes on one folder would spoil each other's books."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            lock_file(file.fileno(), wait=False)
        except OSError:
            raise FedloreError(f"{what} is running already (lock '{path}')") from None
        yield
