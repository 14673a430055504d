"""Differential privacy between a site and the coordinator: clip, noise, and the site's ledger."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar
from urllib.parse import quote

from ...core import tree
from ...core.tree import Payload
from ...core.wire import NOISED, Reply, Task, Transport, digest
from ...errors import ConfigError, FedloreError
from ..filters import Filter, FilterContext, Half, Placement
from .budget import (
    ROUNDING,
    Dp,
    Ledger,
    LedgerEntry,
    bare_line,
    check_dp,
    clip_upload,
    planned_line,
    spent_line,
)
from .noise import Entropy, with_noise

#: How the work of DP-SGD tells the site's own half what it did; none of it leaves the site.
DONE = ("dp_noise", "dp_steps", "dp_sample")
#: What to do without sums that cannot be noised.
_INSTEAD = {
    "vote": "name one candidate in place of trials",
    "moments": "scale by the schema's declared bounds, or set scale = false",
}


@dataclass(frozen=True)
class Noise:
    """What is asked for: noise within a budget."""

    dp: Dp

    name: ClassVar[str] = "differential privacy"
    hides: ClassVar[bool] = False
    kinds: ClassVar[Mapping[str, str]] = {}

    def make(self, around: FilterContext, place: Placement) -> Filter:
        dp = self.dp
        check_dp(
            dp,
            algorithm=around.algorithm,
            exact=around.exact,
            weights=around.weights,
            aggregate=around.aggregate,
        )
        # who is asked follows from the run's public seed, so sampling does not make it cheaper
        noise = dp.multiplier(around.rounds + around.sums) if dp.level == "site" else 0.0
        least = around.cohort if around.least is None else around.least
        book = partial(_book, place)
        # a site cannot see what others add: where nothing hides its upload, it adds all itself
        whole = place.role != "process" and not around.hidden
        before = int(around.sums)
        return NoiseFilter(dp, noise, least, book, place.run, whole=whole, before=before)


def _book(place: Placement, site: str) -> Ledger:
    """A site's ledger, which outlives the run where there is a folder for it."""
    if place.folder is None or place.role == "coordinator":  # what is spent is the sites' to know
        return Ledger()
    own = place.role == "site"
    return Ledger(place.folder / ("ledger.json" if own else f"{quote(site, safe='')}.json"))


@dataclass(frozen=True)
class NoiseFilter:
    """The filter: clip, noise and spending at the sites, the rest of the noise at the server.

    At the sites each adds the share σ·clip/√least, so that any sum of at least `least` uploads
    carries σ·clip or more, whoever drops out; the server half voids a round with fewer. Sums of
    rows have a bound of their own in place of clip, and are one release like any round.
    """

    dp: Dp
    noise: float  # σ; at record level the sites' own
    least: int  # the smallest cohort whose sum may be used
    ledger: Callable[[str], Ledger]  # of a site
    run: str = ""
    entropy: Entropy = os.urandom
    whole: bool = False  # each site adds all of the noise, and no share of it
    before: int = 0  # releases before the first round
    books: dict[str, Ledger] = field(default_factory=dict, compare=False)  # of sites seen here

    name: ClassVar[str] = "dp"
    hides: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.least < 1:
            raise ConfigError(f"the smallest cohort must be at least 1, got {self.least}")

    def site(self, name: str) -> Half:
        if name not in self.books:
            self.books[name] = self.ledger(name)
        return SiteHalf(self, self.books[name])

    def over(self, transport: Transport) -> Transport:
        return _Server(transport, self)

    def flaw(self, task: Task, reply: Reply, like: Payload) -> str | None:
        return None  # a noised upload looks like any other

    def lines(self, *, rounds: int, sample: float, bare: bool) -> Sequence[str]:
        """What was spent; where the sites' ledgers cannot be seen, what was planned."""
        if self.books:
            found = [spent_line(self.dp, list(self.books.values()), sample=sample)]
        else:
            found = [planned_line(self.dp, self.noise, self.before + rounds, sample=sample)]
        if bare and not (self.whole and self.dp.where == "distributed"):
            found.append(bare_line(self.dp, self.noise, self.least, self.before + rounds))
        return [line for line in found if line]

    def share(self, kind: str) -> float:
        """The spread of the noise that one site adds to its answer to such a task."""
        if self.dp.level == "record" or self.dp.where == "central":
            return 0.0
        whole = self.noise * self.dp.bound(kind)
        return whole if self.whole else whole / math.sqrt(self.least)


