"""An ordinal head against a class head of the same trunk in the stacked engine, in one run.

    PYTHONPATH=src python benchmarks/ordinal.py --device cpu --out benchmarks/results/ordinal.csv

First that the card is right (with --device cuda), then µs per client step of both heads, turn by
turn, and their ratio: at most 1.15 is asked for. Needs torch and numpy alone.
"""

import argparse
import time

import torch
from setting import machine, write_csv
from torch import nn
from torch.nn.functional import one_hot

from fedlore import Client, Examples, FedAvg, Knowledge, Plan, federate
from fedlore.algorithms import FedPer
from fedlore.core.nets import lenet5, mlp
from fedlore.core.ordinal import Ordinal, ordered_mlp, with_ordinal_head
from fedlore.core.rng import stream
from fedlore.core.wire import Task
from fedlore.engine import Local, Recipe, Stacked

#: Features, classes and hidden layers of each trunk.
TRUNKS = {
    "coke": ((17,), 20, (64, 64)),
    "covtype": ((54,), 7, (128, 128)),
    "lenet": ((1, 28, 28), 10, (120, 84)),
}


def clients_of(count: int, rows: int | list[int], trunk: str) -> list[Client]:
    """Clients with an expert who is right now and then."""
    shape, k, _ = TRUNKS[trunk]
    g = stream("ordinal", trunk, count)
    sizes = [rows] * count if isinstance(rows, int) else rows
    x, y = torch.rand(sum(sizes), *shape, generator=g), torch.randint(k, (sum(sizes),), generator=g)
    allowed = one_hot(y, k).bool() | (torch.rand(len(y), k, generator=g) < 0.3)
    guess = torch.where(allowed, torch.rand(len(y), k, generator=g), -1.0).argmax(1)
    whole, start, found = Examples(x, y, one_hot(guess, k).float(), allowed), 0, []
    for i, n in enumerate(sizes):
        found.append(Client(f"{i:05d}", whole[start : start + n], Knowledge()))
        start += n
    return found


def models(trunk: str, hears: bool) -> dict[str, nn.Module]:
    """Both heads on one trunk, without a linear part beside it that the other has not."""
    options = Ordinal(hears=hears, linear=False)
    (width, *rest), k, hidden = TRUNKS[trunk]
    if rest:
        net = lenet5(k, hears=hears)
        body = net.trunk if hears else net.body[0]
        head = with_ordinal_head(body, 400, k, hidden=hidden, options=options)
        return {"classes": net, "ordinal": head}
    return {
        "classes": mlp(width, k, hidden=hidden, hears=hears),
        "ordinal": ordered_mlp(width, k, hidden=hidden, options=options),
    }


def check(device: str) -> None:
    """Three rounds on the device against the reference on the processor in float64."""
    for options in (Ordinal(), Ordinal("middle"), Ordinal("expert", linear=False, hears=False)):
        for algorithm in (FedAvg(), FedPer(private=("own",))):
            for plan in (Plan(epochs=2, lr=0.02), Plan(epochs=2, lr=0.02, clip=1.0, plain=0.5)):
                clients = clients_of(6, [116, 64, 20, 116, 33, 70], "coke")
                for dtype, limit in ((torch.float64, 1e-9), (torch.float32, 1e-3)):
                    made = [ordered_mlp(17, 20, hidden=(64, 32), options=options) for _ in range(2)]
                    wanted = Recipe(made[0].double(), algorithm, plan)
                    there = Recipe(made[1].to(device=device, dtype=dtype), algorithm, plan)
                    a = federate(Local(clients, wanted), wanted, 3).state["model"]
                    b = federate(Stacked(clients, there), there, 3).state["model"]
                    gap = max(float((a[n] - b[n].cpu().double()).abs().max()) for n in a)
                    print(f"check {options} {algorithm} {dtype} {gap:.1e}", flush=True)
                    assert gap < limit


def measure(trunk: str, count: int, hears: bool, device: str, rounds: int) -> dict[str, object]:
    """The quickest round of both heads, turn by turn."""
    rows = 116
    engines = {}
    for name, model in models(trunk, hears).items():
        recipe = Recipe(model.to(device), FedAvg(), Plan())
        sent = {"model": {n: p.detach().clone() for n, p in recipe.model.named_parameters()}}
        engines[name] = (Stacked(clients_of(count, rows, trunk), recipe), sent)
    clock = time.perf_counter if device == "cuda" else time.process_time
    times: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(1, rounds + 3):
        for name, (engine, sent) in engines.items():
            if device == "cuda":
                torch.cuda.synchronize()
            began = clock()
            list(engine.exchange(Task("train", number, sent, sums=True), engine.clients()))
            if device == "cuda":
                torch.cuda.synchronize()
            times[name].append(clock() - began)
    steps = Plan().local_steps(rows) * count
    each = {name: min(t[2:]) / steps * 1e6 for name, t in times.items()}
    return {
        "trunk": trunk,
        "clients": count,
        "hears": hears,
        **{f"{name}_us": round(value, 3) for name, value in each.items()},
        "ratio": round(each["ordinal"] / each["classes"], 3),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--clients", default="5,100")
    parser.add_argument("--trunks", default=",".join(TRUNKS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out")
    given = parser.parse_args()
    if given.device == "cpu":
        torch.set_num_threads(1)
    else:
        check(given.device)
    found = []
    for trunk in given.trunks.split(","):
        for count in map(int, given.clients.split(",")):
            for hears in (False, True):
                row = measure(trunk, count, hears, given.device, given.rounds)
                print(row, flush=True)
                found.append({**row, **machine()})
    if given.out:
        write_csv(found, given.out)


if __name__ == "__main__":
    main()
