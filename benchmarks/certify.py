"""A certificate of 200 rules and 5 formulas over 20 features: issued, and checked by the checker.

The prediction must stay in the range by itself (`conflict = "error"`), so that every rule has to
be held against every formula; no class is allowed everywhere. The checker runs alone, on one core,
as `python checker`. Nothing is written unless --out.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from setting import machine, write_csv

from fedlore import checker
from fedlore.bundle import Bundle, bundle_of, write_bundle
from fedlore.bundle.certify import certify, write_certificate
from fedlore.bundle.onnx import write_bundle_onnx
from fedlore.core.nets import mlp
from fedlore.knowledge import (
    AllOf,
    Feature,
    FirstOf,
    Formula,
    FormulaRange,
    GradedFormula,
    Knowledge,
    Schema,
    table_of,
)
from fedlore.models.classifier import Personal

FEATURES, EDGES = 20, (20.0, 40.0, 60.0, 80.0)
CLASSES = tuple(f"g{grade}" for grade in range(len(EDGES) + 1))
MEAN = "(x0 + x1) / 2"
LIMITS = (  # each holds the mean of x0 and x1, by a margin that hangs on other features
    (f"{MEAN} - 6 - 0.1 * x2", f"{MEAN} + 6 + sqrt(x3)"),
    (f"min({MEAN} - 7, 85 - log(x4 + 2))", f"max({MEAN} + 7, 12 + 3 * exp(-x5 / 50))"),
)


def rules(draw: np.random.Generator, count: int, *, ranges: bool) -> list[dict[str, str]]:
    """Each has a cell of x0 and x1 and conditions on others; its classes fit the cell's means."""
    found = []
    for place in range(count):
        at = place % 10, place // 10 % 10
        cells = {f"x{i}": "-" for i in range(FEATURES)}
        for column, low in enumerate(at):
            cells[f"x{column}"] = f"[{10 * low}..{10 * low + 10})" if low < 9 else ">= 90"
        for column in draw.choice(np.arange(2, FEATURES), 2, replace=False):
            low = int(draw.integers(0, 60))
            cells[f"x{column}"] = f"[{low}..{low + int(draw.integers(20, 40))}]"
        least = 5.0 * sum(at)  # of the means in the cell; the last cells hold their end as well
        most = least + (10.0 if 9 in at else 9.99)
        first, last = np.searchsorted(EDGES, [least, most], side="right")
        then = f"{CLASSES[first]}..{CLASSES[last]}" if ranges else CLASSES[first]
        found.append(cells | {"then": then})
    return found


def made(count: int) -> Bundle:
    """A site whose rules and formulas agree, but not in any one class."""
    draw = np.random.default_rng(0)
    schema = Schema(tuple(Feature(f"x{i}", low=0, high=100) for i in range(FEATURES)), CLASSES)
    limits = [
        FormulaRange(*(Formula.parse(text, schema) for text in pair), EDGES) for pair in LIMITS
    ]
    predict = table_of(rules(draw, count // 2, ranges=False), schema, kind="predict")
    formula = GradedFormula(Formula.parse(MEAN, schema), EDGES)
    ranged = table_of(rules(draw, count - count // 2, ranges=True), schema, kind="range")
    knowledge = Knowledge(
        FirstOf((predict, formula)),
        AllOf((ranged, *limits)),
        0.4,
        conflict="error",
        schema=schema,
    )
    return bundle_of(Personal(mlp(FEATURES, len(CLASSES), hidden=(32,)), knowledge), "site")


def run_checker(certificate: Path, subject: Path) -> tuple[int, float, str]:
    """The exit code, the seconds of processor time and the last line of the checker."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, str(Path(checker.__file__).parent), str(certificate), str(subject)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, used, done.stdout


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--rules", type=int, default=200)
    ask.add_argument("--out", help="a CSV file for the rows")
    asked = ask.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bundle, place = made(asked.rules), Path(folder)
        start = time.process_time()
        values = certify(bundle)
        rows.append(row("certify", asked.rules, time.process_time() - start, values["verdict"]))
        write_certificate(values, place / "c.json")
        write_bundle(bundle, place / "site.lore")
        write_bundle_onnx(bundle, place / "site.onnx")
        for subject in ("site.lore", "site.onnx"):
            code, used, text = run_checker(place / "c.json", place / subject)
            print(text)
            rows.append(row(f"checker, {subject}", asked.rules, used, f"exit code {code}"))
    for one in rows:
        print(f"{one['what']:22} {one['seconds']:7.1f} s  {one['result']}")
    print(" ".join(f"{key}={value}" for key, value in machine().items()))
    if asked.out:
        write_csv([one | machine() for one in rows], asked.out)


def row(what: str, count: int, seconds: float, result: str) -> dict[str, object]:
    return {"what": what, "rules": count, "seconds": round(seconds, 2), "result": result}


if __name__ == "__main__":
    main()
