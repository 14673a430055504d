"""Own models of the simulated coking plants: each by itself, the best, and their mixture.

python -m studies.lore2.ordered --first 100 --seeds 10
"""

import argparse

import torch
from torch import Tensor

from fedlore.core.metrics import accuracy, decide, violation
from fedlore.experiments.intervals import interval
from fedlore.personal.own import Mixture, class_weights, own_order, start_weights
from fedlore_coke.plants import coking_plants

GRADES = 20


def run(seed: int) -> dict[str, list[float]]:
    """The accuracy of every approach at every plant; an answer outside its range is an error."""
    found: dict[str, list[float]] = {}
    for plant in coking_plants(seed):
        train, test = (plant.knowledge.annotate(part) for part in (plant.train, plant.test))
        assert train.y is not None and test.y is not None and test.allowed is not None
        own = own_order(train, GRADES, seed=seed, site=plant.id)
        weights = class_weights(
            [c.held for c in own.candidates], train.y, start_weights(0, len(own.candidates))
        )
        members = tuple(c.member for c in own.candidates)
        said: dict[str, Tensor] = {m.name: m.log_probs(test) for m in members}
        said["own best"] = said[own.best.member.name]
        said["mixture of own models"] = Mixture(members, tuple(weights.tolist())).log_probs(test)
        for name, rows in said.items():
            answers = decide(rows, test.prior)
            assert violation(answers, test.allowed) == 0.0
            found.setdefault(name, []).append(accuracy(answers, test.y))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds: dict[str, list[float]] = {}
    for seed in range(options.first, options.first + options.seeds):
        for name, each in run(seed).items():
            seeds.setdefault(name, []).append(100 * sum(each) / len(each))
    for name, values in seeds.items():
        found = interval(values)
        print(f"| {name} | {found.mean:.1f} ± {found.half:.1f} |")


if __name__ == "__main__":
    main()
