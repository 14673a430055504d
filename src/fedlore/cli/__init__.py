"""The command line: thin wrappers that show what the library does."""

from .app import main

_FAULT = "command"  # the code of errors raised here

__all__ = ["main"]
