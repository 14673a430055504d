"""How often a watch cries wolf, and how soon it names what changed: simulated plants, year by year.

python -m studies.watch --out results/watch.jsonl
python -m studies.watch --summary results/watch.jsonl

A plant has 17 measured properties of its coal, twelve rules over two of them that are right in
95 % of the rows, a range two grades wide on either side, and a model. 250 rows a year are
labelled. The year before gives the claims. Then years are watched in which nothing changes; and
such in which one rule is right in 75 % only, or one property moves by half a standard deviation,
from the first row on or after half a year. Rows are independent, or most are equal to earlier ones,
or they come in lots that share half of each property and hang together in their faults.
"""

import argparse
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.stats import beta
from torch import Tensor

from fedlore import Knowledge, Personal
from fedlore.bundle import Bundle, bundle_of
from fedlore.bundle.monitor import MeasuredRows, MonitorReport, open_record
from fedlore.bundle.monitor.judge import judge_record
from fedlore.core.history import Row, read_rows, write_rows
from fedlore.core.nets import mlp
from fedlore.core.scaler import Scaler
from fedlore.core.statistics import exact_share
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.tables.sheets import table_of

YEAR, CHANGED = 250, 1440
FILE = 125  # rows that come together
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


@dataclass(frozen=True)
class World:
    """How the rows of a year hang together."""

    name: str
    lot: int = 0  # rows of a lot, which share half of each property and their luck with rules
    coarse: bool = False  # three properties of four values each, the others the same in all rows
    uneven: bool = False  # rules that are right in 85 to 98 % of the rows


WORLDS = (
    World("independent rows"),
    World("independent rows, rules right in 85 to 98 %", uneven=True),
    World("coarse rows, most equal to earlier ones", coarse=True),
    World("lots of 5", lot=5),
    World("lots of 25", lot=25),
)
PLAIN = WORLDS[0]
RULE, PROPERTY = "a rule, 95 to 75 % right", "a property, half a deviation"
SHARED = 0.5  # of the variance of a property is its lot's
TOGETHER = 0.3  # the correlation of faults in a lot


