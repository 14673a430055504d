"""Kinds of source from other packages, found through the entry points `fedlore.sources`.

A package is loaded only where a file names its kind, or a model is of one of its own classes.
"""

import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ...errors import KnowledgeError
from ..content import Where, files_at, toml_in
from .catalog import SOURCE_KINDS
from .kind import SourceKind

_GROUP = "fedlore.sources"


def plugin_names() -> tuple[str, ...]:
    """The keys of installed kinds; nothing is loaded."""
    return tuple(sorted(_installed()))


def plugins_in(where: Where) -> tuple[str, ...]:
    """The installed kinds that a knowledge file names, for a policy to judge: nothing is loaded."""
    values = toml_in(*files_at(where))
    keys = set(_keys([values.get("predict"), values.get("range")]))
    return tuple(name for name in plugin_names() if name in keys)


def _keys(values: Any) -> Iterator[str]:
    """All keys of tables, wherever they stand."""
    if isinstance(values, Mapping):
        yield from values
        values = list(values.values())
    if isinstance(values, list):
        for value in values:
            yield from _keys(value)


def plugin_named(name: str) -> SourceKind | None:
    """The kind of another package that a key names, loaded."""
    found = _installed().get(name)
    return None if found is None else _load(found)


def plugin_of(model: object) -> SourceKind | None:
    """The kind of another package that a model belongs to."""
    package = type(model).__module__.partition(".")[0]
    for entry in _installed().values():
        if entry.module in sys.modules or entry.module.partition(".")[0] == package:
            kind = _load(entry)
            if type(model) in kind.models:
                return kind
    return None


def _installed() -> dict[str, EntryPoint]:
    """Entry points by name; a built-in kind cannot be replaced."""
    return {
        entry.name: entry for entry in entry_points(group=_GROUP) if entry.name not in SOURCE_KINDS
    }


def _load(entry: EntryPoint) -> SourceKind:
    try:
        kind = entry.load()
    except Exception as error:  # a package of others may fail in any way
        raise KnowledgeError(
            f"the source '{entry.name}' of '{entry.value}' cannot be loaded: {error}"
        ) from error
    if not isinstance(kind, SourceKind) or kind.name != entry.name or kind.name not in kind.keys:
        raise KnowledgeError(
            f"'{entry.value}' must be a fedlore SourceKind called '{entry.name}', with that key in "
            f"its entry, got {kind!r:.100}"
        )
    return kind
