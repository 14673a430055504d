"""What λ(x) is worth where an expert is good in one half of the rows only, and what it costs else.

    python -m studies.regions --rows 40 80 160 --seeds 100-139 --out results/regions

Four simulated sites train one network with λ = 0; each site then chooses λ on rows that the
network had not seen. In the world `half` the expert is right in 9 of 10 rows from the plant's own
mines and says what he would of another coal for imports; in `slope` he is the worse the more of a
feature there is; in `even` he is right in 6 of 10 rows, whatever the row. Beside one number as the
site chooses it stands the best one number in hindsight, chosen on the test rows themselves, and
the region as its owner would state it, with λ = 0.9 there and the site's one number elsewhere.
One line a drawing is appended to runs.jsonl, and what is there is not run again.
"""

import argparse
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from fedlore import Client, Knowledge, Plan, fit, mlp
from fedlore.core.examples import Examples
from fedlore.core.inject import fill_trust, inject
from fedlore.core.metrics import decide
from fedlore.core.rng import stream
from fedlore.engine.tuning.oof import Cached, cache_logits, hits, out_of_fold_parts
from fedlore.engine.tuning.trust import Tuning, pick
from fedlore.experiments.intervals import interval
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.rowtrust import RowTrust, TrustRegion

from .seeds import parse_seeds

SITES, CLASSES, TESTED = 4, 6, 2000
NUMBERS = tuple(f"x{i}" for i in range(6))
SCHEMA = Schema(
    (*map(Feature, NUMBERS), Feature("origin", levels=("own", "import"))),
    tuple(f"G{i}" for i in range(1, CLASSES + 1)),
    "grade",
    ordered=False,
)
WORLDS = ("half", "slope", "even")
OWN = "origin == 'own'"
PLAN = Plan(epochs=5, batch=16, lr=0.05, schedule="cosine", decay=1e-3)
GRID = tuple(i / 50 for i in range(51))
#: How a site may let λ depend on the row; `stated` is told by its owner.
ARMS = {
    "one number": None,
    "features": RowTrust(SCHEMA, features=("x0", "x1", "origin")),
    "region": RowTrust(SCHEMA, (TrustRegion(OWN),)),
    "stated": RowTrust(SCHEMA, (TrustRegion(OWN, 0.9),)),
}


def draw_rows(world: str, n: int, seed: int, place: int, part: str) -> Examples:
    """Rows of one site: a bent law that all sites share, a level of its own, and its expert."""
    law = stream("regions law", seed)
    slopes, bend = torch.randn(6, generator=law), torch.randn(6, 3, generator=law)
    level = float(torch.randn(SITES, generator=law)[place]) * 0.3
    draw = stream("regions", world, seed, place, part)
    x = torch.randn(n, 6, generator=draw)
    origin = (torch.rand(n, generator=draw) < 0.5).float()
    score = x @ slopes + (x @ bend).tanh().sum(1) + level
    score = score + 0.5 * torch.randn(n, generator=draw)
    edges = torch.linspace(-3.0, 3.0, CLASSES - 1)
    y = torch.bucketize(score, edges)
    if world == "half":
        chance = torch.where(origin == 0, 0.9, 0.1)
    elif world == "slope":
        chance = torch.sigmoid(-2.0 * x[:, 0])
    else:
        chance = torch.full((n,), 0.6)
    right = torch.rand(n, generator=draw) < chance
    other = (y + 1 + torch.randint(CLASSES - 1, (n,), generator=draw)) % CLASSES
    prior = torch.nn.functional.one_hot(torch.where(right, y, other), CLASSES).float()
    return Examples(torch.cat([x, origin.unsqueeze(1)], 1), y, prior)


