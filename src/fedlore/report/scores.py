"""Flat rows, checked at the door and turned into scores."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..core.history import Row
from ..errors import FedloreError
from ..experiments.approaches import APPROACHES


@dataclass(frozen=True)
class Score:
    """One approach at one client under one seed."""

    approach: str
    client: str
    seed: int
    ta: float
    pov: float | None = None
    abstained: float | None = None
    model: str = ""  # whose weights were scored
    dataset: str = ""
    protocol: str = ""
    range: str = ""
    share: float | None = None  # of the training rows
    trust: float | None = None  # λ
    coverage: float | None = None  # share of test rows whose label lies in the range
    width: float | None = None  # classes in the range, on average


def read_scores(rows: Iterable[Row]) -> list[Score]:
    """The scores in rows; a later row replaces an earlier one for the same cell."""
    found: dict[tuple[object, ...], Score] = {}
    for number, row in enumerate(rows, 1):
        score = _score(row, f"row {number}")
        place = (score.dataset, score.protocol, score.range, score.approach, score.model)
        found[*place, score.client, score.seed, score.share, score.trust] = score
    if not found:
        raise FedloreError("a report needs at least one row, got none")
    return list(found.values())


def _score(row: Row, where: str) -> Score:
    for name in ("approach", "client", "seed", "ta"):
        if row.get(name) is None:
            raise FedloreError(f"{where}: '{name}' is missing")
    seed = row["seed"]
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise FedloreError(f"{where}: seed must be a whole number, got {seed!r}")
    ta = _fraction(row, "ta", where)
    assert ta is not None
    told = row.get("trust")
    return Score(
        approach=plain_text(row["approach"]),
        client=plain_text(row["client"]),
        seed=seed,
        ta=ta,
        pov=_fraction(row, "pov", where),
        abstained=_fraction(row, "abstained", where),
        model=plain_text(row.get("model")),
        dataset=plain_text(row.get("dataset")),
        protocol=plain_text(row.get("protocol")),
        range=plain_text(row.get("range")),
        share=_fraction(row, "share", where),
        # a word such as "auto" says that each client chose its own: there is no one λ to plot
        trust=None if isinstance(told, str) else _fraction(row, "trust", where),
        coverage=_fraction(row, "coverage", where),
        width=_fraction(row, "width", where, most=math.inf),
    )


def _fraction(row: Row, name: str, where: str, *, most: float = 1) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise FedloreError(f"{where}: {name} must lie in [0, {most:g}], got {value!r}")
    return float(value)


def plain_text(value: object) -> str:
    """A value as text that any file can hold: nothing that breaks or turns round a line."""
    text = "" if value is None else str(value)
    text = text.encode("utf-8", "replace").decode("utf-8")
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", " ", text).strip()


def natural(text: str) -> list[tuple[int, float, str]]:
    """A sorting key under which plant-10 comes after plant-2.

    >>> sorted(["plant-10", "plant-2", "-1", "3"], key=natural)
    ['-1', '3', 'plant-2', 'plant-10']
    """
    if re.fullmatch(r"-?\d+(\.\d+)?", text, re.ASCII):
        return [(0, float(text), "")]
    parts = re.split(r"(\d+)", text, flags=re.ASCII)
    return [(1, float(part), "") if part.isdecimal() else (2, 0.0, part) for part in parts]


def by_convention(names: Iterable[str]) -> list[str]:
    """Approaches in the order that every table uses, unknown ones last as they came."""
    order = [approach.name for approach in APPROACHES]
    seen = list(dict.fromkeys(names))
    return sorted(seen, key=lambda name: order.index(name) if name in order else len(order))


def mean_score(values: Sequence[float]) -> float:
    """The plain mean."""
    return math.fsum(values) / len(values)
