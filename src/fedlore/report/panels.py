"""Rows as scores, and scores as panels: what belongs into one table or plot."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from ..core.history import Row
from ..errors import FedloreError
from ..experiments.approaches import APPROACHES, MLWKM
from ..experiments.intervals import MeanInterval, interval, pair_interval
from ..words import say
from .words import dataset_name, percent, range_name


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
    if type(seed) is not int:
        raise FedloreError(f"{where}: seed must be a whole number, got {seed!r}")
    if isinstance(row.get("trust"), str):
        row = {**row, "trust": None}  # such as "auto": each client chose its own, none is to plot
    texts = ("approach", "client", "model", "dataset", "protocol", "range")
    shares = ("ta", "pov", "abstained", "share", "trust", "coverage")
    made: dict[str, Any] = {name: plain_text(row.get(name)) for name in texts}
    made |= {name: _fraction(row, name, where) for name in shares}
    return Score(seed=seed, width=_fraction(row, "width", where, most=math.inf), **made)


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


def by_approach(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each approach, in the order that every table uses."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row["approach"]), []).append(row)
    return {name: found[name] for name in by_convention(found)}


class ShownMetric(NamedTuple):
    """How a metric is found in rows and shown."""

    key: str
    words: str
    scale: float = 100.0
    less: bool = False  # whether less is better

    @property
    def form(self) -> str:
        return ".1f" if self.scale == 100.0 else ".4g"


def shown_metric(rows: Sequence[Row], metric: str = "") -> ShownMetric:
    """What approaches are compared by: the metric that was asked for, else the usual one.

    >>> shown_metric([{"rmse": 1.5}]).words, shown_metric([{"ta": 0.5}], "macro_f1").words
    ('RMSE', 'macro F1, %')
    """
    number = any(row.get("rmse") is not None for row in rows)
    return _SHOWN[metric or ("rmse" if number else "accuracy")]


_SHOWN = {
    "accuracy": ShownMetric("ta", "right, %"),
    "balanced": ShownMetric("balanced", "balanced accuracy, %"),
    "macro_f1": ShownMetric("macro_f1", "macro F1, %"),
    "log_loss": ShownMetric("nll", "log loss", 1.0, True),
    "rmse": ShownMetric("rmse", "RMSE", 1.0, True),
    "mae": ShownMetric("mae", "MAE", 1.0, True),
}


def mean_score(values: Sequence[float]) -> float:
    """The plain mean."""
    return math.fsum(values) / len(values)


Metric = Literal["ta", "pov"]


@dataclass(frozen=True)
class Line:
    """One line of a table: an approach, and what tells it from its other lines."""

    approach: str
    model: str
    share: float | None
    trust: float | None  # only where λ was swept
    label: str
    scores: tuple[Score, ...]

    def seeds(self, metric: Metric, clients: Sequence[str]) -> dict[int, float]:
        """The mean over these clients for each seed that has them all."""
        found: dict[int, dict[str, float]] = {}
        for score in self.scores:
            value = getattr(score, metric)
            if score.client in clients and value is not None:
                found.setdefault(score.seed, {})[score.client] = value
        complete = {s: list(v.values()) for s, v in found.items() if len(v) == len(clients)}
        return {seed: mean_score(values) for seed, values in sorted(complete.items())}

    def covers(self, score: Score) -> bool:
        """Whether a score, of another round for one, belongs to this line."""
        same = (score.approach, score.model, score.share) == (self.approach, self.model, self.share)
        return same and self.trust in (None, score.trust)

    def interval(self, metric: Metric, clients: Sequence[str]) -> MeanInterval | None:
        """The mean over these clients with its 95 % interval over seeds, as fractions."""
        values = list(self.seeds(metric, clients).values())
        return interval(values) if values else None


@dataclass(frozen=True)
class Panel:
    """What is compared side by side: one case at one share of the training rows."""

    case: "Case"
    share: float | None
    lines: tuple[Line, ...]
    clients: tuple[str, ...]

    @property
    def seeds(self) -> int:
        return len({score.seed for line in self.lines for score in line.scores})

    @property
    def reference(self) -> Line | None:
        """The line that the others are held against: lore, or else the paper's own method."""
        for name in ("lore", "FLwKM"):
            mine = [line for line in self.lines if line.approach == name]
            if len(mine) == 1 and len(self.lines) > 1:
                return mine[0]
        return None

    @property
    def missing(self) -> int:
        """Cells that other lines have and these rows lack, as after an interruption."""
        seeds = {score.seed for line in self.lines for score in line.scores}
        cells = len(self.lines) * len(self.clients) * len(seeds)
        return cells - sum(len(line.scores) for line in self.lines)


