"""Where each approach wins on the simulated plants: one setting changed at a time.

python -m studies.sensitivity --seeds 5 > table.md
"""

import argparse
import sys
from dataclasses import replace

import torch

from fedlore.experiments.approaches import APPROACHES
from fedlore.experiments.intervals import interval
from fedlore_coke.demo import Demo, means, run_demo
from fedlore_coke.plants import coking_plants

BASE = Demo()
SETTINGS: tuple[tuple[str, Demo], ...] = (
    ("the demo", BASE),
    ("experts miss less (1.5 points, truth simpler)", replace(BASE, unseen=1.5)),
    ("P-KM worse by up to 2 points", replace(BASE, blur=2.0)),
    ("P-KM worse by up to 4 points", replace(BASE, blur=4.0)),
    ("ranges 1.5 times as wide", replace(BASE, slack=1.5)),
    ("ranges 2 times as wide", replace(BASE, slack=2.0)),
    ("half the rows", replace(BASE, rows=(20, 30, 40, 55))),
    ("3 times the rows", replace(BASE, rows=(120, 180, 240, 330))),
    ("10 times the rows", replace(BASE, rows=(400, 600, 800, 1100))),
    ("15 rounds instead of 40", replace(BASE, rounds=15)),
    ("120 rounds instead of 40", replace(BASE, rounds=120)),
)


def width(demo: Demo, seed: int) -> float:
    """Mean number of grades that the ranges allow on test rows."""
    plants = coking_plants(seed, unseen=demo.unseen, slack=demo.slack, rows=demo.rows)
    shares = [p.knowledge.audit(p.test).width or 0.0 for p in plants]
    return sum(shares) / len(shares)


def row(name: str, demo: Demo, seeds: range) -> str:
    """One line of the table: mean TA per approach, the best in bold."""
    rows = [r for seed in seeds for r in run_demo(demo, seed=seed)]
    found = {a: 100 * interval(v).mean for a, v in means(rows, "ta").items()}
    best = max(found.values())
    cells = [f"**{v:.1f}**" if v == best else f"{v:.1f}" for v in found.values()]
    wide = sum(width(demo, seed) for seed in seeds) / len(seeds)
    return " | ".join(["", name, f"{wide:.1f}", *cells, ""]).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds = range(options.seeds)
    names = [a.name for a in APPROACHES]
    print("| " + " | ".join(["setting", "grades in range", *names]) + " |")
    print("|---|" + "---|" * (len(names) + 1))
    for i, (name, demo) in enumerate(SETTINGS):
        print(f"{i + 1}/{len(SETTINGS)} {name}", file=sys.stderr)
        print(row(name, demo, seeds), flush=True)


if __name__ == "__main__":
    main()
