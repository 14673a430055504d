"""The privacy budget: what is asked for, and what a site has spent over all rounds and runs.

Site level: each site clips its whole upload and Gaussian noise goes onto the sum (McMahan et al.
2018, Learning Differentially Private Recurrent Language Models), added in shares at the sites or as
a whole at the server. Record level: the sites train by DP-SGD (Abadi et al. 2016), see `records`.

Spending is written down before the answer leaves. A file that is not what was written stops the
site: a budget that cannot be read counts as spent.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from ...core import tree
from ...core.aggregate import Aggregate
from ...core.store import lock_file, write_whole
from ...core.tree import Payload
from ...errors import ConfigError, FedloreError
from .noise import Release, affordable, check_delta, check_epsilon, epsilon_of, noise_for

Level = Literal["site", "record"]
FORMAT = 2  # of the file
_START = hashlib.sha256(b"fedlore ledger 1").hexdigest()


class BudgetSpent(FedloreError):
    """The next answer would cost more privacy than is left."""

    kind = "budget"


class LedgerDamaged(FedloreError):
    """A ledger that is not what was written."""

    kind = "ledger"


@dataclass(frozen=True)
class LedgerEntry:
    """One answer that left the site, or was about to."""

    run: str
    round: int
    level: Level
    noise: float
    steps: int
    sample: float

    @property
    def release(self) -> Release:
        return Release(self.noise, self.steps, self.sample)


class Ledger:
    """One site's entries: in a file, or without a path for as long as the object lives."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._kept: list[LedgerEntry] = []
        self.entries()  # a damaged file is found before anything is asked

    def entries(self) -> list[LedgerEntry]:
        """Everything spent so far, in order."""
        return list(self._kept) if self._path is None else list(_read(self._path).values())

    def spent(self, level: Level, delta: float) -> float:
        """The ε at this δ of everything that left, about a record or about the whole site."""
        return epsilon_of(_releases(self.entries(), level), delta)

    def spend(self, entry: LedgerEntry, *, epsilon: float, delta: float) -> None:
        """Write an entry down if the budget bears it, or raise `BudgetSpent`."""
        check_epsilon(epsilon)
        check_delta(delta)
        with self._alone():
            entries = self.entries()
            ours = _releases([*entries, entry], entry.level)
            if not affordable(ours, epsilon, delta):
                before = epsilon_of(_releases(entries, entry.level), delta)
                total = epsilon_of(ours, delta)
                raise BudgetSpent(
                    f"the privacy budget is spent: ε = {before:.4g} of {epsilon:g} at δ = "
                    f"{delta:g} after {len(entries)} answers ({entry.level} level), the next "
                    f"would make it {total:.4g}"
                )
            if self._path is None:
                self._kept.append(entry)
            else:
                _write(self._path, [*entries, entry])

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else reads or writes the file between our reading and our writing."""
        if self._path is None:
            yield
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._path.with_name(f".{self._path.name}.lock"), os.O_CREAT | os.O_RDWR)
        except OSError as error:
            raise LedgerDamaged(f"cannot lock '{self._path}': {error.strerror}") from None
        try:
            lock_file(lock, wait=True)
            yield
        finally:
            os.close(lock)


def _releases(entries: Sequence[LedgerEntry], level: Level) -> list[Release]:
    """What all entries tell about one unit of a level.

    Who hides a whole site hides each of its records at least as well. Who hides one record does not
    hide the site: about it such an answer counts as one without noise.
    """
    if level == "record":
        return [entry.release for entry in entries]
    return [e.release if e.level == "site" else Release(0.0, e.steps) for e in entries]


def _link(before: str, values: dict[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, allow_nan=False)
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def _write(path: Path, entries: Sequence[LedgerEntry]) -> None:
    """All or nothing, on the disk when this returns; each line holds the hash of all before it."""
    lines, last = [], _START
    for entry in entries:
        last = _link(last, asdict(entry))
        lines.append(asdict(entry) | {"hash": last})
    text = json.dumps(
        {"format": FORMAT, "entries": lines, "last": last, "count": len(lines)}, indent=0
    )
    try:
        write_whole(path, text)
    except OSError as error:
        raise LedgerDamaged(
            f"cannot write '{path}': {error.strerror}; nothing may leave that is not written down"
        ) from None


def _read(path: Path) -> dict[str, LedgerEntry]:
    """The entries of a file, each by the hash of it and all before.

    A missing file is a new ledger, anything odd is `LedgerDamaged`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise _say_damaged(path, str(error)) from None
    try:
        found = json.loads(text)
        if found.get("format", 1) != FORMAT:
            raise ValueError(f"its format is {found.get('format', 1)}, this fedlore reads {FORMAT}")
        entries: dict[str, LedgerEntry] = {}
        last = _START
        for line in found["entries"]:
            values = {k: v for k, v in line.items() if k != "hash"}
            last = _link(last, values)
            if line["hash"] != last:
                raise ValueError(f"line {len(entries) + 1} is not what was written")
            entries[last] = _entry(values)
        if found["last"] != last or found["count"] != len(entries):
            raise ValueError("lines are missing")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _say_damaged(path, str(error)) from None
    return entries


def read_marks(path: Path) -> list[str]:
    """The hash of each entry and all before it, by which an older ledger is told from a newer."""
    return list(_read(path))


def _entry(values: dict[str, Any]) -> LedgerEntry:
    entry = LedgerEntry(**values)
    if entry.level not in ("site", "record"):
        raise ConfigError(f"no such level '{entry.level}'")
    entry.release  # noqa: B018  # its checks
    return entry


