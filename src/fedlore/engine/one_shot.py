"""The one-shot model over any transport: sums from the sites, one posterior for all of them."""

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from ..core import tree
from ..core.one_shot import OneShot, OneShotRows, Posterior, solve
from ..core.scaler import Scaler
from ..core.wire import Reply, Task, Transport
from ..errors import FedloreError
from ..models.client import Client
from ..privacy.filters import Filter, guard_transport
from .client import scale_rows


def one_shot_rows(
    client: Client, one_shot: OneShot, scaler: Scaler | None, *, classes: int
) -> OneShotRows:
    """The client's rows; a bare one hears nothing."""
    data = scale_rows(client.data, scaler, torch.empty(0, dtype=torch.float64))
    if data.y is None:
        raise FedloreError(f"client '{client.id}' has no labels to learn from")
    known = (data.prior, data.allowed) if client.injected else (None, None)
    features, start = one_shot.rows(data.x, *known, classes=classes)
    place = data.y.double()
    if data.target is not None:  # of a number, which lies somewhere in its bin
        target = data.target.double()
        place = target @ torch.arange(classes).to(target)
    return OneShotRows(features, place - start, start)


def solve_sums(transport: Transport, groups: Tensor, *, noised: bool = False) -> Posterior:
    """One exchange of sums, and what they say; rows stay at home.

    The groups are those of the basis, `Basis.groups` of as many columns as the rows have. Noise
    may leave fewer rows than none, which is then taken for one.
    """
    replies = sorted(
        transport.exchange(Task("gram", 0), sorted(transport.clients())), key=lambda r: r.client
    )
    if not replies:
        raise FedloreError("no sums of rows came back for the one-shot model")
    counted = [(r.upload, float(len(r.names))) for r in replies]
    mean = tree.mean(counted)["gram"]
    total = tree.scale(mean, sum(count for _, count in counted))
    if noised:
        total["free"] = total["free"].clamp(min=1.0)
    return solve(total, groups)


def posterior_of(
    rows: Mapping[str, OneShotRows],
    groups: Tensor,
    filters: Sequence[Filter] = (),
    *,
    noised: bool = False,
) -> Posterior:
    """The posterior of sites in this process; their sums pass the same filters as any upload."""
    with torch.no_grad():
        return solve_sums(guard_transport(_Sums(rows), filters), groups, noised=noised)


class _Sums:
    """A transport that can only be asked for sums of rows."""

    def __init__(self, rows: Mapping[str, OneShotRows]) -> None:
        self._rows = rows

    def clients(self) -> Sequence[str]:
        return list(self._rows)

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        for name in to:
            yield Reply(name, task.round, {"gram": self._rows[name].sums()})
