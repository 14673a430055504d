"""Whether the probabilities of lore mean what they say, on simulated coke: grades, and CSR itself.

python -m studies.calibration --seeds 280-299 --out results/calibration.jsonl
python -m studies.calibration --summary results/calibration.jsonl

Each drawing trains `lore` as the demo does, on all training rows of four plants, and looks at the
test rows once. Grades: of each test row how sure the top label was and whether it was right, kept
row by row, so that drawings can be pooled afterwards. CSR: the same plants with the number behind
the grade, the expert's equation give or take 6 points as its range, and how many test rows lie in
the mixture's own 90 % interval. Beside both stand local best and a few lines of scikit-learn on
the same rows, kept to the same range. A drawing is written when it is done; the same command goes
on. Nothing here was tuned.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedlore.answers import Bins, Line, Measured
from fedlore.answers.measured import region_scores, rmse
from fedlore.core.history import Row, read_rows, write_rows
from fedlore.core.metrics import BINS, brier, calibration_error, nll, ranked_score
from fedlore.core.nets import mlp
from fedlore.engine import Client, NumberClient, Training
from fedlore.engine.lore import train_lore
from fedlore.experiments import LORE, Drawing, train_approach
from fedlore.experiments.classes import ClassJudge, foresee_local
from fedlore.experiments.intervals import interval
from fedlore.knowledge.intervals import Band
from fedlore.knowledge.models import Knowledge
from fedlore.models.regressor import LEVEL
from fedlore_coke.demo import Demo
from fedlore_coke.experts import BOUND, Expert
from fedlore_coke.plants import Plant, coking_plants

from .seeds import parse_seeds

FOREST = "forest, scikit-learn"  # the simple rivals
RIDGE = "ridge, scikit-learn"
CSR = Bins(0.0, 100.0, 50)  # the number behind the grades, all that it can be


@dataclass(frozen=True)
class Equation:
    """What an expert's equation says of whole rows."""

    expert: Expert

    def __call__(self, x: Tensor, /) -> Tensor:
        return self.expert(x[:, list(self.expert.equation.columns)])


def number_client(plant: Plant, trust: float = 0.3) -> NumberClient:
    """A plant whose label is CSR, with the same expert and the same bound as of its grades."""
    said = Equation(plant.law.expert)
    known = Knowledge(said, Band(said, BOUND, BOUND), trust, conflict="project")
    train = Measured(plant.train.x, plant.train_coke.csr)
    return NumberClient(plant.id, train, known, Measured(plant.test.x, plant.test_coke.csr))


def grade_rows(seed: int) -> list[Row]:
    """One row a plant: its scores, and of each test row how sure and whether right."""
    demo, plants = Demo(), coking_plants(seed)
    drawing = Drawing(
        [Client(p.id, p.train, p.knowledge) for p in plants],
        lambda hears: mlp(17, 20, hidden=demo.hidden, hears=hears, seed=seed),
        demo.plan,
        demo.rounds,
        seed,
        ordered=True,
    )
    fitted = train_approach(LORE, drawing)
    clients = [Client(p.id, p.train, p.knowledge, p.test) for p in plants]
    alone = ClassJudge(True).local_best(clients, seed=seed)
    rows: list[Row] = []
    for plant, client in zip(plants, clients, strict=True):
        assert plant.test.y is not None
        ours = fitted.model(plant.id).predict_proba(plant.test.x).detach().double()
        own = foresee_local(alone[plant.id], client)[0].exp().double()
        for who, said in ((LORE.name, ours), ("local best", own), (FOREST, forest(client, seed))):
            scores = score_grades(said, plant.test.y)
            rows.append({"set": "grades", "seed": seed, "site": plant.id, "who": who} | scores)
    return rows


def score_grades(said: Tensor, y: Tensor) -> Row:
    """Proper scores, and of each row how sure the top label was and whether it was right."""
    sure, top = said.max(1)
    return {
        "tests": len(y),
        "log_loss": nll(said.clamp(min=1e-12).log(), y),
        "brier": brier(said, y),
        "crps": ranked_score(said, y),
        "ece": calibration_error(said, y),
        "ta": float((top == y).double().mean()),
        "sure": " ".join(f"{p:.4f}" for p in sure.tolist()),
        "right": "".join("01"[int(r)] for r in (top == y).tolist()),
    }


def forest(client: Client, seed: int) -> Tensor:
    """What three lines of scikit-learn say: a forest on the site's rows, kept to the range."""
    from sklearn.ensemble import RandomForestClassifier

    assert client.test is not None and client.test.allowed is not None
    trees = RandomForestClassifier(300, random_state=seed).fit(client.data.x, client.data.y)
    said = torch.zeros(len(client.test), client.test.allowed.shape[1], dtype=torch.float64)
    said[:, trees.classes_] = torch.from_numpy(trees.predict_proba(client.test.x))
    said = (said + 1e-9) * client.test.allowed
    return said / said.sum(1, keepdim=True)


def csr_rows(seed: int) -> list[Row]:
    """One row a plant: how many labels lie in the mixture's own interval, and how wide it is."""
    demo, plants = Demo(), coking_plants(seed)
    clients = [number_client(plant) for plant in plants]
    training = Training(plan=demo.plan, rounds=demo.rounds, seed=seed, workers=1)
    fitted = train_lore(clients, training, bins=CSR, hidden=demo.hidden)
    rows: list[Row] = []
    for client in clients:
        assert client.test is not None
        test = client.knowledge.annotate(client.test, Line(CSR), training=False)
        assert test.y is not None
        model, tags = fitted.model(client.id), {"set": "csr", "seed": seed, "site": client.id}
        found = region_scores(model.distribution(test).region(LEVEL), test.y)
        rows.append(
            tags
            | {"who": LORE.name, "tests": len(test), "rows": len(client.data)}
            | {"held": found["coverage"], "width": found["width"]}
            | {"rmse": rmse(model.predict(test), test.y)}
        )
        rows.append(tags | {"who": RIDGE, "tests": len(test)} | ridge_scores(client))
    return rows


