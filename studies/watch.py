"""How often a watch cries wolf, and how soon it names what changed: simulated plants, year by year.

python -m studies.watch --years 2000 --changed 200 --out results/watch.md

A plant has 17 measured properties of its coal, twelve rules over two of them that are right in
95 % of the rows, a range two grades wide on either side, and a model. 250 rows a year are
labelled. The year before gives the claims. Then years are watched in which nothing changes; and
such in which one rule is right in 75 % only, or one property moves by half a standard deviation,
from the first row on or after half a year.
"""

import argparse
import itertools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedlore import Knowledge, Personal
from fedlore.bundle import Bundle, bundle_of
from fedlore.bundle.monitor import MonitorReport, monitor_rows, open_record
from fedlore.core.nets import mlp
from fedlore.core.scaler import Scaler
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.tables.sheets import table_of

YEAR = 250
FEATURES, GRADES = 17, 8
SCHEMA = Schema(
    tuple(Feature(f"p{i}", "", -6.0, 6.0) for i in range(FEATURES)),
    tuple(f"CSR{40 + 3 * i}" for i in range(GRADES)),
    "grade",
    ordered=True,
)
CUTS = (-10.0, -0.6745, 0.0, 0.6745, 10.0), (-10.0, -0.4307, 0.4307, 10.0)  # even shares


def make_plant() -> Bundle:
    """A bundle with twelve rules, each for a twelfth of the rows."""
    predict, limits = [], []
    for (i, j), n in zip(itertools.product(range(4), range(3)), range(12), strict=True):
        cell = {
            "p0": f"{CUTS[0][i]}..{CUTS[0][i + 1]}",
            "p1": f"{CUTS[1][j]}..{CUTS[1][j + 1]}",
        }
        said = 2 + (i + j) % 4
        names = SCHEMA.classes
        predict.append(cell | {"then": names[said], "rule": f"rule {n}"})
        limits.append(cell | {"then": f"{names[said - 2]}..{names[said + 2]}"})
    knowledge = Knowledge(
        table_of(predict, SCHEMA, kind="predict", policy="first"),
        table_of(limits, SCHEMA, kind="range", policy="union"),
        0.5,
        schema=SCHEMA,
        outside="widen",
    )
    model = mlp(FEATURES, GRADES, hidden=(8,), seed=0)
    zeros, ones = torch.zeros(FEATURES).double(), torch.ones(FEATURES).double()
    return bundle_of(Personal(model, knowledge, scaler=Scaler(zeros, ones)), "plant", schema=SCHEMA)


def draw_rows(
    draw: np.random.Generator, n: int, *, wrong_rule: int | None = None, moved: int | None = None
) -> tuple[Tensor, Tensor]:
    """Rows and grades; one rule may have become worse, one property may have moved."""
    x = draw.normal(size=(n, FEATURES))
    if moved is not None:
        x[:, moved] += 0.5
    i, j = (np.digitize(x[:, c], CUTS[c][1:-1]) for c in (0, 1))
    rule, said = 3 * i + j, 2 + (i + j) % 4
    right = np.where(rule == wrong_rule, 0.75, 0.95)
    off = np.where(draw.random(n) < 0.5, -1, 1) * (draw.random(n) >= right)
    return torch.from_numpy(x).float(), torch.from_numpy(said + off)


def watch_years(plant: Bundle, seed: int, parts: Sequence[tuple[Tensor, Tensor]]) -> MonitorReport:
    """A record with the claims of the year before, and all that came after."""
    before = draw_rows(np.random.default_rng((seed, 1)), YEAR)
    with tempfile.TemporaryDirectory() as folder:
        record = open_record(Path(folder) / "watch", plant, reference=before)
        record.seed = seed
        x, y = (torch.cat([part[k] for part in parts]) for k in (0, 1))
        return monitor_rows(record, plant, x, y)


def false_alarms(plant: Bundle, years: int) -> float:
    """The share of years without any change that raise an alarm."""
    wolf = 0
    for seed in range(years):
        rows = draw_rows(np.random.default_rng((seed, 2)), YEAR)
        wolf += bool(watch_years(plant, seed, [rows]).alarms)
    return wolf / years


def delays(plant: Bundle, runs: int, calm: int, *, rule: bool) -> list[float]:
    """Rows after the change, those on which the rule fires, until it is named."""
    found = []
    for seed in range(10_000, 10_000 + runs):
        draw = np.random.default_rng((seed, 3))
        quiet = draw_rows(draw, calm)
        changed = draw_rows(draw, 12 * 120, wrong_rule=5) if rule else draw_rows(draw, 500, moved=9)
        told = watch_years(plant, seed, [quiet, changed])
        name = "rule 5'" if rule else "input p9"
        one = next(j for j in told.judgements if name in j.question.name)
        reached = np.flatnonzero(one.course.capital >= np.log(one.needed))
        before = one.rows - len(one.course.capital)
        if rule:
            x = quiet[0].numpy()
            fired = (np.digitize(x[:, 0], CUTS[0][1:-1]) == 1) & (
                np.digitize(x[:, 1], CUTS[1][1:-1]) == 2
            )
            before += int(fired.sum())
        else:
            before += calm
        found.append(float(reached[0] + 1 - before) if len(reached) else np.inf)
    return found


def main(said: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=2000)
    parser.add_argument("--changed", type=int, default=200)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args(said)
    torch.set_num_threads(1)
    plant = make_plant()
    lines = [
        "# What a watch notices (simulated plants)",
        "",
        f"{args.years} years of {YEAR} rows without a change: "
        f"{false_alarms(plant, args.years):.2%} raise an alarm (at most 5 % promised).",
        "",
        "| change | rows watched before | median rows until named | 80 % | named |",
        "|---|---|---|---|---|",
    ]
    for rule, what in ((True, "a rule, 95 to 75 % right"), (False, "a property, half a deviation")):
        for calm in (0, YEAR // 2):
            times = np.array(delays(plant, args.changed, calm, rule=rule))
            early = np.sort(times)[[len(times) // 2, int(0.8 * len(times))]]
            named = np.isfinite(times).mean()
            lines.append(f"| {what} | {calm} | {early[0]:.0f} | {early[1]:.0f} | {named:.0%} |")
    lines += ["", "Rows until a rule is named are those on which it fires.", ""]
    text = "\n".join(lines)
    print(text)
    if args.out is not None:
        args.out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
