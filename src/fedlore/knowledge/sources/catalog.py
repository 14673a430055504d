"""The kinds of knowledge source: found, opened from the tables of a file, and written back."""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...config import build
from ...core.plugins import Offer, find_plugins
from ...errors import ConfigError, FedloreError, KnowledgeError, unknown
from ...kernel.findings import Finding, Place
from ...kernel.schema import Schema
from ..content import Where, files_at, items_in, toml_in
from ..views import view_keys
from .conformal import CONFORMAL
from .formula import FORMULA, LIMITS
from .interpolate import INTERPOLATE
from .kind import ENTRY, Asked, Attached, Opened, Setting, SourceKind, Values
from .onnx import ONNX
from .table import TABLE

SOURCE_KINDS: dict[str, SourceKind] = {
    "table": TABLE,
    "formula": FORMULA,
    "lower": LIMITS,
    "upper": LIMITS,
    "interpolate": INTERPOLATE,
    "onnx": ONNX,
    "entry": ENTRY,
    "conformal": CONFORMAL,
}


_GROUP = "fedlore.sources"


def plugin_names() -> tuple[str, ...]:
    """The keys of installed kinds; nothing is loaded."""
    return tuple(sorted(_offers()))


def plugins_in(where: Where) -> tuple[str, ...]:
    """The installed kinds that a knowledge file names, for a policy to judge: nothing is loaded."""
    values = toml_in(*files_at(where))
    keys = {key for key, _ in items_in([values.get("predict"), values.get("range")])}
    return tuple(name for name in plugin_names() if name in keys)


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
    own = {key: kind for key, kind in SOURCE_KINDS.items() if key in values}
    foreign = ((key, plugin_named(key)) for key in values if key not in _KEYS)
    return own | {key: kind for key, kind in foreign if kind is not None}


def _kind(values: Values, asked: Asked) -> SourceKind:
    check_entry(values)
    named = _list_named(values)
    if len(set(map(id, named.values()))) != 1:
        given = " and ".join(named) or "none"
        every = ", ".join((*SOURCE_KINDS, *plugin_names()))
        raise KnowledgeError(f"a source has one of {every}; this one has {given}")
    key, kind = next(iter(named.items()))
    if asked not in kind.asked:
        able = [k for k, one in SOURCE_KINDS.items() if asked in one.asked]
        raise KnowledgeError(f"'{key}' is not a source of {_WORDS[asked]}: {', '.join(able)}")
    return kind


def _entry(kind: SourceKind, values: Values, where: str = "source") -> Any:
    """The keys of a source as the entry of its kind, which refuses those of others."""
    return build(kind.entry, values, where)


_KEYS = {key for kind in SOURCE_KINDS.values() for key in kind.keys}


def kind_of_model(model: object) -> SourceKind | None:
    """The kind of source that a model is, built in or of another package."""
    for kind in SOURCE_KINDS.values():
        if type(model) in kind.models:
            return kind
    return plugin_of(model)


def source_of(model: Any, schema: Schema) -> dict[str, Any]:
    """A model as an entry of a file; the files it needs stand for themselves, see `Attached`."""
    inner, keys = view_keys(model, schema)
    kind = kind_of_model(inner)
    said = None if kind is None else kind.write(inner, lambda one: source_of(one, schema))
    if said is None:
        raise KnowledgeError(
            f"a {type(inner).__name__} cannot be written to a file: use a table, a formula, an "
            "ONNX file or an entry point"
        )
    return said | keys


def leaves(*models: Any) -> Iterator[Any]:
    """The sources that models are combined from, those inside sources included."""
    for model in models:
        parts = parts_of(model)
        if parts is None:
            yield model
            kind = kind_of_model(model)
            parts = () if kind is None else kind.inside(model)
        yield from leaves(*parts)


def plugins_of(*models: Any) -> tuple[str, ...]:
    """The kinds of other packages that models use, by name: what a site's policy must allow."""
    kinds = (kind_of_model(model) for model in leaves(*models))
    found = {kind.name for kind in kinds if kind is not None and kind not in SOURCE_KINDS.values()}
    return tuple(sorted(found))


def parts_of(model: Any) -> tuple[Any, ...] | None:
    """What a combination or a view is made of; None for a source."""
    if model is None:
        return ()
    parts: tuple[Any, ...] | None = getattr(model, "parts", None)
    return parts


def plain(values: Any) -> Any:
    """Described knowledge to be compared or hashed: files by what they say, tuples as lists."""
    return _replace_files(values, lambda file: plain(file.said))


def pack_sources(values: Any, files: dict[str, bytes], *, check: bool) -> Any:
    """The same values with a name in place of each file, and those files by name.

    With `check` a file that would not read back as it was is refused.
    """

    def pack(file: Attached) -> str:
        name = file.called(len(files) + 1)
        if check:
            file.check()
        files[name] = file.pack()
        return name

    return _replace_files(values, pack)


def _replace_files(values: Any, change: Callable[[Attached], Any]) -> Any:
    """The same values with something in place of each file, tuples as lists."""
    if isinstance(values, Attached):
        return change(values)
    if isinstance(values, Mapping):
        return {key: _replace_files(value, change) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [_replace_files(value, change) for value in values]
    return values