def ridge_scores(client: NumberClient) -> Row:
    """A line of scikit-learn that hears the expert, its out-of-fold misses as the interval."""
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    said = client.knowledge.prediction
    assert said is not None and client.test is not None and client.test.y is not None
    x, told = client.data.x, said(client.data.x)
    miss = (client.data.y - told).numpy()
    line = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13)))
    held_out = np.sort(np.abs(miss - cross_val_predict(line, x, miss, cv=5)))
    count = len(held_out)
    reach = float(held_out[min(count - 1, int(np.ceil(LEVEL * (count + 1))) - 1)])
    centre = said(client.test.x)
    found = centre + torch.from_numpy(line.fit(x, miss).predict(client.test.x))
    low, high = (centre + sign * BOUND for sign in (-1, 1))
    ends = (found - reach).clamp(low, high), (found + reach).clamp(low, high)
    y = client.test.y
    held = ((ends[0] <= y) & (y <= ends[1])).double().mean()
    return {
        "held": float(held),
        "width": float((ends[1] - ends[0]).mean()),
        "rmse": rmse(found.clamp(low, high), y),
    }


def pool(rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
    """How sure and whether right, of the rows of several drawings, (n,) each."""
    sure = [float(p) for row in rows for p in str(row["sure"]).split()]
    right = [int(r) for row in rows for r in str(row["right"])]
    return torch.tensor(sure, dtype=torch.float64), torch.tensor(right)


def pooled_error(rows: Sequence[Row], bins: int = BINS) -> float:
    """Expected calibration error of the top label over all these rows, bins of equal mass."""
    sure, right = pool(rows)
    # two columns: the top label and all others, so that `right` is the class
    said = torch.stack([torch.zeros_like(sure), sure], 1)
    return calibration_error(torch.where(said > 0, said, -1.0), right, bins=bins)


def clustered_error(rows: Sequence[Row], draws: int = 400) -> tuple[float, float, float]:
    """The pooled error, and 95 % of what it is when drawings are drawn again."""
    seeds = sorted({int(row["seed"] or 0) for row in rows})
    own = {s: [row for row in rows if row["seed"] == s] for s in seeds}
    draw = np.random.default_rng(0)
    again = sorted(
        pooled_error([row for s in draw.choice(seeds, len(seeds)) for row in own[int(s)]])
        for _ in range(draws)
    )
    return pooled_error(rows), again[int(0.025 * draws)], again[int(0.975 * draws)]


def summary(rows: Sequence[Row]) -> list[str]:
    """What came out, as lines of Markdown."""
    grades = [row for row in rows if row["set"] == "grades"]
    numbers = [row for row in rows if row["set"] == "csr"]
    return [*grade_lines(grades), *[""] * bool(grades and numbers), *csr_lines(numbers)]


def grade_lines(rows: Sequence[Row]) -> list[str]:
    """Of each model over all plants, and of lore at each."""
    if not rows:
        return []
    lines = [
        "| grades | drawings | rows | ECE, pooled | 95 % | log-loss | Brier | CRPS | TA, % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, mine in _parts(rows):
        error, low, high = clustered_error(mine)
        scores = (_mean(mine, key) for key in ("log_loss", "brier", "crps"))
        cells = (
            name, str(len({row["seed"] for row in mine})), str(len(pool(mine)[0])),
            f"{error:.4f}", f"{low:.3f} to {high:.3f}", *(f"{score:.3f}" for score in scores),
            f"{100 * _mean(mine, 'ta'):.1f}",
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def csr_lines(rows: Sequence[Row]) -> list[str]:
    """How often intervals hold, over drawings."""
    if not rows:
        return []
    lines = ["| CSR | drawings | held | width, points | RMSE |", "|---|---|---|---|---|"]
    for name, mine in _parts(rows):
        seeds = sorted({int(row["seed"] or 0) for row in mine})
        held = [100 * _mean([r for r in mine if r["seed"] == s], "held") for s in seeds]
        over = interval(held)
        scores = (_mean(mine, key) for key in ("width", "rmse"))
        ends = f"{over.mean:.1f} ± {over.half:.1f} %"
        cells = (name, str(len(seeds)), ends, *(f"{score:.2f}" for score in scores))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _parts(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for who in dict.fromkeys(str(row["who"]) for row in rows):
        yield who, [row for row in rows if row["who"] == who]
    for site in sorted({str(row["site"]) for row in rows}):
        mine = [row for row in rows if row["site"] == site and row["who"] == LORE.name]
        yield f"{LORE.name}, {site}", mine


def _mean(rows: Sequence[Row], key: str) -> float:
    return float(np.mean([float(row[key] or 0.0) for row in rows]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="grades,csr")
    parser.add_argument("--seeds", default="280-299")
    parser.add_argument("--minutes", type=float, default=25.0, help="begin no drawing after that")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--summary", type=Path, nargs="+")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.summary:
        print("\n".join(summary([row for path in options.summary for row in read_rows(path)])))
        return
    start, make = time.monotonic(), {"grades": grade_rows, "csr": csr_rows}
    rows = read_rows(options.out) if options.out.exists() else []
    done = {(row["set"], row["seed"]) for row in rows}
    for name in options.sets.split(","):
        for seed in parse_seeds(options.seeds):
            if (name, seed) not in done and time.monotonic() - start < 60 * options.minutes:
                rows += make[name](seed)
                write_rows(rows, options.out)
                spent = time.monotonic() - start
                print(f"{name} {seed} {spent:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