def _say_damaged(path: Path, why: str) -> LedgerDamaged:
    return LedgerDamaged(
        f"the ledger '{path}' is damaged ({why}): what was spent is unknown, so this site answers "
        "nothing that costs privacy until its owner puts the file right"
    )


_Where = Literal["distributed", "central"]

ROUNDING = 1e-6  # clipped uploads stay this much below the bound: casting to float32 rounds up too


@dataclass(frozen=True)
class Dp:
    """dp = {epsilon = 4, delta = 1e-5, level = "site"}: a budget, and how it is spent.

    Neighbours differ in one site's whole upload, or in one training row: there, or not there.
    """

    epsilon: float  # the budget of one site over all its rounds and runs; never exceeded
    delta: float  # the chance that epsilon does not hold
    level: Level = "site"  # what is hidden: a site's part, or one row's
    clip: float = 1.0  # largest norm of an upload, or of one record's gradient
    sums: float = 1000.0  # and of a site's sums of rows, for the one-shot model
    noise: float | None = None  # σ, the multiplier of `clip`; None: what the budget asks for
    where: _Where = "distributed"  # site level: noise in shares at the sites, or at the server
    scores: bool = True  # sites report scores on their test rows, which the budget does not cover

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if self.level not in get_args(Level):
            raise ConfigError(f"level must be site or record, got '{self.level}'")
        if self.where not in get_args(_Where):
            raise ConfigError(f"where must be distributed or central, got '{self.where}'")
        for name in ("clip", "sums"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be positive and finite, got {getattr(self, name)}")
        if self.noise is not None and not 0.0 <= self.noise < math.inf:
            raise ConfigError(f"noise must not be negative, got {self.noise}")
        if self.noise == 0.0 and self.epsilon < math.inf:
            raise ConfigError(f"noise 0 keeps no finite epsilon, got {self.epsilon:g}")

    def bound(self, kind: str) -> float:
        """The largest norm of a site's upload in answer to such a task."""
        return self.sums if kind == "gram" else self.clip

    def multiplier(self, steps: int, sample: float = 1.0) -> float:
        """σ: the one given, or the smallest with which so many steps stay within the budget."""
        return (
            noise_for(self.epsilon, self.delta, steps, sample) if self.noise is None else self.noise
        )


def check_dp(
    dp: Dp, *, algorithm: str, exact: bool, weights: str, aggregate: Aggregate | None = None
) -> None:
    """Refuse a federation in which the guarantee, or the algorithm, would be wrong.

    `exact` says that the algorithm lives on exact means of uploads. At record level the noise is
    in the gradients, before anything is remembered or uploaded, so that any algorithm bears it.
    """
    if weights != "equal":
        raise ConfigError(
            f"differential privacy hides how many rows a site has, and bounds its weight: weights "
            f"must be equal, got '{weights}'"
        )
    if dp.level == "record":
        return
    if exact:
        raise ConfigError(
            f"{algorithm} keeps sums over sites that clipped and noised uploads would break, and "
            "its error has not been analysed: use level = record, or another algorithm"
        )
    if aggregate is not None and aggregate.needs_individuals:
        raise ConfigError(
            f"noise is calibrated to a sum of uploads: aggregate must be mean, got "
            f"'{aggregate.name}'"
        )


def clip_upload(upload: Payload, bound: float) -> Payload:
    """The whole upload, all bundles together, no longer than the bound."""
    if not tree.finite(upload):
        raise FedloreError("an upload that is not finite cannot be clipped: did training diverge?")
    length = math.hypot(*(tree.norm(bundle) for bundle in upload.values()))
    if length <= bound:
        return upload
    factor = bound / (length * (1 + ROUNDING))
    return {key: tree.scale(bundle, factor) for key, bundle in upload.items()}


def spent_line(dp: Dp, ledgers: Sequence[Ledger], *, sample: float = 1.0) -> str:
    """What the run's report says: ε = 3.1 at δ = 1e-05, site level, 40 rounds, sampling 1.0.

    The site that has spent most counts. `sample` is the share of sites asked in a round; at record
    level it is the chance of a row to be in a batch, from the ledger.
    """
    worst = max(ledgers, key=lambda ledger: ledger.spent(dp.level, dp.delta))
    entries = [e for e in worst.entries() if e.level == dp.level]
    if dp.level == "record":
        sample = max((e.sample for e in entries), default=sample)
    spent = worst.spent(dp.level, dp.delta)
    return _line(dp, spent, len(entries), sample)


def planned_line(dp: Dp, noise: float, rounds: int, *, sample: float = 1.0) -> str:
    """The same for rounds to come, where the sites' ledgers cannot be seen.

    At record level each site has noise of its own, and the budget itself is all that is known.
    """
    if dp.level == "record":
        return f"at most {_line(dp, dp.epsilon, rounds)}"
    spent = epsilon_of([Release(noise, rounds)], dp.delta)
    return f"at most {_line(dp, spent, rounds, sample)}"


def bare_line(dp: Dp, noise: float, least: int, rounds: int) -> str:
    """What a coordinator learns who sees single uploads, each with its own share of the noise."""
    if dp.level == "record":
        return ""
    if dp.where == "central":
        return "the coordinator sees single uploads without noise, and is trusted to add it"
    alone = epsilon_of([Release(noise / math.sqrt(least), rounds)], dp.delta)
    return (
        f"the coordinator sees single uploads, for which its own share of the noise gives ε = "
        f"{alone:.3g}: secure_aggregation or encryption would hide them"
    )


def _line(dp: Dp, epsilon: float, rounds: int, sample: float | None = None) -> str:
    drawn = "" if sample is None else f", sampling {round(sample, 4)}"
    return f"ε = {epsilon:.2g} at δ = {dp.delta:g}, {dp.level} level, {rounds} rounds{drawn}"
