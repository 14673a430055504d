"""Scores: accuracy (TA), violations (POV), log-likelihood, marks of classes, calibration.

Expected calibration error over bins of equal mass: Nguyen, O'Connor (2015); the ranked probability
score of ordered classes is the CRPS of a step function (Gneiting, Raftery 2007).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import ConfigError, FedloreError
from .rng import stream

CLASS_METRICS = ("accuracy", "balanced", "macro_f1", "log_loss")
NUMBER_METRICS = ("rmse", "mae")
LEAST_LOG = -20.0  # log-probability of a label that is called impossible


def check_metric(metric: str, *, numbers: bool) -> None:
    """Refuse a metric that is not one of what is learned; none is the usual one."""
    known = NUMBER_METRICS if numbers else CLASS_METRICS
    if metric and metric not in known:
        what = "a number" if numbers else "classes"
        raise ConfigError(f"metric of {what} must be one of {', '.join(known)}, got '{metric}'")


def row_costs(metric: str, said: Tensor, y: Tensor) -> Tensor:
    """What each row costs, (n,), from numbers (n,) or log-probabilities (n, k).

    Balanced: every class that there is counts alike. F1 is no sum over rows, which is all that
    sites add up, and is decided by the same errors.
    """
    if metric in NUMBER_METRICS:
        return (said - y).abs() if metric == "mae" else (said - y).square()
    if metric == "log_loss":
        return -said.gather(1, y.unsqueeze(1)).squeeze(1).clamp(min=LEAST_LOG)
    wrong = (said.argmax(1) != y).double()
    if metric == "accuracy":
        return wrong
    count = torch.bincount(y, minlength=said.shape[1]).double()
    return wrong * len(y) / (count[y] * (count > 0).sum())


def accuracy(predicted: Tensor, y: Tensor) -> float:
    """Share of rows predicted right."""
    return float((predicted == y).double().mean())


def violation(predicted: Tensor, allowed: Tensor) -> float:
    """Share of predictions outside the range (the paper's POV, as a fraction).

    A prediction of -1 (an expert who abstains) says nothing, so it violates nothing.
    """
    inside = allowed.gather(1, predicted.clamp(min=0).unsqueeze(1)).squeeze(1)
    return float((~inside & (predicted >= 0)).double().mean())


def nll(log_probs: Tensor, y: Tensor) -> float:
    """Mean of -log f^m(x)_y."""
    return float(torch.nn.functional.nll_loss(log_probs.double(), y))


def find_median(log_probs: Tensor) -> Tensor:
    """The first class with at least half of the probability below or at it, (n, k) -> (n,)."""
    share = log_probs.double().exp()
    reached = share.cumsum(1) >= 0.5 * share.sum(1, keepdim=True)
    return (reached & (share > 0)).double().argmax(1)


def decide(log_probs: Tensor, prior: Tensor | None = None, signs: Tensor | None = None) -> Tensor:
    """The most probable class of each row; at an exact tie the expert's class wins, (n, k) -> (n,).

    Where the expert has no part in the tie, the lowest class wins. Of rows with shapes (`signs`)
    it is the median: dominance orders medians, but not the most probable classes.
    """
    if signs is not None:
        return find_median(log_probs)
    best = log_probs.max(1, keepdim=True)
    if prior is None:
        return best.indices.squeeze(1)
    tied = (log_probs == best.values) & (prior > 0)
    return torch.where(tied.any(1), tied.double().argmax(1), best.indices.squeeze(1))


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


BINS = 15
ROWS_A_BIN = 10  # at least, unless bins are asked for: a share of three rows says nothing
_RESAMPLED = 200


@dataclass(frozen=True)
class ReliabilityBin:
    """Rows of about the same confidence: how sure they were, and how many were right."""

    confidence: float
    right: float
    rows: int


def reliability(
    probabilities: Tensor, y: Tensor, *, bins: int | None = None
) -> list[ReliabilityBin]:
    """The diagram: rows in order of the top label's probability, in bins of equal mass.

    >>> sure = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
    >>> [(round(b.confidence, 1), b.right) for b in reliability(sure, torch.tensor([0, 1]), bins=2)]
    [(0.6, 0.0), (0.9, 1.0)]
    """
    sure, right = _top(probabilities, y)
    order = sure.argsort(stable=True)
    if bins is None:
        bins = min(BINS, max(len(order) // ROWS_A_BIN, 1))
    return [
        ReliabilityBin(float(sure[part].mean()), float(right[part].mean()), len(part))
        for part in order.chunk(min(bins, max(len(order), 1)))
        if len(part)
    ]


def calibration_error(probabilities: Tensor, y: Tensor, *, bins: int | None = None) -> float:
    """Expected calibration error of the top label."""
    return bins_error(reliability(probabilities, y, bins=bins))


def calibration_interval(
    probabilities: Tensor, y: Tensor, *, bins: int | None = None
) -> tuple[float, float, float]:
    """The same with 90 % of what it is on rows drawn again; few rows push it up, seldom down."""
    draw = stream("calibration", len(y))
    again = []
    for _ in range(_RESAMPLED):
        rows = torch.randint(0, max(len(y), 1), (len(y),), generator=draw)
        again.append(calibration_error(probabilities[rows], y[rows], bins=bins))
    again.sort()
    ends = again[round(0.05 * _RESAMPLED)], again[round(0.95 * _RESAMPLED) - 1]
    return calibration_error(probabilities, y, bins=bins), *ends


def brier(probabilities: Tensor, y: Tensor) -> float:
    """Mean squared distance of the probabilities from the label, 0 to 2."""
    aim = torch.nn.functional.one_hot(y, probabilities.shape[1])
    return float((probabilities.double() - aim).square().sum(1).mean())


def ranked_score(probabilities: Tensor, y: Tensor) -> float:
    """CRPS of ordered classes, in classes: 0 where all probability lies on the label.

    >>> ranked_score(torch.tensor([[0.5, 0.0, 0.5]]), torch.tensor([0]))
    0.5
    """
    below = probabilities.double().cumsum(1)
    at = torch.arange(probabilities.shape[1], device=y.device)
    return float((below - (at >= y.unsqueeze(1)).double()).square().sum(1).mean())


def class_reliability(probabilities: Tensor, y: Tensor, *, ordered: bool) -> dict[str, float]:
    """All of it by name."""
    error, low, high = calibration_interval(probabilities, y)
    found = {"ece": error, "ece low": low, "ece high": high, "brier": brier(probabilities, y)}
    return found | ({"crps": ranked_score(probabilities, y)} if ordered else {})


def held_shares(
    low: Tensor, high: Tensor, y: Tensor, levels: Sequence[float]
) -> list[ReliabilityBin]:
    """The same diagram of intervals: for each nominal level the share of labels they hold.

    Ends are (n, q), one column for each level.
    """
    held = ((low <= y.unsqueeze(1)) & (y.unsqueeze(1) <= high)).double().mean(0)
    return [ReliabilityBin(said, float(h), len(y)) for said, h in zip(levels, held, strict=True)]


def merge_bins(parts: Sequence[ReliabilityBin], *, bins: int = BINS) -> list[ReliabilityBin]:
    """Bins of several models or sites together, in at most so many of about equal mass.

    >>> a, b = ReliabilityBin(0.4, 0.0, 10), ReliabilityBin(0.6, 0.5, 30)
    >>> merge_bins([b, a], bins=1)
    [ReliabilityBin(confidence=0.55, right=0.375, rows=40)]
    """
    order = sorted(parts, key=lambda part: part.confidence)
    rows, found, seen = sum(part.rows for part in order), [], 0
    groups: dict[int, list[ReliabilityBin]] = {}
    for part in order:
        groups.setdefault(min(bins * seen // max(rows, 1), bins - 1), []).append(part)
        seen += part.rows
    for group in groups.values():
        n = sum(part.rows for part in group)
        if n:
            said = math.fsum(part.confidence * part.rows for part in group) / n
            right = math.fsum(part.right * part.rows for part in group) / n
            found.append(ReliabilityBin(said, right, n))
    return found


def bins_error(parts: Sequence[ReliabilityBin]) -> float:
    """Expected calibration error of bins as they are."""
    rows = sum(part.rows for part in parts)
    return math.fsum(p.rows * abs(p.right - p.confidence) for p in parts) / max(rows, 1)


def bins_interval(parts: Sequence[ReliabilityBin]) -> tuple[float, float]:
    """90 % of what that error is when the right rows of each bin are drawn again."""
    draw = stream("calibration bins", len(parts))
    right = torch.tensor([p.right for p in parts], dtype=torch.float64)
    rows = torch.tensor([float(p.rows) for p in parts], dtype=torch.float64)
    said = torch.tensor([p.confidence for p in parts], dtype=torch.float64)
    # a normal of the same variance: bins hold dozens of rows
    spread = (right * (1.0 - right) / rows.clamp(min=1.0)).sqrt()
    again = right + spread * torch.randn(_RESAMPLED, len(parts), generator=draw).double()
    errors = ((again.clamp(0.0, 1.0) - said).abs() @ rows / rows.sum().clamp(min=1.0)).sort().values
    low, high = errors[round(0.05 * _RESAMPLED)], errors[round(0.95 * _RESAMPLED) - 1]
    found = bins_error(parts)  # drawing again pushes an error near 0 up
    return min(float(low), found), max(float(high), found)


def write_bins(parts: Sequence[ReliabilityBin]) -> str:
    """Bins as one text, for a flat row.

    >>> write_bins([ReliabilityBin(0.4, 0.25, 8)])
    '0.4000 0.2500 8'
    """
    return "; ".join(f"{p.confidence:.4f} {p.right:.4f} {p.rows}" for p in parts)


def read_bins(text: str) -> list[ReliabilityBin]:
    """The bins of such a text; refused where it is none."""
    try:
        found = [part.split() for part in text.split(";") if part.strip()]
        bins = [ReliabilityBin(float(said), float(right), int(n)) for said, right, n in found]
    except ValueError:
        raise FedloreError(
            f"'{text[:60]}' is not a diagram of how sure and how often right"
        ) from None
    if not all(0.0 <= b.confidence <= 1.0 and 0.0 <= b.right <= 1.0 and b.rows > 0 for b in bins):
        raise FedloreError(f"'{text[:60]}' has shares outside [0, 1], or a bin without rows")
    return bins


def _top(probabilities: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    sure, said = probabilities.double().max(1)
    return sure, (said == y).double()
