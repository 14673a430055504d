"""The batches of a stack of clients: the same rows, in the same steps, as each takes alone."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from ...algorithms import Plan
from ...core.rng import bits, join_keys, key, orders
from .clients import StackedRows
from .params import Batch


@dataclass(frozen=True)
class BatchStep:
    """Which part of a block one step uses: the first clients, and columns from `first` on."""

    clients: int  # a: those that take it
    active: int  # those that still have steps to take, who come first
    rows: int  # b: the most rows of any of them
    first: int
    even: bool  # all of them have b rows


@dataclass(frozen=True, eq=False)
class Block:
    """The rows of several steps, gathered at once."""

    steps: tuple[BatchStep, ...]
    size: int  # columns of one step
    x: Tensor  # (m, r, *features)
    facts: Tensor  # (m, c, r)
    heard: Tensor | None  # (m, r, 2k)
    weights: Tensor | None  # (m, 1, r)
    classes: int
    known: tuple[str, ...]  # what the facts hold after the target

    @cached_property
    def _parts(self) -> dict[str, tuple[Tensor, ...]]:
        """Every part cut into steps at once: a view at a time costs as much as using it."""
        k, m = self.classes, len(self.facts)
        whole = {"x": (self.x, 1), "heard": (self.heard, 1), "target": (self.facts[:, :k], 2)}
        place = k
        for name in self.known:
            width = 2 * k if name == "pair" else k
            part = self.facts[:, place : place + width]
            whole[name] = (part.view(m, 2, k, -1) if name == "pair" else part, -1)
            place += width
        return {
            name: torch.split(part, self.size, dim)
            for name, (part, dim) in whole.items()
            if part is not None
        }

    def batch(self, step: BatchStep) -> Batch:
        """One step's rows, as views."""
        number, a, b = step.first // self.size, step.clients, step.rows
        parts = {name: views[number] for name, views in self._parts.items()}
        if self.weights is not None and not step.even:
            parts["weights"] = self.weights[:, :, step.first : step.first + self.size]
        if a < len(self.x) or b < self.size:
            for name, view in parts.items():
                rows_first = name in ("x", "heard")
                parts[name] = view[:a, :b] if rows_first else view[:a, ..., :b]
        return Batch(**parts)