def draw_rows(
    draw: np.random.Generator,
    n: int,
    *,
    world: World = PLAIN,
    wrong_rule: int | None = None,
    moved: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Rows and grades; one rule may have become worse, one property may have moved."""
    x = draw.normal(size=(n, FEATURES))
    lots = np.arange(n) // (world.lot or 1)
    if world.lot:
        level = draw.normal(size=(lots.max(initial=0) + 1, FEATURES))
        x = np.sqrt(SHARED) * level[lots] + np.sqrt(1 - SHARED) * x
    if world.coarse:
        x = np.clip(np.floor(x), -2, 1) + 0.5
        x[:, 3:] = 0.5
    if moved is not None:
        x[:, moved] += 0.5
    i, j = (np.digitize(x[:, c], CUTS[c][1:-1]) for c in (0, 1))
    rule, said = 3 * i + j, 2 + (i + j) % 4
    fault = 0.02 + 0.13 * rule / 11 if world.uneven else np.full(n, 0.05)
    fault = np.where(rule == wrong_rule, 0.25, fault)
    if world.lot:
        parts = fault * (1 / TOGETHER - 1), (1 - fault) * (1 / TOGETHER - 1)
        luck = draw.random(lots.max(initial=0) + 1)[lots]  # one for all rows of a lot
        fault = beta.ppf(luck, *parts)
    off = np.where(draw.random(n) < 0.5, -1, 1) * (draw.random(n) < fault)
    return torch.from_numpy(x).float(), torch.from_numpy(said + off)


def watch_years(
    plant: Bundle, seed: int, parts: Sequence[tuple[Tensor, Tensor]], world: World = PLAIN
) -> MonitorReport:
    """A record with the claims of the year before, and all that came after, in small files."""

    def rows(x: Tensor, y: Tensor, first: int = 0) -> MeasuredRows:
        lots = [str((first + i) // world.lot) for i in range(len(x))] if world.lot else None
        return MeasuredRows(x, y, (), lots)

    before = draw_rows(np.random.default_rng((seed, 1)), YEAR, world=world)
    x, y = (torch.cat([part[k] for part in parts]) for k in (0, 1))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "watch"
        record = open_record(place, plant, reference=rows(*before), in_lots=world.lot > 0)
        record.seed = seed
        for start in range(0, len(x), FILE):
            some = slice(start, start + FILE)
            record.append(plant, rows(x[some], y[some], start), grown=True)
        return judge_record(record)


def false_alarms(plant: Bundle, years: int, first: int, world: World) -> int:
    """How many years without any change raise an alarm."""
    wolf = 0
    for seed in range(first, first + years):
        rows = draw_rows(np.random.default_rng((seed, 2)), YEAR, world=world)
        wolf += bool(watch_years(plant, seed, [rows], world).alarms)
    return wolf


def delays(
    plant: Bundle, runs: int, first: int, calm: int, world: World, *, rule: bool
) -> list[float]:
    """Rows after the change, of a rule those on which it fires, until it is named.

    One that was named before the change counts as 0.
    """
    found = []
    for seed in range(first, first + runs):
        draw = np.random.default_rng((seed, 3))
        quiet = draw_rows(draw, calm, world=world)
        change: dict[str, int] = {"wrong_rule": 5} if rule else {"moved": 9}
        changed = draw_rows(draw, CHANGED, world=world, **change)
        told = watch_years(plant, seed, [quiet, changed], world)
        name = "rule 5'" if rule else "input p9"
        one = next(j for j in told.judgements if name in j.question.name)
        reached = np.flatnonzero(one.course.capital >= np.log(one.needed))
        fired = np.ones(calm + CHANGED, dtype=bool)
        if rule:
            x = torch.cat([quiet[0], changed[0]]).numpy()
            i, j = (np.digitize(x[:, c], CUTS[c][1:-1]) for c in (0, 1))
            fired = 3 * i + j == 5
        if not len(reached):
            found.append(np.inf)
            continue
        # bets are on rows, or on lots, that say something: which rows these were
        lots = np.arange(len(fired)) // (world.lot or 1)
        last = np.flatnonzero(lots == np.unique(lots[fired])[reached[0]])[-1]
        found.append(float(fired[calm : last + 1].sum()))
    return found


def study(plant: Bundle, world: World, years: int, changed: int, first: int) -> Iterator[Row]:
    """Years without a change, then what is noticed of each change."""
    wolf = false_alarms(plant, years, first, world)
    yield {"world": world.name, "change": "none", "first": first, "runs": years, "alarms": wolf}
    for rule in (True, False) if changed and not (world.coarse or world.uneven) else ():
        for calm in (0, YEAR // 2):
            times = np.sort(delays(plant, changed, first, calm, world, rule=rule))
            early = [times[int(share * changed)] for share in (0.5, 0.8)]
            yield {"world": world.name, "change": RULE if rule else PROPERTY, "first": first} | {
                "runs": changed, "calm": calm, "named": int(np.isfinite(times).sum())
            } | {"median": _row_count(early[0]), "most": _row_count(early[1])}  # fmt: skip


def _row_count(rows: float) -> int | None:
    return int(rows) if np.isfinite(rows) else None


def summary(rows: Sequence[Row]) -> list[str]:
    """Both tables."""
    lines = ["| years without a change | alarms | share | up to, with 95 % |", "|---|---|---|---|"]
    for row in rows:
        if row["change"] == "none":
            wolf, years = int(row["alarms"] or 0), int(row["runs"] or 0)
            share, high = wolf / years, exact_share(wolf, years)[1]
            lines.append(f"| {row['world']} | {wolf} of {years} | {share:.1%} | {high:.1%} |")
    lines += ["", "| change | rows | seen before | median rows until named | 80 % | named |"]
    lines.append("|---|---|---|---|---|---|")
    for row in sorted(rows, key=lambda row: row["change"] == PROPERTY):
        if row["change"] != "none":
            early = ["later" if row[k] is None else str(row[k]) for k in ("median", "most")]
            named = f"{row['named']} of {row['runs']}"
            cells = (row["change"], row["world"], row["calm"], *early, named)
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, nargs="*", default=list(range(len(WORLDS))))
    parser.add_argument("--years", type=int, default=1000)
    parser.add_argument("--changed", type=int, default=100)
    parser.add_argument("--first", type=int, default=40_000, help="the first seed")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--summary", type=Path, nargs="+")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.summary:
        print("\n".join(summary([row for path in args.summary for row in read_rows(path)])))
        return
    plant, rows = make_plant(), []
    for number in args.worlds:
        for row in study(plant, WORLDS[number], args.years, args.changed, args.first):
            rows.append(row)
            write_rows(rows, args.out)


if __name__ == "__main__":
    main()
