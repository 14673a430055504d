"""A rule that holds in nine of ten cases: taken as a wall, as what it is, or not at all.

    python -m studies.soft --seeds 200-209 --out results/soft

Four simulated coking plants with so many rows each train one network. Their experts say that CSR
lies within so many points of their equation; how many it takes for nine of ten cases was settled on
other drawings, before. One line of results a drawing is appended to runs.jsonl, and what is there
is not run again; table.md shows all ways, and paired differences to a network without knowledge.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from fedlore import Client, Knowledge, Plan, fit
from fedlore.core.nets import mlp
from fedlore.experiments.intervals import interval
from fedlore.knowledge.formulas import Formula, FormulaRange
from fedlore.knowledge.soft import Softened, SoftFormulas
from fedlore_coke.experts import COKE, EDGES
from fedlore_coke.plants import NOISE, UNSEEN, Plant, coking_plants

from .seeds import parse_seeds

SHARE, TESTED = 0.9, 1000
ALWAYS = UNSEEN + 2.0 * NOISE  # points that no charge ever leaves
PLAN = Plan(epochs=5, batch=32, lr=0.01, schedule="cosine", decay=5e-3, clip=5.0)
#: The ways, and λ of those that need one; the last two have the wide range, which always holds.
ARMS = {
    "no knowledge": 0.0,
    "nine of ten, as a wall": 0.0,
    "nine of ten, soft, λ 0.3": 0.3,
    "nine of ten, soft, λ 0.6": 0.6,
    "the wide range": 0.0,
    "the wide range, nine of ten soft, λ 0.3": 0.3,
    "the wide range, nine of ten soft, λ 0.6": 0.6,
}


def plants_of(seed: int, rows: int) -> tuple[Plant, ...]:
    return coking_plants(seed, rows=(rows,) * 4, test_rows=TESTED)


def band(plant: Plant, points: float) -> FormulaRange:
    """All grades within so many points of the plant's equation."""
    text = plant.law.expert.text
    low, high = (Formula.parse(f"{text} {sign} {points}", COKE) for sign in "-+")
    return FormulaRange(low, high, EDGES)


def holds(plant: Plant, points: float) -> float:
    """In how many of the test rows the grade lies in the band."""
    assert plant.test.y is not None
    allowed = band(plant, points)(plant.test.x)
    return float(allowed.gather(1, plant.test.y.unsqueeze(1)).float().mean())


def settle_points(seeds: Sequence[int]) -> float:
    """The least tenth of a point that holds nine of ten grades, over plants and drawings."""
    found = [plant for seed in seeds for plant in plants_of(seed, 20)]
    points = 0.0
    while sum(holds(plant, points) for plant in found) / len(found) < SHARE:
        points = round(points + 0.1, 1)
    return points


def knowledge_of(plant: Plant, arm: str, points: float) -> Knowledge:
    """What the plant's expert says, and how it is taken."""
    narrow, wide = band(plant, points), band(plant, ALWAYS)
    soft = Softened(None, (SoftFormulas(narrow, SHARE),)) if "soft" in arm else None
    hard = narrow if "wall" in arm else wide if "wide" in arm else None
    return Knowledge(soft, hard, ARMS[arm], outside="widen", schema=COKE)


def run(seed: int, rows: int, arm: str, points: float) -> dict[str, float]:
    """One training: means over the plants' test rows, in percent, and the log-loss."""
    plants = plants_of(seed, rows)
    sites = [Client(p.id, p.train, knowledge_of(p, arm, points), test=p.test) for p in plants]
    model = mlp(len(COKE.features), len(COKE.classes), hidden=(32,), seed=seed)
    fitted = fit(sites, model, rounds=30, plan=PLAN, seed=seed)
    found: dict[str, list[float]] = {"right": [], "excluded": [], "loss": [], "outside": []}
    for plant in plants:
        p = fitted.model(plant.id).predict_proba(plant.test.x).double()
        assert plant.test.y is not None
        said, truth = p.argmax(1, keepdim=True), plant.test.y.unsqueeze(1)
        at = p.gather(1, truth)
        found["right"].append(100 * float((said == truth).double().mean()))
        found["excluded"].append(100 * float((at == 0).double().mean()))
        found["loss"].append(-float(at.clamp(min=1e-4).log().mean()))
        inside = band(plant, points)(plant.test.x).gather(1, said)
        found["outside"].append(100 * float((~inside).double().mean()))
    return {name: sum(some) / len(some) for name, some in found.items()}


def table(lines: Sequence[dict], points: float) -> str:
    """All ways over the drawings."""
    text = [
        f"The band is {points:g} points on either side; {len(lines)} drawings, "
        f"{lines[0]['rows']} rows a plant, {TESTED} tested.",
        "",
        "| taken as | right % | more than without | label excluded % | log-loss | answer outside "
        "the band % |",
        "|---|---|---|---|---|---|",
    ]
    for arm in ARMS:
        some = {
            key: interval([line["arms"][arm][key] for line in lines])
            for key in ("right", "excluded", "loss", "outside")
        }
        base = next(iter(ARMS))
        more = interval([x["arms"][arm]["right"] - x["arms"][base]["right"] for x in lines])
        gain = "" if arm == base else f"{more.mean:+.1f} ± {more.half:.1f}"
        text.append(
            f"| {arm} | {some['right'].mean:.1f} ± {some['right'].half:.1f} | {gain} | "
            f"{some['excluded'].mean:.1f} | {some['loss'].mean:.3f} ± {some['loss'].half:.3f} | "
            f"{some['outside'].mean:.1f} |"
        )
    return "\n".join(text) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--seeds", default="200-209")
    asked.add_argument("--rows", type=int, default=40)
    asked.add_argument("--settled", default="0-4", help="the drawings that settle the band")
    asked.add_argument("--out", type=Path, required=True)
    said = asked.parse_args(arguments)
    torch.set_num_threads(1)
    said.out.mkdir(parents=True, exist_ok=True)
    points = settle_points(parse_seeds(said.settled))
    path = said.out / "runs.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for seed in parse_seeds(said.seeds):
        if not any((line["seed"], line["rows"]) == (seed, said.rows) for line in lines):
            arms = {arm: run(seed, said.rows, arm, points) for arm in ARMS}
            lines.append({"seed": seed, "rows": said.rows, "points": points, "arms": arms})
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    kept = [line for line in lines if line["rows"] == said.rows]
    (said.out / "table.md").write_text(table(kept, points), encoding="utf-8")
    print(table(kept, points))


if __name__ == "__main__":
    main()
