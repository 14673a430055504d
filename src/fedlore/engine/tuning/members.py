"""Private choice of λ by clients of any task."""

from collections.abc import Callable, Sequence
from typing import cast

from ...personal.client import Client, Member, NumberClient, P
from ..training import Fitted
from .folds import Train
from .numbers import NumberTrain, tune_numbers
from .trust import tune
from .ways import OnTraining, Trust, Tuning


def choose_trust(
    clients: Sequence[Member[P]],
    train: Callable[[Sequence[Member[P]]], Fitted[P]],
    *,
    tuning: Tuning | None = None,
    seed: int = 0,
    on_training: OnTraining | None = None,
) -> dict[str, Trust]:
    """Each client's own choice: by right answers, or of numbers by their error."""
    all_of_them: Sequence[object] = clients  # of either kind, and all of one
    numbers = [client for client in all_of_them if isinstance(client, NumberClient)]
    if numbers:
        learn = cast(NumberTrain, train)  # clients of one task are trained for it
        return tune_numbers(numbers, learn, tuning=tuning, seed=seed, on_training=on_training)
    classes = [client for client in all_of_them if isinstance(client, Client)]
    return tune(classes, cast(Train, train), tuning=tuning, seed=seed, on_training=on_training)
