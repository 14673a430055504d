"""Rows per second of `fedlore predict` on one core: an MLP behind a table of 20 rules.

The whole command path, from a file to a file of answers with every column but the reasons, for CSV
and Parquet, and `answer_rows` alone in memory. "mixture" is an ordinal head with a forest, boosted
trees and a linear model beside it, behind both tables. "bare network" is the same network by itself
(scaled rows in, probabilities out), so the ratio says what names, rules and files cost. Core
seconds leave out what other work on the machine took and count all threads. Nothing is written
unless --out.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from setting import machine, write_csv

from fedlore import Knowledge, Personal
from fedlore.bundle import Bundle, answer_rows, bundle_of, reasons
from fedlore.bundle.files import predict_file
from fedlore.core.nets import mlp
from fedlore.core.ordinal import ordered_mlp
from fedlore.core.rng import stream
from fedlore.core.scaler import Scaler
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.tables.sheets import table_of
from fedlore.knowledge.tables.table import Table
from fedlore.models.ensemble import Ensemble
from fedlore.models.own.linear import Linear
from fedlore.models.own.members import OrderMember
from fedlore.models.own.trees import LEAF, Trees

LIMIT = 300_000  # rows a second on one core
LIMIT_PARQUET = 500_000  # the same from and to Parquet
LIMIT_MIXTURE = 30_000  # the same for a mixture with trees


def schema_of(features: int, classes: int) -> Schema:
    columns = tuple(Feature(f"f{i}", "%", -4.0, 4.0) for i in range(features))
    return Schema(columns, tuple(f"g{i}" for i in range(classes)), "grade")


def rules(schema: Schema, count: int, *, ranges: bool) -> Table:
    """Random rules of two conditions each."""
    d, k = len(schema.features), len(schema.classes)
    drawn = torch.rand(count, 5, generator=stream("predict", count, int(ranges))).tolist()
    rows = []
    for a, b, low, high, grade in drawn:
        first = int(a * d)
        second = (first + 1 + int(b * (d - 1))) % d
        cells = {f"f{first}": f"> {low:.3f}", f"f{second}": f"<= {high:.3f}"}
        g = int(grade * k)
        outcome = f"g{int(grade * 3)}..g{k - 3}" if ranges else f"g{g}"
        rows.append({**cells, "then": outcome})
    return table_of(rows, schema, kind="range" if ranges else "predict")


def write_rows(x: np.ndarray, schema: Schema, folder: Path) -> dict[str, Path]:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.table({name: x[:, i] for i, name in enumerate(schema.names)})
    paths = {"csv": folder / "rows.csv", "parquet": folder / "rows.parquet"}
    pyarrow.csv.write_csv(table, paths["csv"])
    pyarrow.parquet.write_table(table, paths["parquet"])
    paths["european"] = folder / "european.csv"  # as spreadsheets write it where 0,5 is a half
    text = paths["csv"].read_text()
    paths["european"].write_text(text.replace(",", ";").replace(".", ","))
    return paths


def seconds(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """The shortest time, on the clock and on the core."""
    found = []
    for _ in range(repeats):
        wall, core = time.perf_counter(), time.process_time()
        call()
        found.append((time.perf_counter() - wall, time.process_time() - core))
    return min(w for w, _ in found), min(c for _, c in found)


def calls(
    bundle: Bundle, x: torch.Tensor, paths: dict[str, Path], folder: Path
) -> dict[str, tuple[Callable[[], object], int]]:
    inner = bundle.personal
    assert isinstance(inner, Personal)

    @torch.no_grad()
    def bare() -> None:
        for part in x.split(4096):
            assert inner.scaler is not None
            inner.model(inner.scaler(part), None, None).softmax(1)

    few = x[:20_000]
    return {
        "bare network, memory": (bare, len(x)),
        "answer_rows, memory": (lambda: answer_rows(bundle, x), len(x)),
        "parquet to parquet": (
            lambda: predict_file(bundle, paths["parquet"], folder / "out.parquet"),
            len(x),
        ),
        "csv to csv": (lambda: predict_file(bundle, paths["csv"], folder / "out.csv"), len(x)),
        "semicolon and comma to csv": (
            lambda: predict_file(bundle, paths["european"], folder / "out.csv"),
            len(x),
        ),
        "csv to csv without pyarrow": (
            lambda: predict_file(bundle, paths["csv"], folder / "slow.csv", fast=False),
            len(x),
        ),
        "reasons, memory": (lambda: reasons(bundle, few), len(few)),
    }


def limit_of(kind: str, what: str) -> int:
    """How many rows a core should answer in a second; with decimal commas 1.3 times longer."""
    if kind == "mixture":
        return LIMIT_MIXTURE
    whole = LIMIT_PARQUET if "parquet" in what else LIMIT
    return round(whole / 1.3) if "comma" in what else whole


def grown(features: int, count: int, depth: int) -> Trees:
    """Complete trees with random thresholds, as many and as deep as a site's own are."""
    inner, size = 2**depth - 1, 2 ** (depth + 1) - 1
    node = torch.arange(size)
    leaf = node >= inner
    draw = stream("predict", "trees", count)
    feature = torch.randint(features, (count, size), generator=draw).masked_fill(leaf, LEAF)
    first = size * torch.arange(count).unsqueeze(1)
    leaves = (node - inner) + 2**depth * torch.arange(count).unsqueeze(1)
    return Trees(
        feature.flatten().to(torch.int16),
        torch.randn(count * size, generator=draw),
        torch.where(leaf, leaves, first + 2 * node + 1).flatten().to(torch.int32),
        first.flatten().to(torch.int32),
        torch.rand(count * 2**depth, 1, generator=draw),
        torch.zeros(count, dtype=torch.int16),
        torch.zeros(1, dtype=torch.float64),
        torch.full((1,), 1.0 / count, dtype=torch.float64),
        depth,
    )


