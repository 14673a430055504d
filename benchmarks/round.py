"""One round in the fast engine with and without knowledge, and against the reference engine.

Rounds of the variants are interleaved. Times are processor time of one process, which other
users of the machine disturb least; without them it is the time on the clock.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
from gpu import clients_of, model_of
from setting import machine, write_csv

from fedlore import FedAvg, Plan
from fedlore.core.wire import Task
from fedlore.engine import Local, Recipe, Stacked

HERE = Path(__file__).parent
#: name -> model, clients, rows of each
CASES = {"W1": ("mlp", 5, 116), "W2": ("mlp", 100, 116), "W4": ("lenet", 5, 120)}


def measure(case: str, repeats: int, local: bool) -> list[dict[str, object]]:
    kind, count, rows = CASES[case]
    clients = clients_of(count, rows, kind)
    bare = [c.bare() for c in clients]
    model = model_of(kind)
    plain, hybrid = Recipe(model, FedAvg(), Plan()), Recipe(model, FedAvg(), Plan(plain=0.5))
    engines = {
        "plain": Stacked(bare, plain),
        "knowledge": Stacked(clients, plain),
        "knowledge, hybrid": Stacked(clients, hybrid),
    }
    if local:
        engines["Local, plain"] = Local(bare, plain)
        engines["Local, knowledge"] = Local(clients, plain)
    sent = {"model": {n: p.detach().clone() for n, p in model.named_parameters()}}
    names = sorted(c.id for c in clients)
    times: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(1, repeats + 3):
        for name, engine in engines.items():
            began = time.process_time()
            list(engine.exchange(Task("train", number, sent, sums=True), names))
            times[name].append((time.process_time() - began) * 1e3)
    steps = plain.plan.local_steps(rows) * count
    base = statistics.median(times["plain"][2:])
    found = []
    for name, values in times.items():
        middle, pairs = (
            statistics.median(values[2:]),
            zip(values[2:], times["plain"][2:], strict=True),
        )
        ratio = statistics.median(a / b for a, b in pairs)
        found.append({
            "case": case, "variant": name, "round_ms": round(middle, 2),
            "us_per_client_step": round(middle / steps * 1e3, 1),
            "over_plain": round(ratio, 3), "date": time.strftime("%Y-%m-%d"), **machine(),
        })  # fmt: skip
        print(f"{case} {name:20}{middle:9.1f} ms  {middle / steps * 1e3:7.1f} µs per client step  "
              f"{ratio:5.2f}x plain ({middle / base:.2f})", flush=True)  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--no-local", action="store_true")
    parser.add_argument("--out", default=str(HERE / "results" / "round.csv"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    for case in options.cases.split(","):
        rows += measure(case, options.repeats, not options.no_local)
        write_csv(rows, options.out)


if __name__ == "__main__":
    main()
