"""What other packages bring: names found through Python entry points, loaded when asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ..config import build
from ..errors import ConfigError, unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_FAULT = "plugin"  # the code of errors raised here

_T = TypeVar("_T")


@dataclass(frozen=True)
class Offer:
    """What a package offers under a name; calling it imports the package."""

    group: str
    entry: EntryPoint

    @property
    def place(self) -> str:
        """module:name, as the package says it."""
        return self.entry.value

    @property
    def module(self) -> str:
        """The module that loading would import."""
        return self.entry.module

    def __call__(self) -> object:
        try:
            return self.entry.load()
        except Exception as error:  # whatever another package may raise while it is imported
            raise ConfigError(
                f"'{self.entry.name}' of package '{_package(self.entry)}' ({self.group}: "
                f"{self.place}) cannot be loaded: {type(error).__name__}: {error}"
            ) from error


def find_plugins(group: str, builtin: Iterable[str] = ()) -> dict[str, Offer]:
    """What installed packages offer under a group, by name in small letters.

    Nothing is imported before an offer is called. A name of fedlore's own, or one that two
    packages offer, is an error: the order of installation would decide what is meant.
    """
    from importlib.metadata import entry_points  # who needs no plug-in does not wait for it

    own = set(builtin)
    offered: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=group), key=lambda e: e.name):
        name = entry.name.lower()
        if name in own:
            raise ConfigError(
                f"'{name}' of package '{_package(entry)}' ({group}) is a name of fedlore's own: "
                "the package must choose another, or be removed"
            )
        if name in offered:
            one, other = sorted(map(_package, (offered[name], entry)))
            raise ConfigError(
                f"'{name}' ({group}) is offered by two packages, '{one}' and '{other}': remove one"
            )
        offered[name] = entry
    return {name: Offer(group, entry) for name, entry in offered.items()}


def make_named(
    what: str, name: str, settings: Mapping[str, Any], builtin: Mapping[str, type[_T]], group: str
) -> _T:
    """The dataclass of this name, fedlore's own or a package's, built from its settings."""
    kind: type[_T]
    if name in builtin:  # fedlore's own win, without a look at what is installed
        kind = builtin[name]
    else:
        offered = find_plugins(group, builtin)
        if name not in offered:
            raise ConfigError(unknown(what, name, [*builtin, *offered]))
        kind = _class(offered[name](), what, name)
    return build(kind, settings, name)


def load_all(what: str, builtin: Mapping[str, type[_T]], group: str) -> dict[str, type[_T]]:
    """Fedlore's own classes and those of all installed packages, by name."""
    offered = find_plugins(group, builtin)
    return {**builtin, **{name: _class(load(), what, name) for name, load in offered.items()}}


def _class(thing: object, what: str, name: str) -> type[Any]:
    if isinstance(thing, type) and is_dataclass(thing):
        return thing
    raise ConfigError(
        f"{what} '{name}' must be a dataclass whose fields are its settings, got {thing!r}"
    )


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "unknown"