def mixture(schema: Schema, known: Knowledge, x: torch.Tensor, trees: int, depth: int) -> Personal:
    """An ordinal head with a forest, boosted trees of a third as many, and a linear model."""
    d, k = len(schema.features), len(schema.classes)
    line = Linear(*(torch.ones(*s, dtype=torch.float64) for s in ((d,), (d,), (d, 1), (1,))))
    members = (
        OrderMember("forest", grown(d + 3, trees, depth), True, True, 1.0, k),
        OrderMember("boosted", grown(d + 3, trees // 3, 3), True, True, 1.0, k),
        OrderMember("ordinal", line, False, False, 1.0, k),
    )
    ensemble = Ensemble(members, (0.2, 0.2, 0.2), 0.3, 0.1)
    return Personal(ordered_mlp(d, k), known, scaler=Scaler.of(x), ensemble=ensemble)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--features", type=int, default=12)
    parser.add_argument("--classes", type=int, default=8)
    parser.add_argument("--rules", type=int, default=20)
    parser.add_argument("--hidden", type=int, nargs="*", default=[64, 64])
    parser.add_argument("--trees", type=int, default=300, help="of the mixture's forest")
    parser.add_argument("--depth", type=int, default=7, help="of those trees")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", help="a CSV file for the rows")
    options = parser.parse_args()
    import pyarrow as pa

    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    schema = schema_of(options.features, options.classes)
    x = torch.randn(options.rows, options.features, generator=stream("predict", "rows"))
    allowed = rules(schema, options.rules, ranges=True)
    said = rules(schema, options.rules, ranges=False)
    kinds = {
        "range": Knowledge(None, allowed, schema=schema),
        "prediction": Knowledge(said, None, 0.3, schema=schema),
        "both": Knowledge(said, allowed, 0.3, schema=schema),
        "mixture": Knowledge(said, allowed, 0.3, schema=schema),
    }
    found: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_rows(np.round(x.numpy().astype(np.float64), 3), schema, folder)
        for kind, known in kinds.items():
            if kind == "mixture":
                personal = mixture(schema, known, x, options.trees, options.depth)
            else:
                network = mlp(options.features, options.classes, hidden=options.hidden)
                personal = Personal(network, known, scaler=Scaler.of(x))
            bundle = bundle_of(personal, "bench")
            base = 0.0
            for what, (call, rows) in calls(bundle, x, paths, folder).items():
                slow = "without" in what or "reasons" in what
                wall, core = seconds(call, 1 if slow else options.repeats)
                base = base or core / rows
                found.append(
                    {
                        "table": kind,
                        "what": what,
                        "rows": rows,
                        "rules": options.rules,
                        "network": "-".join(
                            map(str, (options.features, *options.hidden, options.classes))
                        ),
                        "rows_per_second": round(rows / wall),
                        "rows_per_core_second": round(rows / core),
                        "of_limit": round(rows / core / limit_of(kind, what), 2),
                        "ratio_to_bare": round(core / rows / base, 2),
                        **machine(),
                        "pyarrow": pa.__version__,
                    }
                )
                row = found[-1]
                print(
                    f"{kind:10} {what:27} {row['rows_per_second']:>10,} rows/s "
                    f"{row['rows_per_core_second']:>10,} per core second"
                )
    if options.out:
        write_csv(found, options.out)


if __name__ == "__main__":
    main()
