"""λ by Optuna's tree-structured Parzen estimator, with retraining.

Every client has a study of its own that never leaves it. In each trial all of them ask their
studies for a λ, the federation trains once, and each tells its own study how its held-out rows
fared. Bergstra, Bardenet, Bengio, Kégl (2011), Algorithms for hyper-parameter optimization.
"""

import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core.rng import key
from ...errors import FedloreError
from ...personal.client import Client
from .curves import hits
from .folds import Train, held_out
from .ways import OnTraining, Trust, Tuning


def search_trust(
    clients: Sequence[Client],
    train: Train,
    tuning: Tuning,
    *,
    seed: int = 0,
    on_training: OnTraining | None = None,
) -> dict[str, Trust]:
    """Each client's own choice of both λ after `tuning.trials` federated trainings."""
    optuna = _optuna()
    knowing = [c for c in clients if c.data.prior is not None and c.injected]
    studies = {
        c.id: optuna.create_study(
            direction="maximize",
            sampler=optuna.samplers.TPESampler(seed=key(seed, "tpe", c.id) % 2**32),
        )
        for c in knowing
    }
    seen: dict[str, list[Trust]] = {c.id: [] for c in knowing}
    for number in range(tuning.trials):
        asked = {name: study.ask() for name, study in studies.items()}
        both = {
            name: (t.suggest_float("trust", 0.0, 0.6), t.suggest_float("reliance", 0.0, 0.6))
            for name, t in asked.items()
        }
        trial = [
            replace(c, knowledge=replace(c.knowledge, trust=both[c.id][0], reliance=both[c.id][1]))
            if c.id in both
            else c
            for c in clients
        ]
        # one fold a trial, another one each time: noisy, as the estimator expects, and cheap
        cached = held_out(trial, train, folds=tuning.folds, seed=seed, use=[number % tuning.folds])
        for name, study in studies.items():
            if name not in cached:
                continue
            ta = float(hits(cached[name], [both[name][1]]).double().mean())
            study.tell(asked[name], ta)
            seen[name].append(Trust(*both[name], ta, len(cached[name])))
        if on_training is not None:
            on_training(number + 1, tuning.trials)
    return {name: _settle(trials) for name, trials in seen.items() if trials}


def _settle(trials: Sequence[Trust]) -> Trust:
    """The mean of the best third: one lucky fold does not decide."""
    best = sorted(trials, key=lambda t: -t.ta)[: max(1, len(trials) // 3)]
    n = len(best)
    return Trust(
        sum(t.trust for t in best) / n,
        sum(t.reliance for t in best) / n,
        sum(t.ta for t in best) / n,
        best[0].rows,
    )


def _optuna() -> Any:
    try:
        optuna = importlib.import_module("optuna")
    except ImportError:
        raise FedloreError("method tpe needs: pip install 'fedlore[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
