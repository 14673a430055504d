"""What a true arch does to accuracy, what a false one does, and how often lint finds the false one.

    python -m studies.arches --seeds 100-119 --out results/arches

Four simulated coking plants each train the network of `studies.shapes`. CSR over reflectance is an
arch in the equations of the simulator, 48.6 (Ro - 1.20) - 88.6 (Ro - 1.20)², whose top lies at
1.20 + 48.6 / (2 · 88.6) = 1.474. It is said truly (at that number, within an interval, without a
turn, which the rows of each site then show), as the simple `raises` that most rows would allow, and
turned round. Beside it stands what a site could do alone without any shape: a ridge of scikit-learn
over the expert, with and without the squares of both columns, moved into the range. A line a
drawing is appended to arches.jsonl, and what is there is not run again; arches.md has paired
differences.

A clamped coefficient starts slowly: after the 40 rounds of `studies.shapes` sites of 20 rows are
0.74 ± 0.29 points behind on the development drawings 0 to 7, after 100 rounds level with the same
network (+0.1 on drawings 0 to 3). So all arms have 100 rounds here.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedlore import Client, fit
from fedlore.core.history import Row
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.experiments.intervals import interval
from fedlore.knowledge.findings.shapes import check_shapes
from fedlore.knowledge.shapes import FeatureShape, SiteShapes
from fedlore_coke.experts import COKE
from fedlore_coke.plants import coking_plants

from .seeds import parse_seeds
from .shape_rivals import expert_of, score_places
from .shapes import PLAN, SITES, TESTED, known_of, plants_of, read_lines

PEAK, BETWEEN = 1.474, (1.40, 1.55)
ARMS: dict[str, tuple[FeatureShape, ...]] = {
    "without": (),
    "arch": (FeatureShape("Ro", "arch", turns_at=PEAK),),
    "interval": (FeatureShape("Ro", "arch", turns_at=BETWEEN),),
    "unknown": (FeatureShape("Ro", "arch"),),  # each site's rows say where, if they are enough
    "raises": (FeatureShape("Ro", "raises"),),
    "two arches": (
        FeatureShape("Ro", "arch", turns_at=PEAK),
        FeatureShape("Y", "arch", turns_at=18.0),  # -0.04 (Y - 18)² in the simulator
    ),
    "two intervals": (
        FeatureShape("Ro", "arch", turns_at=BETWEEN),
        FeatureShape("Y", "arch", turns_at=(16.0, 20.0)),
    ),
    "two unknown": (FeatureShape("Ro", "arch"), FeatureShape("Y", "arch")),
    "valley": (FeatureShape("Ro", "valley", turns_at=PEAK),),
    "early": (FeatureShape("Ro", "arch", turns_at=1.0),),  # false: it turns where it still rises
}
RIVALS: dict[str, tuple[str, ...]] = {  # columns whose squares a ridge gets, too
    "own ridge": (),
    "own ridge, squares": ("Ro", "Y"),
}
ROUNDS = 100
LEAST = {"unknown": 40, "two unknown": 40}  # rows of a site, from which on they show a turn
NAMED = ("arch", "valley", "early")
LINTED = (40, 80, 365)  # rows of a site, at which its data is asked


def run(rows: int, seed: int, arm: str) -> list[float]:
    """One training: accuracy by site."""
    sites = [
        Client(p.id, p.train, known_of(p.law.expert.text, ARMS.get(arm, ())), test=p.test)
        for p in plants_of(rows, seed)
    ]
    if arm in RIVALS:
        return [ridge_alone(site, RIVALS[arm]) for site in sites]
    model = lipschitz_mlp(len(COKE.classes), Shaping(len(COKE.names)), hidden=(32,), seed=seed)
    fitted = fit(sites, model, rounds=ROUNDS, plan=PLAN, seed=seed, evaluate=ROUNDS)
    return [row["ta"] for row in fitted.history if "ta" in row]


def ridge_alone(site: Client, squared: Sequence[str]) -> float:
    """The accuracy of a ridge over the expert on a site's own rows, with some squares."""
    more = [COKE.names.index(name) for name in squared]
    train, test = (
        torch.cat([part.x, part.x[:, more].square()], 1).double().numpy()
        for part in (site.data, site.test)
    )
    line = make_pipeline(StandardScaler(), RidgeCV([10.0**i for i in range(-3, 5)]))
    line.fit(train, (site.data.y.double() - expert_of(site.data)).numpy())
    said = expert_of(site.test) + torch.from_numpy(line.predict(test))
    return score_places(said, site.test.y.double(), site, None)


