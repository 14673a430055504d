"""Whole runs of `fedlore run` in a pipe: 50 sites of 500 rows, and 200,000 rows of 30 columns.

    PYTHONPATH=src python benchmarks/many.py --out benchmarks/results/many.csv

At most 5 and 6 minutes are asked for on two quiet cores, with a line of progress each minute. The
load before each run stands beside its time, and the processor time of all its processes, which
other work on the machine does not lengthen.
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

CASES = {"50 sites x 500 rows": (50, 500, 10, 300), "200,000 x 30": (4, 50_000, 30, 360)}
SETTING = 'name = "{name}"\nrounds = 10\n[run]\nsites = "sites"\n[model]\nhidden = [32, 32]\n'


def write_sites(folder: Path, sites: int, rows: int, columns: int) -> None:
    """Sites with three classes by a rule with noise, and an expert who sees one column."""
    dice = np.random.default_rng(0)
    names = [f"x{i}" for i in range(columns)]
    for site in range(sites):
        home = folder / "sites" / f"site-{site + 1:02d}"
        home.mkdir(parents=True)
        x = dice.normal(0.1 * (site % 5), 1.0, (rows, columns)).clip(-6, 6)
        level = x[:, 0] + 0.5 * x[:, 1] * x[:, 2] + dice.normal(0, 0.5, rows)
        grade = 1 + (level > -0.5).astype(int) + (level > 0.7).astype(int)
        lines = [",".join([*names, "grade"])]
        lines += [
            ",".join([*(f"{v:.4g}" for v in row), f"g{g}"]) for row, g in zip(x, grade, strict=True)
        ]
        (home / "train.csv").write_text("\n".join(lines) + "\n")
        text = 'label = "grade"\nclasses = ["g1", "g2", "g3"]\nordered = true\noutside = "widen"\n'
        for name in names:
            text += f'[[features]]\nname = "{name}"\nlow = -6\nhigh = 6\n'
        text += '[[predict.sources]]\nformula = "x0"\nedges = [-0.5, 0.7]\n'
        (home / "knowledge.toml").write_text(text)


def run_in_pipe(
    words: list[str], progress: Path, limit: float | None
) -> subprocess.CompletedProcess[str]:
    """A command whose progress goes to a file; what there was of it where it takes too long."""
    asked = [sys.executable, "-m", "fedlore", *words]
    with open(progress, "w") as file:
        try:
            return subprocess.run(
                asked, stdout=subprocess.PIPE, stderr=file, text=True, timeout=limit
            )
        except subprocess.TimeoutExpired:
            raise SystemExit(f"not done after {limit:g} s\n{progress.read_text()}") from None


def processor() -> float:
    """Seconds of processor time of all processes that this one started and that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--limit", type=float, help="Seconds after which a run is ended.")
    parser.add_argument("--only", nargs="*", default=list(CASES))
    given = parser.parse_args()
    found: list[dict[str, object]] = []
    for name in given.only:
        sites, rows, columns, most = CASES[name]
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            write_sites(folder, sites, rows, columns)
            (folder / "federation.toml").write_text(SETTING.format(name=name))
            load, began, before = os.getloadavg()[0], time.perf_counter(), processor()
            words = ["run", str(folder / "federation.toml"), "--out", str(folder / "o")]
            seen = folder / "progress.txt"
            done = run_in_pipe(words, seen, given.limit)
            seconds = time.perf_counter() - began
            told = seen.read_text()
        if done.returncode:
            raise SystemExit(told)
        lines = [line for line in told.splitlines() if "approach" in line]
        row = {"case": name, "seconds": round(seconds, 1), "asked": most, "load": load}
        row |= {"processor": round(processor() - before, 1), "lines of progress": len(lines)}
        found.append({**row, **machine()})
        print(done.stdout, told, found[-1], sep="\n", flush=True)
    if given.out:
        write_csv(found, given.out)


if __name__ == "__main__":
    main()
