"""A decision table of 50 rules and 10 columns over 100,000 rows, against peers in the same run.

The peers say the same: "numpy by hand" is what one would write without the library, a comparison
per rule and condition over columns laid out beforehand; "searchsorted" sorts each column with
numpy and looks the rules up, 64 to a word. zen-engine (a JSON decision engine in Rust) gets one
row at a time, as its interface has it, on fewer rows, scaled up. Nothing is written unless --out.
"""

import argparse
import importlib
import json
import time
from collections.abc import Callable

import numpy as np
import torch
from setting import machine, write_csv

from fedlore.core.rng import stream
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.findings.tables import lint_tables
from fedlore.knowledge.tables.sheets import table_of
from fedlore.knowledge.tables.table import Table

CLASSES = ("I", "II", "III", "IV", "V")
ZEN_ROWS = 500

Bounds = np.ndarray  # (rules, columns, 2): greater than, at most


def bounds(rules: int, columns: int) -> Bounds:
    """Random intervals over [0, 1], wide enough that rows are hit."""
    ends = torch.rand(rules, columns, 2, generator=stream("bench", rules, columns)).sort(2)[0]
    ends = ends + torch.tensor([-0.6, 0.6])
    return np.round(ends.numpy().astype(np.float64), 4)


def table(ends: Bounds, *, ranges: bool) -> Table:
    rules, columns, _ = ends.shape
    schema = Schema(tuple(Feature(f"f{j}", low=0, high=1) for j in range(columns)), CLASSES)
    rows = []
    for i in range(rules):
        cells = {f"f{j}": f"({ends[i, j, 0]}..{ends[i, j, 1]}]" for j in range(columns)}
        top = CLASSES[2 + i % 3]
        rows.append(cells | {"then": f"I..{top}" if ranges else CLASSES[i % len(CLASSES)]})
    return table_of(rows, schema, kind="range" if ranges else "predict")


def by_hand(ends: Bounds, columns: list[np.ndarray]) -> Callable[[], np.ndarray]:
    """The first rule that hits, one comparison after the other."""
    low, high = (ends[..., side].astype(np.float32) for side in (0, 1))

    def call() -> np.ndarray:
        said = np.full(len(columns[0]), -1)
        for i in reversed(range(len(ends))):
            hit = np.ones(len(columns[0]), dtype=bool)
            for j, column in enumerate(columns):
                hit &= (column > low[i, j]) & (column <= high[i, j])
            said[hit] = i % len(CLASSES)
        return said

    return call


def by_search(ends: Bounds, columns: list[np.ndarray]) -> Callable[[], np.ndarray]:
    """numpy's searchsorted into the intervals between thresholds, then words of rules."""
    single = ends.astype(np.float32)
    cuts = [np.unique(single[:, j]) for j in range(len(columns))]
    tables = []
    for j, cut in enumerate(cuts):  # place p: the values in (cut[p-1], cut[p]]
        words = np.zeros(len(cut) + 1, dtype=np.uint64)
        for i in range(len(ends)):
            first, last = np.searchsorted(cut, single[i, j])
            words[first + 1 : last + 1] |= np.uint64(1 << i)
        tables.append(words)

    def call() -> np.ndarray:
        words = np.full(len(columns[0]), np.uint64(2**64 - 1))
        for column, cut, options in zip(columns, cuts, tables, strict=True):
            words &= options[np.searchsorted(cut, column)]
        lowest = words & (~words + np.uint64(1))
        first = np.frexp(lowest.astype(np.float64))[1] - 1
        return np.where(first < 0, -1, first % len(CLASSES))

    return call


def by_zen(ends: Bounds, x: torch.Tensor) -> Callable[[], np.ndarray] | None:
    """zen-engine on the first rows; None where it is not installed."""
    try:
        zen = importlib.import_module("zen")
    except ImportError:
        return None
    rules, columns, _ = ends.shape
    low, high = (ends[..., side].astype(np.float32).astype(np.float64) for side in (0, 1))
    kind = {"type": "expression"}
    inputs = [{"id": f"i{j}", "name": f"f{j}", "field": f"f{j}", **kind} for j in range(columns)]
    cells = [
        {"_id": f"r{i}", "o": str(i % len(CLASSES))}
        | {f"i{j}": f"({low[i, j]!r}..{high[i, j]!r}]" for j in range(columns)}
        for i in range(rules)
    ]
    content = {
        "hitPolicy": "first",
        "inputs": inputs,
        "outputs": [{"id": "o", "name": "said", "field": "said", **kind}],
        "rules": cells,
    }
    nodes = [
        {"id": "in", "type": "inputNode", "name": "in", "position": {"x": 0, "y": 0}},
        {"id": "t", "type": "decisionTableNode", "name": "t", "content": content}
        | {"position": {"x": 1, "y": 0}},
        {"id": "out", "type": "outputNode", "name": "out", "position": {"x": 2, "y": 0}},
    ]
    edges = [
        {"id": f"{a}-{b}", "type": "edge", "sourceId": a, "targetId": b}
        for a, b in (("in", "t"), ("t", "out"))
    ]
    decision = zen.ZenEngine().create_decision(json.dumps({"nodes": nodes, "edges": edges}))
    rows = [{f"f{j}": value for j, value in enumerate(row)} for row in x[:ZEN_ROWS].tolist()]

    def call() -> np.ndarray:
        answers = [decision.evaluate(row)["result"] or {} for row in rows]
        return np.array([int(answer.get("said", -1)) for answer in answers])

    return call


