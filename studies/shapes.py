"""What true, missing and false shapes do to accuracy, and what uploads tell about them.

    python -m studies.shapes --rows 20 40 80 --seeds 0-39 --out results/shapes

Four sites with so many rows each train one network with `lipschitz = true`: without any shape,
with true ones at all sites, at two of four, and with the same ones turned round. One line of
results a drawing is appended to runs.jsonl, and what is there is not run again; table.md shows
paired differences. The leak is that of an observer of plain uploads who knows for which features
shapes are declared, and must tell which two of the four sites have them.
"""

import argparse
import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from fedlore import Client, Knowledge, NumberClient, Numbers, Plan, fit
from fedlore.coke.experts import COKE, EDGES
from fedlore.coke.plants import NOISE, UNSEEN, coking_plants
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.core.rng import stream
from fedlore.knowledge.formulas.formula import Formula
from fedlore.knowledge.formulas.grading import FormulaRange, GradedFormula
from fedlore.knowledge.numbers.bins import Bins
from fedlore.knowledge.numbers.measured import Measured
from fedlore.knowledge.schema import Feature, Schema
from fedlore.knowledge.shapes import FeatureShape, SiteShapes
from fedlore.workbench.intervals import interval
from fedlore.workbench.paper.numbers.sets import SOURCES, load_numbers

from .seeds import parse_seeds

SITES, BINS, TESTED = 4, 40, 1000
#: Read off the equations of the simulator, and what is said of concrete and of houses anywhere.
TRUE = {
    "coke": (("MBI", "lowers"), ("logMF", "raises")),
    "concrete": (("cement", "raises"), ("age_day", "raises"), ("water", "lowers")),
    "california": (("medianIncome", "raises"),),
}
ARMS = ("without", "with", "half", "false")
PLAN = Plan(epochs=5, batch=32, lr=0.01, schedule="cosine", decay=5e-3, clip=5.0)
TURNED = {"raises": "lowers", "lowers": "raises"}


def shapes_at(name: str, arm: str, place: int, schema: Schema, bounds=None) -> SiteShapes | None:
    """The shapes of one of the sites."""
    if arm == "without" or (arm == "half" and place % 2):
        return None
    said = TRUE[name]
    if arm == "false":
        said = tuple((feature, TURNED[effect]) for feature, effect in said)
    return SiteShapes(tuple(FeatureShape(*one) for one in said), schema, bounds)


def coke_sites(rows: int, seed: int, arm: str) -> list[Client]:
    """The simulated plants, their experts as a knowledge file would have them."""
    found = []
    for place, plant in enumerate(coking_plants(seed, rows=(rows,) * SITES, test_rows=TESTED)):
        text, bound = plant.law.expert.text, UNSEEN + 2.0 * NOISE
        said, low, high = (
            Formula.parse(t, COKE) for t in (text, f"{text} - {bound}", f"{text} + {bound}")
        )
        known = Knowledge(
            GradedFormula(said, EDGES),
            FormulaRange(low, high, EDGES),
            outside="widen",
            schema=COKE,
            shapes=shapes_at("coke", arm, place, COKE),
        )
        found.append(Client(plant.id, plant.train, known, test=plant.test))
    return found


def number_sites(name: str, rows: int, seed: int, arm: str) -> tuple[list[NumberClient], Bins]:
    """Rows of a public set, sorted by what makes sites differ and cut in four; no experts."""
    data, source = load_numbers(name), SOURCES[name]
    columns = data.columns[: data.x.shape[1]]
    bins = Bins(source.lower, source.upper, BINS)
    schema = Schema(tuple(map(Feature, columns)), tuple(map(str, range(BINS))), "y")
    found = []
    for place, part in enumerate(data.key.argsort(stable=True).chunk(SITES)):
        draw = stream("shapes", name, seed, place)
        order = part[torch.randperm(len(part), generator=draw)]
        train, test = order[:rows], order[rows : rows + TESTED]
        shapes = shapes_at(name, arm, place, schema, (bins.lower, bins.upper))
        known = Numbers(schema=schema, shapes=shapes)
        parts = (Measured(data.x[p], data.y[p]) for p in (train, test))
        found.append(NumberClient(f"site{place}", next(parts), known, test=next(parts)))
    return found, bins


