"""A lock on an open file that all systems know: flock, or the first byte on Windows."""

import importlib
import os
import sys
import time

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
