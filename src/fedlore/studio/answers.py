"""What the draft answers to rows: classes or numbers, in the forms that the pages show.

The draft is asked through the functions that training and `predict` use. Where it contradicts
itself a row is marked, and the others are answered all the same.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..answers import Sets
from ..answers.axis import find_favoured, name_class, share_right
from ..errors import KnowledgeError
from ..kernel.cells import format_outcome
from ..kernel.schema import Schema
from ..knowledge import Knowledge
from ..knowledge.findings.checkup import Checkup
from ..knowledge.findings.examples import SILENT_WORD
from ..knowledge.missing import hide_others
from ..knowledge.sources.catalog import leaves
from ..knowledge.sources.reasons import favoured_words, forbidden_words
from ..knowledge.tables.table import Table

_Parts = Iterable[tuple[Tensor, tuple[Tensor | None, Any]]]  # rows, the prediction, the range


@dataclass(frozen=True, eq=False)
class ClassAnswers:
    """What the knowledge says of n rows, where that are classes."""

    score: ClassVar[str] = "accuracy"
    schema: Schema
    refused: Tensor  # (n,) bool: the rules contradict each other there
    prior: Tensor  # (n, k), zero where the expert is silent
    allowed: Tensor  # (n, k) bool
    forbidden: list[str]  # what the expert says of a row although the range forbids it, or ""

    @staticmethod
    def of(
        known: Knowledge, schema: Schema, parts: _Parts, refused: Tensor, forbidden: list[str]
    ) -> "ClassAnswers":
        n, k = len(refused), len(schema.classes)
        prior, allowed = torch.zeros(n, k), torch.ones(n, k, dtype=torch.bool)
        for rows, (said, may) in parts:
            prior[rows] = 0.0 if said is None else said.float()
            allowed[rows] = True if may is None else may
        allowed[refused] = False
        return ClassAnswers(schema, refused, prior, allowed, forbidden)

    @cached_property
    def favoured(self) -> Tensor:
        """The classes that he holds to be most likely, (n, k) bool."""
        return find_favoured(self.prior)

    @cached_property
    def expert(self) -> Tensor:
        """The class he names, or -1 where he is silent or torn between several, (n,)."""
        return name_class(self.favoured)

    @property
    def silent(self) -> Tensor:
        """Rows on which he says nothing, (n,) bool."""
        return ~self.favoured.any(1)

    @property
    def width(self) -> float:
        """How wide the range is on average."""
        return float(self.allowed.sum(1).float().mean())

    def outside(self, y: Tensor) -> Tensor:
        """Labels that are not possible, (n,) bool."""
        return ~self.allowed.gather(1, y.unsqueeze(1)).squeeze(1) & ~self.refused

    def measure(self, y: Tensor) -> dict[str, Any]:
        """How good the expert is on labels."""
        right = float(share_right(self.favoured, y).sum())
        return {"right": right, "classes": len(self.schema.classes)}

    def row(self) -> dict[str, Any]:
        """All about the first row, as plain values."""
        classes, prior = self.schema.classes, self.prior[0]
        soft = bool(((prior > 0) & (prior < 1)).any())
        return {
            "expert": favoured_words(self.favoured[:1], classes)[0] or None,
            "favoured": list(compress(classes, self.favoured[0].tolist())),
            "forbidden": self.forbidden[0],
            "chances": dict(zip(classes, prior.tolist(), strict=True)) if soft else None,
            "allowed": list(compress(classes, self.allowed[0].tolist())),
        }

    def rows(self) -> dict[str, Any]:
        """All rows as plain values, side by side."""
        allowed, favoured = (
            ["".join("01"[yes] for yes in row) for row in bits.tolist()]
            for bits in (self.allowed, self.favoured)
        )
        return {
            "refused": self.refused.tolist(),
            "favoured": favoured,
            "allowed": allowed,
            "forbidden": self.forbidden,
        }

    @cached_property
    def words(self) -> list[str]:
        """The answer to each row in few words: what the expert says, and what is possible."""
        found = []
        for row, refused in enumerate(self.refused.tolist()):
            said, possible = ("contradiction", "all") if refused else self._say(row)
            found.append(f"{said} (possible: {possible})" if possible != "all" else said)
        return found

    def _say(self, row: int) -> tuple[str, str]:
        classes = self.schema.classes
        said = favoured_words(self.favoured[row : row + 1], classes)[0] or SILENT_WORD
        may = self.allowed[row].nonzero().flatten().tolist()
        return said, format_outcome(may, classes, "range")

    def changes(self, other: Any) -> list[tuple[str, str]]:
        """What kind of change each row's answer is to another one; a pair of equals is none."""
        return list(zip(self.words, other.words, strict=True))

    def cells(self, row: int) -> list[str]:
        """The answer to a row as the last cells of an example."""
        said, possible = self._say(row)
        return ["" if self.favoured[row].sum() > 1 else said, possible, ""]  # no tie is expected

    def name(self, value: float) -> str:
        """One answer, as people call it."""
        return self.schema.classes[int(value)]

    @staticmethod
    def judge(said: Tensor, y: Tensor) -> float:
        """The score of predictions, (n,) each."""
        return float((said == y).double().mean())

    @staticmethod
    def apart(one: Tensor, two: Tensor) -> Tensor:
        """Which predictions differ, (n,) bool."""
        return one.ne(two)


