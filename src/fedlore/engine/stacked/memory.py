"""What many clients remember, as rows of one table: two versions of each, see `Memory`."""

import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ...core import tree
from ...core.tree import Payload
from ...errors import FedloreError
from ..client import Memory

EMPTY, STARTED, FINISHED = 0, 1, 2  # what a version holds: nothing, memory, and the last steps


class Shape:
    """How a memory lies in a row: its bundles one after another."""

    def __init__(self, like: Payload) -> None:
        self._entries = [
            (key, name, t.shape, t.numel()) for key, b in like.items() for name, t in b.items()
        ]
        self.width = sum(entry[3] for entry in self._entries)
        self.bundles = set(like)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]

    def cut(self, rows: Tensor, bundles: set[str]) -> Payload:
        """Rows (m, w) as a memory with a leading client axis, without a copy."""
        found: Payload = {key: {} for key in bundles}
        pieces = torch.split(rows, [entry[3] for entry in self._entries], 1)
        for (key, name, shape, _), piece in zip(self._entries, pieces, strict=True):
            if key in bundles:
                found[key][name] = piece.view(-1, *shape)
        return found

    def paste(self, memory: Payload, rows: Tensor) -> None:
        """Write a memory with a leading client axis into rows (m, w)."""
        for key, bundle in self.cut(rows, set(memory) & self.bundles).items():
            for name, t in bundle.items():
                t.copy_(memory[key][name])


class MemoryTable(Protocol):
    """Rows by number; unwritten rows may hold anything."""

    def read(self, rows: Sequence[int]) -> Tensor: ...

    def write(self, rows: Sequence[int], values: Tensor) -> None: ...


class InMemory:
    """A table in memory."""

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows  # (r, w)

    def read(self, rows: Sequence[int]) -> Tensor:
        return self._rows[torch.tensor(rows, device=self._rows.device)]

    def write(self, rows: Sequence[int], values: Tensor) -> None:
        self._rows[torch.tensor(rows, device=self._rows.device)] = values


class OnDisk:
    """A table in a sparse file: only rows that were written take space, and none takes memory."""

    def __init__(self, folder: str | None, like: Tensor, width: int) -> None:
        self._like, self._width, self._size = like, width, width * like.element_size()
        self._file, path = tempfile.mkstemp(prefix="fedlore-", dir=folder)
        os.unlink(path)  # without a name: gone with the processes that use it
        weakref.finalize(self, os.close, self._file)

    def read(self, rows: Sequence[int]) -> Tensor:
        found = self._like.new_empty(len(rows), self._width, device="cpu")
        for i, row in enumerate(rows):
            part = os.pread(self._file, self._size, row * self._size)
            found[i].numpy().view(np.uint8)[: len(part)] = np.frombuffer(part, np.uint8)
        return found.to(self._like.device)

    def write(self, rows: Sequence[int], values: Tensor) -> None:
        for i, row in zip(rows, values.cpu(), strict=True):
            os.pwrite(self._file, row.contiguous().numpy(), i * self._size)


class MemoryBank(MutableMapping[str, Memory]):
    """The memories of a table. As a mapping it gives one client's, as the reference engine has it.

    Two rows a client: settling picks one, and the new memory goes into the other.
    """

    def __init__(
        self, ids: Mapping[str, int], shape: Shape, table: MemoryTable, ledger: Tensor
    ) -> None:
        self._ids, self._shape, self._table = ids, shape, table
        book = ledger.numpy()  # (4, m)  shared between processes where the table is
        self._round, self._newest, self._held = book[0], book[1], book[2:]

    @property
    def width(self) -> int:
        """Numbers in one memory; 0 where clients remember nothing."""
        return self._shape.width

    def settle(
        self, members: Sequence[int], accepted: Sequence[int]
    ) -> tuple[list[int], list[int]]:
        """The row of each client that the server knows of, and what it holds."""
        at = np.asarray(members, dtype=np.int64)
        newest = self._newest[at]
        version = np.where(
            np.asarray(accepted, dtype=np.int64) >= self._round[at], newest, 1 - newest
        )
        return (2 * at + version).tolist(), self._held[version, at].tolist()

    def read(self, rows: Sequence[int], held: int) -> Payload:
        """The memories in these rows, which all hold the same; with a leading client axis."""
        if held == EMPTY:
            return {}
        bundles = self._shape.bundles - ({"finished"} if held == STARTED else set())
        return self._shape.cut(self._table.read(rows), bundles)

    def write(self, settled: Sequence[int], memory: Payload) -> None:
        """Put new memories beside the settled ones; `turn` makes them the newest."""
        if set(memory) - self._shape.bundles:
            extra = sorted(set(memory) - self._shape.bundles)[0]
            raise FedloreError(f"the memory has a bundle '{extra}' that it did not start with")
        first = next(iter(next(iter(memory.values())).values()))
        rows = first.new_empty(len(settled), self._shape.width)
        self._shape.paste(memory, rows)
        self._table.write([row ^ 1 for row in settled], rows)

    def turn(self, settled: Sequence[int], round: int, held: int) -> None:
        """Make what was written beside the settled rows the newest, of this round."""
        rows = np.asarray(settled, dtype=np.int64)
        at, version = rows // 2, 1 - rows % 2
        self._round[at], self._newest[at], self._held[version, at] = round, version, held

    def __getitem__(self, name: str) -> Memory:
        at = self._ids[name]
        newest = int(self._newest[at])
        before, after = (
            self._one(2 * at + v, int(self._held[v, at])) for v in (1 - newest, newest)
        )
        return Memory(int(self._round[at]), before, after)

    def __setitem__(self, name: str, memory: Memory) -> None:
        at = self._ids[name]
        self._round[at], self._newest[at] = memory.round, 1
        for version, payload in enumerate((memory.before, memory.after)):
            held = (FINISHED if "finished" in payload else STARTED) if payload else EMPTY
            self._held[version, at] = held
            if payload:
                self.write([2 * at + 1 - version], tree.each(payload, lambda t: t[None]))

    def __delitem__(self, name: str) -> None:
        self[name] = Memory()

    def _one(self, row: int, held: int) -> Payload:
        return tree.each(self.read([row], held), lambda t: t[0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)
