"""knowledge.toml as it is written: its tables and keys, each known, each of its type.

The one reader of the file. The kernel makes its tree of what is read here, the torch side its
models; both open a table, a formula or limits by the entry that stands here.
"""

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from ..config import build
from ..errors import ConfigError, KnowledgeError
from .cells import check_confidence, even_edges, single
from .measures import join_measures
from .schema import Feature
from .sheets import TablePolicy

_FAULT = "knowledge-file"  # the code of errors raised here

FILE = "knowledge.toml"
Effect = Literal["raises", "lowers", "arch", "valley", "concave", "convex"]
Empty = Literal["error", "first", "all"]  # where an intersection leaves nothing
Outside = Literal["error", "widen", "drop"]  # a training label outside its range
Conflict = Literal["abstain", "restrict", "project", "error"]  # a prediction outside the range


@dataclass(frozen=True)
class Card:
    """What a person should know before trusting a piece of knowledge."""

    owner: str = ""  # who answers for it
    version: str = ""  # as the owner counts
    date: str = ""  # of the last change, as the owner writes it
    reference: str = ""  # a paper, a standard, a works instruction
    note: str = ""  # anything else


@dataclass(frozen=True)
class Target:
    """[target]: what is predicted. The federation declares bounds and bins, the site its name."""

    lower: float  # the least value that is possible
    upper: float  # and the greatest
    bins: int = 50  # k
    edges: tuple[float, ...] = ()  # all k + 1, in place of equal widths
    name: str = "y"  # the column of a data file that holds the number
    unit: str = ""  # in which it is measured

    @property
    def bounds(self) -> tuple[float, float]:
        return self.lower, self.upper

    @property
    def k(self) -> int:
        """How many bins there are."""
        return len(self.edges) - 1 if self.edges else self.bins

    @property
    def cuts(self) -> tuple[float, ...]:
        """All k + 1 edges, bounds included."""
        return self.edges or even_edges(self.lower, self.upper, self.bins)

    @property
    def names(self) -> list[str]:
        """What the bins are called in place of classes."""
        names = [f"[{a:g}..{b:g})" for a, b in pairwise(self.cuts)]
        return names if len(set(names)) == len(names) else list(map(str, range(len(names))))


@dataclass(frozen=True)
class Predict:
    """[predict]: one or more experts, heard in order or averaged."""

    sources: tuple[dict[str, Any], ...] = ()  # asked in order; each has the keys of its kind
    combine: Literal["first", "average"] = "first"  # the first that speaks, or their mean
    weights: tuple[float, ...] | None = None  # of an average
    spread: float | None = None  # of a number: σ of a soft prior


@dataclass(frozen=True)
class Range:
    """[range]: one or more ranges, intersected or joined."""

    sources: tuple[dict[str, Any], ...] = ()  # each has the keys of its kind
    combine: Literal["all", "any"] = "all"  # what all of them allow, or what any does
    empty: Empty = "error"  # where an intersection leaves nothing


class Piece(NamedTuple):
    """A stretch of a shape along which it has one direction."""

    sign: int  # +1 where it raises the answer, -1 where it lowers it
    side: Literal["", "<=", ">="] = ""  # of the turn; empty: all of it
    turn: float = 0.0

    def covers(self, values: Any) -> Any:
        """Which values of the feature lie on it: numbers, or a tensor of them."""
        if not self.side:
            return values == values
        turn = single(self.turn)
        return values <= turn if self.side == "<=" else values >= turn


#: The direction before the turn, of effects that have one turn.
TURNING: dict[str, int] = {"arch": 1, "valley": -1}
#: Which way the slope itself moves, of effects that say that alone.
BENDING: dict[str, int] = {"concave": -1, "convex": 1}