@dataclass(frozen=True, eq=False)
class NumberAnswers:
    """The same, where that are numbers."""

    score: ClassVar[str] = "rmse"
    schema: Schema
    refused: Tensor  # (n,) bool
    ends: Tensor  # (n, 3): the expert's number, or NaN; the least and the largest that is possible
    forbidden: list[str]  # what he says of a row although the range forbids it, or ""

    @staticmethod
    def of(
        known: Knowledge, schema: Schema, parts: _Parts, refused: Tensor, forbidden: list[str]
    ) -> "NumberAnswers":
        assert known.bins is not None
        ends = torch.full((len(refused), 3), torch.nan, dtype=torch.float64)
        for rows, (said, sets) in parts:
            may = sets if sets is not None else Sets.whole(len(rows), *known.bins.bounds)
            low = may.lower.nan_to_num(torch.inf).amin(1)
            high = may.upper.nan_to_num(-torch.inf).amax(1)
            heard = torch.full_like(low, torch.nan) if said is None else said
            ends[rows] = torch.stack([heard.double(), low, high], 1)
        return NumberAnswers(schema, refused, ends, forbidden)

    @property
    def expert(self) -> Tensor:
        return self.ends[:, 0]

    @property
    def silent(self) -> Tensor:
        return self.expert.isnan()

    @property
    def width(self) -> float:
        _, low, high = self.ends[~self.refused].T
        return float((high - low).mean())

    def outside(self, y: Tensor) -> Tensor:
        inside: Tensor = (y >= self.ends[:, 1]) & (y <= self.ends[:, 2])
        return ~inside & ~self.refused

    def measure(self, y: Tensor) -> dict[str, Any]:
        off = (self.expert - y)[~self.silent & ~self.refused]
        return {
            "number": True,
            "unit": self.schema.unit,
            "rmse": float(off.square().mean().sqrt()) if len(off) else None,
            "mae": float(off.abs().mean()) if len(off) else None,
        }

    def row(self) -> dict[str, Any]:
        said, low, high = self.ends[0].tolist()
        ends = {"expert": None if said != said else said, "low": low, "high": high}
        return {**ends, "allowed": None, "forbidden": self.forbidden[0]}

    def rows(self) -> dict[str, Any]:
        ends = zip(("expert", "low", "high"), self.ends.T.tolist(), strict=True)
        shown = {key: [v if math.isfinite(v) else None for v in values] for key, values in ends}
        return {"refused": self.refused.tolist(), "forbidden": self.forbidden, **shown}

    @cached_property
    def words(self) -> list[str]:
        return [
            "contradiction"
            if refused
            else f"{SILENT_WORD if said != said else f'{said:.4g}'} "
            f"(possible: {low:.4g}..{high:.4g})"
            for (said, low, high), refused in zip(
                self.ends.tolist(), self.refused.tolist(), strict=True
            )
        ]

    def changes(self, other: Any) -> list[tuple[str, str]]:
        """They differ from place to place: what rose and what fell."""
        near = 1e-6 * (1 + self.ends.nan_to_num().abs())
        rose, fell = other.ends > self.ends + near, other.ends < self.ends - near
        lost = self.ends.isnan() != other.ends.isnan()
        kinds = torch.where(lost, 3, torch.where(rose, 1, torch.where(fell, 2, 0))).tolist()
        clash = (self.refused != other.refused).tolist()
        signs = ("".join("=+-?"[kind] for kind in row) for row in kinds)
        return [("===", kind + "!" * odd) for kind, odd in zip(signs, clash, strict=True)]

    def cells(self, row: int) -> list[str]:
        said = float(self.expert[row])
        return [SILENT_WORD if said != said else f"{said:.6g}", "", ""]

    def name(self, value: float) -> float:
        return float(f"{value:.6g}")

    @staticmethod
    def judge(said: Tensor, y: Tensor) -> float:
        return float((said.double() - y.double()).square().mean().sqrt())

    @staticmethod
    def apart(one: Tensor, two: Tensor) -> Tensor:
        return (one - two).abs() > 1e-6 * (1 + one.abs())


