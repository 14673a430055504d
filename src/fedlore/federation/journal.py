"""What must survive a crash, on disk: all or nothing, with a checksum, without pickle.

A file is a line of magic, the length of a JSON header, the header, the tensors' bytes in the order
of the header's layouts, and the SHA-256 of everything before it.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.plain import from_bytes, layout_of, size_of, to_bytes
from ..core.tree import Payload
from ..engine.loop import Run
from ..errors import FedloreError

MAGIC = b"fedlore 1\n"


class Damaged(FedloreError):
    """A file that is not what was written."""


def write_state(path: Path, header: Mapping[str, Any], payload: Payload) -> None:
    """Write tensors and a header so that a crash leaves the old file or the new one."""
    layouts = {key: layout_of(bundle) for key, bundle in payload.items()}
    head = json.dumps({"layouts": layouts, "header": dict(header)}, allow_nan=False).encode()
    body = b"".join(to_bytes(bundle) for bundle in payload.values())
    data = MAGIC + len(head).to_bytes(8, "big") + head + body
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as file:
            file.write(data + hashlib.sha256(data).digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        sync_folder(path.parent)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise FedloreError(
            f"cannot write '{path}': {error.strerror}; what was written before is safe"
        ) from None


def read_state(path: Path) -> tuple[dict[str, Any], Payload]:
    """Read what `write_state` wrote; anything else is `Damaged`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Damaged(f"cannot read '{path}': {error.strerror}") from None
    body, digest = data[:-32], data[-32:]
    if not body.startswith(MAGIC) or hashlib.sha256(body).digest() != digest:
        raise Damaged(f"'{path}' is damaged: its checksum does not fit")
    start = len(MAGIC) + 8
    place = start + int.from_bytes(body[len(MAGIC) : start], "big")
    head = json.loads(body[start:place])
    payload: Payload = {}
    for key, layout in head["layouts"].items():
        end = place + size_of(layout)
        payload[key] = from_bytes(layout, body[place:end])
        place = end
    return head["header"], payload


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last, not only the files."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True)
class Entry:
    """Where a run stood after one round."""

    run: Run
    about: dict[str, Any]  # whatever the coordinator needs to go on: the run's name, its terms
    common: Payload  # tensors that all rounds share, such as the scaling


@dataclass(frozen=True)
class Journal:
    """One file for each of the last rounds."""

    folder: Path
    keep: int = 4

    def save(self, run: Run, about: Mapping[str, Any], common: Payload | None = None) -> None:
        """Write down a round before the next one starts."""
        payload = {f"state.{key}": bundle for key, bundle in run.state.items()}
        payload |= {f"common.{key}": bundle for key, bundle in (common or {}).items()}
        rows = [dict(row) for row in run.rows]
        header = {"round": run.round, "accepted": run.accepted, "rows": rows, "about": dict(about)}
        write_state(self.folder / f"round-{run.round:06d}.journal", header, payload)
        for old in self.files()[self.keep :]:
            old.unlink(missing_ok=True)

    def files(self) -> list[Path]:
        """The newest first."""
        return sorted(self.folder.glob("round-*.journal"), reverse=True)

    def last(self) -> tuple[Entry | None, list[str]]:
        """The newest round that can be read, and what was wrong with those after it."""
        wrong = []
        for path in self.files():
            try:
                header, payload = read_state(path)
            except Damaged as error:
                wrong.append(str(error))
                continue
            run = Run(
                _part("state.", payload),
                int(header["round"]),
                {str(k): int(v) for k, v in header["accepted"].items()},
                list(header["rows"]),
            )
            return Entry(run, header["about"], _part("common.", payload)), wrong
        return None, wrong

    def clear(self) -> None:
        for path in self.files():
            path.unlink(missing_ok=True)


def _part(prefix: str, payload: Payload) -> Payload:
    return {k.removeprefix(prefix): b for k, b in payload.items() if k.startswith(prefix)}
