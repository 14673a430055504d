"""Seconds and memory of reading a training table: what `run` and a site do before they learn.

Each way of reading has a process of its own, in which everything is imported and a small table has
been read before; memory is how far its resident set rises above that, at its peak. The peer is the
same file read whole by pyarrow and put into one array of float32, the simple way. A limit is stated
in times the array itself, rows x columns x 4 bytes.
"""

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from setting import machine, write_csv

from fedlore.data import read_measured, read_table
from fedlore.kernel.schema import Feature, Schema

LIMIT = 3.0  # times the array itself
LIMIT_SECONDS = 5.0
CLASSES = ("soft", "firm", "hard")
PART = 100_000  # rows written at a time


def schema_of(columns: int) -> Schema:
    return Schema(tuple(Feature(f"f{i}") for i in range(columns)), CLASSES, "grade")


def write_rows(folder: Path, rows: int, columns: int) -> Path:
    """Rows as other programs write them: float64, in row groups of a million."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    drawn = np.random.default_rng(0)
    parts = []
    for start in range(0, rows, PART):
        n = min(PART, rows - start)
        named = {f"f{i}": drawn.normal(size=n) for i in range(columns)}
        named |= {"grade": drawn.choice(CLASSES, n), "heat": drawn.normal(size=n)}
        parts.append(pa.table(named))
    path = folder / "rows.parquet"
    pq.write_table(pa.concat_tables(parts), path, row_group_size=1 << 20)
    return path


def classes(path: Path, schema: Schema) -> object:
    return read_table(path, schema, label="grade")


def numbers(path: Path, schema: Schema) -> object:
    return read_measured(path, schema, label="heat")


def whole(path: Path, schema: Schema) -> object:
    """The peer: everything at once, then one array."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=[*schema.names, "grade"], use_threads=False)
    x = np.column_stack([table.column(name).to_numpy() for name in schema.names])
    return x.astype(np.float32), table.column("grade").to_pylist()


WAYS: dict[str, Callable[[Path, Schema], object]] = {
    "pyarrow, whole": whole,
    "a class for each row": classes,
    "a number for each row": numbers,
}


def resident(word: str) -> int:
    """Bytes of this process in memory: VmRSS now, VmHWM at its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(word):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {word}")


def measure(way: str, path: Path, small: Path, columns: int) -> dict[str, float]:
    """Seconds, core seconds and bytes above what there was before."""
    torch.set_num_threads(1)
    read, schema = WAYS[way], schema_of(columns)
    read(small, schema)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, wall, core = resident("VmRSS"), time.perf_counter(), time.process_time()
    kept = read(path, schema)
    found = {"seconds": time.perf_counter() - wall, "core_seconds": time.process_time() - core}
    found["bytes"] = float(resident("VmHWM") - before)
    del kept
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", default="benchmarks/results/read.csv")
    options = parser.parse_args()
    array = options.rows * options.columns * 4
    found: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        path = write_rows(Path(name) / "all", options.rows, options.columns)
        small = write_rows(Path(name) / "few", 1000, options.columns)
        fresh = multiprocessing.get_context("spawn")
        for way in WAYS:
            each = []
            for _ in range(options.repeats):
                with fresh.Pool(1) as pool:
                    each.append(pool.apply(measure, (way, path, small, options.columns)))
            best = {key: min(one[key] for one in each) for key in each[0]}
            peak = max(one["bytes"] for one in each)
            row: dict[str, object] = {
                "what": way,
                "rows": options.rows,
                "columns": options.columns,
                "seconds": round(best["seconds"], 2),
                "core_seconds": round(best["core_seconds"], 2),
                "peak_mb": round(peak / 2**20),
                "times_the_array": round(peak / array, 2),
                **machine(),
            }
            found.append(row)
            print(json.dumps(row))
    write_csv(found, options.out)


if __name__ == "__main__":
    main()
