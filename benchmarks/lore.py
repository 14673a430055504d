"""The federated part of recipe = lore against FLwKM of the same rounds, in one run.

    PYTHONPATH=src python benchmarks/lore.py --out benchmarks/results/lore.csv

At most 5.5 is asked for. Beside it, what a site needs for models of its own and for its weights.
"""

import argparse
import time

import torch
from setting import machine, write_csv

from fedlore.core.nets import mlp
from fedlore.engine.lore import client as room
from fedlore.engine.lore import train_lore
from fedlore.engine.training import Training, train
from fedlore_coke.demo import Demo, plants_of


class Watch:
    """A function that knows how long it took in all."""

    def __init__(self, inner):
        self.inner, self.seconds = inner, 0.0

    def __call__(self, *some, **more):
        began = time.perf_counter()
        found = self.inner(*some, **more)
        self.seconds += time.perf_counter() - began
        return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    demo, rows = Demo(), []
    clients = plants_of(demo, given.seed)
    training = Training(plan=demo.plan, rounds=demo.rounds, seed=given.seed)
    network = mlp(17, 20, hidden=demo.hidden, seed=given.seed)
    for turn in range(given.times):
        began = time.perf_counter()
        train(clients, network, training)
        plain = time.perf_counter() - began
        watch = Watch(room.fit_ensemble)
        room.fit_ensemble = watch
        try:
            began = time.perf_counter()
            train_lore(clients, training, ordered=True)
            federated = time.perf_counter() - began - watch.seconds
        finally:
            room.fit_ensemble = watch.inner
        row = {
            "turn": turn,
            "FLwKM_s": round(plain, 3),
            "lore_federated_s": round(federated, 3),
            "ratio": round(federated / plain, 2),
            "ensemble_s_per_site": round(watch.seconds / len(clients), 3),
            **machine(),
        }
        print(row, flush=True)
        rows.append(row)
    if given.out:
        write_csv(rows, given.out)


if __name__ == "__main__":
    main()
