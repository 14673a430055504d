"""Where the files of a piece of knowledge lie: in a folder, or in memory by their names."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..errors import KnowledgeError

_FAULT = "knowledge-file"  # the code of errors raised here

FILE = "knowledge.toml"

Where = str | Path | Mapping[str, bytes]  # the path of a knowledge.toml, or members by name


class Files(Protocol):
    """Named bytes."""

    def read(self, name: str) -> bytes:
        """The content of a file."""
        ...

    def path(self, name: str) -> Path | None:
        """Where it lies on disk, if it does."""
        ...


@dataclass(frozen=True)
class Folder:
    """Files of a folder."""

    folder: Path

    def read(self, name: str) -> bytes:
        path = self.folder / name
        try:
            return path.read_bytes()
        except OSError as error:
            raise KnowledgeError(f"cannot read '{path}': {error.strerror}") from None

    def path(self, name: str) -> Path | None:
        return self.folder / name


@dataclass(frozen=True)
class Packed:
    """Members of a bundle, or of anything else in memory: nothing on disk is ever looked at."""

    members: Mapping[str, bytes]

    def read(self, name: str) -> bytes:
        data = self.members.get(name)
        if data is None:
            raise KnowledgeError(
                f"{FILE} names the file {name[:100]!r}, which is no member of the bundle"
            )
        return data

    def path(self, name: str) -> Path | None:
        return None


def files_at(where: Where) -> tuple[Files, str]:
    """The files around a knowledge.toml, and its own name among them."""
    if isinstance(where, Mapping):
        return Packed(where), FILE
    path = Path(where)
    return Folder(path.parent), path.name


def toml_in(files: Files, name: str) -> dict[str, Any]:
    """A TOML file as plain values."""
    try:
        return tomllib.loads(files.read(name).decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        shown = files.path(name) or name
        raise KnowledgeError(f"'{shown}' is not valid TOML: {error}") from None
