"""The errors a user can meet, each with the rule and the value that broke it."""

import difflib
from collections.abc import Iterable


class FedloreError(ValueError):
    """Something the caller gave cannot be used; the message says what and why."""


class KnowledgeError(FedloreError):
    """A knowledge model, or what it answered, breaks a rule."""


class ConfigError(FedloreError):
    """A setting is unknown, missing or out of its range."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A message for a name that does not exist, with the nearest one that does."""
    options = sorted(known)
    near = difflib.get_close_matches(name, options, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(options)}"
    return f"unknown {what} '{name}'{hint}"
