"""Whether a sharpness that all sites find together helps those with few rows, on simulated coke.

python -m studies.sharpness --seeds 320-339

Four plants of 10, 20, 30 and 40 rows, the first candidate of the menu, 12 rounds: once as sharp as
each site's own rows say, once with `common = true`. Log-loss and calibration error on 400 test
rows a plant. The rule was chosen on seeds 100 to 119; those above were fresh.
"""

import argparse
from dataclasses import replace

import numpy as np
import torch

from fedlore.core.metrics import nll
from fedlore.core.reliability import calibration_error
from fedlore.engine import Client, Training
from fedlore.engine.lore import train_lore
from fedlore.engine.lore.candidates import menu_for
from fedlore.experiments.intervals import interval
from fedlore_coke.demo import Demo
from fedlore_coke.plants import coking_plants

from .seeds import parse_seeds

ROWS, ROUNDS = (10, 20, 30, 40), 12


def scores(seed: int, *, common: bool) -> np.ndarray:
    """Log-loss and calibration error of each plant, (4, 2)."""
    demo, plants = Demo(), coking_plants(seed, rows=ROWS)
    menu = menu_for(17, ordered=True)
    fitted = train_lore(
        [Client(p.id, p.train, p.knowledge) for p in plants],
        Training(plan=demo.plan, rounds=ROUNDS, seed=seed, workers=1),
        ordered=True,
        hidden=demo.hidden,
        menu=replace(menu.only(menu.candidates[0]), common=common),
    )
    found = []
    for plant in plants:
        assert plant.test.y is not None
        said = fitted.model(plant.id).predict_proba(plant.test.x).detach().double()
        loss = nll(said.clamp(min=1e-9).log(), plant.test.y)
        found.append((loss, calibration_error(said, plant.test.y)))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="320-339")
    seeds = parse_seeds(parser.parse_args().seeds)
    torch.set_num_threads(1)
    both = []
    for seed in seeds:
        both.append(np.stack([scores(seed, common=common) for common in (False, True)]))
        print(seed, *both[-1].mean(1).round(4).tolist(), flush=True)
    found = np.stack(both)  # (drawings, own or common, plants, scores)
    for place, name in enumerate(("log-loss", "calibration error")):
        own, common = found[:, 0, :, place], found[:, 1, :, place]
        over = interval((common - own).mean(1).tolist()) if len(found) > 1 else None
        print(f"{name}: own {own.mean():.4f}, common {common.mean():.4f}", end="")
        print("" if over is None else f", difference {over.mean:+.4f} ± {over.half:.4f}")


if __name__ == "__main__":
    main()
