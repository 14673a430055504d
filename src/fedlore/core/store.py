"""What is kept on disk: files replaced whole, and tensors as safetensors.

A safetensors file is eight bytes with the length of a JSON header, the header with kind, shape and
place of each tensor, and their bytes. It is written here in the order of the safetensors library,
so that both write the same bytes. A file of fedlore's own has a checksum of itself in its header.
"""

import hashlib
import importlib
import json
import math
import os
import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from ..errors import FedloreError
from .tree import Params, Payload, flatten

_FAULT = "storage"  # the code of errors raised here
__all__ = ["replacing", "write_whole"]

#: By the names of the format, in the order in which the library writes the kinds.
TENSOR_KINDS = {
    "I64": torch.int64,
    "F64": torch.float64,
    "F32": torch.float32,
    "I32": torch.int32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_WORDS = {kind: word for word, kind in TENSOR_KINDS.items()}
_PLACES = {kind: place for place, kind in enumerate(TENSOR_KINDS.values())}
_SEAL = b'{"__metadata__":{"sha256":"'  # how the header of a sealed file begins
_BLANK = b"0" * 64  # what stands in the place of the checksum while it is worked out


class Unreadable(FedloreError):
    """Bytes that are not the tensors that were written."""


@contextmanager
def replacing(path: Path, *, sync: bool = True, private: bool = False) -> Iterator[BinaryIO]:
    """A new file that takes this name when all is written; a crash leaves the old one or the new.

    With `sync` both the bytes and the name are on the disk afterwards. A private file can be read
    by its owner alone, from its first byte on.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    rights = 0o600 if private else 0o666  # less what the user's mask takes away
    handle = os.open(
        part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), rights
    )
    try:
        with open(handle, "wb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # a full disk names no file
            error.filename = str(path)
        raise
    if sync:
        sync_folder(path.parent)


def write_whole(path: Path, data: bytes | str, *, sync: bool = True, private: bool = False) -> None:
    """Write a file, all or nothing."""
    with replacing(path, sync=sync, private=private) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that nobody but its owner may read."""
    write_whole(path, data, private=True)


def clear_parts(folder: Path, names: str = "*") -> None:
    """Remove what killed writers left of such files; for who is alone in a folder."""
    for part in folder.glob(f".{names}.part"):
        part.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last, not only the files."""
    if os.name == "nt":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def pack_tensors(bundle: Params, about: Mapping[str, str] | None = None) -> bytes:
    """Named tensors as safetensors, with words about them."""
    for name, t in bundle.items():
        if t.dtype not in _WORDS:
            raise FedloreError(f"'{name}' holds {t.dtype}, which no tensor file holds")
    names = sorted(bundle, key=lambda name: (_PLACES[bundle[name].dtype], name))
    head: dict[str, Any] = {"__metadata__": dict(about)} if about else {}
    place = 0
    for name in names:
        t = bundle[name]
        end = place + t.numel() * t.itemsize
        kind = _WORDS[t.dtype]
        head[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [place, end]}
        place = end
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of eight
    return len(text).to_bytes(8, "little") + text + to_bytes({n: bundle[n] for n in names})


def unpack_tensors(data: bytes) -> tuple[Params, dict[str, str]]:
    """The tensors of safetensors bytes and the words about them; nothing is believed unchecked."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise Unreadable("a header that is longer than the file")
    try:
        head = json.loads(data[8 : 8 + size].decode(), object_pairs_hook=_once)
        about = head.pop("__metadata__", {})
        entries = {name: _entry(value) for name, value in head.items()}
        if not all(isinstance(word, str) for word in about.values()):
            raise ValueError("its metadata holds values that are not text")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"a header that cannot be read: {str(error)[:80]}") from None
    bundle: Params = {}
    place, body = 0, memoryview(data)[8 + size :]
    for name, (kind, shape, begin, end) in sorted(entries.items(), key=lambda e: e[1][2:]):
        if begin != place or end - begin != math.prod(shape) * kind.itemsize or end > len(body):
            raise Unreadable(f"'{name}' does not lie where tensors of its shape do")
        bundle[name] = _tensor(body[begin:end], kind, shape)
        place = end
    if place != len(body):
        raise Unreadable(f"{len(body) - place} bytes behind the last tensor")
    return bundle, about


def pack_payload(payload: Payload, about: Mapping[str, Any]) -> bytes:
    """Bundles of tensors and plain values about them, under a checksum of everything."""
    names = {key: list(bundle) for key, bundle in payload.items()}  # keeps order, and empty ones
    header = json.dumps({"about": dict(about), "bundles": names}, allow_nan=False)
    data = pack_tensors(flatten(payload), {"sha256": _BLANK.decode(), "fedlore": header})
    place = 8 + len(_SEAL)
    return data[:place] + _checksum(data) + data[place + len(_BLANK) :]


