"""A step of a network that keeps shapes against an ordinal head of the same size, in one run.

    PYTHONPATH=src python benchmarks/shapes.py --out benchmarks/results/shapes.csv

Both in the stacked engine and one by one, turn by turn: µs per client step and their ratio, at most
1.4 is asked for; and the same network at sites with shapes against sites without.
"""

import argparse
import time

import torch
from setting import machine, write_csv

from fedlore import Client, Examples, FedAvg, Knowledge, Plan
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.core.ordinal import Ordinal, ordered_mlp
from fedlore.core.rng import stream
from fedlore.core.wire import Task
from fedlore.engine import Local, Recipe, Stacked
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.shapes import FeatureShape, SiteShapes

FEATURES, CLASSES, ROWS, HIDDEN = 17, 20, 116, (32,)
SCHEMA = Schema(
    tuple(Feature(f"p{i}", low=0, high=1) for i in range(FEATURES)),
    tuple(f"g{i}" for i in range(CLASSES)),
)


def clients_of(count: int, shaped: bool) -> list[Client]:
    """Clients with or without three shapes."""
    said = SiteShapes(
        (FeatureShape("p0", "raises"), FeatureShape("p1", "lowers"), FeatureShape("p2", "raises")),
        SCHEMA,
    )
    known = Knowledge(schema=SCHEMA, shapes=said if shaped else None)
    found = []
    for i in range(count):
        draw = stream("shapes bench", i)
        x = torch.rand(ROWS, FEATURES, generator=draw)
        y = torch.randint(CLASSES, (ROWS,), generator=draw)
        found.append(Client(f"{i:03d}", Examples(x, y), known))
    return found


def measure(engine: str, count: int, rounds: int) -> dict[str, object]:
    """The quickest round of each network, turn by turn."""
    options = Ordinal("none", True, hears=False)
    made = {
        "ordinal": (ordered_mlp(FEATURES, CLASSES, hidden=HIDDEN, options=options), False),
        "no shapes": (lipschitz_mlp(CLASSES, Shaping(FEATURES), hidden=HIDDEN), False),
        "shapes": (lipschitz_mlp(CLASSES, Shaping(FEATURES), hidden=HIDDEN), True),
    }
    kind = Stacked if engine == "stacked" else Local
    engines = {}
    for name, (model, shaped) in made.items():
        recipe = Recipe(model, FedAvg(), Plan(epochs=5, batch=32, lr=0.01))
        sent = {"model": {n: p.detach().clone() for n, p in model.named_parameters()}}
        engines[name] = (kind(clients_of(count, shaped), recipe), sent)
    best = dict.fromkeys(engines, float("inf"))
    for number in range(1, rounds + 2):
        for name, (transport, sent) in engines.items():
            begin = time.process_time()
            list(transport.exchange(Task("train", number, sent), transport.clients()))
            if number > 1:  # the first makes its buffers
                best[name] = min(best[name], time.process_time() - begin)
    steps = count * 5 * -(-ROWS // 32)
    each = {f"{name}, µs": round(1e6 * t / steps, 1) for name, t in best.items()}
    return {
        "engine": engine,
        "clients": count,
        **each,
        "ratio to ordinal": round(best["shapes"] / best["ordinal"], 2),
        "ratio to no shapes": round(best["shapes"] / best["no shapes"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--out", help="CSV file to write")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    asked_of = (("stacked", 5), ("stacked", 100), ("local", 2))
    rows = [measure(engine, count, asked.rounds) for engine, count in asked_of]
    for row in rows:
        print(row, flush=True)
    if asked.out:
        write_csv([row | machine() for row in rows], asked.out)


if __name__ == "__main__":
    main()
