"""Which sites have which shapes, told from uploads by an attacker who trained on other federations.

    python -m studies.shape_leak --minutes 3 --out results/shape-leak

Four simulated plants train a network that keeps shapes. For each of two features two of the four,
drawn by lot, declare the true direction; the attacker knows the features and that it is two. It has
run shadow federations of its own, on other drawings, and learned from what each round's uploads say
there (`shape_signs`) to tell sites with a shape from those without: a logistic
regression or boosted trees, whichever does better on held-out shadows. Federations are appended to
shape-leak.jsonl; what is there is not trained again.
"""

import argparse
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from fedlore import Client
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.core.rng import stream
from fedlore.engine.training import scaler_of
from fedlore.experiments.intervals import interval
from fedlore.knowledge.shapes import FeatureShape
from fedlore_coke.experts import COKE
from fedlore_lab.leak.coordinator import ObservedRun, observe_run
from fedlore_lab.leak.settings import LeakSetting, View
from fedlore_lab.leak.uploads import Seen

from .shapes import PLAN, SITES, TRUE, known_of, plants_of, read_lines

ROWS, ROUNDS, LOTS = 40, 20, 3
SHADOWS, ATTACKED = range(1000, 1040), range(2000, 2020)
VIEWS: tuple[View, ...] = ("single", "sum", "collusion")
TIMES = ((0, 1), (1, 2), (2, 5), (5, 10), (10, ROUNDS))  # rounds that are looked at together

Look = tuple[View, int | None]  # what the server sees, and of how many parts of the time
LOOKS: dict[str, Look] = {
    "every upload": ("single", None),
    "every upload of the first round alone": ("single", 1),
    "sums": ("sum", None),
    "sums, one site colludes": ("collusion", None),
}


_TINY = 1e-12


def shape_signs(seen: Seen, column: int) -> Tensor:
    """How the coefficient and the trunk's column of one input moved, beside the others, (5,)."""
    line = seen.moved["line.weight"][0].double()
    first = seen.moved["trunk.0.weight"].double()  # (h, w)
    size, wide = (line.abs() + _TINY).log10(), (first.norm(dim=0) + _TINY).log10()
    pull = _mean_weights(seen, len(first)) @ first  # how the trunk's slopes moved, (w,)
    return torch.stack(
        [
            size[column] - size.mean(),
            line[column] / line.norm().clamp(min=_TINY),
            wide[column] - wide.mean(),
            pull[column] / pull.norm().clamp(min=_TINY),
            seen.before["line.weight"][0, column].double(),
        ]
    )


def _mean_weights(seen: Seen, units: int) -> Tensor:
    """What each unit of the first layer counts at the next, on average over both orders, (h,)."""
    after = seen.before.get("trunk.1.weight")
    if after is None:  # without hidden layers the first is the last
        return torch.ones(units, dtype=torch.float64)
    total = after.double().sum(0)
    half = units // 2
    both = (total[:half] + total[half : 2 * half]) / 2
    return torch.cat([both, both, total[2 * half :]])


