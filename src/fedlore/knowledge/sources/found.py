"""Kinds of source from other packages, found through the entry points `fedlore.sources`.

A package is loaded only where a file names its kind, or a model is of one of its own classes.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ...core.plugins import Offer, find_plugins
from ...errors import ConfigError, KnowledgeError
from ..content import Where, files_at, toml_in
from .catalog import SOURCE_KINDS
from .kind import SourceKind

_GROUP = "fedlore.sources"


def plugin_names() -> tuple[str, ...]:
    """The keys of installed kinds; nothing is loaded."""
    return tuple(sorted(_offers()))


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


def forbidden_in(where: Where, allowed: Collection[str]) -> tuple[str, ...]:
    """The installed kinds that a knowledge file names and nobody allowed: nothing is loaded."""
    return tuple(name for name in plugins_in(where) if name not in allowed)


def plugin_named(name: str) -> SourceKind | None:
    """The kind of another package that a key names, loaded."""
    offer = _offers().get(name)
    return None if offer is None else _load(name, offer)


def plugin_of(model: object) -> SourceKind | None:
    """The kind of another package that a model belongs to."""
    package = type(model).__module__.partition(".")[0]
    for name, offer in _offers().items():
        if offer.module in sys.modules or offer.module.partition(".")[0] == package:
            kind = _load(name, offer)
            if type(model) in kind.models:
                return kind
    return None


def _offers() -> dict[str, Offer]:
    try:
        return find_plugins(_GROUP, SOURCE_KINDS)
    except ConfigError as error:
        raise KnowledgeError(str(error)) from None


def _load(name: str, offer: Offer) -> SourceKind:
    try:
        kind = offer()
    except ConfigError as error:
        raise KnowledgeError(str(error)) from error
    if not isinstance(kind, SourceKind) or kind.name != name or kind.name not in kind.keys:
        raise KnowledgeError(
            f"'{offer.place}' must be a fedlore SourceKind called '{name}', with that key in its "
            f"entry, got {kind!r:.100}"
        )
    return kind
