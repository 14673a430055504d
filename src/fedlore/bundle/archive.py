"""One folder or one `.lore` zip: named bytes, a manifest of their hashes, all or nothing.

The members of a zip are stored, never compressed: weights do not compress, and what is not inflated
cannot explode. Its comment is the SHA-256 of every byte before it, so that a change is found even
where no member lies.
"""

import os
import re
import secrets
import shutil
import stat
import struct
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from ..checker.bundles import MANIFEST
from ..checker.certificate import digest, manifest
from ..core.store import sync_folder, write_whole
from ..errors import FedloreError

_LARGEST = 1 << 30  # bytes of all members together
MOST = 1_000  # members
CATALOGUE = 1 << 20  # bytes of a zip's own list of members

Members = Mapping[str, bytes]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MARK = b"fedlore sha256 "
_COMMENT = len(_MARK) + 64
_END = struct.Struct("<4s4H2LH")  # the end record of a zip
_MOMENT = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever it is written


class Refused(FedloreError):
    """A file that is not a bundle, or not the one that was written."""

    kind = "bundle-damaged"


def manifest_of(members: Members) -> bytes:
    """A line per member, as `sha256sum -c` reads them."""
    return manifest({name: digest(data) for name, data in members.items() if name != MANIFEST})


def fingerprint_of(members: Members) -> str:
    """One hash over everything: that of the manifest."""
    return digest(manifest_of(members))


def read_members(path: str | Path) -> dict[str, bytes]:
    """All members, without the manifest, once every check has passed."""
    path = Path(path)
    try:
        found = _read_folder(path) if path.is_dir() else _read_zip(path)
    except OSError as error:
        raise Refused(f"cannot read '{path}': {error.strerror or error}") from None
    said = found.pop(MANIFEST, None)
    if said is None:
        raise Refused(f"'{path}' is not a fedlore bundle: it has no {MANIFEST}")
    if said != manifest_of(found):
        raise Refused(f"'{path}' is damaged: {_difference(said, found)}")
    return found


def write_members(members: Members, path: str | Path) -> None:
    """Write a zip (`.lore`) or a folder, all of it or nothing.

    After a crash a zip is the old one or the new one. A folder is too, but between two renamings
    it may be gone: then the old one lies beside it, under a hidden name that ends in `.old`.
    """
    path = Path(path)
    whole = {**members, MANIFEST: manifest_of(members)}
    for name in whole:
        _check_name(name, path)
    if sum(map(len, whole.values())) > _LARGEST:
        raise FedloreError(f"a bundle may hold {_LARGEST >> 20} MiB, this one would hold more")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".lore":
            if path.is_dir():
                raise FedloreError(f"'{path}' is a folder: choose another name for the file")
            write_whole(path, _zip(whole))
        else:
            _replace_folder(path, whole)
    except OSError as error:
        raise FedloreError(
            f"cannot write '{path}': {error.strerror or error}; what was there before is safe"
        ) from None


def _read_folder(path: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    sizes = 0
    for place in sorted(path.iterdir()):
        _check_name(place.name, path)
        about = place.lstat()
        if not stat.S_ISREG(about.st_mode):
            raise Refused(f"'{path}' is not a fedlore bundle: '{place.name}' is not a plain file")
        sizes += about.st_size
        _check_size(path, sizes, len(found))
        found[place.name] = place.read_bytes()
    return found


def _read_zip(path: Path) -> dict[str, bytes]:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < _END.size + _COMMENT:
            raise Refused(f"'{path}' is not a fedlore bundle: it has {size} bytes")
        if size > _LARGEST + CATALOGUE:
            raise Refused(f"'{path}' is too large for a bundle: {size} bytes, {_LARGEST} at most")
        data = file.read()
    body, comment = data[:-_COMMENT], data[-_COMMENT:]
    if not data.startswith(b"PK") or not comment.startswith(_MARK):
        raise Refused(
            f"'{path}' is not a fedlore bundle, or the file is cut off (was the copy "
            "interrupted?); a zip made by hand is read as a folder: unpack it"
        )
    if comment != _comment_of(body):
        raise Refused(f"'{path}' is damaged: its checksum does not match")
    if body.rfind(b"PK\x05\x06") != len(body) - _END.size:  # a reader of zips takes the last one
        raise Refused(f"'{path}' is not a fedlore bundle: the zip ends twice")
    _, _, _, _, _, catalogue, _, _ = _END.unpack(body[-_END.size :])
    # a reader of zips makes an object per entry, so the list is measured before it is read
    if catalogue > CATALOGUE or body[-_END.size - 20 :].startswith(b"PK\x06\x07"):
        raise Refused(f"'{path}' is not a fedlore bundle: its list of members is too long")
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            return _unpack(path, archive)
    except FedloreError:
        raise
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError) as error:
        raise Refused(f"'{path}' is damaged: {error}") from None


