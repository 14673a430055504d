"""The stacked engine on a CUDA card: first that it is right, then µs per client step.

Run from a source tree with torch and numpy alone:
    PYTHONPATH=src python benchmarks/gpu.py --out benchmarks/results/gpu.csv
A client step is one SGD step of one client on 32 rows with the knowledge loss; everything that a
round does is in it (orders, gathering rows, uploads and their mean). --device cpu shows the same
for a processor.
"""

import argparse
import statistics
import time

import torch
from setting import machine, write_csv
from torch.nn.functional import one_hot

from fedlore import Client, Examples, FedAvg, Knowledge, Plan, federate
from fedlore.algorithms import Ditto, Scaffold
from fedlore.core.nets import lenet5, mlp
from fedlore.core.rng import stream
from fedlore.core.wire import Task
from fedlore.engine import Local, Recipe, Stacked


def clients_of(count: int, rows: int | list[int], kind: str) -> list[Client]:
    """Clients with an expert who is right now and then."""
    g = stream("gpu", kind, count)
    sizes = [rows] * count if isinstance(rows, int) else rows
    total, k = sum(sizes), 7 if kind == "mlp" else 10
    x = torch.rand(total, *((54,) if kind == "mlp" else (1, 28, 28)), generator=g)
    y = torch.randint(k, (total,), generator=g)
    allowed = one_hot(y, k).bool() | (torch.rand(total, k, generator=g) < 0.3)
    guess = torch.where(allowed, torch.rand(total, k, generator=g), -1.0).argmax(1)
    whole = Examples(x, y, one_hot(guess, k).float(), allowed)
    known, start, found = Knowledge(trust=0.3), 0, []
    for i, n in enumerate(sizes):
        found.append(Client(f"{i:05d}", whole[start : start + n], known))
        start += n
    return found


def model_of(kind: str) -> torch.nn.Module:
    return mlp(54, 7) if kind == "mlp" else lenet5(10)


def check(device: str) -> None:
    """Three rounds on the device against the reference on the processor, both in float64."""
    for kind, lr in (("mlp", 0.1), ("lenet", 0.05)):
        for algorithm in (FedAvg(), FedAvg(prox=0.1), Scaffold(), Ditto()):
            clients = clients_of(6, [116, 64, 20, 116, 33, 70], kind)
            plan = Plan(epochs=2, lr=lr, schedule="cosine")
            for dtype, limit in ((torch.float64, 1e-9), (torch.float32, 1e-3)):
                wanted = Recipe(model_of(kind).double(), algorithm, plan)
                there = Recipe(model_of(kind).to(device=device, dtype=dtype), algorithm, plan)
                a = federate(Local(clients, wanted), wanted, 3).state["model"]
                b = federate(Stacked(clients, there), there, 3).state["model"]
                gap = max(float((a[n] - b[n].cpu().double()).abs().max()) for n in a)
                ok = "ok" if gap < limit else "WRONG"
                print(f"check {kind:6}{algorithm!s:24}{dtype!s:15} {gap:.1e} {ok}", flush=True)
                assert gap < limit


def measure(kind: str, count: int, device: str, rounds: int) -> dict[str, object]:
    """The median round of one recipe, in µs per client step."""
    rows = 116 if kind == "mlp" else 120
    recipe = Recipe(model_of(kind).to(device), FedAvg(), Plan())
    engine = Stacked(clients_of(count, rows, kind), recipe)
    names = sorted(engine.clients())
    sent = {"model": {n: p.detach().clone() for n, p in recipe.model.named_parameters()}}
    # one process: its own time is the time on the clock of a machine that nobody else uses
    clock = time.perf_counter if device == "cuda" else time.process_time
    times = []
    for number in range(1, rounds + 3):
        sync(device)
        began = clock()
        replies = list(engine.exchange(Task("train", number, sent, sums=True), names))
        sync(device)
        times.append(clock() - began)
        assert sum(len(r.names) for r in replies) == count
    steps = recipe.plan.local_steps(rows) * count
    middle = statistics.median(times[2:])
    memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
    engine.close()
    return {
        "model": kind,
        "clients": count,
        "us_per_client_step": round(middle / steps * 1e6, 3),
        "round_ms": round(middle * 1e3, 2),
        "first_ms": round(times[0] * 1e3, 1),
        "gib": round(memory, 2),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
    }


def sync(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def bandwidth() -> float:
    """TB/s of a large copy, read and written."""
    a = torch.empty(2**30, device="cuda")
    b = torch.empty_like(a)
    times = []
    for _ in range(12):
        torch.cuda.synchronize()
        began = time.perf_counter()
        b.copy_(a)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return 2 * a.numel() * 4 / statistics.median(times[2:]) / 1e12


def profile(kind: str, count: int) -> None:
    """Where the time of a round goes, by kernel."""
    recipe = Recipe(model_of(kind).to("cuda"), FedAvg(), Plan())
    engine = Stacked(clients_of(count, 116 if kind == "mlp" else 120, kind), recipe)
    sent = {"model": {n: p.detach().clone() for n, p in recipe.model.named_parameters()}}
    names = sorted(engine.clients())
    list(engine.exchange(Task("train", 1, sent, sums=True), names))
    kinds = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as seen:
        list(engine.exchange(Task("train", 2, sent, sums=True), names))
        torch.cuda.synchronize()
    for event in sorted(seen.key_averages(), key=lambda e: -e.self_device_time_total)[:18]:
        share = event.self_device_time_total / 1e3
        print(f"{share:9.2f} ms {event.count:6d} x  {event.key[:90]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--mlp", default="5,100,1000,10000")
    parser.add_argument("--lenet", default="5,100,1000")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    check(options.device)
    rows = []
    if options.device == "cuda":
        print(f"copy: {bandwidth():.2f} TB/s")
    for kind in ("mlp", "lenet"):
        for count in (int(c) for c in getattr(options, kind).split(",") if c):
            found = measure(kind, count, options.device, options.rounds)
            rows.append({**found, "date": time.strftime("%Y-%m-%d"), **machine()})
            print(f"{kind:6}{count:7} clients {found['us_per_client_step']:10} µs per client step  "
                  f"round {found['round_ms']:10} ms  first {found['first_ms']:9} ms  "
                  f"{found['gib']} GiB", flush=True)  # fmt: skip
            if options.out:
                write_csv(rows, options.out)
    if options.profile:
        for kind, count in (("mlp", 10000), ("mlp", 1000), ("lenet", 1000)):
            print(f"\n{kind}, {count} clients")
            profile(kind, count)


if __name__ == "__main__":
    main()
