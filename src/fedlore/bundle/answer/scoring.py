"""How a bundle does on labelled rows of a file."""

import math
from pathlib import Path

import torch

from ...core.metrics import accuracy, nll, violation
from ...data.rows import read_number_column, read_table
from ...knowledge.numbers.scores import all_scores
from ...knowledge.schema import Schema
from ...personal.regressor import PersonalRegressor
from ..contents import Bundle
from .answering import answer_rows


def scores(bundle: Bundle, path: str | Path) -> dict[str, float]:
    """Test accuracy, violations and log-loss; of a number its errors and violations."""
    if bundle.task == "regression":
        return _numbers(bundle, Path(path))
    rows = read_table(path, bundle.schema, label=bundle.schema.label)
    assert rows.y is not None  # read with its label
    answers = answer_rows(bundle, rows.x)
    loss = nll(answers.probabilities.log(), rows.y)
    found = {
        "ta": accuracy(answers.predicted, rows.y),
        "pov": violation(answers.predicted, answers.allowed),
        "labels outside the range": 1 - float(_inside(answers.allowed, rows.y)),
    }
    return found | ({"nll": loss} if math.isfinite(loss) else {})


def _numbers(bundle: Bundle, path: Path) -> dict[str, float]:
    personal = bundle.personal
    assert isinstance(personal, PersonalRegressor)
    schema = Schema(bundle.schema.features, ("", "-"))  # features only: the label is a number
    x = read_table(path, schema).x
    y = read_number_column(path, bundle.schema.label)
    told = personal.annotate(x)
    return {k: float(v) for k, v in all_scores(personal.predict(told), y, told.sets).items()}


def _inside(allowed: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return allowed.gather(1, y.unsqueeze(1)).double().mean()