def unpack_payload(data: bytes) -> tuple[dict[str, Any], Payload]:
    """What `pack_payload` packed; anything else is `Unreadable`."""
    place = 8 + len(_SEAL)
    if data[8:place] != _SEAL:
        raise Unreadable("not a file that fedlore wrote")
    if data[place : place + len(_BLANK)] != _checksum(data):
        raise Unreadable("its checksum is wrong")
    bundle, words = unpack_tensors(data)
    try:
        found = json.loads(words["fedlore"])
        payload = {
            key: {name: bundle[f"{key}/{name}"] for name in names}
            for key, names in found["bundles"].items()
        }
        return dict(found["about"]), payload
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unreadable("not a file that fedlore wrote") from None


def _checksum(data: bytes) -> bytes:
    """Of a sealed file, as if the place of the checksum were blank."""
    place, whole = 8 + len(_SEAL), memoryview(data)
    found = hashlib.sha256(whole[:place])
    found.update(_BLANK)
    found.update(whole[place + len(_BLANK) :])
    return found.hexdigest().encode()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _entry(value: Any) -> tuple[torch.dtype, tuple[int, ...], int, int]:
    begin, end = value["data_offsets"]
    numbers = [*value["shape"], begin, end]
    if not all(type(n) is int and n >= 0 for n in numbers):
        raise ValueError("shapes and places must be whole numbers")
    return TENSOR_KINDS[value["dtype"]], tuple(value["shape"]), begin, end


DTYPES = {str(kind).removeprefix("torch."): kind for kind in TENSOR_KINDS.values()}

Layout = list[tuple[str, str, tuple[int, ...]]]  # name, kind and shape of each tensor in order


def layout_of(bundle: Params) -> Layout:
    """What stands where in the bytes of a bundle."""
    return [(n, str(t.dtype).removeprefix("torch."), tuple(t.shape)) for n, t in bundle.items()]


def read_layout(found: Any) -> Layout:
    """A layout as it arrives from elsewhere; what is none is refused."""
    entries = map(_layout_entry, found if isinstance(found, list) else [found])
    return [(name, str(kind).removeprefix("torch."), shape) for name, kind, shape in entries]


def to_bytes(bundle: Params) -> bytes:
    return b"".join(_bytes(t) for t in bundle.values())


def bytes_of_layout(layout: Sequence[Any]) -> int:
    """How many bytes a layout asks for."""
    return sum(math.prod(shape) * kind.itemsize for _, kind, shape in map(_layout_entry, layout))


def from_bytes(layout: Sequence[Any], data: bytes | bytearray) -> Params:
    """The bundle that has this layout; bytes that do not fit it are refused."""
    bundle: Params = {}
    place = 0
    for entry in layout:
        name, kind, shape = _layout_entry(entry)
        end = place + math.prod(shape) * kind.itemsize
        if end > len(data):
            break
        bundle[name] = _tensor(memoryview(data)[place:end], kind, shape)
        place = end
    if len(bundle) != len(layout) or place != len(data):
        raise FedloreError(f"{len(data)} bytes do not fit a layout of {len(layout)} tensors")
    return bundle


def _layout_entry(entry: Any) -> tuple[str, torch.dtype, tuple[int, ...]]:
    try:
        name, kind, shape = entry
        sizes = tuple(shape)
        legal = isinstance(name, str) and all(type(n) is int and n >= 0 for n in sizes)
        if legal:
            return name, DTYPES[kind], sizes
    except (KeyError, TypeError, ValueError):
        pass
    raise FedloreError(f"no such entry in a layout: {str(entry)[:80]}")


def _tensor(data: memoryview, kind: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    piece = bytearray(data)  # a copy of its own: the tensor may be written to
    flat = torch.frombuffer(piece, dtype=kind) if piece else torch.empty(0, dtype=kind)
    return flat.view(shape)


def _bytes(t: Tensor) -> bytes:
    return t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


_WINDOWS: bool = sys.platform == "win32"
_PATIENCE = 0.05  # seconds between two looks at a byte that somebody else holds


def lock_file(handle: int, *, wait: bool) -> None:
    """Hold a file for this process until it is closed; without `wait` an OSError says it is held.

    The modules are looked up by name: each exists on its own system alone.
    """
    if not _WINDOWS:
        unix = importlib.import_module("fcntl")
        unix.flock(handle, unix.LOCK_EX | (0 if wait else unix.LOCK_NB))
        return
    windows = importlib.import_module("msvcrt")
    while True:
        os.lseek(handle, 0, os.SEEK_SET)
        try:
            windows.locking(handle, windows.LK_NBLCK, 1)
            return
        except OSError:
            if not wait:
                raise
            time.sleep(_PATIENCE)


@contextmanager
def owner_only() -> Iterator[None]:
    """What is written meanwhile nobody but its owner can read."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def hold_lock(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file: two processes on one folder would spoil each other's books."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            lock_file(file.fileno(), wait=False)
        except OSError:
            raise FedloreError(f"{what} is running already (lock '{path}')") from None
        yield