@dataclass(frozen=True)
class FeatureShape:
    """How `feature` moves the answer, in the rows where `where` holds."""

    feature: str  # a feature that is a number
    effect: Effect  # a direction, or an arch: it raises the answer up to a turn, then lowers it
    where: str = ""  # a comparison over feature names; empty: everywhere in the scope
    #: Where an arch or a valley turns: a number, or the ends of an interval; None: nobody knows.
    turns_at: float | tuple[float, ...] | None = None
    estimated: bool = False  # a site's rows said where it turns, not its expert

    def __post_init__(self) -> None:
        if self.effect not in get_args(Effect):
            *some, last = get_args(Effect)
            raise KnowledgeError(f"effect must be {', '.join(some)} or {last}, got '{self.effect}'")
        if self.turns_at is None:
            if self.estimated:
                raise KnowledgeError(
                    f"estimated of '{self.feature} {self.effect}' is about turns_at, which is not "
                    "there: take it out"
                )
            return
        if self.effect not in TURNING:
            raise KnowledgeError(
                f"'{self.feature} {self.effect}' has no turn: take turns_at out, or say effect = "
                '"arch" or "valley"'
            )
        if not all(map(math.isfinite, self.turns)) or len(self.turns) not in (1, 2):
            raise KnowledgeError(
                f"turns_at of '{self.feature} {self.effect}' must be a number or an interval of "
                f"two, such as [1.2, 1.4], got {list(self.turns)}"
            )
        if self.turns[0] > self.turns[-1]:
            low, high = self.turns
            raise KnowledgeError(
                f"turns_at of '{self.feature} {self.effect}' runs from {low:g} down to {high:g}: "
                f"write the smaller end first, turns_at = [{high:g}, {low:g}]"
            )

    @property
    def turns(self) -> tuple[float, ...]:
        """Where it turns: one number, the ends of an interval, or nothing that is known."""
        at = self.turns_at
        return () if at is None else at if isinstance(at, tuple) else (at,)

    @property
    def lacks_turn(self) -> bool:
        """Whether it turns, and nobody says where: the rows of a site have to."""
        return self.effect in TURNING and not self.turns

    @property
    def bend(self) -> int:
        """Which way the slope of a number moves with the feature; 0 where nothing is said of it."""
        return BENDING.get(self.effect, 0)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The stretches of one direction that are known.

        Inside an interval of turns nothing is known, left and right of it all is.
        """
        if self.effect in ("raises", "lowers"):
            return (Piece(1 if self.effect == "raises" else -1),)
        if self.effect not in TURNING or not self.turns:
            return ()
        sign = TURNING[self.effect]
        return (Piece(sign, "<=", self.turns[0]), Piece(-sign, ">=", self.turns[-1]))

    def __str__(self) -> str:
        at = " to ".join(f"{turn:g}" for turn in self.turns)
        turning = f" (turns at {at}{', estimated' * self.estimated})" if at else ""
        where = f" where {self.where}" if self.where else ""
        return f"{self.feature} {self.effect}{turning}{where}"


@dataclass(frozen=True)
class ShapeTable:
    """[shape]: how features move the answer."""

    sources: tuple[FeatureShape, ...] = ()


@dataclass(frozen=True)
class TrustRegion:
    """The rows of a region, and λ there."""

    where: str  # a comparison over feature names
    trust: float | None = None  # λ there; None: learned at the site


@dataclass(frozen=True)
class TrustTable:
    """[trust]: λ row by row."""

    value: float = 0.0  # λ where nothing else is said, learned or known
    features: tuple[str, ...] = ()  # what λ may depend on, learned at the site
    regions: tuple[TrustRegion, ...] = ()  # rows with a λ of their own
    formula: str = ""  # what was learned: λ of a row outside the regions that say theirs


@dataclass(frozen=True)
class Document:
    """All that a knowledge.toml may say: about classes, or with a [target] about a number."""

    features: tuple[Feature, ...]  # the columns
    classes: tuple[str, ...] = ()  # the answers, from worst to best where they have an order
    target: Target | None = None  # the number, in place of classes
    label: str = "label"  # the column of a data file that holds the answer
    measured: str = ""  # the column of the number that ordered classes are grades of, if there is
    ordered: bool | None = None  # whether the classes rise; None: read off their names
    edges: tuple[float, ...] = ()  # of every formula that has none of its own
    trust: float | TrustTable = 0.0  # λ: how far predictions follow the expert, 0 to 1
    reliance: float | None = None  # λ at prediction where it differs; None: trust
    least_trust: float = 0.0  # the expert's weight where he speaks, at least; of lore, too
    outside: Outside = "error"  # a training label outside the range: refuse, widen or drop
    conflict: Conflict = "abstain"  # a prediction outside it: silence, restrict/project or refuse
    floor: float = 0.0  # ε: weight of classes outside the range in the training loss alone
    entry_points: bool = False  # whether this file may name Python functions
    examples: str | None = None  # rows with the answer that is expected, see lint.examples
    card: Card = field(default_factory=Card)
    predict: Predict = field(default_factory=Predict)
    range: Range = field(default_factory=Range)
    shape: ShapeTable = field(default_factory=ShapeTable)

    def __post_init__(self) -> None:
        """Put other measures into their features; refuse what belongs to the other answer."""
        object.__setattr__(self, "features", join_measures(self.features))
        if self.target is None:
            wrong = {"predict.spread": self.predict.spread is not None}
            whose = "a number, and this file has no [target]"
            if not self.classes:
                raise KnowledgeError("a knowledge file names its classes, or a [target]")
        else:
            wrong = {
                "classes": bool(self.classes),
                "label": self.label != "label",
                "measured": bool(self.measured),
                "ordered": self.ordered is not None,
                "edges": bool(self.edges),
                "floor": self.floor != 0.0,
                "predict.combine": self.predict.combine != "first",
                "predict.weights": self.predict.weights is not None,
            }
            whose = "classes, and this file has a [target]"
        for key in (key for key, there in wrong.items() if there):
            raise KnowledgeError(f"'{key}' belongs to {whose}")

    @property
    def trusts(self) -> TrustTable:
        """λ as a table, also where it is one number."""
        return self.trust if isinstance(self.trust, TrustTable) else TrustTable(self.trust)


@dataclass(frozen=True)
class TableEntry:
    """The keys of a table."""

    table: str  # a CSV or XLSX file
    sheet: str | None = None  # of a workbook; None: the first
    hit: TablePolicy | None = None  # which rule speaks where several apply
    outcome: str | None = None  # the name of the outcome column
    confidence: float | None = None  # of rules that say none; below 1 they are soft

    def __post_init__(self) -> None:
        check_share(self.confidence)


@dataclass(frozen=True)
class FormulaEntry:
    """The keys of a formula that predicts."""

    formula: str  # arithmetic over feature names
    edges: tuple[float, ...] = ()  # cut numbers into classes
    spread: float | None = None  # makes it soft: the standard deviation of its error
    confidence: float | None = None  # makes it soft: the share of cases in which its class is right

    def __post_init__(self) -> None:
        check_share(self.confidence)


@dataclass(frozen=True)
class LimitsEntry:
    """The keys of a range between two formulas, or beyond one."""

    lower: str | None = None  # a formula; None: no lower limit
    upper: str | None = None  # a formula; None: no upper limit
    edges: tuple[float, ...] = ()  # cut numbers into classes
    crossed: Literal["error", "all"] = "error"  # where lower > upper: refuse, or allow all
    confidence: float | None = None  # makes it soft: the share of cases in which it holds

    def __post_init__(self) -> None:
        check_share(self.confidence)


#: By side: the entry of each kind of source that the kernel knows, by the key that names it.
ENTRIES: dict[str, dict[str, type]] = {
    "predict": {"table": TableEntry, "formula": FormulaEntry},
    "range": {"table": TableEntry, "lower": LimitsEntry, "upper": LimitsEntry},
}


def check_trust(*, by_row: bool, least_trust: float, **others: float | None) -> None:
    """Refuse a λ that is no share, and one that must be no smaller beside those of rows."""
    for name, value in {**others, "least_trust": least_trust}.items():
        if value is not None and not 0.0 <= value <= 1.0:
            raise KnowledgeError(f"{name} must lie in [0, 1], got {value:g}", code="knowledge")
    if least_trust and by_row:
        raise KnowledgeError("least_trust is for one λ: say the trust of a region in [trust]")


def check_weights(weights: Sequence[float], count: int) -> None:
    """Refuse what is not a positive number for each of some predictions.

    Sums of wilder ones are no numbers in single precision.
    """
    if len(weights) != count:
        raise KnowledgeError(
            f"there must be a weight for each of {count} predictions, got {len(weights)}"
        )
    if not all(1e-30 <= weight <= 1e30 for weight in weights):
        raise KnowledgeError(f"weights must be positive, 1e-30 to 1e30, got {tuple(weights)}")


def check_spread(spread: float) -> None:
    """Refuse a standard deviation that is none."""
    if not 0 < spread < math.inf:
        raise KnowledgeError(f"spread must be a positive number, got {spread:g}")


def check_edges(edges: Sequence[float]) -> None:
    """Refuse edges that do not rise in single precision, because rows come in it."""
    if not edges or not all(map(math.isfinite, edges)):
        raise KnowledgeError(
            "there must be one or more finite edges that cut numbers into classes, such as "
            f"edges = [55, 60], got {tuple(edges)}"
        )
    with np.errstate(over="ignore"):
        single = np.array(edges, np.float32).tolist()
    for place in range(1, len(edges)):
        if not single[place - 1] < single[place]:
            before, after = edges[place - 1 : place + 1]
            raise KnowledgeError(f"edges must increase, got {before!r} before {after!r}")


def check_share(confidence: float | None) -> None:
    """Refuse a key `confidence` that is no share of cases."""
    try:
        if confidence is not None:
            check_confidence(confidence, f"{confidence:g}")
    except KnowledgeError as error:
        raise ConfigError(str(error)) from None


def read_document(text: str) -> Document:
    """The text of a knowledge.toml."""
    try:
        return build(Document, tomllib.loads(text))
    except ConfigError as error:
        raise KnowledgeError(str(error)) from None


def read_entry(values: Mapping[str, Any], side: str) -> TableEntry | FormulaEntry | LimitsEntry:
    """A source of a side: of one kind, with the keys of that kind and no others."""
    kind = next((entry for key, entry in ENTRIES[side].items() if key in values), None)
    if kind is None:
        named = next(iter(values), "unknown")
        raise KnowledgeError(f"a source of kind '{named}' is neither a table nor a formula")
    try:
        found: TableEntry | FormulaEntry | LimitsEntry = build(kind, values)
    except ConfigError as error:
        raise KnowledgeError(f"a source of [{side}]: {error}") from None
    return found


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dump(values: Mapping[str, Any], path: str = "") -> str:
    """A document, or the part of one below `path`: scalars and lists first, then tables."""
    lines, below = [], []
    for key, value in values.items():
        name = f"{path}.{_key(key)}" if path else _key(key)
        if isinstance(value, Mapping):
            below.append(f"[{name}]\n{dump(value, name)}")
        elif _is_tables(value):
            below += [f"[[{name}]]\n{dump(part, name)}" for part in value]
        else:
            lines.append(f"{_key(key)} = {_value(value)}\n")
    return "\n".join(["".join(lines), *below] if lines else below)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], Mapping)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(value: str) -> str:
    # JSON's escapes are TOML's too, but TOML also wants DEL escaped
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return str(value).lower()  # true, false
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise KnowledgeError(f"cannot write a {type(value).__name__} to a file")
