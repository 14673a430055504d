"""Whether sets and intervals hold: split conformal around networks at each site.

python -m studies.coverage --sets coke,coal,ccpp,concrete,california,casp --seeds 240-259 \
    --out results/coverage.jsonl
python -m studies.coverage --summary results/coverage.jsonl

Every site keeps three in ten of its training rows, the network learns from the others, and test
rows are looked at once. `own` is the model's own 90 % interval (of classes the fewest that have
90 % of its probability), `site` is calibrated on the site's kept rows. Numbers: FLwKM with 50 bins
behind honest ranges, public sets through FEDLORE_DATA. Classes: a network that hears the expert on
the simulated coke plants. Nothing here was tuned.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedlore.core.conformal import find_cut
from fedlore.core.history import Row, read_rows, write_rows
from fedlore.core.nets import mlp
from fedlore.core.rng import key, stream
from fedlore.engine import Client
from fedlore.experiments import FLWKM, LORE_1, Drawing, train_approach
from fedlore.experiments.intervals import interval
from fedlore.kernel.schema import name_columns
from fedlore.models.answers import Answers
from fedlore_coke.demo import Demo
from fedlore_coke.experts import COKE
from fedlore_coke.plants import coking_plants
from fedlore_lab.paper.number_sets import load_numbers, sites
from fedlore_lab.paper.number_study import NumberStudy, draw_numbers

from .seeds import parse_seeds

LEVEL, LEARN, BINS = 0.9, 0.7, 50


@torch.no_grad()
def number_rows(name: str, seed: int) -> list[Row]:
    """Intervals of one public set under one seed."""
    study, data = NumberStudy(name), load_numbers(name)
    drawing = draw_numbers(study, sites(data, seed=seed), BINS, seed, "honest")
    schema = name_columns(data.columns, ("low", "high"))
    parted, kept = [], []
    for client in drawing.clients:
        learn, rest = client.data.split(LEARN, stream(seed, "coverage", client.id))
        parted.append(replace(client, data=learn))
        kept.append(rest)
    fitted = train_approach(FLWKM, replace(drawing, clients=parted))
    seen = []
    for client, rest in zip(parted, kept, strict=True):
        personal, test = fitted.model(client.id), client.test
        assert test is not None
        answers = [personal.answer(schema, part.x) for part in (rest, test)]
        seen.append((client.id, *answers, rest.numbers(), test.numbers()))
    return _score(name, seed, seen)


def class_rows(seed: int) -> list[Row]:
    """Sets of grades at the simulated plants under one seed."""
    demo, plants = Demo(), coking_plants(seed)
    parts = [p.train.split(LEARN, stream(seed, "coverage", p.id)) for p in plants]
    clients = [
        Client(p.id, learn, p.knowledge) for p, (learn, _) in zip(plants, parts, strict=True)
    ]
    drawing = Drawing(
        clients,
        lambda hears: mlp(17, 20, hidden=demo.hidden, hears=hears, seed=seed),
        demo.plan,
        demo.rounds,
        seed,
        ordered=True,
    )
    fitted = train_approach(LORE_1, drawing)
    seen = []
    for plant, (_, rest) in zip(plants, parts, strict=True):
        personal = fitted.model(plant.id)
        answers = [personal.answer(COKE, e.x) for e in (rest, plant.test)]
        seen.append((plant.id, *answers, rest.y, plant.test.y))
    return _score("coke", seed, seen)


def _score(
    name: str, seed: int, seen: Sequence[tuple[str, Answers, Answers, Tensor, Tensor]]
) -> list[Row]:
    scores = [calm.misses(y) for _, calm, _, y, _ in seen]
    rows: list[Row] = []
    for (site, _, test, y, truth), mine in zip(seen, scores, strict=True):
        cuts = {"own": None, "site": find_cut(mine, LEVEL)}
        for how, cut in cuts.items():
            held, size = _held(test, truth, cut)
            rows.append(
                {"set": name, "seed": seed, "site": site, "how": how, "rows": len(y)}
                | {"tests": len(truth), "held": held, "size": size}
            )
    return rows


def _held(answers: Answers, y: Tensor, cut: float | None) -> tuple[float, float]:
    """The share of labels that are held, and how large the sets or intervals are."""
    if answers.interval is None:
        sets = _likeliest(answers) if cut is None else answers.hold(cut)
        return float(sets.gather(1, y.unsqueeze(1)).double().mean()), float(
            sets.sum(1).double().mean()
        )
    ends = answers.interval if cut is None else answers.hold(cut)
    low, high = ends.unbind(1)
    return float(((low <= y) & (y <= high)).double().mean()), float((high - low).mean())


def _likeliest(answers: Answers) -> Tensor:
    """The fewest classes whose probability is the level, as the model says it."""
    p, order = answers.probabilities.double().sort(1, descending=True)
    taken = p.cumsum(1) - p < LEVEL
    return torch.zeros_like(taken).scatter(1, order, taken) & answers.allowed


@cache
def band(rows: int, tests: int, draws: int = 20_000) -> tuple[float, float]:
    """Where the share of held test rows lies with 99 %: beta-binomial."""
    draw = np.random.default_rng(key(rows, "coverage", str(tests)))
    rank = int(np.ceil((rows + 1) * LEVEL - 1e-9))
    held = draw.binomial(tests, draw.beta(rank, rows + 1 - rank, draws)) / tests
    low, high = np.quantile(held, (0.005, 0.995))
    return float(low), float(high)


def _inside(row: Row) -> bool:
    low, high = band(int(row["rows"] or 0), int(row["tests"] or 0))
    return low <= float(row["held"] or 0.0) <= high


def summary(rows: Sequence[Row]) -> list[str]:
    """The table: a line for each set and way."""
    lines = [
        "| set | how | drawings | held, mean | lowest, highest site | mean size | in the band |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(str(row["set"]) for row in rows):
        for how in ("own", "site"):
            mine = [r for r in rows if r["set"] == name and r["how"] == how]
            seeds = sorted({int(r["seed"]) for r in mine})
            means = [np.mean([r["held"] for r in mine if r["seed"] == s]) for s in seeds]
            over = interval([100 * float(m) for m in means])
            places = sorted({str(r["site"]) for r in mine})
            each = [100 * np.mean([r["held"] for r in mine if r["site"] == p]) for p in places]
            inside = [_inside(row) for row in mine] if how == "site" else []
            cells = (
                name, how, f"{len(seeds)}", f"{over.mean:.1f} ± {over.half:.1f} %",
                f"{min(each):.1f}, {max(each):.1f} %", f"{np.mean([r['size'] for r in mine]):.3g}",
                f"{100 * np.mean(inside):.0f} %" if inside else "",
            )  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="coke,coal,ccpp,concrete,california,casp")
    parser.add_argument("--seeds", default="240-259")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--summary", type=Path, nargs="+")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.summary:
        print("\n".join(summary([row for path in options.summary for row in read_rows(path)])))
        return
    rows = read_rows(options.out) if options.out.exists() else []
    done = {(row["set"], row["seed"]) for row in rows}
    for name in options.sets.split(","):
        for seed in parse_seeds(options.seeds):
            if (name, seed) not in done:
                rows += class_rows(seed) if name == "coke" else number_rows(name, seed)
                write_rows(rows, options.out)
                print(name, seed, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