def linted(rows: int, seed: int, arm: str) -> list[float]:
    """Of each site 1 where its rows are found to contradict the shapes, else 0."""
    shapes = SiteShapes(ARMS[arm], COKE)
    plants = coking_plants(seed, rows=(rows,) * SITES, test_rows=TESTED)
    return [float(any(check_shapes(shapes, p.train.x, p.train.y, ""))) for p in plants]


def drawing(rows: int, seed: int, arms: Sequence[str]) -> list[Row]:
    """Some arms on the same rows, a line for each."""
    about = {"train_rows": rows, "seed": seed}
    return [about | {"arm": arm, "ta": run(rows, seed, arm)} for arm in arms]


def tables(lines: list[Row]) -> str:
    """Paired differences in points of accuracy, and at how many sites lint names a shape."""
    scores: dict[int, dict[int, dict[str, float]]] = {}
    found: dict[tuple[int, str], dict[int, list[float]]] = {}
    for line in lines:
        if "ta" in line:
            mean = 100 * sum(line["ta"]) / len(line["ta"])
            scores.setdefault(line["train_rows"], {}).setdefault(line["seed"], {})[line["arm"]] = (
                mean
            )
        else:
            found.setdefault((line["train_rows"], line["arm"]), {})[line["seed"]] = line["named"]
    there = {line["arm"] for line in lines if "ta" in line}
    arms = [arm for arm in (*ARMS, *RIVALS) if arm in there and arm != "without"]
    text = [f"| rows | drawings | without | {' | '.join(arms)} |", "|" + "---|" * (3 + len(arms))]
    for rows, by_seed in sorted(scores.items()):
        whole = [one for one in by_seed.values() if "without" in one]
        base = sum(one["without"] for one in whole) / max(len(whole), 1)
        shown = []
        for arm in arms:
            some = [one[arm] - one["without"] for one in whole if arm in one]
            cell = interval(some) if some else None
            count = f" ({len(some)})" if len(some) < len(whole) else ""
            shown += ["-" if cell is None else f"{cell.mean:+.2f} ± {cell.half:.2f}{count}"]
        text.append(f"| {rows} | {len(whole)} | {base:.1f} % | {' | '.join(shown)} |")
    named = NAMED
    text += ["", f"| rows | sites | {' | '.join(named)} |", "|" + "---|" * (2 + len(named))]
    for rows in sorted({rows for rows, _ in found}):
        sites = SITES * len(found[rows, named[0]])
        counts = [sum(map(sum, found[rows, arm].values())) for arm in named]
        shares = " | ".join(f"{100 * count / sites:.0f} %" for count in counts)
        text.append(f"| {rows} | {sites} | {shares} |")
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=[20, 40, 80])
    parser.add_argument("--seeds", default="100-119")
    parser.add_argument("--arms", nargs="+", choices=[*ARMS, *RIVALS], default=[*ARMS, *RIVALS])
    parser.add_argument("--out", type=Path, default=Path("results/arches"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    path = asked.out.with_suffix(".jsonl")
    lines = read_lines(path)
    done = {(line["train_rows"], line["seed"], "ta" in line, line["arm"]) for line in lines}
    with path.open("a") as file:
        for seed in parse_seeds(asked.seeds):
            work = [(rows, True) for rows in asked.rows] + [(rows, False) for rows in LINTED]
            for rows, trained in work:
                arms = [
                    arm
                    for arm in (asked.arms if trained else NAMED)
                    if (rows, seed, trained, arm) not in done and rows >= LEAST.get(arm, 0)
                ]
                about = {"train_rows": rows, "seed": seed}
                some = (
                    drawing(rows, seed, arms)
                    if trained
                    else [about | {"arm": arm, "named": linted(rows, seed, arm)} for arm in arms]
                )
                lines += some
                file.write("".join(f"{json.dumps(line)}\n" for line in some))
                file.flush()
    shown = tables(lines)
    asked.out.with_suffix(".md").write_text(shown)
    print(shown)


if __name__ == "__main__":
    main()
