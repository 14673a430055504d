"""A round under CKKS against the plain round, in one process and one run (see hidden.py).

The limit is 30. Beside it the protocol alone, and TenSEAL's floor: the same numbers encrypted by 10
sites, added and decrypted once, with the same parameters, never written to bytes or read from them.
In the protocol all 10 sites decrypt, and their answers are compared.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import tenseal
import torch
from hidden import SITES, Bench, ratio
from setting import machine, write_csv

from fedlore.core.wire import Reply
from fedlore.privacy.ckks.cipher import SLOTS, context, new_key
from fedlore.privacy.ckks.filter import Ckks

HERE = Path(__file__).parent
FLOOR = "TenSEAL: encrypt, add, decrypt"


def floor(replies: list[Reply], scale: float) -> np.ndarray:
    """Encrypt, add, decrypt: nothing else."""
    key = context()
    total = None
    for reply in replies:
        flat = torch.cat([t.double().reshape(-1) for t in reply.upload["model"].values()]).numpy()
        pieces = [flat[i : i + SLOTS] for i in range(0, len(flat), SLOTS)]
        vectors = [tenseal.ckks_vector(key, piece, scale) for piece in pieces]
        total = vectors if total is None else [a + b for a, b in zip(total, vectors, strict=True)]
    return np.concatenate([vector.decrypt() for vector in total]) / len(replies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", default=str(HERE / "results" / "he.csv"))
    options = parser.parse_args()
    key = new_key()
    bench = Bench(lambda: Ckks(SITES, key=key), "CKKS")
    scale = 2.0 ** Ckks(SITES).parameters("train").bits
    bench.variants[FLOOR] = lambda number: floor(bench.kept, scale)
    times = bench.times(options.repeats)
    rows = []
    for name, values in times.items():
        over = ratio(values, times[FLOOR])
        error = bench.error() if name == bench.alone else ""
        rows.append({
            **bench.row(name, times), "over_floor": over, "error": error,
            "date": time.strftime("%Y-%m-%d"), "tenseal": tenseal.__version__, **machine(),
        })  # fmt: skip
        print(
            f"{name:32}{rows[-1]['seconds']:8.2f} s  {rows[-1]['over_plain']:6.2f}x plain  "
            f"{over:6.2f}x floor  {error}"
        )
    write_csv(rows, options.out)


if __name__ == "__main__":
    main()
