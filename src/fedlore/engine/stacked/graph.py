"""Steps recorded once as CUDA graphs and played again: thirty kernels for one launch."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from .bench import Batch


@dataclass(frozen=True, eq=False)
class _Recording:
    batch: Batch  # where the graph reads its rows
    graph: torch.cuda.CUDAGraph


class Graphs:
    """Recordings of steps, by whatever makes two steps the same sequence of kernels."""

    def __init__(self) -> None:
        self._recordings: dict[Hashable, _Recording] = {}

    def play(
        self,
        key: Hashable,
        batch: Batch,
        step: Callable[[Batch], None],
        touched: list[Tensor],
    ) -> None:
        """Do `step` on this batch, which changes the `touched` tensors in place."""
        if key not in self._recordings:
            self._recordings[key] = _record(batch, step, touched)
        recording = self._recordings[key]
        for place, part in zip(_parts(recording.batch), _parts(batch), strict=True):
            place.copy_(part)
        recording.graph.replay()


def _parts(batch: Batch) -> list[Tensor]:
    values = (getattr(batch, field.name) for field in fields(batch))
    return [v for v in values if v is not None]


def _record(batch: Batch, step: Callable[[Batch], None], touched: list[Tensor]) -> _Recording:
    own = replace(batch, **{
        f.name: part.clone(memory_format=torch.contiguous_format)
        for f in fields(batch)
        if (part := getattr(batch, f.name)) is not None
    })  # fmt: skip
    before = [t.clone() for t in touched]
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # libraries set themselves up outside the recording
        for _ in range(2):
            step(own)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(own)
    for t, value in zip(touched, before, strict=True):
        t.copy_(value)
    return _Recording(own, graph)
