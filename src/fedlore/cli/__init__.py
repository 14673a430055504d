"""The command line: thin wrappers that show what the library does."""

from .app import main

__all__ = ["main"]