def draw_secret(seed: int, lot: int) -> list[list[bool]]:
    """For each feature with a shape, which sites declare it: two of four."""
    dice = stream("shape leak", seed, lot)
    orders = (torch.randperm(SITES, generator=dice).tolist() for _ in TRUE["coke"])
    return [[place in order[: SITES // 2] for place in range(SITES)] for order in orders]


def federation(seed: int, lot: int) -> dict[str, object]:
    """One training, and what it shows of each site and feature, by view."""
    secret = draw_secret(seed, lot)
    sites = []
    for place, plant in enumerate(plants_of(ROWS, seed)):
        said = tuple(
            FeatureShape(*shape)
            for shape, declared in zip(TRUE["coke"], secret, strict=True)
            if declared[place]
        )
        sites.append(Client(plant.id, plant.train, known_of(plant.law.expert.text, said)))
    model = lipschitz_mlp(len(COKE.classes), Shaping(len(COKE.features)), hidden=(32,), seed=seed)
    run = observe_run(
        sites,
        model,
        LeakSetting("plain", ""),
        plan=PLAN,
        rounds=ROUNDS,
        seed=seed,
        scaler=scaler_of(sites),
    )
    shown = {view: show(run, [site.id for site in sites], view) for view in VIEWS}
    return {"seed": seed, "lot": lot, "secret": secret, "signs": shown}


def show(run: ObservedRun, ids: Sequence[str], view: View) -> list[list[list[float]]]:
    """What the attacker has of each feature and site: its signs over time, and beside the mean."""
    found = []
    for feature, _ in TRUE["coke"]:
        column = COKE.column(feature)
        rounds = torch.stack(
            [
                torch.stack([shape_signs(e.seen(i, view, run.start), column) for i in ids])
                for e in run.exchanges
            ]
        )  # (rounds, sites, signs)
        parts = torch.cat([rounds[a:b].mean(0) for a, b in TIMES], 1)
        found.append(torch.cat([parts, parts - parts.mean(0)], 1).tolist())
    return found


def cases(lines: Sequence[dict], look: Look) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Signs with who and what they are of, secrets, and the drawing: one row a site and feature."""
    x, y, group = [], [], []
    view, times = look
    for line in lines:
        for feature, place in itertools.product(range(len(TRUE["coke"])), range(SITES)):
            who = np.eye(SITES * len(TRUE["coke"]))[feature * SITES + place]
            signs = np.array(line["signs"][view][feature][place]).reshape(2, -1)
            shown = signs if times is None else signs[:, : signs.shape[1] * times // len(TIMES)]
            x.append([*shown.ravel(), *who])
            y.append(line["secret"][feature][place])
            group.append(line["seed"])
    return np.array(x), np.array(y), np.array(group)


def learners() -> dict[str, object]:
    return {
        "logistic": make_pipeline(
            StandardScaler(),
            LogisticRegressionCV(
                Cs=[0.001, 0.01, 0.1, 1.0],
                l1_ratios=(0.0,),
                use_legacy_attributes=False,
                scoring="neg_log_loss",
                max_iter=2000,
            ),
        ),
        "boosted": HistGradientBoostingClassifier(
            learning_rate=0.05, max_leaf_nodes=6, max_iter=120, random_state=0
        ),
    }


def right(chances: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Per feature of a federation, the share of four sites that is told right: two have it."""
    chances, y = chances.reshape(-1, SITES), y.reshape(-1, SITES)
    named = np.zeros_like(y)
    np.put_along_axis(named, np.argsort(-chances, 1, kind="stable")[:, : SITES // 2], True, 1)
    return (named == y).mean(1)


def attack(shadows: Sequence[dict], others: Sequence[dict], look: Look) -> tuple[str, float, float]:
    """Which learner did better on held-out shadows, and how often it is right on other drawings."""
    x, y, group = cases(shadows, look)
    held = group % 4 == 0
    marks = {}
    for name, learner in learners().items():
        learner.fit(x[~held], y[~held])
        marks[name] = right(learner.predict_proba(x[held])[:, 1], y[held]).mean()
    best = max(marks, key=marks.get)
    learner = learners()[best].fit(x, y)
    at, truth, seeds = cases(others, look)
    told = right(learner.predict_proba(at)[:, 1], truth)
    by_seed = seeds.reshape(-1, SITES)[:, 0]
    got = interval([float(told[by_seed == s].mean()) for s in sorted(set(by_seed.tolist()))])
    return best, 100 * got.mean, 100 * got.half


def table(lines: Sequence[dict]) -> str:
    """Right guesses by what the server sees."""
    shadows, others = ([x for x in lines if x["seed"] in seeds] for seeds in (SHADOWS, ATTACKED))
    drawn = len({x["seed"] for x in others})
    said = [
        f"{len(shadows)} shadow federations, {len(others)} attacked on {drawn} other drawings.",
        "",
        "| the server sees | learner | told right, % (chance 50) |",
        "|---|---|---|",
    ]
    for words, look in LOOKS.items():
        best, mean, half = attack(shadows, others, look)
        said.append(f"| {words} | {best} | {mean:.1f} ± {half:.1f} |")
    return "\n".join(said) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin none after this")
    parser.add_argument("--out", type=Path, default=Path("results/shape-leak"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    path, until = asked.out.with_suffix(".jsonl"), time.monotonic() + 60 * asked.minutes
    lines = read_lines(path)
    done = {(x["seed"], x["lot"]) for x in lines}
    # two shadows for each that is attacked, so that a run that was stopped has both
    pairs = [s for t in ATTACKED for s in (*SHADOWS[2 * (t - 2000) : 2 * (t - 1999)], t)]
    for seed, lot in itertools.product(pairs, range(LOTS)):
        if time.monotonic() > until:
            break
        if (seed, lot) not in done:
            lines.append(federation(seed, lot))
            with path.open("a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    shown = table(lines)
    asked.out.with_suffix(".md").write_text(f"# What uploads tell about shapes\n\n{shown}")
    print(shown)


if __name__ == "__main__":
    main()
