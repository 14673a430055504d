"""A round under secure aggregation against the plain round, in one process and one run.

The limit is 2.0 (see hidden.py for the round). Beside it the protocol alone, and the primitives of
Flower's SecAgg+ over the same vectors with every site the neighbour of every other; their masks
come from a generator with a seed of 32 bits, and their numbers are clipped to 22 bits.

With `--sites 50,200,500,1000` the protocol alone with so many stand-in clients of one process:
processor time of a site for one sum, and what travels beside the masked words themselves.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
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
from hidden import SITES, Bench
from setting import machine, write_csv

from fedlore.core.tree import Payload
from fedlore.core.wire import Reply, Task
from fedlore.privacy.filters import Half, SiteFilters
from fedlore.privacy.secagg.filter import SecureAggregation
from fedlore.privacy.secagg.pact import PHASES

HERE = Path(__file__).parent
FLOWER = "Flower's SecAgg+ functions"
CLIP, TARGET, MOD = 8.0, 1 << 22, 1 << 32  # Flower's defaults


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


class Timed:
    """A site's half whose processor time and bytes are counted."""

    kinds = frozenset(PHASES)

    def __init__(self, half: Half) -> None:
        self.half, self.seconds, self.up, self.down = half, 0.0, 0, 0

    def answer(self, task: Task) -> Reply:
        return self._count(task, lambda: self.half.answer(task))

    def outbound(self, task: Task, reply: Reply) -> Reply:
        return self._count(task, lambda: self.half.outbound(task, reply))

    def summed(self, task: Task) -> None:
        return None

    def _count(self, task: Task, make: Callable[[], Reply]) -> Reply:
        began = time.process_time()
        reply = make()
        self.seconds += time.process_time() - began
        own = {key: b for key, b in reply.upload.items() if key != "masked"}
        self.up += _bytes(own)
        self.down += _bytes(task.sent)
        return reply


def _bytes(payload: Payload) -> int:
    return sum(t.nbytes + len(name) for bundle in payload.values() for name, t in bundle.items())


class StandIns:
    """Clients that upload numbers without having learned them."""

    def __init__(self, count: int, size: int) -> None:
        self.names = [f"site-{i:05d}" for i in range(count)]
        self.upload = {"model": {"w": torch.linspace(-1, 1, size)}}

    def clients(self) -> list[str]:
        return self.names

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        for name in to:
            yield Reply(name, task.round, self.upload, 1)


def stand_ins(count: int, size: int) -> dict[str, object]:
    """One sum of so many sites after the first, whose keys are known."""
    clients, masks = StandIns(count, size), SecureAggregation()
    halves = {name: Timed(masks.site(name)) for name in clients.names}
    wire = SiteFilters(clients, {name: [half] for name, half in halves.items()}, hides=True)
    server = masks.over(wire)
    for half in halves.values():
        half.answer(Task("keys", 1))
        half.seconds, half.up, half.down = 0.0, 0, 0
    began = time.process_time()
    (reply,) = server.exchange(Task("train", 1), clients.names)
    total = time.process_time() - began
    assert len(reply.members) == count
    seconds = [half.seconds for half in halves.values()]
    return {
        "sites": count,
        "site_seconds": round(statistics.mean(seconds), 4),
        "site_seconds_most": round(max(seconds), 4),
        "site_up_mb": round(statistics.mean(h.up for h in halves.values()) / 1e6, 3),
        "site_up_mb_most": round(max(h.up for h in halves.values()) / 1e6, 3),
        "site_down_mb": round(statistics.mean(h.down for h in halves.values()) / 1e6, 3),
        "server_seconds": round(total - sum(seconds), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", default=str(HERE / "results" / "secagg.csv"))
    parser.add_argument("--sites", help="stand-in clients alone: 50,200,500,1000")
    options = parser.parse_args()
    if options.sites:
        rows = []
        for count in options.sites.split(","):
            row = stand_ins(int(count), 1000)
            load = os.getloadavg()[0]
            rows.append(row | {"load": load, "date": time.strftime("%Y-%m-%d"), **machine()})
            print(row, f"load {load:.1f}", flush=True)
        write_csv(rows, Path(options.out).with_name("secagg-sites.csv"))
        return
    bench = Bench(SecureAggregation, "secure aggregation")
    bench.variants[FLOWER] = lambda number: flower(bench.kept)
    times = bench.times(options.repeats)
    theirs = dict(zip(bench.mean, map(torch.from_numpy, flower(bench.kept)), strict=True))
    errors = {bench.alone: bench.error(), FLOWER: bench.gap(theirs)}
    rows = []
    for name in times:
        rows.append({
            **bench.row(name, times), "error": errors.get(name, ""),
            "date": time.strftime("%Y-%m-%d"), **machine(),
        })  # fmt: skip
        print(
            f"{name:36}{rows[-1]['seconds']:8.2f} s  {rows[-1]['over_plain']:6.3f}x plain  "
            f"{rows[-1]['error']}"
        )
    write_csv(rows, options.out)


if __name__ == "__main__":
    main()
