"""Sets of classes and intervals of numbers that hold, laid around a bundle's own answers."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ...core.conformal import (
    SURE,
    check_level,
    class_misses,
    find_cut,
    half_width,
    held_band,
    number_misses,
)
from ...data.rows import FileForm
from ...personal.answers import Answers
from ..contents import Bundle
from .answering import answer_rows
from .scoring import read_labelled


@dataclass(frozen=True)
class Holding:
    """What rows that were not learned from allow to be promised."""

    level: float
    cut: float  # of the scores
    rows: int

    def sentence(self) -> str:
        """What is promised, and to whom."""
        low, high = held_band(self.rows, self.level)
        return (
            f"Holds with {self.level:g} for new rows like the {self.rows} it was calibrated on, if "
            f"nothing was learned from them; for these {self.rows} the share that is held lies "
            f"between {low:.3f} and {high:.3f} with {SURE:g}"
        )


def answer_scores(answers: Answers, y: Tensor) -> Tensor:
    """How far each label lies from its answer, (n,), in [0, 1].

    Of classes the probability that it lacks; of a number its distance in halves of the model's own
    interval, d / (1 + d).
    """
    if answers.interval is None:
        return class_misses(answers.probabilities, y)
    return number_misses(answers.predicted, answers.interval, y)


def hold_classes(answers: Answers, cut: float) -> Tensor:
    """The set of each row, (n, k) bool: never empty, and inside the range."""
    found = (1.0 - answers.probabilities.double() <= cut) & answers.allowed
    best = torch.nn.functional.one_hot(answers.predicted, found.shape[1]).bool()
    return found | best


def hold_numbers(answers: Answers, cut: float) -> Tensor:
    """The interval of each row, (n, 2), inside the least and the most that its range allows."""
    assert answers.low is not None and answers.high is not None and answers.interval is not None
    far = half_width(answers.interval) * (cut / max(1.0 - cut, 1e-12))
    low = torch.maximum(answers.predicted - far, answers.low)
    return torch.stack([low, torch.minimum(answers.predicted + far, answers.high)], 1)


@torch.no_grad()
def read_holding(
    bundle: Bundle, path: str | Path, level: float, *, form: FileForm | None = None
) -> Holding:
    """What labelled rows of a file allow; they must be none that the bundle learned from."""
    check_level(level)
    x, y = read_labelled(bundle, path, form=form)
    return Holding(level, find_cut(answer_scores(answer_rows(bundle, x), y), level), len(y))
