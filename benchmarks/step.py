"""One training step with knowledge against the plain cross-entropy step, in one run.

MLP 54-128-128-7, batch 32, SGD with momentum and weight decay. The plain step is the same loop
over torch's own cross_entropy and backward; the steps of the variants are interleaved.
"""

import argparse
import statistics
import time
from dataclasses import replace

import torch
from setting import machine, write_csv
from torch.nn.functional import cross_entropy, one_hot

from fedlore import Examples, Plan
from fedlore.algorithms import FlatParams, Solo
from fedlore.core.inject import inject, teach
from fedlore.core.nets import mlp
from fedlore.core.rng import stream

ROWS, FEATURES, CLASSES, BATCH = 32 * 50, 54, 7, 32


def data() -> Examples:
    g = stream("bench")
    x = torch.rand(ROWS, FEATURES, generator=g)
    y = torch.randint(CLASSES, (ROWS,), generator=g)
    allowed = one_hot(y, CLASSES).bool() | (torch.rand(ROWS, CLASSES, generator=g) < 0.3)
    guess = torch.where(allowed, torch.rand(ROWS, CLASSES, generator=g), -1.0).argmax(1)
    return Examples(x, y, one_hot(guess, CLASSES).float(), allowed)


def torch_step(
    buffer: FlatParams, known: Examples, plan: Plan, order: torch.Tensor, trust: float | None
):
    """The loop a user would write: cross_entropy, or nll of inject with autograd."""
    velocity = torch.zeros_like(buffer.flat)
    for rows in order.split(BATCH):
        buffer.grad.zero_()
        logits = buffer.model(known.x[rows])
        if trust is None:
            loss = cross_entropy(logits, known.y[rows])
        else:
            told = inject(logits, known.prior[rows], known.allowed[rows], trust)
            loss = torch.nn.functional.nll_loss(told, known.y[rows])
        loss.backward()
        with torch.no_grad():
            direction = buffer.grad.add_(buffer.flat, alpha=plan.decay)
            velocity.mul_(plan.momentum).add_(direction)
            buffer.flat.add_(velocity, alpha=-plan.lr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", help="CSV file to write")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    known, plan = data(), Plan(epochs=1, batch=BATCH, lr=0.01)
    buffer = FlatParams(mlp(FEATURES, CLASSES))
    start = buffer.views(buffer.flat.clone())
    order = torch.randperm(ROWS, generator=stream("order"))

    def ours(lesson, plain=0.0):
        Solo(buffer, lesson, replace(plan, plain=plain), client="a").descend(start)

    bare = teach(Examples(known.x, known.y), CLASSES)
    told = teach(known, CLASSES, trust=0.3, heard=False)
    variants = {
        "torch cross_entropy": lambda: torch_step(buffer, known, plan, order, None),
        "torch nll(inject)": lambda: torch_step(buffer, known, plan, order, 0.3),
        "fedlore plain": lambda: ours(bare),
        "fedlore knowledge": lambda: ours(told),
        "fedlore knowledge, hybrid": lambda: ours(told, 0.5),
    }
    times: dict[str, list[float]] = {name: [] for name in variants}
    for repeat in range(options.repeats + 3):
        for name, run in variants.items():
            began = time.perf_counter()
            run()
            if repeat >= 3:  # the first rounds warm up
                times[name].append((time.perf_counter() - began) / (ROWS / BATCH) * 1e6)
    floor = statistics.median(times["torch cross_entropy"])
    own = statistics.median(times["fedlore plain"])
    rows = []
    for name, values in times.items():
        middle = statistics.median(values)
        rows.append({"variant": name, "us_per_step": round(middle, 1),
                     "over_torch_plain": round(middle / floor, 3),
                     "over_fedlore_plain": round(middle / own, 3), **machine()})  # fmt: skip
        print(f"{name:28}{middle:8.1f} µs  {middle / floor:5.2f}x torch  {middle / own:5.2f}x own")
    if options.out:
        write_csv(rows, options.out)


if __name__ == "__main__":
    main()
