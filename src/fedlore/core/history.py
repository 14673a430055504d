"""What happened, as flat rows of plain values."""

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..errors import FedloreError

Row = Mapping[str, str | int | float | bool | None]


def write_rows(rows: Iterable[Row], path: str | Path) -> None:
    """Write rows as jsonl, all or nothing."""
    path = Path(path)
    temporary = _beside(path)
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(dict(row), allow_nan=False) + "\n")
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def check_writable(path: str | Path) -> None:
    """Refuse an output file before the work that fills it, not after."""
    os.unlink(_beside(Path(path)))


def _beside(path: Path) -> str:
    """A temporary file in the same folder, so that moving it into place is one step."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise FedloreError(f"cannot write to '{path.parent}': {error.strerror}") from None
    os.close(handle)
    return temporary


def read_rows(path: str | Path) -> list[Row]:
    """Read rows that `write_rows` wrote."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]
