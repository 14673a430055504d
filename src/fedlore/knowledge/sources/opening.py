"""From a table of a knowledge file to the model it stands for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...config import build
from ...errors import ConfigError, FedloreError, KnowledgeError, unknown
from ...kernel.findings import Finding, Place
from .catalog import SOURCE_KINDS
from .found import plugin_named, plugin_names
from .kind import Asked, Opened, Setting, SourceKind, Values

_WORDS: dict[Asked, str] = {
    "prediction": "a predict",
    "range": "a range",
    "number": "a number",
    "set": "intervals",
}


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Put the place before whatever is refused inside."""
    try:
        yield
    except FedloreError as error:
        raise KnowledgeError(f"{place}: {error}") from None


def check_entry(values: Values, where: str = "source") -> None:
    """Refuse unknown keys, with the near miss, and values of a wrong type; opens nothing."""
    named = _list_named(values)
    known = {key for kind in (*SOURCE_KINDS.values(), *named.values()) for key in kind.keys}
    for key in values:
        if key not in known:
            near = unknown("key", key, {*known, *plugin_names()})
            raise ConfigError(f"[{where}] {near}")
    if len(set(map(id, named.values()))) == 1:
        _entry(next(iter(named.values())), values, where)


def open_source(values: Values, asked: Asked, setting: Setting) -> Any:
    """The knowledge model that a source stands for."""
    kind = _kind(values, asked)
    return kind.read(_entry(kind, values), asked, setting)


def examine_source(values: Values, asked: Asked, setting: Setting, place: Place) -> Opened:
    """A source's model, or everything that keeps it from being one."""
    try:
        kind = _kind(values, asked)
        entry = _entry(kind, values)
        if kind.examine is not None:
            return kind.examine(entry, asked, setting)
        return kind.read(entry, asked, setting), []
    except KnowledgeError as error:
        return None, [Finding("error", "source", place, {"error": str(error)})]


def open_sources(
    sources: tuple[dict[str, Any], ...], asked: Asked, setting: Setting, name: str
) -> list[Any]:
    """The models of a list of sources, each fault with its place in the file."""
    side = "predict" if asked in ("prediction", "number") else "range"
    models = []
    for place, source in enumerate(sources, 1):
        with naming(f"{name}, [{side}] source {place}"):
            models.append(open_source(source, asked, setting))
    return models


def _list_named(values: Values) -> dict[str, SourceKind]:
    """The kinds that the keys of a table name."""
    found: dict[str, SourceKind] = {}
    foreign = [key for key in values if key not in _KEYS]
    for key in SOURCE_KINDS:
        if key in values:
            found[key] = SOURCE_KINDS[key]
    for key in foreign:
        kind = plugin_named(key)
        if kind is not None:
            found[key] = kind
    return found


def _kind(values: Values, asked: Asked) -> SourceKind:
    check_entry(values)
    named = _list_named(values)
    if len(set(map(id, named.values()))) != 1:
        told = " and ".join(named) or "none"
        every = ", ".join((*SOURCE_KINDS, *plugin_names()))
        raise KnowledgeError(f"a source has one of {every}; this one has {told}")
    key, kind = next(iter(named.items()))
    if asked not in kind.asked:
        able = [k for k, one in SOURCE_KINDS.items() if asked in one.asked]
        raise KnowledgeError(f"'{key}' is no source of {_WORDS[asked]}: {', '.join(able)}")
    return kind


def _entry(kind: SourceKind, values: Values, where: str = "source") -> Any:
    """The keys of a kind as its entry; those that belong to others say nothing to it."""
    return build(kind.entry, {k: v for k, v in values.items() if k in kind.keys}, where)


_KEYS = {key for kind in SOURCE_KINDS.values() for key in kind.keys}
