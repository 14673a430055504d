"""A round under CKKS against the plain round, in one process and one run.

10 sites, an MLP 54-1000-935-7 of about 1 M parameters. The plain round is real training: each site
takes 5 epochs of its 581 rows (Covertype 1 % over ten sites) in batches of 32, FedAvg. The limit is
30. Beside it the protocol alone, and TenSEAL's floor: the same numbers encrypted by 10 sites, added
and decrypted once, with the same parameters, never written to bytes or read from them. In the
protocol all 10 sites decrypt, and their answers are compared. Rounds of the variants are
interleaved. Times are processor time of one process.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import tenseal
import torch
from gpu import clients_of
from setting import machine, write_csv

from fedlore import FedAvg, Plan, tree
from fedlore.engine import Local, Recipe, Stacked
from fedlore.nets import mlp
from fedlore.privacy.filters import guarded
from fedlore.privacy.he import Ckks
from fedlore.privacy.he_cipher import SLOTS, context, new_key
from fedlore.wire import Reply, Task

HERE = Path(__file__).parent
SITES, ROWS, HIDDEN = 10, 581, (1000, 935)
FLOOR = "TenSEAL: encrypt, add, decrypt"


class Given:
    """Sites that answer at once: what remains is the protocol."""

    def __init__(self, replies: list[Reply]) -> None:
        self._replies = {reply.client: reply for reply in replies}

    def clients(self) -> list[str]:
        return list(self._replies)

    def exchange(self, task: Task, to: list[str]):
        return [replace(self._replies[name], round=task.round) for name in to]


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
    torch.set_num_threads(1)
    model = mlp(54, 7, hidden=HIDDEN)
    size = sum(p.numel() for p in model.parameters())
    recipe = Recipe(model, FedAvg(), Plan(epochs=5, lr=0.01))
    clients = clients_of(SITES, ROWS, "mlp")
    names = [c.id for c in clients]
    sent = {"model": {n: p.detach().clone() for n, p in model.named_parameters()}}
    stacked, local = Stacked(clients, recipe, workers=1), Local(clients, recipe)
    kept: list[Reply] = list(local.exchange(Task("train", 1, sent), names))
    plain = tree.mean((reply.upload, 1.0) for reply in kept)["model"]
    key = new_key()
    scale = 2.0 ** Ckks(SITES).parameters("train").bits
    hidden = {
        name: guarded(engine, [Ckks(SITES, key=key)])
        for name, engine in (("stacked", stacked), ("local", local), ("none", Given(kept)))
    }

    def through(transport, sums=False) -> Callable[[int], list[Reply]]:
        """A round as the loop has it, the mean of the replies included."""

        def run(number: int) -> list[Reply]:
            replies = list(transport.exchange(Task("train", number, sent, sums=sums), names))
            tree.mean((r.upload, float(len(r.names))) for r in replies)
            return replies

        return run

    variants: dict[str, Callable[[int], object]] = {
        "plain round, stacked": through(stacked, sums=True),
        "CKKS round, stacked": through(hidden["stacked"]),
        "plain round, one by one": through(local),
        "CKKS round, one by one": through(hidden["local"]),
        "CKKS alone": through(hidden["none"]),
        FLOOR: lambda number: floor(kept, scale),
    }
    times: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(1, options.repeats + 2):
        for name, run in variants.items():
            began = time.process_time()
            run(number)
            times[name].append(time.process_time() - began)
            print(f"{number} {name:32}{times[name][-1]:8.2f} s", flush=True)
    (mean,) = through(hidden["none"])(99)
    wrong = tree.norm(tree.sub(mean.upload["model"], plain)) / tree.norm(plain)
    rows = []
    for name, values in times.items():
        base = "plain round, one by one" if "one by one" in name else "plain round, stacked"
        over = {
            said: round(
                statistics.median(a / b for a, b in zip(values[1:], of[1:], strict=True)), 3
            )
            for said, of in (("over_plain", times[base]), ("over_floor", times[FLOOR]))
        }
        rows.append({
            "variant": name, "sites": SITES, "parameters": size, "rows": ROWS,
            "seconds": round(statistics.median(values[1:]), 3), **over,
            "error": f"{wrong:.1e}" if name == "CKKS alone" else "",
            "date": time.strftime("%Y-%m-%d"), "tenseal": tenseal.__version__, **machine(),
        })  # fmt: skip
        print(
            f"{name:32}{rows[-1]['seconds']:8.2f} s  {over['over_plain']:6.2f}x plain  "
            f"{over['over_floor']:6.2f}x floor  {rows[-1]['error']}"
        )
    write_csv(rows, options.out)


if __name__ == "__main__":
    main()
