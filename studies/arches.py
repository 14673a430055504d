"""What a true arch does to accuracy, what a false one does, and how often lint finds the false one.

    python -m studies.arches --seeds 100-119 --out results/arches

Four simulated coking plants each train the network of `studies.shapes`. CSR over reflectance is an
arch in the equations of the simulator, 48.6 (Ro - 1.20) - 88.6 (Ro - 1.20)², whose top lies at
1.20 + 48.6 / (2 · 88.6) = 1.474. It is said truly (at that number, within an interval), as the
simple `raises` that most rows would allow, and turned round. A line a drawing is appended to
arches.jsonl, and what is there is not run again; arches.md has paired differences.
"""

import argparse
import json
from pathlib import Path

import torch

from fedlore import Client, fit
from fedlore.core.history import Row
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.experiments.intervals import interval
from fedlore.knowledge.findings.shapes import check_shapes
from fedlore.knowledge.shapes import FeatureShape, SiteShapes
from fedlore_coke.experts import COKE
from fedlore_coke.plants import coking_plants

from .seeds import parse_seeds
from .shapes import PLAN, SITES, TESTED, known_of, plants_of, read_lines

PEAK, BETWEEN = 1.474, (1.40, 1.55)
ARMS: dict[str, tuple[FeatureShape, ...]] = {
    "without": (),
    "arch": (FeatureShape("Ro", "arch", turns_at=PEAK),),
    "interval": (FeatureShape("Ro", "arch", turns_at=BETWEEN),),
    "raises": (FeatureShape("Ro", "raises"),),
    "two arches": (
        FeatureShape("Ro", "arch", turns_at=PEAK),
        FeatureShape("Y", "arch", turns_at=18.0),  # -0.04 (Y - 18)² in the simulator
    ),
    "valley": (FeatureShape("Ro", "valley", turns_at=PEAK),),
    "early": (FeatureShape("Ro", "arch", turns_at=1.0),),  # false: it turns where it still rises
}
LINTED = (40, 80, 365)  # rows of a site, at which its data is asked


def run(rows: int, seed: int, arm: str) -> list[float]:
    """One training: accuracy by site."""
    sites = [
        Client(p.id, p.train, known_of(p.law.expert.text, ARMS[arm]), test=p.test)
        for p in plants_of(rows, seed)
    ]
    model = lipschitz_mlp(len(COKE.classes), Shaping(len(COKE.names)), hidden=(32,), seed=seed)
    fitted = fit(sites, model, rounds=40, plan=PLAN, seed=seed, evaluate=40)
    return [row["ta"] for row in fitted.history if "ta" in row]


def linted(rows: int, seed: int, arm: str) -> list[float]:
    """Of each site 1 where its rows are found to contradict the shapes, else 0."""
    shapes = SiteShapes(ARMS[arm], COKE)
    plants = coking_plants(seed, rows=(rows,) * SITES, test_rows=TESTED)
    return [float(any(check_shapes(shapes, p.train.x, p.train.y, ""))) for p in plants]


def drawing(rows: int, seed: int) -> list[Row]:
    """All arms on the same rows, a line for each."""
    about = {"train_rows": rows, "seed": seed}
    return [about | {"arm": arm, "ta": run(rows, seed, arm)} for arm in ARMS]


def tables(lines: list[Row]) -> str:
    """Paired differences in points of accuracy, and at how many sites lint names a shape."""
    scores: dict[int, dict[int, dict[str, float]]] = {}
    found: dict[tuple[int, str], list[float]] = {}
    for line in lines:
        if "ta" in line:
            mean = 100 * sum(line["ta"]) / len(line["ta"])
            scores.setdefault(line["train_rows"], {}).setdefault(line["seed"], {})[line["arm"]] = (
                mean
            )
        else:
            found.setdefault((line["train_rows"], line["arm"]), []).extend(line["named"])
    arms = [arm for arm in ARMS if arm != "without"]
    text = [f"| rows | drawings | without | {' | '.join(arms)} |", "|" + "---|" * (3 + len(arms))]
    for rows, by_seed in sorted(scores.items()):
        whole = [one for one in by_seed.values() if set(one) == set(ARMS)]
        base = sum(one["without"] for one in whole) / max(len(whole), 1)
        cells = [interval([one[arm] - one["without"] for one in whole]) for arm in arms]
        shown = " | ".join(f"{cell.mean:+.2f} ± {cell.half:.2f}" for cell in cells)
        text.append(f"| {rows} | {len(whole)} | {base:.1f} % | {shown} |")
    named = ["arch", "valley", "early"]
    text += ["", f"| rows | sites | {' | '.join(named)} |", "|" + "---|" * (2 + len(named))]
    for rows in sorted({rows for rows, _ in found}):
        sites = len(found[rows, named[0]])
        shares = " | ".join(f"{100 * sum(found[rows, arm]) / sites:.0f} %" for arm in named)
        text.append(f"| {rows} | {sites} | {shares} |")
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=[20, 40, 80])
    parser.add_argument("--seeds", default="100-119")
    parser.add_argument("--out", type=Path, default=Path("results/arches"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    path = asked.out.with_suffix(".jsonl")
    lines = read_lines(path)
    done = {(line["train_rows"], line["seed"], "ta" in line) for line in lines}
    with path.open("a") as file:
        for seed in parse_seeds(asked.seeds):
            work = [(rows, True) for rows in asked.rows] + [(rows, False) for rows in LINTED]
            for rows, trained in work:
                if (rows, seed, trained) in done:
                    continue
                about = {"train_rows": rows, "seed": seed}
                some = (
                    drawing(rows, seed)
                    if trained
                    else [
                        about | {"arm": arm, "named": linted(rows, seed, arm)}
                        for arm in ("arch", "valley", "early")
                    ]
                )
                lines += some
                file.write("".join(f"{json.dumps(line)}\n" for line in some))
                file.flush()
    shown = tables(lines)
    asked.out.with_suffix(".md").write_text(shown)
    print(shown)


if __name__ == "__main__":
    main()