def run(name: str, rows: int, seed: int, arm: str, slope: float) -> dict[str, object]:
    """One training; its scores by site, and what each site's first upload moved."""
    bins = None
    if name == "coke":
        sites = coke_sites(rows, seed, arm)
        features, classes = len(COKE.features), len(COKE.classes)
    else:
        sites, bins = number_sites(name, rows, seed, arm)
        features, classes = sites[0].data.x.shape[1], BINS
    options = Shaping(features, slope=slope)
    model = lipschitz_mlp(classes, options, hidden=(32,), seed=seed)
    fitted = fit(sites, model, bins=bins, rounds=40, plan=PLAN, seed=seed, evaluate=40)
    key = "ta" if bins is None else "rmse"
    scores = [row[key] for row in fitted.history if key in row]
    return {
        "set": name,
        "rows": rows,
        "seed": seed,
        "arm": arm,
        "slope": slope,
        "scores": scores,
        "moved": moves(name, sites, fitted, bins, seed) if arm == "half" else [],
    }


def moves(name: str, sites, fitted, bins: Bins | None, seed: int) -> list[float]:
    """How far one round moves a site's coefficients of features with shapes, against the others."""
    found = []
    columns = [sites[0].knowledge.schema.column(feature) for feature, _ in TRUE[name]]
    for site in sites:
        model = fitted.model(site.id).inner.model
        before = model.line.weight.detach()[0]
        plan, scale = replace(PLAN, schedule="constant"), fitted.recipe.scaler
        after = fit([site], model, bins=bins, rounds=1, plan=plan, seed=seed, scale=scale)
        shift = (after.model(site.id).inner.model.line.weight.detach()[0] - before).abs()
        found.append(float(shift[columns].mean() / shift.mean().clamp(min=1e-12)))
    return found


def told(lines: Sequence[dict]) -> float:
    """How often the two sites that move least are the two with shapes, of all four: chance 50 %."""
    right = []
    for line in lines:
        order = sorted(range(SITES), key=lambda i: line["moved"][i])
        right += [place % 2 == 0 for place in order[: SITES // 2]]
        right += [place % 2 == 1 for place in order[SITES // 2 :]]
    return sum(right) / max(len(right), 1)


def table(lines: Sequence[dict]) -> str:
    """Paired differences with 95 % intervals: points of accuracy, or percent of RMSE."""
    said = [
        "| set | rows | drawings | without | with | half, those without | false |",
        "|" + "---|" * 7,
    ]
    cells = {(x["set"], x["rows"], x["seed"], x["arm"]): x for x in lines}
    for name, rows in sorted({(x["set"], x["rows"]) for x in lines}):
        seeds = sorted({s for n, r, s, _ in cells if (n, r) == (name, rows)})
        seeds = [s for s in seeds if all((name, rows, s, arm) in cells for arm in ARMS)]
        if not seeds:
            continue
        base = [cells[name, rows, s, "without"]["scores"] for s in seeds]
        accuracy = name == "coke"

        def change(arm: str, places: Sequence[int], base=base, name=name, rows=rows) -> str:
            found = []
            for seed, plain in zip(seeds, base, strict=True):  # noqa: B023
                other = cells[name, rows, seed, arm]["scores"]
                a, b = (sum(v[i] for i in places) / len(places) for v in (other, plain))
                found.append(100 * (a - b) if name == "coke" else 100 * (a / b - 1))
            got = interval(found)
            return f"{got.mean:+.2f} ± {got.half:.2f}"

        mean = sum(sum(v) / len(v) for v in base) / len(base)
        every = range(SITES)
        first = f"{100 * mean:.1f} %" if accuracy else f"{mean:.2f}"
        parts = [change("with", every), change("half", (1, 3)), change("false", every)]
        said.append(f"| {name} | {rows} | {len(seeds)} | {first} | " + " | ".join(parts) + " |")
    half = [x for x in lines if x["arm"] == "half"]
    said.append(
        f"\nShapes told from uploads: {100 * told(half):.0f} % of {4 * len(half)} (chance 50)."
    )
    return "\n".join(said) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(TRUE))
    parser.add_argument("--rows", nargs="+", type=int, default=[20, 40, 80])
    parser.add_argument("--seeds", default="0-39")
    parser.add_argument("--slope", type=float, default=0.1)
    parser.add_argument("--out", type=Path, default=Path("results/shapes"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / "runs.jsonl"
    lines = [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []
    done = {(x["set"], x["rows"], x["seed"], x["arm"], x["slope"]) for x in lines}
    seeds = parse_seeds(asked.seeds)
    for seed, name, rows, arm in itertools.product(seeds, asked.sets, asked.rows, ARMS):
        if (name, rows, seed, arm, asked.slope) not in done:
            lines.append(run(name, rows, seed, arm, asked.slope))
            with path.open("a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    shown = table([x for x in lines if x["slope"] == asked.slope])
    (asked.out / "table.md").write_text(shown)
    print(shown)


if __name__ == "__main__":
    main()