@dataclass(frozen=True, eq=False)
class BatchSchedule:
    """The steps of one stack in one round. Clients come with the most steps first."""

    table: StackedRows
    members: tuple[int, ...]  # positions in the table
    plan: Plan
    seed: int
    round: int
    room: int  # bytes that the rows of one block may take

    @cached_property
    def totals(self) -> list[int]:
        """Steps of each client in a full round."""
        counts = self.table.counts
        steps = {n: self.plan.local_steps(n) for n in {counts[i] for i in self.members}}
        return [steps[counts[i]] for i in self.members]

    def blocks(self, steps: int | None = None, *, together: bool = False) -> Iterator[Block]:
        """All steps, or the first `steps` of each client.

        With `together` all clients are in every step; one that has taken all of its own sees
        rows of weight 0.
        """
        table, device = self.table, self.table.x.device
        counts = [table.counts[i] for i in self.members]
        totals = self.totals if steps is None else [steps] * len(counts)
        size = self.plan.batch or max(counts)
        cycles = {n: self.plan.per_epoch(n) for n in set(counts)}
        cycle = [cycles[n] for n in counts]
        kinds = Counter(zip(counts, totals, cycle, strict=True))
        # everything that comes from the host comes now: later the device is not waited for
        members = torch.tensor(self.members, device=device)
        lot = _Lot(
            members,
            table.sizes[members][:, None],
            torch.tensor(cycle, device=device)[:, None],
            torch.tensor(totals, device=device)[:, None],
            self._orders(members, kinds, size),
        )
        limit = max(1, self.room // max(1, len(counts) * size * table.row_bytes))
        for begin in range(0, max(totals), limit):
            times = range(begin, min(begin + limit, max(totals)))
            steps_now = _steps(tuple(kinds.items()), size, times, together)
            yield self._block(lot, steps_now, size, times, together)

    def _orders(self, members: Tensor, kinds: "Kinds", size: int) -> Tensor | None:
        """All epochs' orders of the rows, (m, epochs, most), None when no client needs any."""
        most, least = (pick(n for n, _, _ in kinds) for pick in (max, min))
        if self.plan.batch is None or most <= size:
            return None
        epochs = max(math.ceil(total / cycle) for _, total, cycle in kinds)
        m = len(members)
        keys = bits(join_keys(key(self.seed, self.round), self.table.keys[members]), epochs).view(
            -1
        )
        sizes = self.table.sizes[members]
        own = sizes.repeat_interleave(epochs) if least < most else None
        found = orders(keys, most, own).view(m, epochs, most)
        if least <= size:  # a client whose rows fit into one batch takes them as they are
            plain = torch.arange(most, device=found.device)
            found = torch.where((sizes <= size)[:, None, None], plain, found)
        return found

    def _block(
        self, lot: "_Lot", steps: tuple[BatchStep, ...], size: int, times: range, together: bool
    ) -> Block:
        table, device = self.table, lot.members.device
        m = steps[0].clients  # those that are done in an earlier block are last
        members, sizes, cycle = lot.members[:m], lot.sizes[:m], lot.cycle[:m]
        time = torch.arange(times.start, times.stop, device=device)
        place = (time % cycle)[:, :, None] * size + torch.arange(size, device=device)  # (m, t, b)
        place = place.view(m, -1)  # (m, r)
        inside = place < sizes
        place = torch.minimum(place, sizes - 1)
        if lot.orders is not None:
            epoch = (time // cycle).repeat_interleave(size, 1)
            whole = lot.orders[:m].reshape(m, -1)
            # a client that is done has no further epochs: any of its rows will do
            at = (epoch * lot.orders.shape[2] + place).clamp_(max=whole.shape[1] - 1)
            place = torch.minimum(whole.gather(1, at), sizes - 1)
        rows = (table.starts[members][:, None] + place).view(-1)
        weights = None
        if not all(step.even for step in steps):
            if together:
                inside &= (time < lot.totals[:m]).repeat_interleave(size, 1)
            held = inside.view(m, -1, size).to(table.x.dtype)
            weights = (held / held.sum(2, keepdim=True).clamp_(min=1.0)).view(m, 1, -1)
        return Block(
            steps,
            size,
            table.x.index_select(0, rows).view(m, -1, *table.x.shape[1:]),
            table.facts.index_select(0, rows).view(m, rows.numel() // m, -1).mT.contiguous(),
            None
            if table.heard is None
            else table.heard.index_select(0, rows).view(m, rows.numel() // m, -1),
            weights,
            table.classes,
            table.known,
        )


@dataclass(frozen=True, eq=False)
class _Lot:
    """The clients of a schedule, on the device."""

    members: Tensor  # (m,)
    sizes: Tensor  # (m, 1)
    cycle: Tensor  # (m, 1)  steps in an epoch
    totals: Tensor  # (m, 1)  steps in all
    orders: Tensor | None  # (m, epochs, most)


Kinds = Counter[tuple[int, int, int]]  # (rows, steps, steps in an epoch) -> how many clients


@lru_cache(maxsize=256)  # stacks of a federation are alike, round after round
def _steps(
    kinds: tuple[tuple[tuple[int, int, int], int], ...], size: int, times: range, together: bool
) -> tuple[BatchStep, ...]:
    """The steps at these times, from how many clients have which rows, steps, steps per epoch."""
    everyone = sum(many for _, many in kinds)
    found = []
    for time in times:
        active = [(kind, many) for kind, many in kinds if kind[1] > time]
        rows = [min(size, n - time % cycle * size) for (n, _, cycle), _ in active]
        clients, first = sum(many for _, many in active), (time - times.start) * size
        even = min(rows) == max(rows) and not (together and clients < everyone)
        if not together:
            found.append(BatchStep(clients, clients, max(rows), first, even))
        else:  # one width for all uneven steps, so that few kinds of them must be recorded
            found.append(BatchStep(everyone, clients, max(rows) if even else size, first, even))
    return tuple(found)
