"""Sets of classes and intervals of numbers that hold, laid around a bundle's own answers."""

from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from ...core.conformal import (
    HELD_LEVELS,
    CutRows,
    Holding,
    check_level,
    class_misses,
    find_cut,
    half_width,
    least_rows,
    number_misses,
)
from ...data.rows import FileForm
from ...personal.answers import Answers
from ..contents import Bundle
from .answering import answer_rows
from .scoring import read_labelled


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


def stored_holding(bundle: Bundle, level: float) -> Holding | None:
    """What the bundle itself promises at a level: to its own site, or else to all of them."""
    for whose in get_args(CutRows):
        for one in bundle.holdings:
            if one.whose == whose and abs(one.level - level) < 1e-9:
                return one
    return None


@torch.no_grad()
def read_holding(
    bundle: Bundle, path: str | Path, level: float, *, form: FileForm | None = None
) -> Holding:
    """What labelled rows of a file allow; they must be none that the bundle learned from."""
    check_level(level)
    scores = _scores(bundle, path, form)
    return Holding(level, find_cut(scores, level), len(scores))


def read_holdings_of(
    bundle: Bundle, path: str | Path, *, form: FileForm | None = None
) -> tuple[Holding, ...]:
    """The same at every level that a bundle stores and that so many rows allow."""
    scores = _scores(bundle, path, form)
    levels = [level for level in HELD_LEVELS if len(scores) >= least_rows(level)]
    return tuple(Holding(level, find_cut(scores, level), len(scores)) for level in levels)


@torch.no_grad()
def _scores(bundle: Bundle, path: str | Path, form: FileForm | None) -> Tensor:
    x, y = read_labelled(bundle, path, form=form)
    return answer_scores(answer_rows(bundle, x), y)
