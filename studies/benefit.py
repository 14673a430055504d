"""Whether a site's benefit page tells the truth: its level and interval against many new rows.

python -m studies.benefit --sets coke --seeds 800-824 --out results/benefit.jsonl
python -m studies.benefit --sets tables --seeds 800 --out results/benefit.jsonl
python -m studies.benefit --summary results/benefit.jsonl

Each drawing trains `lore`; each site then has a page with the ensemble's accuracy or RMSE on its
own training rows and an interval. New rows of the site that nobody saw tell what the model that it
got is really worth. `coke`: the four simulated plants of the demo, 3,000 new rows each. `tables`:
the ten of `studies.tables` with their rules, 60 rows a site to learn from and up to 1,000 others to
tell. A drawing is written when it is done; the same command goes on. Nothing here was tuned.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedlore.core.history import Row, read_rows, write_rows
from fedlore.core.statistics import exact_share
from fedlore.engine import Client, Training
from fedlore.engine.lore import train_lore
from fedlore.engine.training import Fitted
from fedlore.experiments.intervals import interval
from fedlore.experiments.runner import train_approach
from fedlore.experiments.sites import gather
from fedlore_coke.demo import Demo
from fedlore_coke.plants import coking_plants

from .seeds import parse_seeds
from .tables import TABLES, write_folder

TOLD = 1000  # new rows of a site of a table, at most
LEVEL = "mixture"  # the line of a page that says what the ensemble is worth


def table_rows(name: str, seed: int) -> list[Row]:
    """One row a site of a public table."""
    table = next(one for one in TABLES if one.name == name)
    with tempfile.TemporaryDirectory() as place:
        write_folder(table, Path(place), seed, tested=TOLD)
        gathering = gather(Path(place) / "federation.toml")
    lore = next(one for one in gathering.approaches if one.name == "lore")
    fitted = train_approach(lore, gathering.drawing())
    told = [(client.id, client.test) for client in gathering.clients]
    return [_row(name, seed, site, fitted, one.x, one.y) for site, one in told if one is not None]


def coke_rows(seed: int) -> list[Row]:
    """One row a simulated plant."""
    demo, plants = Demo(), coking_plants(seed, test_rows=3000)
    clients = [Client(p.id, p.train, p.knowledge) for p in plants]
    training = Training(plan=demo.plan, rounds=demo.rounds, seed=seed, workers=1)
    fitted = train_lore(clients, training, ordered=True, hidden=demo.hidden)
    return [_row("coke", seed, p.id, fitted, p.test.x, p.test.y) for p in plants]


@torch.no_grad()
def _row(name: str, seed: int, site: str, fitted: Fitted[Any], x: Tensor, y: Any) -> Row:
    benefit = fitted.benefit(site)
    line = next(one for one in benefit.lines if one.name == LEVEL)
    missed = fitted.model(site).predict(x) - y
    if benefit.measure == "accuracy":
        truth = float(missed.eq(0).double().mean())
    else:
        truth = float(missed.double().square().mean().sqrt())
    said: Row = {"value": line.value, "low": line.low, "high": line.high}
    tags: Row = {"set": name, "seed": seed, "site": site, "measure": benefit.measure}
    return tags | {"rows": benefit.rows, "tested": len(y)} | said | {"truth": truth}


def summary(rows: Sequence[Row]) -> list[str]:
    """A line for each set, and one for all tables."""
    lines = [
        "| set | measure | sites | page less new rows | interval holds | share, with 95 % |",
        "|---|---|---|---|---|---|",
    ]
    sets = {str(row["set"]): [r for r in rows if r["set"] == row["set"]] for row in rows}
    sets["all tables"] = [row for row in rows if row["set"] != "coke"]
    for name, mine in sets.items():
        if not mine:
            continue
        low, high, said, truth = (
            np.array([float(row[key] or 0.0) for row in mine])
            for key in ("low", "high", "value", "truth")
        )
        held = int(((low <= truth) & (truth <= high)).sum())
        ends = exact_share(held, len(mine))
        share = f"{held / len(mine):.0%} ({ends[0]:.0%} to {ends[1]:.0%})"
        measures = {str(row["measure"]) for row in mine}
        over = ""
        if measures == {"accuracy"}:
            off = interval((100 * (said - truth)).tolist())
            over = f"{off.mean:+.1f} ± {off.half:.1f} points"
        elif measures == {"rmse"}:
            off = interval((100 * (said / truth - 1)).tolist())
            over = f"{off.mean:+.1f} ± {off.half:.1f} %"
        cells = (name, ", ".join(sorted(measures)), str(len(mine)), over, str(held), share)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="coke", help="coke, tables, or names of tables")
    parser.add_argument("--seeds", default="800-824")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--summary", type=Path, nargs="+")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.summary:
        print("\n".join(summary([row for path in options.summary for row in read_rows(path)])))
        return
    rows = read_rows(options.out) if options.out.exists() else []
    done = {(row["set"], row["seed"]) for row in rows}
    every = [table.name for table in TABLES]
    named = every if options.sets == "tables" else options.sets.split(",")
    for seed in parse_seeds(options.seeds):
        for name in named:
            if (name, seed) not in done:
                rows += coke_rows(seed) if name == "coke" else table_rows(name, seed)
                write_rows(rows, options.out)
                print(name, seed, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
