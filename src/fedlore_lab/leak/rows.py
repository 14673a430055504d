"""How far the one-row attack gets: rounds in which every site makes one step on one row."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fedlore.algorithms import Plan
from fedlore.engine import Client

from .settings import LeakSetting
from .uploads import one_row
from .watch import Watched, anatomy


def row_errors(
    runs: Sequence[tuple[Sequence[Client], Watched]],
    setting: LeakSetting,
    plan: Plan,
    names: Sequence[str],
) -> dict[str, Tensor]:
    """Errors at each site: of the range, and of whether the P-KM is right; and the ranges."""
    ranges: dict[str, list[float]] = {name: [] for name in names}
    rights: dict[str, list[tuple[bool, bool]]] = {name: [] for name in names}
    truths: dict[str, list[Tensor]] = {name: [] for name in names}
    for rows, run in runs:
        at = anatomy(run, setting)
        for client in rows:
            seen = run.exchanges[0].seen(client.id, setting.view, run.start)
            told = one_row(seen, at, lr=plan.lr, decay=plan.decay, plain=setting.approach.plain)
            allowed, prior, y = client.data.allowed, client.data.prior, client.data.y
            assert y is not None and allowed is not None and prior is not None
            truths[client.id].append(allowed[0])
            if not allowed.all():
                ranges[client.id].append(missed_classes(told.allowed, allowed[0]))
            if setting.uses_trust:
                rights[client.id].append((bool(prior[0, int(y)] > 0), told.weight < 1.0 - 1e-3))
    return {
        "row_range": torch.tensor([_mean(ranges[n]) for n in names]).double(),
        "row_right": torch.tensor([_balance(rights[n]) for n in names]).double(),
        "row_truth": torch.stack([torch.stack(truths[n]) for n in names]),
    }


def missed_classes(guess: Tensor, truth: Tensor) -> float:
    """Balanced error of a guessed set of classes, (k,) bool each; 1/2 is a coin's."""
    return 0.5 * float((~guess[truth]).double().mean() + guess[~truth].double().mean())


def _balance(pairs: list[tuple[bool, bool]]) -> float:
    """Balanced error of yes and no; NaN where only one of them occurs."""
    right, wrong = ([g for t, g in pairs if t is kind] for kind in (True, False))
    if not right or not wrong:
        return math.nan
    return 0.5 * (1 - sum(right) / len(right) + sum(wrong) / len(wrong))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
