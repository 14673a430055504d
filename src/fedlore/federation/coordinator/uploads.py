"""What the coordinator checks on every upload before it may touch the model."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from ...core.one_shot import unpack_gram
from ...core.tree import Params, Payload
from ...core.wire import (
    SUMMED,
    TASK_KINDS,
    Reply,
    Task,
    Transport,
    find_bad_metric,
    find_flaw,
    longest,
)
from ...engine.lore.rows import WORST
from ..norms import ENOUGH, UsualNorm
from ..remote import Notice, OnNotice, QuorumLost

_ROUNDED = 0.1  # how far sums of fixed-point numbers may be off


def flaw(
    task: Task, reply: Reply, wanted: Payload, *, largest: float, noised: bool = False
) -> str | None:
    """Why a reply cannot be used in place of an upload like the one wanted, or None."""
    wrong = find_bad_metric(reply.metrics)
    if wrong is not None:
        return wrong
    if task.kind not in SUMMED:
        return "tensors where none were asked for" if reply.upload else None
    if task.kind == "train":
        if reply.rows < 1:
            return f"a count of {reply.rows} rows"
        return find_flaw(reply.upload, wanted, largest=largest)
    wrong = find_flaw(reply.upload, wanted, misfit=TASK_KINDS[task.kind].misfit)
    checks = {"vote": _bad_vote, "gram": _bad_gram, "moments": _bad_moments}
    if wrong is not None or (noised and TASK_KINDS[task.kind].noised):
        return wrong
    return checks[task.kind](reply)


def _bad_vote(reply: Reply) -> str | None:
    """Why no rows can have given such a vote: a row's loss lies between 0 and that of the worst."""
    rows = float(reply.upload["vote"]["rows"])
    if not reply.members and rows > reply.rows + _ROUNDED:
        return f"a vote of {rows:g} rows from a site that says it has {reply.rows}"
    for loss in reply.upload["vote"]["loss"].tolist():
        if rows < 0 or not -_ROUNDED <= loss <= -WORST * rows + _ROUNDED:
            return f"a loss of {loss:.4g} on {rows:g} rows"
    return None


def _bad_gram(reply: Reply) -> str | None:
    """Why no rows can have such sums: of their joint products with the target, too."""
    sums = reply.upload["gram"]
    size = len(sums["cross"])
    joint = torch.zeros(size + 1, size + 1, dtype=torch.float64)
    joint[:size, :size] = unpack_gram(sums, size)
    joint[size, :size] = joint[:size, size] = sums["cross"]
    joint[size, size] = sums["energy"]
    rows = float(sums["free"]) + 1.0
    if not reply.members and abs(rows - reply.rows) > _ROUNDED:
        return f"sums of {rows:g} rows from a site that says it has {reply.rows}"
    lowest, highest = torch.linalg.eigvalsh(joint)[[0, -1]].tolist()
    if lowest < -_ROUNDED - 1e-6 * abs(highest):
        return f"sums of products that no rows have: {lowest:.4g} times a square"
    return None


def _bad_moments(reply: Reply) -> str | None:
    """Why no rows can have such sums: a mean of squares is at least the square of the mean."""
    sums = reply.upload["moments"]
    rows, total, squares = (sums[name] for name in ("rows", "sum", "squares"))
    if bool((rows < 0).any()):
        return f"a count of {float(rows.min()):g} rows"
    if bool((total.square() > rows * squares * (1 + 1e-6) + _ROUNDED).any()):
        return "sums of features that no rows have: squares below the mean's"
    if "histograms" in sums:
        counts = sums["histograms"]
        most = float(counts.sum(1).max())
        if bool((counts < -_ROUNDED).any()) or most > float(rows.max()) + _ROUNDED:
            return f"a histogram of {most:g} values, the lowest count {float(counts.min()):g}"
    return None


MOST_ROWS = 100.0  # times the rows of the middle site, beyond which a site is not believed
_ROWS: dict[str, Callable[[Params], float]] = {
    "vote": lambda sums: float(sums["rows"]),
    "moments": lambda sums: float(sums["rows"].max()),
    "gram": lambda sums: float(sums["free"]) + 1.0,
}


def find_odd(task: Task, replies: Sequence[Reply], excess: float) -> dict[str, str]:
    """By site, why what it says of its rows is too far from what the others say."""
    if task.kind not in _ROWS or len(replies) < ENOUGH:
        return {}
    sums = {reply.client: reply.upload[task.kind] for reply in replies}
    rows = {name: _ROWS[task.kind](one) for name, one in sums.items()}
    found = _beyond("rows", rows, MOST_ROWS)
    if task.kind == "gram" and not task.sent:  # behind a bend sites differ by their ranges
        traces = {n: float(unpack_gram(one, len(one["cross"])).trace()) for n, one in sums.items()}
        each = {name: trace / max(rows[name], 1.0) for name, trace in traces.items()}
        found |= _beyond("a mean square of features of", each, excess**2)
    return found


def _beyond(what: str, values: Mapping[str, float], times: float) -> dict[str, str]:
    middle = statistics.median(values.values())
    return {
        name: f"{what} {value:.4g} where the middle site has {middle:.4g}"
        for name, value in values.items()
        if middle > 0 and value > times * middle
    }


@dataclass(frozen=True)
class Judged:
    """A transport whose uploads are compared with each other and with those before.

    Sums are checked as single uploads would be. Whose upload was wrong in one cannot be told, so
    that such a round is void, as is one without a sum.
    """

    transport: Transport
    check: Callable[[Task, Reply], str | None] | None  # of sums; None where there are none
    usual: UsualNorm
    quorum: int
    watch: OnNotice

    def clients(self) -> Sequence[str]:
        return self.transport.clients()

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        replies = list(self.transport.exchange(task, to))
        if self.check is not None and task.kind in SUMMED:
            for reply in replies:
                reason = self.check(task, reply)
                if reason is not None:
                    raise QuorumLost(
                        f"round {task.round}: {reply.client} cannot be used: {reason} (which site "
                        "it was is hidden)"
                    )
            if not replies:
                raise QuorumLost(f"round {task.round}: '{task.kind}' gave no sum, see the log")
        norms = {reply.client: longest(reply.upload) for reply in replies}
        if task.kind == "train":
            odd = self._too_long(task, norms, summed=any(reply.members for reply in replies))
        else:  # noise or masks leave nothing to compare
            odd = {} if self.check else find_odd(task, replies, self.usual.excess)
        for name, why in sorted(odd.items()):
            self.watch(Notice("rejected", name, task.round, task.kind, why))
        good = [reply for reply in replies if reply.client not in odd]
        if odd and len(good) < self.quorum:
            raise QuorumLost(
                f"round {task.round}: {len(good)} uploads are of usual size, the quorum is "
                f"{self.quorum}"
            )
        if task.kind == "train":
            self.usual.add(task.trial, [norms[reply.client] for reply in good])
        yield from good

    def _too_long(self, task: Task, norms: Mapping[str, float], *, summed: bool) -> dict[str, str]:
        """By site, why its upload is longer than usual; a sum that is so is void."""
        limit = self.usual.limit(task.trial, () if summed else list(norms.values()))
        odd = {n: self.usual.describe(x, limit) for n, x in norms.items() if x > limit}
        for name, why in odd.items() if summed else ():
            raise QuorumLost(f"round {task.round}: {name} cannot be used: {why}")
        return odd