DraftAnswers = ClassAnswers | NumberAnswers


def usable(checkup: Checkup) -> tuple[Knowledge, Schema]:
    """The knowledge of a checkup, or a sentence why there is none."""
    known = checkup.knowledge
    if known is None or known.schema is None:
        first = first_error(checkup)
        why = f" ({first})" if first else ""
        raise KnowledgeError(f"the rules cannot be used yet: correct the errors first{why}")
    return known, known.schema


def first_error(checkup: Checkup) -> str:
    """Why the knowledge cannot be used at all; empty where nothing says so."""
    found = (f"{f.place}: {f.message}" for f in checkup.findings if f.severity == "error")
    return next(found, "")


@torch.no_grad()
def answer_draft(checkup: Checkup, x: Tensor) -> DraftAnswers:
    """What the knowledge says of rows; where it contradicts itself the others are still told."""
    known, schema = usable(checkup)
    refused = torch.zeros(len(x), dtype=torch.bool)
    for table in tables_in(checkup):
        refused |= _clashes(table, x)
    forbidden = [""] * len(x)
    parts = _ask_parts(known, x, (~refused).nonzero().flatten(), refused, forbidden)
    kind = ClassAnswers if known.line is None else NumberAnswers
    return kind.of(known, schema, parts, refused, forbidden)


def _ask_parts(
    known: Knowledge, x: Tensor, rows: Tensor, refused: Tensor, forbidden: list[str]
) -> Iterator[Any]:
    """The answers by parts that can be answered; rows that cannot are marked, found by halving.

    On the way `forbidden` takes what the expert says of a row although the range forbids it.
    """
    waiting = [rows]
    while waiting:
        part = waiting.pop()
        if not len(part):
            continue
        try:
            seen = hide_others(x[part], known.schema)
            yield part, ask_once(known, x[part])
            for row, words in zip(part.tolist(), forbidden_words(known, seen), strict=True):
                forbidden[row] = words
        except KnowledgeError:
            if len(part) == 1:
                refused[part] = True
            else:
                middle = len(part) // 2
                waiting += [part[middle:], part[:middle]]


def ask_once(known: Knowledge, x: Tensor) -> tuple[Tensor | None, Any]:
    """Prediction and range of rows, all of them or none: what is contradicted is raised."""
    axis = known.answers
    return axis.read(known.annotate(axis.rows(x), axis, training=False))


def _clashes(table: Table, x: Tensor) -> Tensor:
    """Rows on which a table refuses to answer, as far as whole rows show it, (n,) bool."""
    if table.policy not in ("intersect", "unique"):
        return torch.zeros(len(x), dtype=torch.bool)
    hits = table.hits(x).float()
    outcomes = torch.zeros(len(table.rules), len(table.schema.classes))
    for index, rule in enumerate(table.rules):
        outcomes[index, list(rule.outcome)] = 1.0
    if table.policy == "intersect":
        return (hits @ (1.0 - outcomes) > 0).all(1)
    return (hits @ outcomes > 0).sum(1) > 1


def rule_tables(*models: Any) -> Iterator[tuple[Any, Table]]:
    """The sources that are decision tables, each with its rules."""
    for model in leaves(*models):
        table = getattr(model, "table", model)
        if isinstance(table, Table):
            yield model, table


def tables_in(checkup: Checkup) -> list[Table]:
    """The decision tables whose rules always hold and speak of classes."""
    known = checkup.knowledge
    if known is None or known.line is not None:
        return []
    return [t for model, t in rule_tables(known.prediction, known.range) if model is t]


def name_values(schema: Schema, row: Iterable[float]) -> dict[str, float | str | None]:
    """A row by the names of its features and levels; None where a value is missing."""
    return {f.name: _named(v, f.levels) for f, v in zip(schema.features, row, strict=True)}


def _named(value: float, levels: tuple[str, ...]) -> float | str | None:
    if value != value:
        return None
    if levels:
        return levels[int(value)] if value < len(levels) else "?"
    return float(f"{value:.7g}")  # what float32 holds of a number that was typed
