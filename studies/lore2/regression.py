"""Own models, the shared network and their mixture on five real data sets, honest ranges.

python -m studies.lore2.regression --first 100 --seeds 3 --data FOLDER --out rows.jsonl

What is in the file already is not run again. Without --run only the tables are printed.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from fedlore.answers import Bins
from fedlore.experiments.intervals import interval, pair_interval
from fedlore.knowledge.numbers import Told
from fedlore.knowledge.numbers.scores import all_scores
from fedlore.personal.own import (
    NumberMixture,
    Own,
    number_weights,
    own_numbers,
    start_weights,
)
from fedlore.personal.own.members import NumberVoice
from fedlore_lab.paper.numbers.sets import SOURCES, Site, load, sites
from studies.lore2.network import Network, train

Row = dict[str, float | int | str]
SETS = ("coal", "ccpp", "concrete", "california", "casp")


def run(dataset: str, seed: int, folder: str | None) -> list[Row]:
    """All rows of one data set and seed."""
    bins = Bins(SOURCES[dataset].lower, SOURCES[dataset].upper, 2)
    own_sites = sites(load(dataset, folder), seed=seed)
    told = [_told(s, bins) for s in own_sites]
    own = [
        own_numbers(known, seed=seed, site=s.id)
        for s, (known, _) in zip(own_sites, told, strict=True)
    ]
    networks = train([known for known, _ in told], [o.folds for o in own], seed=seed)
    found: list[Row] = []
    for site, (known, test), models, nets in zip(own_sites, told, own, networks, strict=True):
        where: Row = {"dataset": dataset, "seed": seed, "client": site.id}
        for name, numbers in _approaches(known, test, models, nets):
            assert test.y is not None and test.sets is not None
            found.append({**where, "approach": name, **all_scores(numbers, test.y, test.sets)})
    return found


def _told(site: Site, bins: Bins) -> tuple[Told, Told]:
    """Training and test rows with the expert's word as it is at prediction."""
    known = site.knowledge["honest"]
    train, test = (known.examine(d, bins, training=False) for d in (site.train, site.test))
    return train, test


def _approaches(
    known: Told, test: Told, own: Own, nets: Sequence[Network]
) -> Iterable[tuple[str, Tensor]]:
    assert test.said is not None and known.y is not None
    members = [c.member for c in own.candidates]
    yield "P-KM", test.said
    for member in members:
        yield member.name, _number(member, test)
    yield "own best", _number(own.best.member, test)
    yield "network", nets[-1].number(test)
    held = torch.empty(len(known), dtype=torch.float64)
    for fold, net in enumerate(nets[:-1]):
        out = own.folds == fold
        held[out] = net.number(known[out])
    voices: list[NumberVoice] = [nets[-1], *members]
    every = [held, *(c.held for c in own.candidates)]
    weights = number_weights(every, known.y, start_weights(1, len(members)))
    yield "mixture", NumberMixture(tuple(voices), tuple(weights.tolist())).number(test)
    alone = number_weights(every[1:], known.y, start_weights(0, len(members)))
    yield (
        "mixture of own models",
        NumberMixture(tuple(voices[1:]), tuple(alone.tolist())).number(test),
    )


def _number(member: object, known: Told) -> Tensor:
    found: Tensor = member.number(known)
    return found


def table(rows: Sequence[Row]) -> str:
    """Mean RMSE by approach and data set, and the mixture's paired lead over own best."""
    names = list(dict.fromkeys(str(r["approach"]) for r in rows))
    here = [s for s in SETS if any(r["dataset"] == s for r in rows)]
    lines = ["| | " + " | ".join(here) + " |", "|---" * (len(here) + 1) + "|"]
    for name in names:
        cells = [f"{interval(_by_seed(rows, name, s)).mean:.4g}" for s in here]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    for ours in ("mixture", "network"):
        cells = []
        for s in here:
            gap = pair_interval(_by_seed(rows, ours, s), _by_seed(rows, "own best", s))
            cells.append(f"{gap.mean:+.3g} ± {gap.half:.2g}")
        lines.append("| " + " | ".join([f"{ours} - own best, paired 95 %", *cells]) + " |")
    worst = max(float(r["pov"]) for r in rows)
    return "\n".join(lines) + f"\n\nviolations: {worst:g}\n"


def _by_seed(rows: Sequence[Row], approach: str, dataset: str) -> list[float]:
    cells: dict[int, list[float]] = {}
    for row in rows:
        if (row["approach"], row["dataset"]) == (approach, dataset):
            cells.setdefault(int(row["seed"]), []).append(float(row["rmse"]))
    return [sum(v) / len(v) for _, v in sorted(cells.items())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--data")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[Row] = []
    if options.out.exists():
        rows = [json.loads(line) for line in options.out.read_text().splitlines()]
    seeds = range(options.first, options.first + options.seeds)
    have = {(r["dataset"], r["seed"]) for r in rows}
    for seed in seeds if options.run else ():
        for dataset in options.sets:
            if (dataset, seed) not in have:
                new = run(dataset, seed, options.data)
                rows += new
                with options.out.open("a") as file:
                    file.writelines(json.dumps(row) + "\n" for row in new)
    print(table([r for r in rows if r["seed"] in seeds]))


if __name__ == "__main__":
    main()
