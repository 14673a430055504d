"""The errors a user can meet: what is wrong and where, and a code for the kind of fault.

docs/reference/errors.md says for each code what causes it and what to do. A code is named, most
specific first, by the call (`code=`), by the class of the error, by the module or package that
raises it (`_FAULT = "..."`), and by the general classes below.
"""

import difflib
import re
import sys
from collections.abc import Iterable
from typing import ClassVar, Self

__all__ = ["ConfigError", "FedloreError", "KnowledgeError", "unknown"]


class FedloreError(ValueError):
    """Something the caller gave cannot be used; the message says what and why."""

    general: ClassVar[str] = "value"  # the code where nothing below is more specific
    kind: ClassVar[str | None] = None  # the code of a class that stands for one kind of fault
    _given: str | None = None
    row: int | None = None  # of a tensor, where the message names one
    _module = ""

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        made = super().__new__(cls, *args)
        made._module = sys._getframe(1).f_globals.get("__name__", "")
        return made

    def __init__(self, *args: object, code: str | None = None, row: int | None = None) -> None:
        super().__init__(*args)
        self.row = row
        if code is not None:
            self._given = code

    @property
    def in_file(self) -> str:
        """The message with the row as its file counts: the titles are row 1.

        >>> KnowledgeError("first row 30 has no class", row=30).in_file
        'first row 32 has no class'
        """
        text = str(self)
        at = None if self.row is None else re.search(rf"\brow {self.row}\b", text)
        if self.row is None or at is None:
            return text
        return f"{text[: at.start()]}row {self.row + 2}{text[at.end() :]}"

    @property
    def code(self) -> str:
        """The kind of fault, such as "schema"; of an error that quotes another, that one's."""
        inner = self.__cause__ or self.__context__
        if isinstance(inner, FedloreError) and str(inner) in str(self):
            return inner.code
        return self._given or self.kind or _fault_of(self._module) or self.general


class KnowledgeError(FedloreError):
    """A knowledge model, or what it answered, breaks a rule."""

    general = "knowledge"


class ConfigError(FedloreError):
    """A setting is unknown, missing or out of its range."""

    general = "setting"


def _fault_of(module: str) -> str | None:
    """What a module, or the nearest package around it, says its errors are about."""
    while module:
        fault = getattr(sys.modules.get(module), "_FAULT", None)
        if fault is not None:
            return str(fault)
        module = module.rpartition(".")[0]
    return None


_LONGEST = 100  # letters of a name that a message repeats


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A message for a name that does not exist, with the nearest one that does."""
    options = sorted(known)
    plain = name.strip().casefold()
    near = [one for one in options if one.strip().casefold() == plain]
    near = near or difflib.get_close_matches(name, options, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(options)}"
    shown = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
    return f"unknown {what} '{shown}'{hint}"
