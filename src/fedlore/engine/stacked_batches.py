"""The batches of a stack of clients: the same rows, in the same steps, as each takes alone."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..algorithms import Plan
from ..rng import bits, join, key, orders
from .fleet import Fleet
from .stacked_bench import Batch


@dataclass(frozen=True)
class Step:
    """Which part of a block one step uses: the first clients, and columns from `first` on."""

    clients: int  # a: those that still have steps to take come first
    rows: int  # b: the most rows of any of them
    first: int
    even: bool  # all of them have b rows


@dataclass(frozen=True, eq=False)
class Block:
    """The rows of several steps, gathered at once."""

    steps: tuple[Step, ...]
    x: Tensor  # (m, r, *features)
    facts: Tensor  # (m, c, r)
    y: Tensor | None  # (m, 1, r)
    told: Tensor | None  # (m, r, 2k)
    weights: Tensor | None  # (m, 1, r)
    classes: int
    walled: bool
    doubted: bool

    def batch(self, step: Step) -> Batch:
        """One step's rows, as views."""
        a, s, e, k = step.clients, step.first, step.first + step.rows, self.classes
        facts = self.facts[:a, :, s:e]
        w = k * (1 + self.walled)
        return Batch(
            self.x[:a, s:e],
            facts[:, :k],
            None if self.told is None else self.told[:a, s:e],
            None if self.y is None else self.y[:a, :, s:e],
            facts[:, k:w] if self.walled else None,
            facts[:, w:] if self.doubted else None,
            None if step.even or self.weights is None else self.weights[:a, :, s:e],
        )


@dataclass(frozen=True, eq=False)
class Drill:
    """The steps of one stack in one round. Clients come with the most steps first."""

    fleet: Fleet
    members: tuple[int, ...]  # positions in the fleet
    plan: Plan
    seed: int
    round: int
    room: int  # bytes that the rows of one block may take

    def steps(self, position: int) -> int:
        return self.plan.local_steps(self.fleet.counts[position])

    def blocks(self, steps: int | None = None, *, together: bool = False) -> Iterator[Block]:
        """All steps, or the first `steps` of each client.

        With `together` all clients are in every step; one that has taken all of its own sees
        rows of weight 0.
        """
        fleet = self.fleet
        counts = [fleet.counts[i] for i in self.members]
        totals = [self.steps(i) if steps is None else steps for i in self.members]
        size = self.plan.batch or max(counts)
        per_epoch = [self.plan.per_epoch(n) for n in counts]
        last = max(totals)
        members = torch.tensor(self.members, device=fleet.x.device)
        shuffled = self._orders(members, counts, totals, size)  # (m, epochs·most)
        limit = max(1, self.room // max(1, len(counts) * size * fleet.row_bytes))
        for begin in range(0, last, limit):
            times = range(begin, min(begin + limit, last))
            yield self._block(members, counts, totals, per_epoch, size, shuffled, times, together)

    def _orders(
        self, members: Tensor, counts: Sequence[int], totals: Sequence[int], size: int
    ) -> Tensor | None:
        """All epochs' orders of the rows, (m, epochs, most), None when no client needs any."""
        if self.plan.batch is None or max(counts) <= size:
            return None
        epochs = max(
            math.ceil(t / self.plan.per_epoch(n)) for t, n in zip(totals, counts, strict=True)
        )
        m, most = len(counts), max(counts)
        keys = bits(join(key(self.seed, self.round), self.fleet.keys[members]), epochs).view(-1)
        own = None
        if min(counts) < most:
            own = self.fleet.sizes[members].repeat_interleave(epochs)
        found = orders(keys, most, own).view(m, epochs, most)
        small = [i for i, n in enumerate(counts) if n <= size]
        if small:  # a client whose rows fit into one batch takes them as they are
            found[small] = torch.arange(most, device=found.device)
        return found

    def _block(
        self,
        members: Tensor,
        counts: Sequence[int],
        totals: Sequence[int],
        per_epoch: Sequence[int],
        size: int,
        shuffled: Tensor | None,
        times: range,
        together: bool,
    ) -> Block:
        fleet, m, device = self.fleet, len(counts), members.device
        kinds = Counter(zip(counts, totals, per_epoch, strict=True))
        steps = tuple(_step(kinds, size, t, (t - times.start) * size, together) for t in times)
        if not together:
            m = steps[0].clients
            members = members[:m]
        sizes = fleet.sizes[members][:, None]  # (m, 1)
        time = torch.arange(times.start, times.stop, device=device)
        cycle = torch.tensor(per_epoch[:m], device=device)[:, None]
        place = (time % cycle)[:, :, None] * size + torch.arange(size, device=device)  # (m, t, b)
        place = place.view(m, -1)  # (m, r)
        inside = place < sizes
        place = torch.minimum(place, sizes - 1)
        if shuffled is not None:
            epoch = (time // cycle).repeat_interleave(size, 1)
            whole = shuffled[:m].reshape(m, -1)
            # a client that is done has no further epochs: any of its rows will do
            at = (epoch * shuffled.shape[2] + place).clamp_(max=whole.shape[1] - 1)
            place = torch.minimum(whole.gather(1, at), sizes - 1)
        rows = (fleet.starts[members][:, None] + place).view(-1)
        weights = None
        if not all(step.even for step in steps):
            if together:
                taken = torch.tensor(totals[:m], device=device)[:, None]
                inside &= (time < taken).repeat_interleave(size, 1)
            held = inside.view(m, -1, size).to(fleet.x.dtype)
            weights = (held / held.sum(2, keepdim=True).clamp_(min=1.0)).view(m, 1, -1)
        return Block(
            steps,
            fleet.x.index_select(0, rows).view(m, -1, *fleet.x.shape[1:]),
            fleet.facts.index_select(0, rows).view(m, rows.numel() // m, -1).mT.contiguous(),
            None if fleet.y is None else fleet.y.index_select(0, rows).view(m, 1, -1),
            None
            if fleet.told is None
            else fleet.told.index_select(0, rows).view(m, rows.numel() // m, -1),
            weights,
            fleet.classes,
            fleet.walled,
            fleet.doubted,
        )


def _step(
    kinds: Counter[tuple[int, int, int]], size: int, time: int, first: int, together: bool
) -> Step:
    """The step at one time, from how many clients have which rows, steps, steps per epoch."""
    active = {kind: many for kind, many in kinds.items() if kind[1] > time}
    rows = [min(size, n - time % cycle * size) for n, _, cycle in active]
    clients, everyone = sum(active.values()), sum(kinds.values())
    even = min(rows) == max(rows) and not (together and clients < everyone)
    return Step(everyone if together else clients, max(rows), first, even)
