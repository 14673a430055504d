"""A round under secure aggregation against the plain round, in one process and one run.

The limit is 2.0 (see hidden.py for the round). Beside it the protocol alone, and the primitives of
Flower's SecAgg+ over the same vectors with every site the neighbour of every other; their masks
come from a generator with a seed of 32 bits, and their numbers are clipped to 22 bits.
"""

import argparse
import time
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

from fedlore.core.wire import Reply
from fedlore.privacy.secagg.filter import SecureAggregation

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", default=str(HERE / "results" / "secagg.csv"))
    options = parser.parse_args()
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
