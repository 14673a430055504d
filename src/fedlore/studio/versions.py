"""Every save is a version: the files as they were, with date, author and reason."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..core.store import write_whole
from ..errors import FedloreError
from ..knowledge.content import FILE
from .desk import now
from .workplace import Workplace, is_own

_NUMBER = re.compile(r"\d{4,}")


@dataclass(frozen=True)
class Version:
    """One state that was saved."""

    number: int
    when: str
    who: str
    why: str
    fingerprint: str  # of what the knowledge said; empty where it could not be used
    files: tuple[str, ...]


def keep_version(
    place: Workplace, members: Mapping[str, bytes], *, who: str, why: str, fingerprint: str
) -> Version:
    """Store the files that the knowledge names; its own record last, so that half is none."""
    number = max((version.number for version in list_versions(place)), default=0) + 1
    names = tuple(name for name in named_files(members) if name == FILE or is_own(place, name))
    made = Version(number, now(), who, why, fingerprint, names)
    folder = place.state / "versions" / f"{number:04d}"
    try:
        for name in names:
            path = folder / "files" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, members[name])
        write_whole(folder / "version.json", json.dumps(asdict(made), ensure_ascii=False, indent=1))
    except OSError as error:
        raise FedloreError(
            f"the files are saved, but no version of them could be kept: {error.strerror}"
        ) from None
    return made


def list_versions(place: Workplace) -> list[Version]:
    """All versions there are, the first one first."""
    folder = place.state / "versions"
    if not folder.is_dir():
        return []
    return sorted(_read(folder), key=lambda version: version.number)


def _read(folder: Path) -> Iterator[Version]:
    for part in folder.iterdir():
        try:
            said = json.loads((part / "version.json").read_text(encoding="utf-8"))
            if _NUMBER.fullmatch(part.name) and int(part.name) == said["number"]:
                yield Version(**{**said, "files": tuple(said["files"])})
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a version half written, or a folder of somebody else


def version_files(place: Workplace, number: int) -> dict[str, bytes]:
    """The files of a version by name, knowledge.toml under that name."""
    version = next((v for v in list_versions(place) if v.number == number), None)
    if version is None:
        raise FedloreError(f"there is no version {number}")
    folder = place.state / "versions" / f"{number:04d}" / "files"
    try:
        return {name: (folder / name).read_bytes() for name in version.files}
    except OSError as error:
        raise FedloreError(f"version {number} cannot be read: {error.strerror}") from None


def named_files(members: Mapping[str, bytes]) -> list[str]:
    """knowledge.toml and every file that it names and that is there."""
    names = [FILE]
    try:
        values = tomllib.loads(members[FILE].decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return names
    for text in _texts(values):
        if text not in names and re.search(r"\.\w{1,8}$", text) and text in members:
            names.append(text)
    return names


def _texts(values: Any) -> Iterator[str]:
    """The texts in the sources of a file, and the name of its examples."""
    if isinstance(values, str):
        if len(values) < 200 and "\n" not in values:
            yield values
    elif isinstance(values, Mapping):
        for key, part in values.items():
            if key not in ("card", "features", "classes"):
                yield from _texts(part)
    elif isinstance(values, list):
        for part in values:
            yield from _texts(part)