class SiteHalf:
    """At one site: write down the cost, clip, add noise, and hide how many rows there are."""

    kinds: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, noising: NoiseFilter, ledger: Ledger) -> None:
        self._noising, self._ledger = noising, ledger
        self._last: tuple[str, Reply] | None = None

    def answer(self, task: Task) -> Reply:
        raise FedloreError(f"unknown task '{task.kind}'")

    def summed(self, task: Task) -> Sequence[str] | None:
        return None

    def outbound(self, task: Task, reply: Reply) -> Reply:
        if task.kind not in NOISED:
            way_out = _INSTEAD.get(task.kind, "do without")
            raise FedloreError(
                f"what '{task.kind}' asks for is exact and no budget covers it: with differential "
                f"privacy {way_out}"
            )
        if task.kind != "train" and self._noising.dp.level == "record":  # only DP-SGD is of records
            raise FedloreError(
                "sums of rows are noised for whole sites: with level = record the model of one "
                "round cannot be had"
            )
        asked = digest(task.for_client(reply.client))
        if self._last is None or self._last[0] != asked:
            # the same question gets the same noise: a second draw could be averaged away
            self._last = (asked, self._noised(task, reply))
        return self._last[1]

    def _noised(self, task: Task, reply: Reply) -> Reply:
        metrics = {k: v for k, v in reply.metrics.items() if k not in DONE}
        shown = replace(reply, rows=1, metrics=metrics)  # the number of rows is about the rows
        if not reply.upload:
            return shown
        plan, dp = self._noising, self._noising.dp
        if dp.level == "record":
            noise, steps, sample = self._done(reply)
            entry = LedgerEntry(plan.run, task.round, "record", noise, steps, sample)
            upload = reply.upload
        else:
            entry = LedgerEntry(plan.run, task.round, "site", plan.noise, 1, 1.0)
            bounded = clip_upload(reply.upload, dp.bound(task.kind))
            upload = with_noise(bounded, plan.share(task.kind), plan.entropy)
        self._ledger.spend(entry, epsilon=dp.epsilon, delta=dp.delta)
        return replace(shown, upload=upload)

    def _done(self, reply: Reply) -> tuple[float, int, float]:
        if not all(name in reply.metrics for name in DONE):
            raise FedloreError(
                "record level differential privacy needs DP-SGD at the site, and this answer was "
                "trained without"
            )
        noise, steps, sample = (reply.metrics[name] for name in DONE)
        return noise, int(steps), sample


class _Server:
    """The server half: too small a cohort is void, and central noise goes onto the sum."""

    def __init__(self, transport: Transport, noising: NoiseFilter) -> None:
        self._transport, self._noising = transport, noising

    def clients(self) -> Sequence[str]:
        return self._transport.clients()

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        dp, replies = self._noising.dp, self._transport.exchange(task, to)
        if task.kind == "evaluate" and not dp.scores:
            yield from (replace(reply, metrics={}) for reply in replies)
        elif task.kind not in NOISED or dp.level == "record":
            yield from replies
        else:
            yield from self._enough(task, list(replies))

    def _enough(self, task: Task, replies: list[Reply]) -> Iterator[Reply]:
        plan, dp = self._noising, self._noising.dp
        if not any(reply.upload for reply in replies):
            yield from replies
            return
        if dp.where == "distributed":
            if sum(len(reply.names) for reply in replies) >= plan.least:
                yield from replies
            return
        # nothing is sent with the word to sum: there the sites are held to one another's shapes
        like = task.sent or next(reply.upload for reply in replies if reply.upload)
        good = sorted((r for r in replies if self._fits(task, r, like)), key=lambda r: r.client)
        if len(good) < plan.least:
            return
        mean = tree.mean((r.upload, 1.0) for r in good)
        # noise of σ·clip on the sum is this much on the mean
        spread = plan.noise * dp.bound(task.kind) / len(good)
        mean = with_noise(mean, spread, plan.entropy)
        members = tuple(r.client for r in good)
        lockstep = {k: v for k, v in good[0].metrics.items() if k == "steps"}
        yield Reply(good[0].client, task.round, mean, len(good), lockstep, members)

    def _fits(self, task: Task, reply: Reply, like: Payload) -> bool:
        """A finite upload within the bound, shaped like another: a sum hides what is not."""
        same = all(
            {n: t.shape for n, t in bundle.items()}
            == {n: t.shape for n, t in like.get(key, {}).items()}
            for key, bundle in reply.upload.items()
        )
        if reply.round != task.round or not reply.upload or not same:
            return False
        length = math.hypot(*(tree.norm(bundle) for bundle in reply.upload.values()))
        return length <= self._noising.dp.bound(task.kind) * (1 + ROUNDING)  # NaN is not
