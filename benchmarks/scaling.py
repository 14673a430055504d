"""From 5 clients to 10,000, and a population of which a round sees a hundred.

The first part gives µs per client step of the W1 model for more and more clients; the second, how
round time and memory depend on the size of a population whose clients are made when asked, with
an algorithm whose clients remember (on disk). Each size runs in a process of its own, and times
are processor time of that one process.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from gpu import clients_of, measure
from setting import machine, write_csv

from fedlore import Client, Examples, Knowledge, Plan, federate
from fedlore.algorithms import Scaffold
from fedlore.core.nets import mlp
from fedlore.core.rng import stream
from fedlore.engine import Recipe, Stacked

HERE = Path(__file__).parent


class Crowd:
    """Clients made from their number: 64 rows and an expert each."""

    def __init__(self, count: int) -> None:
        self.ids = [f"{i:06d}" for i in range(count)]
        self._like = clients_of(1, 64, "mlp")[0].data

    def client(self, id: str) -> Client:
        x = torch.rand(64, 54, generator=stream("crowd", id))
        like = self._like
        return Client(id, Examples(x, like.y, like.prior, like.allowed), Knowledge(trust=0.3))


def population(count: int, rounds: int) -> dict[str, object]:
    """Rounds of 100 clients of `count`."""
    recipe = Recipe(mlp(54, 7), Scaffold(), Plan())
    times = [time.process_time()]
    with Stacked(Crowd(count), recipe) as engine:
        federate(
            engine,
            recipe,
            rounds,
            sample=100 / count,
            on_round=lambda run: times.append(time.process_time()),
        )
    laps = [b - a for a, b in zip(times, times[1:], strict=False)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "clients": count,
        "round_ms": round(statistics.median(laps[1:]) * 1e3, 1),
        "peak_mb": round(peak),
    }


def alone(kind: str, count: int, rounds: int) -> dict[str, object]:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--one", kind, "--count", str(count)]
    told = subprocess.run(
        [*command, "--rounds", str(rounds)], capture_output=True, text=True, check=True
    )
    found: dict[str, object] = json.loads(told.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help="run one measurement: clients or population")
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", default="5,10,30,100,300,1000,10000")
    parser.add_argument("--population", default="1000,10000,100000")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", default=str(HERE / "results" / "scaling.csv"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.one:
        made = (
            population(options.count, options.rounds)
            if options.one == "population"
            else measure("mlp", options.count, "cpu", options.rounds)
        )
        print(json.dumps(made))
        return
    rows: list[dict[str, object]] = []
    for _ in range(options.repeats):
        for kind in ("clients", "population"):
            for count in (int(c) for c in getattr(options, kind).split(",") if c):
                found = alone(
                    kind, count, 1 if count > 1000 and kind == "clients" else options.rounds
                )
                rows.append({
                    "kind": kind, "clients": count,
                    "us_per_client_step": found.get("us_per_client_step", ""),
                    "round_ms": found["round_ms"], "peak_mb": found.get("peak_mb", ""),
                    "date": time.strftime("%Y-%m-%d"), **machine(),
                })  # fmt: skip
                print(kind, count, found, flush=True)
                write_csv(rows, options.out)


if __name__ == "__main__":
    main()
