"""What is frozen of a case: hashes of answers and graphs, findings; and how it is compared.

`python -m tests.golden.frozen` writes it anew; do so only for a change that is meant.
"""

import json
import os
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np

from . import surface
from .cases import HERE, Files, read_cases
from .rows import COUNT, csv_of, matrix_of, rows_of

FROZEN = HERE / "frozen.json"
NETS = HERE / "nets.npz"
BLOCK = 100  # rows per checksum: where something changed
NET_ROWS = 100
#: Networks sum floats in an order that the processor chooses: bits there are asked for by name.
WITHIN = 0.0 if os.environ.get("FEDLORE_GOLDEN") == "bits" else 1e-5


def write_files(files: Files, folder: Path) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


def checksums(values: list[str] | np.ndarray) -> str:
    """A checksum per block of rows, exact to the bit; all NaN are one, and so are both zeros."""
    if isinstance(values, list):
        blocks = ["\n".join(values[i : i + BLOCK]).encode() for i in range(0, len(values), BLOCK)]
    else:
        if values.dtype.kind == "f":
            values = np.where(np.isnan(values), values.dtype.type(np.nan), values + 0.0)
        whole = np.ascontiguousarray(values)
        blocks = [whole[i : i + BLOCK].tobytes() for i in range(0, len(whole), BLOCK)]
    return " ".join(f"{zlib.crc32(block):08x}" for block in blocks)


def look(name: str, files: Files, folder: Path) -> dict:
    """Findings, answers with a network of zeros, and outputs of its graph."""
    write_files(files, folder)
    rows = rows_of(name, files, COUNT)
    place = folder / "rows.csv"
    place.write_text(csv_of(files, rows))
    found: dict = {"findings": surface.findings(folder / "knowledge.toml")}
    lore = surface.bundle(folder, seed=None)
    said = surface.answers(lore, place)
    found["refused"] = sum(map(bool, said["refused"]))
    found["answers"] = {column: checksums(cells) for column, cells in said.items()}
    outputs = surface.graph(lore, matrix_of(files, rows))
    found["graph"] = {output: checksums(np.asarray(v)) for output, v in outputs.items()}
    found["data"] = surface.findings(
        folder / "knowledge.toml", _labelled(name, files, rows, said, folder)
    )
    return found


def _labelled(name: str, files: Files, rows, said: dict, folder: Path) -> Path:
    """Rows inside the scope that are answered, with labels drawn from what was answered."""
    usable = [i for i in range(len(rows)) if said["in_scope"][i] == "true"][:400]
    answer = next(iter(said))
    draw = np.random.default_rng(zlib.crc32(f"labels {name}".encode()))
    labels = draw.permutation([said[answer][i] for i in usable])
    lines = csv_of(files, [rows[i] for i in usable]).splitlines()
    place = folder / "labelled.csv"
    head, *body = lines
    joined = [f"{line},{label}" for line, label in zip(body, labels, strict=True)]
    place.write_text("\n".join([f"{head},{answer}", *joined]) + "\n")
    return place


def look_net(name: str, files: Files, folder: Path) -> np.ndarray:
    """Numbers of a few rows with a drawn network: from the answers, then from the graph."""
    write_files(files, folder)
    rows = rows_of(name, files, NET_ROWS)
    place = folder / "rows.csv"
    place.write_text(csv_of(files, rows))
    lore = surface.bundle(folder, seed=1)
    said = surface.answers(lore, place)
    first = next(iter(said))
    numbers = [c for c in said if c.startswith("p_")] or [first, "interval_low", "interval_high"]
    mine = np.array([[float(cell or "nan") for cell in said[c]] for c in numbers]).T
    outputs = surface.graph(lore, matrix_of(files, rows))
    theirs = [np.asarray(outputs[n]).reshape(len(rows), -1) for n in list(outputs)[:2]]
    return np.concatenate([mine, *theirs], 1).astype(np.float32)


def freeze(only: list[str]) -> None:
    cases = read_cases()
    known = json.loads(FROZEN.read_text()) if only else {}
    nets = dict(np.load(NETS)) if only else {}
    for name, files in cases.items():
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            known[name] = look(name, files, Path(folder))
            nets[name] = look_net(name, files, Path(folder))
    FROZEN.write_text(json.dumps(known, indent=0, ensure_ascii=False) + "\n")
    np.savez_compressed(NETS, **nets)


if __name__ == "__main__":
    freeze(sys.argv[1:])