def run(world: str, rows: int, seed: int) -> list[dict[str, object]]:
    """One drawing: each arm's accuracy on new rows of each site, from one network."""
    known = Knowledge(schema=SCHEMA)
    clients = [
        Client(f"site{i}", draw_rows(world, rows, seed, i, "train"), known, numeric=True)
        for i in range(SITES)
    ]
    tests = [draw_rows(world, TESTED, seed, i, "test") for i in range(SITES)]
    model = mlp(7, CLASSES, hidden=(32,), hears=False, seed=seed)

    def train(some: Sequence[Client]):
        return fit(some, model, rounds=20, plan=PLAN, seed=seed)

    parts = out_of_fold_parts(clients, train, cache_logits, folds=3, seed=seed)
    cached = {name: Cached.join(some) for name, some in parts.items()}
    fitted = train(clients)
    found = []
    for client, test in zip(clients, tests, strict=True):
        unseen, new = cached[client.id], Cached(fitted.model(client.id).logits(test), test)
        scores = {"best one number, hindsight": float(hits(new, GRID).double().mean(1).max())}
        learned = {}
        for arm, rule in ARMS.items():
            if arm == "region" and world == "slope":
                continue
            told = unseen.known
            told = Examples(
                told.x, told.y, told.prior, trust=None if rule is None else rule(told.x)
            )
            own = pick([(0.0, Cached(unseen.logits, told))], Tuning(training=(0.0,)), rule, seed)
            trust = None if rule is None else rule.with_formula(own.formula)(test.x)
            said = inject(new.logits, test.prior, None, fill_trust(trust, own.reliance))
            scores[arm] = float((decide(said, test.prior) == test.y).double().mean())
            learned[arm] = own.formula
        alone = {
            "network": float(hits(new, [0.0]).double().mean()),
            "expert": float((test.prior.argmax(1) == test.y).double().mean()),
        }
        about = {"world": world, "rows": rows, "seed": seed, "site": client.id}
        found.append({**about, "scores": scores | alone, "learned": learned})
    return found


def table(lines: Sequence[dict]) -> str:
    """Accuracy in percent, and against one number in points with 95 % intervals over drawings."""
    arms = [*ARMS, "best one number, hindsight"]
    said = [
        "| world | rows | drawings | expert | network | one number | "
        + " | ".join(a for a in arms if a != "one number")
        + " | taken |",
        "|" + "---|" * (len(arms) + 6),
    ]
    for world, rows in sorted({(x["world"], x["rows"]) for x in lines}):
        here = [x for x in lines if (x["world"], x["rows"]) == (world, rows)]
        seeds = sorted({x["seed"] for x in here})

        def mean(arm: str, seed: int, here=here) -> float:
            some = [x["scores"][arm] for x in here if x["seed"] == seed]
            return 100 * sum(some) / len(some)

        cells = [
            f"{sum(mean(arm, s) for s in seeds) / len(seeds):.1f}"
            for arm in ("expert", "network", "one number")
        ]
        for arm in arms:
            if arm == "one number":
                continue
            if arm not in here[0]["scores"]:
                cells.append("")
                continue
            got = interval([mean(arm, s) - mean("one number", s) for s in seeds])
            cells.append(f"{got.mean:+.2f} ± {got.half:.2f}")
        taken = sum(bool(x["learned"]["features"]) for x in here) / len(here)
        parts = [world, str(rows), str(len(seeds)), *cells, f"{100 * taken:.0f} %"]
        said.append("| " + " | ".join(parts) + " |")
    return "\n".join(said) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS))
    parser.add_argument("--rows", nargs="+", type=int, default=[40, 80, 160])
    parser.add_argument("--seeds", default="100-139")
    parser.add_argument("--out", type=Path, default=Path("results/regions"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / "runs.jsonl"
    lines = [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []
    done = {(x["world"], x["rows"], x["seed"]) for x in lines}
    for seed, world, rows in itertools.product(parse_seeds(asked.seeds), asked.worlds, asked.rows):
        if (world, rows, seed) not in done:
            lines += run(world, rows, seed)
            with path.open("a") as file:
                file.writelines(json.dumps(x) + "\n" for x in lines[-SITES:])
    shown = table(lines)
    (asked.out / "table.md").write_text(shown)
    print(shown)


if __name__ == "__main__":
    main()
