"""Whether a site's benefit page tells the truth: its level and interval against many new rows.

python -m studies.benefit --sets coke --seeds 7100-7124 --out results/benefit.jsonl
python -m studies.benefit --sets tables --seeds 7100-7101 --out results/benefit.jsonl
python -m studies.benefit --summary results/benefit.jsonl

Each drawing trains `lore`; each site then has a page with the ensemble's accuracy or RMSE on its
own training rows and an interval. New rows of the site that nobody saw tell what the model that it
got is really worth. `coke`: the four simulated plants of the demo, 3,000 new rows each. `tables`:
ten public tables without an expert, dealt to three sites by their first column, 60 rows each to
learn from and up to 1,000 others to tell. Four come with scikit-learn, six through FEDLORE_DATA.
A drawing is written when it is done; the same command goes on. Nothing here was tuned.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedlore.algorithms import Plan
from fedlore.answers import Bins, Measured
from fedlore.core.examples import Examples
from fedlore.core.history import Row, read_rows, write_rows
from fedlore.core.rng import stream
from fedlore.core.statistics import exact_share
from fedlore.data import covtype
from fedlore.engine import Client, NumberClient, Training
from fedlore.engine.lore import train_lore
from fedlore.engine.training import Fitted
from fedlore.experiments.intervals import interval
from fedlore.knowledge.models import Knowledge
from fedlore_coke.demo import Demo
from fedlore_coke.plants import coking_plants
from fedlore_lab.paper.numbers.sets import SOURCES, load_numbers

from .seeds import parse_seeds

SITES, ROWS, TOLD = 3, 60, 1000
LEVEL = "mixture"  # the line of a page that says what the ensemble is worth


@dataclass(frozen=True, eq=False)
class Table:
    """A public table: classes, or a number with its bounds."""

    x: Tensor  # (n, d) float32
    y: Tensor  # (n,) int64 classes or float64 numbers
    bounds: tuple[float, float] | None = None


def load_sklearn(name: str) -> Table:
    from sklearn import datasets

    found = getattr(datasets, f"load_{name}")()
    x, y = torch.from_numpy(found.data).float(), torch.from_numpy(found.target)
    number = name == "diabetes"
    return Table(x, y.double() if number else y.long(), (0.0, 400.0) if number else None)


def load_numbers_table(name: str) -> Table:
    rows, source = load_numbers(name), SOURCES[name]
    return Table(rows.x, rows.y, (source.lower, source.upper))


def load_covtype() -> Table:
    rows = covtype()
    assert rows.y is not None
    return Table(rows.x, rows.y)


TABLES: dict[str, Callable[[], Table]] = {
    **{n: partial(load_sklearn, n) for n in ("wine", "breast_cancer", "digits", "diabetes")},
    "covtype": load_covtype,
    **{name: partial(load_numbers_table, name) for name in SOURCES},
}


def deal(table: Table, seed: int) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Per site which rows it learns from, and which tell."""
    order = torch.randperm(len(table.y), generator=stream(seed, "benefit"))
    order = order[table.x[order, 0].argsort(stable=True)]
    for number, mine in enumerate(order.chunk(SITES), 1):
        mine = mine[torch.randperm(len(mine), generator=stream(seed, "benefit", str(number)))]
        rows = min(ROWS, len(mine) // 2)
        yield f"site-{number}", mine[:rows], mine[rows : rows + TOLD]


def table_rows(name: str, seed: int) -> list[Row]:
    """One row a site of a public table."""
    table = TABLES[name]()
    parts, bins = list(deal(table, seed)), None
    training = Training(
        plan=Plan(epochs=5, batch=32, lr=0.05, schedule="cosine"), rounds=20, seed=seed, workers=1
    )
    members: list[Client | NumberClient] = []
    if table.bounds is None:
        for site, learn, _ in parts:
            members.append(Client(site, Examples(table.x[learn], table.y[learn]), Knowledge()))
    else:
        bins = Bins(*table.bounds, 50)
        for site, learn, _ in parts:
            data = Measured(table.x[learn], table.y[learn])
            members.append(NumberClient(site, data, Knowledge()))
    fitted = train_lore(members, training, bins=bins, hidden=(32, 32))
    told = {site: (table.x[tell], table.y[tell]) for site, _, tell in parts}
    return [_row(name, seed, site, fitted, *rows) for site, rows in told.items()]


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
    return tags | {"rows": benefit.rows, "told": len(y)} | said | {"truth": truth}


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
    parser.add_argument("--seeds", default="7100-7124")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--summary", type=Path, nargs="+")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.summary:
        print("\n".join(summary([row for path in options.summary for row in read_rows(path)])))
        return
    rows = read_rows(options.out) if options.out.exists() else []
    done = {(row["set"], row["seed"]) for row in rows}
    named = TABLES if options.sets == "tables" else options.sets.split(",")
    for seed in parse_seeds(options.seeds):
        for name in named:
            if (name, seed) not in done:
                rows += coke_rows(seed) if name == "coke" else table_rows(name, seed)
                write_rows(rows, options.out)
                print(name, seed, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
