"""Scores of classes beside plain accuracy: fair to rare classes, and to grades that are near."""

import torch
from torch import Tensor


def count_pairs(predicted: Tensor, y: Tensor, k: int) -> Tensor:
    """How often each label met each class, (k, k + 1); who names none stands in the last column."""
    said = torch.where(predicted < 0, k, predicted).long()
    flat = torch.bincount(y.long() * (k + 1) + said, minlength=k * (k + 1))
    return flat.reshape(k, k + 1).double()


def per_class(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Precision and recall of each class, (k,) each; NaN where nobody named it, or none was there.

    >>> precision, recall = per_class(count_pairs(torch.tensor([0, 0]), torch.tensor([0, 1]), 2))
    >>> precision.tolist(), recall.tolist()
    ([0.5, nan], [1.0, 0.0])
    """
    k = len(counts)
    right = counts[:, :k].diagonal()
    return right / counts[:, :k].sum(0), right / counts.sum(1)


def balanced_accuracy(counts: Tensor) -> float:
    """The mean recall over the classes that are there."""
    recall = per_class(counts)[1]
    return float(recall[~recall.isnan()].mean())


def macro_f1(counts: Tensor) -> float:
    """The mean over classes that are there or were named of 2·right / (named + there)."""
    k = len(counts)
    both = counts[:, :k].sum(0) + counts.sum(1)
    found = 2 * counts[:, :k].diagonal() / both
    return float(found[both > 0].mean())


def grade_error(counts: Tensor) -> float | None:
    """The mean distance in grades of rows that were answered; None where none was."""
    named = counts[:, : len(counts)]
    total = float(named.sum())
    return float((named * _apart(len(counts))).sum()) / total if total else None


def quadratic_kappa(counts: Tensor) -> float | None:
    """Cohen's kappa (1968) with squared distances in grades; None where chance is never wrong."""
    named = counts[:, : len(counts)]
    total = float(named.sum())
    if not total:
        return None
    squares = _apart(len(counts)).square()
    chance = named.sum(1, keepdim=True) * named.sum(0, keepdim=True) / total
    by_chance = float((squares * chance).sum())
    return 1 - float((squares * named).sum()) / by_chance if by_chance else None


def class_scores(
    predicted: Tensor, y: Tensor, k: int, *, ordered: bool = False
) -> dict[str, float]:
    """All of them by the names they have in rows; a label that is never there counts nowhere."""
    counts = count_pairs(predicted, y, k)
    found = {"balanced": balanced_accuracy(counts), "macro_f1": macro_f1(counts)}
    if ordered:
        grades = {"grade_error": grade_error(counts), "kappa": quadratic_kappa(counts)}
        found |= {name: value for name, value in grades.items() if value is not None}
    return found


def _apart(k: int) -> Tensor:
    """How many grades lie between two classes, (k, k)."""
    grades = torch.arange(k, dtype=torch.float64)
    return (grades.unsqueeze(1) - grades).abs()
