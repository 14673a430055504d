"""The errors a user can meet, each with the rule and the value that broke it."""

import difflib
import sys
from collections.abc import Iterable
from typing import Self


class FedloreError(ValueError):
    """Something the caller gave cannot be used; the message says what and why."""

    _made_at: tuple[str, int] = ("", 0)  # file and line of the source

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        made = super().__new__(cls, *args, **kwargs)
        caller = sys._getframe(1)
        made._made_at = (caller.f_code.co_filename, caller.f_lineno)
        return made

    @property
    def code(self) -> str | None:
        """Its code in the list of errors (docs/reference/errors.md), such as FL-K012."""
        from .listed import code_at  # read when someone asks

        inner = self.__cause__ or self.__context__
        if isinstance(inner, FedloreError) and str(inner) in str(self):
            return inner.code or code_at(*self._made_at, _names(type(self)))
        return code_at(*self._made_at, _names(type(self)))


class KnowledgeError(FedloreError):
    """A knowledge model, or what it answered, breaks a rule."""


class ConfigError(FedloreError):
    """A setting is unknown, missing or out of its range."""


def _names(cls: type) -> tuple[str, ...]:
    return tuple(one.__name__ for one in cls.__mro__ if issubclass(one, FedloreError))


_LONGEST = 100  # letters of a name that a message repeats


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A message for a name that does not exist, with the nearest one that does."""
    options = sorted(known)
    near = difflib.get_close_matches(name, options, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(options)}"
    shown = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
    return f"unknown {what} '{shown}'{hint}"
