"""What true, missing and false shapes do to accuracy, beside simpler ways to the same guarantee.

    python -m studies.shapes --seeds 100-139 --minutes 40 --out results/shapes

Four sites with so many rows each train one network with `lipschitz = true`: without any shape,
with true ones at all sites, at two of four, and with the same ones turned round; and a plain
ordinal network of the same size. Beside it what each site could do alone (`studies.shape_rivals`).
A line a drawing is appended to shapes.jsonl, and what is there is not run again; shapes.md shows
paired differences of the drawings that are complete.
"""

import argparse
import itertools
import json
import time
from functools import lru_cache
from pathlib import Path

import torch

from fedlore import Client, Knowledge, NumberClient, Plan, fit
from fedlore.answers import Bins, Measured
from fedlore.core.history import Row
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.core.ordinal import Ordinal, ordered_mlp
from fedlore.core.rng import stream
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.formulas import Formula, FormulaRange, GradedFormula
from fedlore.knowledge.shapes import FeatureShape, SiteShapes
from fedlore_coke.experts import COKE, EDGES
from fedlore_coke.plants import NOISE, UNSEEN, Plant, coking_plants
from fedlore_lab.paper.number_sets import SOURCES, load_numbers

from .seeds import parse_seeds
from .shape_rivals import score_rivals
from .shape_tables import ARMS, drawings, tables

SITES, BINS, TESTED = 4, 40, 1000
#: Read off the equations of the simulator, and what is said of concrete and of houses anywhere.
TRUE = {
    "coke": (("MBI", "lowers"), ("logMF", "raises")),
    "concrete": (("cement", "raises"), ("age_day", "raises"), ("water", "lowers")),
    "california": (("medianIncome", "raises"),),
}
PLAN = Plan(epochs=5, batch=32, lr=0.01, schedule="cosine", decay=5e-3, clip=5.0)
TURNED = {"raises": "lowers", "lowers": "raises"}
HEAD = """# What shapes do to accuracy, and what simpler ways do

Four sites, paired differences with 95 % intervals. Coke (simulated): points of accuracy, more is
better; concrete and California houses: percent of RMSE, less is better.
"""


def said_of(name: str, arm: str, place: int) -> tuple[FeatureShape, ...]:
    """The shapes of one of the sites."""
    if arm in ("without", "plain") or (arm == "half" and place % 2):
        return ()
    turn = TURNED if arm == "false" else {effect: effect for effect in TURNED}
    return tuple(FeatureShape(feature, turn[effect]) for feature, effect in TRUE[name])


@lru_cache(maxsize=32)
def known_of(text: str, said: tuple[FeatureShape, ...]) -> Knowledge:
    """An expert as a knowledge file would have it; kept, so that shapes judge it once."""
    bound = UNSEEN + 2.0 * NOISE
    point, low, high = (
        Formula.parse(t, COKE) for t in (text, f"{text} - {bound}", f"{text} + {bound}")
    )
    return Knowledge(
        GradedFormula(point, EDGES),
        FormulaRange(low, high, EDGES),
        outside="widen",
        schema=COKE,
        shapes=SiteShapes(said, COKE) if said else None,
    )


@lru_cache(maxsize=1)
def plants_of(rows: int, seed: int) -> tuple[Plant, ...]:
    return coking_plants(seed, rows=(rows,) * SITES, test_rows=TESTED)


def coke_sites(rows: int, seed: int, arm: str) -> list[Client]:
    """The simulated plants."""
    return [
        Client(p.id, p.train, known_of(p.law.expert.text, said_of("coke", arm, i)), test=p.test)
        for i, p in enumerate(plants_of(rows, seed))
    ]


loaded = lru_cache(maxsize=None)(load_numbers)


def number_sites(name: str, rows: int, seed: int, arm: str) -> tuple[list[NumberClient], Bins]:
    """Rows of a public set, sorted by what makes sites differ and cut in four; no experts."""
    data, source = loaded(name), SOURCES[name]
    columns = data.columns[: data.x.shape[1]]
    bins = Bins(source.lower, source.upper, BINS)
    schema = Schema(tuple(map(Feature, columns)), tuple(map(str, range(BINS))), "y")
    found = []
    for place, part in enumerate(data.key.argsort(stable=True).chunk(SITES)):
        draw = stream("shapes", name, seed, place)
        order = part[torch.randperm(len(part), generator=draw)]
        train, test = order[:rows], order[rows : rows + TESTED]
        said = said_of(name, arm, place)
        shapes = SiteShapes(said, schema, (bins.lower, bins.upper)) if said else None
        known = Knowledge(schema=schema, shapes=shapes)
        parts = (Measured(data.x[p], data.y[p]) for p in (train, test))
        found.append(NumberClient(f"site{place}", next(parts), known, test=next(parts)))
    return found, bins


def sites_of(name: str, rows: int, seed: int, arm: str) -> tuple[list, Bins | None]:
    """Clients, and of numbers the bins."""
    if name == "coke":
        return coke_sites(rows, seed, arm), None
    return number_sites(name, rows, seed, arm)


def run(name: str, rows: int, seed: int, arm: str) -> list[float]:
    """One training: accuracy or RMSE by site."""
    sites, bins = sites_of(name, rows, seed, arm)
    features = sites[0].data.x.shape[1]
    classes = BINS if bins is not None else len(COKE.classes)
    if arm == "plain":
        options = Ordinal("none", True, hears=False)
        model = ordered_mlp(features, classes, hidden=(32,), options=options, seed=seed)
    else:
        model = lipschitz_mlp(classes, Shaping(features), hidden=(32,), seed=seed)
    fitted = fit(sites, model, bins=bins, rounds=40, plan=PLAN, seed=seed, evaluate=40)
    key = "ta" if bins is None else "rmse"
    return [row[key] for row in fitted.history if key in row]


def drawing(name: str, rows: int, seed: int) -> list[Row]:
    """All arms and rivals on the same rows, a row for each at each site."""
    scores = {arm: run(name, rows, seed, arm) for arm in ARMS}
    scores |= score_rivals(*sites_of(name, rows, seed, "with"))
    key = "ta" if name == "coke" else "rmse"
    about = {"set": name, "train_rows": rows, "seed": seed}
    return [
        {**about, "approach": arm, "client": f"site{i}", key: round(score, 6)}
        for arm, values in scores.items()
        for i, score in enumerate(values)
    ]


def read_lines(path: Path) -> list[Row]:
    """What was run before; a line that a crash cut short is run again."""
    lines: list[Row] = []
    for text in path.read_text().splitlines() if path.exists() else ():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(TRUE))
    parser.add_argument("--rows", nargs="+", type=int, default=[20, 40, 80])
    parser.add_argument("--seeds", default="100-139")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin none after this")
    parser.add_argument("--out", type=Path, default=Path("results/shapes"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    path, until = asked.out.with_suffix(".jsonl"), time.monotonic() + 60 * asked.minutes
    lines = read_lines(path)
    done = set(drawings(lines))
    seeds = parse_seeds(asked.seeds)
    for seed, name, rows in itertools.product(seeds, asked.sets, asked.rows):
        if time.monotonic() > until:
            break
        if (name, rows, seed) not in done:
            found = drawing(name, rows, seed)
            lines += found
            with path.open("a") as file:
                file.write("".join(f"{json.dumps(line)}\n" for line in found))
    shown = tables([line for line in lines if line["seed"] in seeds])
    asked.out.with_suffix(".md").write_text(f"{HEAD}\n{shown}")
    print(shown)


if __name__ == "__main__":
    main()
