"""Where the files of a piece of knowledge lie, in a folder or in memory."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..config import toml_fault
from ..errors import KnowledgeError
from ..kernel.document import FILE as FILE
from ..kernel.document import dump as dump

_FAULT = "knowledge-file"  # the code of errors raised here

Where = str | Path | Mapping[str, bytes]  # the path of a knowledge.toml, or members by name


class Files(Protocol):
    """Named bytes."""

    def read(self, name: str) -> bytes:
        """The content of a file."""

    def path(self, name: str) -> Path | None:
        """Where it lies on disk, if it does."""


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
            raise KnowledgeError(f"{FILE} names the file {name[:100]!r}, which is missing")
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
    data = files.read(name)
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        shown = files.path(name) or name
        raise KnowledgeError(f"'{shown}' is not valid TOML: {toml_fault(data, error)}") from None


def items_in(values: Any) -> Iterator[tuple[str, Any]]:
    """Every key of nested tables and lists with its value."""
    if isinstance(values, Mapping):
        yield from values.items()
        values = list(values.values())
    if isinstance(values, list):
        for one in values:
            yield from items_in(one)
