"""The one-shot model over any transport: sums from the sites, one posterior for all of them."""

import statistics
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor

from ..core import tree
from ..core.one_shot import OneShot, OneShotRows, Posterior, solve, squared_error
from ..core.scaler import Scaler
from ..core.tree import Params
from ..core.wire import Reply, Task, Transport, find_flaw, wanted_of
from ..errors import FedloreError
from ..models.client import Client
from ..privacy.filters import SumWithheld
from .client import scale_rows


def one_shot_rows(
    client: Client, one_shot: OneShot, scaler: Scaler | None, *, classes: int
) -> OneShotRows:
    """The client's rows; a bare one hears nothing."""
    data = scale_rows(client.data, scaler, torch.empty(0, dtype=torch.float64))
    if data.y is None:
        raise FedloreError(f"client '{client.id}' has no labels to learn from")
    known = (data.prior, data.allowed, data.stated) if client.injected else (None, None)
    features, start, bend = one_shot.rows(data.x, *known, classes=classes)
    place = data.aim
    if data.target is not None:  # of a number, which lies somewhere in its bin
        target = data.target.double()
        place = target @ torch.arange(classes).to(target)
    return OneShotRows(features, place - start, start, bend)


def solve_sums(transport: Transport, groups: Tensor, *, noised: bool = False) -> Posterior:
    """One exchange of sums, and what they say; rows stay at home.

    The groups are those of the basis, `Basis.groups` of as many columns as the rows have. Noise
    may leave fewer rows than none, which is then taken for one.
    """
    total = sum_replies(transport, Task("gram", 0))
    if noised:
        total["free"] = total["free"].clamp(min=1.0)
    return solve(total, groups)


@torch.no_grad()
def fit_one_shot(transport: Transport, groups: Tensor, *, links: int, noised: bool) -> Params:
    """The posterior of the straight model, or of the link that sites vote for, and which it is."""
    link, found = 0, solve_sums(transport, groups, noised=noised)
    if links:
        with suppress(SumWithheld):  # a site is gone: the straight model stays
            link, found = bend_sums(transport, groups, found, links)
    return {**found.bundle(), "link": torch.tensor(link)}


def bend_sums(
    transport: Transport, groups: Tensor, straight: Posterior, links: int
) -> tuple[int, Posterior]:
    """Which of the links the rows that were left out favour, 0 for none, and what it gives.

    A step of Gauss-Newton for every link from the straight model, one vote, and a second step for
    the winner: `most_sums` exchanges, each a sum over sites like the first.
    """
    found, errors = [straight], [0.0]
    for link in range(1, links + 1):
        total = _sum_weighted(transport, link, link, straight.mean)
        found.append(solve(total, groups))
        errors.append(squared_error(total, straight.mean))
    asked = {str(link): one.bundle() for link, one in enumerate(found)}
    losses = sum_replies(transport, Task("vote", 0, asked))["loss"]
    best = int(losses.argmin())  # at a tie the first wins
    if best == 0:
        return best, straight
    once = found[best]
    total = _sum_weighted(transport, links + 1, best, once.mean)

    def left(error: float, mean: Tensor) -> float:
        return error / float(once.noise) + float((mean.square() / once.prior[groups]).sum())

    if left(squared_error(total, once.mean), once.mean) <= left(errors[best], straight.mean):
        return best, solve(total, groups)
    return best, replace(once, mean=(straight.mean + once.mean) / 2.0)  # it went too far


def most_sums(links: int) -> int:
    """Exchanges of sums of rows that so many links need at most."""
    return links + 2 if links else 1


def _sum_weighted(transport: Transport, round: int, link: int, mean: Tensor) -> Params:
    sent = {"one_shot": {"mean": mean, "link": torch.tensor(link)}}
    return sum_replies(transport, Task("gram", round, sent))


def sum_replies(transport: Transport, task: Task) -> Params:
    """The sum over the sites of what they answer; a vote that cannot be one counts for nothing."""
    replies = sorted(transport.exchange(task, sorted(transport.clients())), key=lambda r: r.client)
    wanted = wanted_of(task, (), 0)  # of sums of rows nothing: who reads them checks them
    if wanted:
        replies = [r for r in replies if r.round == task.round and not find_flaw(r.upload, wanted)]
    if not replies:
        whose = f"trial {task.trial}" if task.trial else "the one-shot model"
        raise FedloreError(f"{whose}: no {task.kind} came back")
    if task.kind == "vote":
        replies = _cap_votes(replies)
    counted = [(r.upload, float(len(r.names))) for r in replies]
    return tree.scale(tree.mean(counted)[task.kind], sum(count for _, count in counted))


MOST_VOTES = 3.0  # times the rows of the middle client, for which a single one's vote may count


def _cap_votes(replies: list[Reply]) -> list[Reply]:
    """Votes of single clients, none of which decides alone; sums are what they are."""
    rows = [float(r.upload["vote"]["rows"]) for r in replies]
    most = MOST_VOTES * statistics.median(rows)
    if len(replies) < 3 or not most > 0 or any(r.members for r in replies):
        return replies
    return [
        r if n <= most else replace(r, upload={"vote": tree.scale(r.upload["vote"], most / n)})
        for r, n in zip(replies, rows, strict=True)
    ]