def milliseconds(
    calls: dict[str, Callable[[], object]], repeats: int
) -> dict[str, tuple[float, float]]:
    """The shortest time of each call, on the clock and on the core; the calls take turns.

    The second leaves out what other work on the machine took, and counts all threads.
    """
    clocks = (time.perf_counter, time.process_time)
    times: dict[str, list[list[float]]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = [clock() for clock in clocks]
            call()
            spent = [1e3 * (clock() - then) for clock, then in zip(clocks, start, strict=True)]
            times[name].append(spent)
    return {
        name: (min(w for w, _ in some), min(c for _, c in some)) for name, some in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rules", type=int, default=50)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--lint", type=int, default=10_000, help="rules of the table to lint")
    parser.add_argument("--out", help="a CSV file for the rows")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ends = bounds(options.rules, options.columns)
    x = torch.rand(options.rows, options.columns, generator=stream("bench"))
    columns = [np.ascontiguousarray(x[:, j].numpy()) for j in range(options.columns)]
    predict, allowed = table(ends, ranges=False), table(ends, ranges=True)
    hand = by_hand(ends, columns)
    calls: dict[str, Callable[[], object]] = {
        "fedlore predict, first": lambda: predict(x),
        "fedlore range, intersect": lambda: allowed(x),
        "fedlore hits": lambda: predict.hits(x),
        "numpy by hand": hand,
    }
    rows_of = dict.fromkeys(calls, options.rows)
    said = predict(x)
    ours = torch.where(said.any(1), said.argmax(1), -1).numpy()
    agree = {"numpy by hand": bool((hand() == ours).all())}
    if options.rules <= 64:
        search = by_search(ends, columns)
        calls["numpy searchsorted"], rows_of["numpy searchsorted"] = search, options.rows
        agree["numpy searchsorted"] = bool((search() == ours).all())
    zen = by_zen(ends, x)
    if zen is None:
        print("note: zen-engine is not installed, it is left out (pip install zen-engine)")
    else:
        calls["zen-engine"], rows_of["zen-engine"] = zen, min(ZEN_ROWS, options.rows)
        agree["zen-engine"] = bool((zen() == ours[:ZEN_ROWS]).all())
    spent = milliseconds(calls, options.repeats)
    base = spent["fedlore predict, first"][1]
    where = {**machine(), "numpy": np.__version__}
    found: list[dict[str, object]] = []
    for name, (wall, core) in spent.items():
        scale = options.rows / rows_of[name]
        found.append(
            {
                "what": name,
                "rows": options.rows,
                "rules": options.rules,
                "columns": options.columns,
                "timed_rows": rows_of[name],
                "ms": round(wall * scale, 2),
                "core_ms": round(core * scale, 2),
                "ratio": round(core * scale / base, 2),
                "equal": agree.get(name, ""),
                **where,
            }
        )
    if options.lint:
        large = table(bounds(options.lint, options.columns), ranges=False)
        left: list[str] = []

        def lint() -> None:
            left[:] = [f.message for f in lint_tables([large]) if f.kind == "gave-up"]

        wall, core = milliseconds({"lint": lint}, 1)["lint"]
        found.append(
            found[0]
            | {"what": "fedlore lint, no data", "rows": 0, "timed_rows": 0, "rules": options.lint}
            | {"ms": round(wall, 2), "core_ms": round(core, 2), "ratio": "", "equal": ""}
        )
        print("\n".join(message[:100] for message in left))
    print(f"{'':28} {'ms':>10} {'core ms':>10} {'ratio':>8}  equal")
    for row in found:
        times = f"{row['ms']:>10} {row['core_ms']:>10} {row['ratio']:>8}"
        print(f"{row['what']:28} {times}  {row['equal']}")
    print(" ".join(f"{key}={value}" for key, value in where.items()))
    if options.out:
        write_csv(found, options.out)


if __name__ == "__main__":
    main()
