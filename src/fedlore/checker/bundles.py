"""A bundle's bytes: its members, their hashes, and its weights, read without fedlore."""

import hashlib
import json
import math
import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import KnowledgeError

Array = np.ndarray
MANIFEST = "manifest.sha256"
LARGEST = 1 << 30
NEAR = 1e-9  # by which weights may miss a sum of 1
_MEMBER = re.compile(
    r"bundle\.json|holdings\.json|signature\.json|card\.md|knowledge\.toml"
    r"|(weights|ensemble)\.safetensors"
    r"|[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.csv"
)
_KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I32": "<i4", "I16": "<i2"}


def read_members(path: Path) -> dict[str, bytes]:
    """The members of a folder or a zip, once they are what the manifest says."""
    try:
        if path.is_dir():
            found = {place.name: place.read_bytes() for place in path.iterdir() if place.is_file()}
        else:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
                if sum(entry.file_size for entry in entries) > LARGEST:
                    raise KnowledgeError("the bundle is too large")
                if len({entry.filename for entry in entries}) < len(entries):
                    raise KnowledgeError("a member of the bundle stands there twice")
                found = {entry.filename: archive.read(entry) for entry in entries}
    except (OSError, zipfile.BadZipFile) as error:
        raise KnowledgeError(f"cannot read the bundle: {error}") from None
    said = found.pop(MANIFEST, None)
    if said is None:
        raise KnowledgeError(f"the bundle has no {MANIFEST}")
    if said != manifest(found):
        raise KnowledgeError("a member of the bundle is not what its manifest says")
    odd = sorted(name for name in found if not _MEMBER.fullmatch(name))
    if odd:
        raise KnowledgeError(f"the bundle has a member {odd[0]!r} that the checker does not know")
    return found


def manifest(members: Mapping[str, bytes]) -> bytes:
    """A line with its hash for every member; the hash of these lines is the bundle's own."""
    return "".join(f"{digest(members[name])}  {name}\n" for name in sorted(members)).encode()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def knowledge_texts(members: Mapping[str, bytes]) -> dict[str, str]:
    """The members that the knowledge is made of, as text."""
    return {
        name: data.decode("utf-8")
        for name, data in members.items()
        if name == "knowledge.toml" or name.endswith(".csv")
    }


def read_weights(data: bytes) -> dict[str, Array]:
    """The tensors of a safetensors file."""
    try:
        (size,) = struct.unpack("<Q", data[:8])
        head = json.loads(data[8 : 8 + size])
        tensors = {}
        for name, about in head.items():
            if name == "__metadata__":
                continue
            begin, end = about["data_offsets"]
            flat = np.frombuffer(data[8 + size + begin : 8 + size + end], _KINDS[about["dtype"]])
            tensors[name] = flat.reshape(about["shape"])
        return tensors
    except (KeyError, ValueError, struct.error, TypeError) as error:
        raise KnowledgeError(f"the weights cannot be read: {error}") from None


def faults(weights: Mapping[str, Array], declared: Mapping[str, Any]) -> list[str]:
    """What is wrong with weights: names, shapes, bytes, or numbers that are not finite."""
    found = []
    for name in sorted({*weights, *declared}):
        if name not in weights or name not in declared:
            found.append(
                f"'{name}' is not in {'the file' if name in declared else 'the certificate'}"
            )
            continue
        values, said = weights[name], declared[name]
        if list(values.shape) != list(said["shape"]):
            found.append(f"'{name}' has shape {list(values.shape)}, declared is {said['shape']}")
        elif not np.isfinite(values).all():
            found.append(f"'{name}' is not finite")
        elif digest(np.ascontiguousarray(values).tobytes()) != said["sha256"]:
            found.append(f"'{name}' has other values than certified")
    return found


def mixture_faults(ensemble: Mapping[str, Any], tensors: Mapping[str, Array]) -> list[str]:
    """What is wrong with a mixture: weights that are none, or numbers that are not finite."""
    weights = [ensemble["network"], ensemble["expert"], *(m["weight"] for m in ensemble["members"])]
    if any(type(w) not in (int, float) or not 0.0 <= w <= 1.0 for w in weights):
        return ["a weight does not lie in [0, 1]"]
    if abs(math.fsum(weights) - 1.0) > NEAR:
        return [f"the weights sum to {math.fsum(weights):g}, not to 1"]
    return [
        f"'{name}' is not finite"
        for name, values in sorted(tensors.items())
        # a threshold may be infinite
        if (np.isnan(values) if name.endswith(".threshold") else ~np.isfinite(values)).any()
    ][:1]


def pick_tensors(tensors: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """The tensors of one member, by their own names."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
