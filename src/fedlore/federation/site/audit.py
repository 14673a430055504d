"""A site's record of what it was asked and what it sent, each line chained to the one before."""

import datetime
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core import tree
from ...core.store import write_whole
from ...core.tree import Payload
from ...errors import FedloreError

_START = "0" * 64


class AuditLog:
    """Lines of JSON. Every line carries the hash of the one before, so that none can go unseen."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hashes = read_audit(path)  # of all lines

    def lines(self) -> Iterator[dict[str, Any]]:
        """All that was written."""
        texts = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        yield from map(json.loads, filter(None, texts))

    def write(self, **facts: Any) -> None:
        """Add a line, and make it last before anything leaves the site."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, **facts, "previous": last_of(self.hashes)}, sort_keys=True)
        size = self.path.stat().st_size if self.path.exists() else 0
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            if self.path.exists():
                os.truncate(self.path, size)  # half a line would break the chain
            raise
        self.hashes.append(hashlib.sha256(line.encode()).hexdigest())


def check_audit(path: Path) -> str:
    """Follow the chain to its end; a broken one is an error, a line cut off by a crash is not."""
    return last_of(read_audit(path))


def last_of(hashes: Sequence[str]) -> str:
    """What the next line has to name."""
    return hashes[-1] if hashes else _START


def read_audit(path: Path) -> list[str]:
    """The hashes of all lines of a log whose chain holds."""
    found: list[str] = []
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            previous = json.loads(line)["previous"]
        except (json.JSONDecodeError, KeyError, TypeError):
            if number == len(lines):  # the crash came in the middle of this line
                write_whole(path, "".join(f"{whole}\n" for whole in lines[:-1]))
                break
            raise FedloreError(f"'{path}' line {number} is not an audit line") from None
        if previous != last_of(found):
            raise FedloreError(f"'{path}' line {number} does not follow from the line before it")
        found.append(hashlib.sha256(line.encode()).hexdigest())
    return found


def describe_payload(payload: Payload) -> Mapping[str, Any]:
    """Names, shapes and norms of what was sent; no values."""
    return {
        key: {
            "tensors": {name: list(t.shape) for name, t in bundle.items()},
            "norm": tree.norm({n: t.double() for n, t in bundle.items()}),
        }
        for key, bundle in payload.items()
    }