@dataclass(frozen=True)
class Case:
    """One data set under one protocol with one kind of range."""

    dataset: str
    protocol: str
    range: str
    scores: tuple[Score, ...]

    @property
    def title(self) -> str:
        """What was run, in words."""
        protocol = say("{name} protocol", name=self.protocol) if self.protocol else ""
        parts = (dataset_name(self.dataset), protocol, range_name(self.range))
        return " · ".join(part for part in parts if part)

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(sorted({score.client for score in self.scores}, key=natural))

    @property
    def shares(self) -> list[float | None]:
        return sorted({s.share for s in self.scores}, key=lambda share: share or 0.0)

    def panels(self) -> list[Panel]:
        """A panel for every share at which something is compared."""
        kept = []
        for share in self.shares:
            lines = label([s for s in self._compared() if s.share == share])
            if len(lines) > 1 or len(self.shares) == 1:
                clients = {score.client for line in lines for score in line.scores}
                ordered = tuple(sorted(clients, key=natural))
                kept.append(Panel(self, share, tuple(lines), ordered))
        return kept

    def _compared(self) -> list[Score]:
        """The scores at the λ that clients have, where other tables swept it; the curve has all."""
        usual = {score.trust for score in self.scores if score.approach == MLWKM.name}
        if len(usual) != 1:
            return list(self.scores)
        names = {score.approach for score in self.scores}
        swept = {n for n in names if _swept([s for s in self.scores if s.approach == n])}
        return [s for s in self.scores if s.approach not in swept or s.trust in usual]

    def swept(self, of: Literal["share", "trust"]) -> list[list[Line]]:
        """Lines that differ in nothing but the share or the trust, at least two together."""
        groups: dict[tuple[object, ...], list[Line]] = {}
        for line in label(self.scores):
            key = (line.approach, line.model, line.trust if of == "share" else line.share)
            if getattr(line, of) is not None:
                groups.setdefault(key, []).append(line)
        return [group for group in groups.values() if len(group) > 1]


def cases(scores: Iterable[Score]) -> list[Case]:
    """The cases in order of appearance.

    Scores without any range stand beside every range of the same data and protocol.
    """
    found: dict[tuple[str, str, str], list[Score]] = {}
    for score in scores:
        found.setdefault((score.dataset, score.protocol, score.range), []).append(score)
    made = []
    for (dataset, protocol, kind), own in found.items():
        ranges = {r for d, p, r in found if (d, p) == (dataset, protocol)}
        if kind == "none" and len(ranges) > 1:
            continue
        bare = found.get((dataset, protocol, "none"), []) if kind != "none" else []
        known = {score.approach for score in own}
        joined = [replace(score, range=kind) for score in bare if score.approach not in known]
        made.append(Case(dataset, protocol, kind, (*own, *joined)))
    return made


def label(scores: Sequence[Score]) -> list[Line]:
    """Scores as lines, each named by its approach and by what varies within it."""
    groups: dict[tuple[str, str, float | None, float | None], list[Score]] = {}
    for approach in by_convention(score.approach for score in scores):
        mine = [score for score in scores if score.approach == approach]
        swept = _swept(mine)
        for score in mine:
            key = (approach, score.model, score.share, score.trust if swept else None)
            groups.setdefault(key, []).append(score)
    lines = []
    for key in groups:
        same = [other for other in groups if other[0] == key[0]]
        lines.append(Line(*key, _name(key, same), tuple(groups[key])))
    rank = by_convention(line.approach for line in lines).index
    return sorted(lines, key=lambda l: (rank(l.approach), l.share or 0.0, l.trust or 0.0, l.model))


def _swept(scores: Sequence[Score]) -> bool:
    """Whether λ was varied: one cell met more than one. A client's private choice is no sweep."""
    seen: dict[tuple[object, ...], float | None] = {}
    for s in scores:
        cell = (s.model, s.client, s.seed, s.share)
        if seen.setdefault(cell, s.trust) != s.trust:
            return True
    return False


def _name(
    key: tuple[str, str, float | None, float | None],
    same: Sequence[tuple[str, str, float | None, float | None]],
) -> str:
    """The approach, then the model, share and trust where they differ between its lines."""
    shown: tuple[Callable[[], str], ...] = (
        lambda: key[1] or "unnamed model",
        lambda: (
            say("all rows")
            if key[2] is None
            else say("{share} % of the rows", share=percent(key[2]))
        ),
        lambda: say("own λ") if key[3] is None else f"λ = {key[3]:g}",
    )
    varying = [text() for i, text in enumerate(shown, 1) if len({other[i] for other in same}) > 1]
    return ", ".join([key[0], *varying])


def panel_margins(panel: Panel) -> list[tuple[Line, MeanInterval, MeanInterval]]:
    """TA of the reference minus that of every other line: (line, its TA, difference).

    Paired by the seeds that both have.
    """
    if panel.reference is None:
        return []
    ours = panel.reference.seeds("ta", panel.clients)
    found = []
    for line in panel.lines:
        theirs = line.seeds("ta", panel.clients)
        both = [seed for seed in ours if seed in theirs]
        if line is not panel.reference and both:
            gap = pair_interval([ours[s] for s in both], [theirs[s] for s in both])
            found.append((line, interval([theirs[s] for s in both]), gap))
    return found
