"""A round under secure aggregation against the plain round, in one process and one run.

10 sites, an MLP 54-1000-935-7 of about 1 M parameters. The plain round is real training: each site
takes 5 epochs of its 581 rows (Covertype 1 % over ten sites) in batches of 32, FedAvg. The limit is
2.0. Beside it the protocol alone, and the primitives of Flower's SecAgg+ over the same vectors with
every site the neighbour of every other; their masks come from a generator with a seed of 32 bits,
and their numbers are clipped to 22 bits. Rounds of the variants are interleaved. Times are
processor time of one process.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import (
    decrypt,
    encrypt,
    generate_shared_key,
)
from flwr.common.secure_aggregation.ndarrays_arithmetic import (
    parameters_addition,
    parameters_mod,
    parameters_subtraction,
)
from flwr.common.secure_aggregation.quantization import dequantize, quantize
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from gpu import clients_of
from setting import machine, write_csv

from fedlore import FedAvg, Plan, tree
from fedlore.engine import Local, Recipe, Stacked
from fedlore.nets import mlp
from fedlore.privacy.filters import guarded
from fedlore.privacy.secagg import SecureAggregation
from fedlore.wire import Reply, Task

HERE = Path(__file__).parent
SITES, ROWS, HIDDEN = 10, 581, (1000, 935)
CLIP, TARGET, MOD = 8.0, 1 << 22, 1 << 32  # Flower's defaults


class Given:
    """Sites that answer at once: what remains is the protocol."""

    def __init__(self, replies: list[Reply]) -> None:
        self._replies = {reply.client: reply for reply in replies}

    def clients(self) -> list[str]:
        return list(self._replies)

    def exchange(self, task: Task, to: list[str]):
        return [self._replies[name] for name in to]


def flower(replies: list[Reply]) -> list[np.ndarray]:
    """The same sum with Flower's own functions, in the order of its SecAgg+ workflow."""
    n, threshold = len(replies), SITES * 2 // 3 + 1
    vectors = [[t.numpy() for t in reply.upload["model"].values()] for reply in replies]
    shapes = [v.shape for v in vectors[0]]
    keys = [[ec.generate_private_key(ec.SECP384R1()) for _ in range(2)] for _ in replies]
    seeds = [np.random.bytes(32) for _ in replies]
    boxes, masks = {}, {}
    for i in range(n):
        secret = keys[i][0].private_numbers().private_value.to_bytes(48)
        shared_seed, shared_key = (create_shares(s, threshold, n) for s in (seeds[i], secret))
        for j, (one, two) in enumerate(zip(shared_seed, shared_key, strict=True)):
            if i != j:
                shared = generate_shared_key(keys[i][1], keys[j][1].public_key())
                boxes[i, j] = encrypt(shared, one + two)
                masks[i, j] = generate_shared_key(keys[i][0], keys[j][0].public_key())
            else:
                boxes[i, j] = one + two
    size = len(create_shares(seeds[0], threshold, n)[0])
    total = None
    for i, vector in enumerate(vectors):
        hidden = quantize(vector, CLIP, TARGET)
        hidden = parameters_addition(hidden, pseudo_rand_gen(seeds[i], MOD, shapes))
        for j in range(n):
            if i != j:
                noise = pseudo_rand_gen(masks[i, j], MOD, shapes)
                change = parameters_addition if i > j else parameters_subtraction
                hidden = change(hidden, noise)
        hidden = parameters_mod(hidden, MOD)
        total = hidden if total is None else parameters_addition(total, hidden)
    for i in range(n):
        shares = []
        for j in range(threshold):
            box = boxes[i, j]
            if i != j:
                box = decrypt(generate_shared_key(keys[j][1], keys[i][1].public_key()), box)
            shares.append(box[:size])
        seed = combine_shares(shares)
        total = parameters_subtraction(total, pseudo_rand_gen(seed, MOD, shapes))
    total = parameters_mod(total, MOD)
    return dequantize([v / n for v in total], CLIP, TARGET)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", default=str(HERE / "results" / "secagg.csv"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    double = torch.zeros((), dtype=torch.float64)
    model = mlp(54, 7, hidden=HIDDEN)
    size = sum(p.numel() for p in model.parameters())
    recipe = Recipe(model, FedAvg(), Plan(epochs=5, lr=0.01))
    clients = clients_of(SITES, ROWS, "mlp")
    sent = {"model": {n: p.detach().clone() for n, p in model.named_parameters()}}
    names = [c.id for c in clients]
    stacked, local = Stacked(clients, recipe, workers=1), Local(clients, recipe)
    kept: list[Reply] = list(local.exchange(Task("train", 1, sent), names))
    hidden = {
        name: guarded(engine, [SecureAggregation()])
        for name, engine in (("stacked", stacked), ("local", local), ("none", Given(kept)))
    }

    def through(transport, sums=False) -> Callable[[int], list[Reply]]:
        """A round as the loop has it, the mean of the replies included."""

        def run(number: int) -> list[Reply]:
            replies = list(transport.exchange(Task("train", number, sent, sums=sums), names))
            tree.mean((r.upload, float(len(r.names))) for r in replies)
            return replies

        return run

    variants = {
        "plain round, stacked": through(stacked, sums=True),
        "secure round, stacked": through(hidden["stacked"]),
        "plain round, one by one": through(local),
        "secure round, one by one": through(hidden["local"]),
        "secure aggregation alone": through(hidden["none"]),
        "Flower's SecAgg+ functions": lambda number: flower(kept),
    }
    times: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(1, options.repeats + 2):
        for name, run in variants.items():
            began = time.process_time()
            run(number)
            times[name].append(time.process_time() - began)
            print(f"{number} {name:28}{times[name][-1]:8.2f} s", flush=True)
    plain = tree.mean(({"model": tree.to(r.upload["model"], double)}, 1.0) for r in kept)["model"]
    (mean,) = through(hidden["none"])(99)
    theirs = dict(zip(plain, map(torch.from_numpy, flower(kept)), strict=True))
    errors = {
        "secure aggregation alone": tree.norm(tree.sub(mean.upload["model"], plain)),
        "Flower's SecAgg+ functions": tree.norm(tree.sub(theirs, plain)),
    }
    errors = {name: f"{gap / tree.norm(plain):.1e}" for name, gap in errors.items()}
    rows = []
    for name, values in times.items():
        base = "plain round, stacked" if "one by one" not in name else "plain round, one by one"
        pairs = zip(values[1:], times[base][1:], strict=True)
        ratio = statistics.median(a / b for a, b in pairs)
        rows.append({
            "variant": name, "sites": SITES, "parameters": size, "rows": ROWS,
            "seconds": round(statistics.median(values[1:]), 3), "over_plain": round(ratio, 3),
            "error": errors.get(name, ""),
            "date": time.strftime("%Y-%m-%d"), **machine(),
        })  # fmt: skip
        print(f"{name:28}{rows[-1]['seconds']:8.2f} s  {ratio:6.3f}x plain  {rows[-1]['error']}")
    write_csv(rows, options.out)


if __name__ == "__main__":
    main()