def _unpack(path: Path, archive: zipfile.ZipFile) -> dict[str, bytes]:
    """What the zip declares is checked in full before any of it is read."""
    entries = archive.infolist()
    for entry in entries:
        _check_name(entry.filename, path)
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise Refused(f"'{path}' is not a fedlore bundle: '{entry.filename}' is a link")
    _check_size(path, sum(entry.file_size for entry in entries), len(entries))
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise Refused(
                f"'{path}' is not a fedlore bundle: '{entry.filename}' is compressed "
                f"({entry.compress_size} bytes for {entry.file_size}); members are stored as are"
            )
    names = [entry.filename for entry in entries]
    if len(set(names)) != len(names):
        raise Refused(f"'{path}' is not a fedlore bundle: it holds a member twice")
    return {entry.filename: archive.read(entry) for entry in entries}


def _check_name(name: str, path: Path) -> None:
    if not _NAME.fullmatch(name):
        raise Refused(
            f"'{path}' is not a fedlore bundle: the member {name[:100]!r} is not a plain file name"
        )


def _check_size(path: Path, size: int, members: int) -> None:
    if size > _LARGEST:
        raise Refused(
            f"'{path}' is too large for a bundle: its members declare {size} bytes, "
            f"{_LARGEST} at most"
        )
    if members > MOST:
        raise Refused(f"'{path}' is not a fedlore bundle: it has more than {MOST} members")


def _difference(said: bytes, found: Members) -> str:
    """The first member that is not what the manifest says."""
    listed = {}
    for line in said.decode("utf-8", "replace").splitlines():
        hashed, _, name = line.partition("  ")
        listed[name] = hashed
    for name in sorted({*listed, *found}):
        if name not in found:
            return f"the member '{name[:100]}' is missing"
        if name not in listed:
            return f"the member '{name}' is not in its manifest"
        if listed[name] != digest(found[name]):
            return f"'{name}' is not what was written"
    return f"{MANIFEST} is not what was written"


def _comment_of(body: bytes) -> bytes:
    return _MARK + digest(body).encode()


def _zip(members: Members) -> bytes:
    room = BytesIO()
    with zipfile.ZipFile(room, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, members[name])
        archive.comment = b" " * _COMMENT  # its length is part of what is hashed
    body = room.getvalue()[:-_COMMENT]
    return body + _comment_of(body)


def _replace_folder(path: Path, members: Members) -> None:
    """A new folder takes the old one's name; only a bundle or nothing is ever replaced."""
    if path.exists() and not (path.is_dir() and _only_a_bundle(path)):
        raise FedloreError(f"'{path}' is there and is not a fedlore bundle: choose another name")
    part = _hidden_name(path)
    part.mkdir()
    old = part.with_name(f"{part.name}.old")
    try:
        for name, data in members.items():
            with open(part / name, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        sync_folder(part)
        if path.exists():
            os.rename(path, old)  # a folder in use cannot be replaced in one step
        try:
            os.rename(part, path)
        except OSError:
            if old.exists():
                os.rename(old, path)
            raise
        sync_folder(path.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _only_a_bundle(path: Path) -> bool:
    """Whether a folder holds nothing, or nothing but what its manifest names."""
    there = {place.name for place in path.iterdir()}
    if not there or MANIFEST not in there:
        return not there
    lines = (path / MANIFEST).read_text(encoding="utf-8", errors="replace").splitlines()
    return there <= {MANIFEST, *(line.partition("  ")[2] for line in lines)}


def _hidden_name(path: Path) -> Path:
    """A new hidden name in the same folder; what is made there has the rights the user sets."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")
