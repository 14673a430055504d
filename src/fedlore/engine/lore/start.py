"""Weights of an ensemble: where they begin, which count, when only what a site has itself does."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...core.tree import Params
from ...errors import ConfigError
from ...models.benefit import Benefit
from ...models.own.mixture import scale_weights, start_weights
from .report import StackMember
from .temperature import EXPERT, NETWORK

ONE_SHOT = "one_shot"
CORRECTED = "extra trees, correcting the federation"
HARDLY = 0.001  # the expert's weight before any row has spoken

_Stack = Any  # a `Stack` of classes or of numbers
StartShares = tuple[float, ...]
#: Where weights may begin: shares of the network, of the one-shot model, of what a site has itself.
STARTS: tuple[StartShares, ...] = (
    (0.25, 0.25, 0.5),
    (0.2, 0.5, 0.3),
    (0.15, 0.7, 0.15),
    (0.5, 0.25, 0.25),
    (0.1, 0.2, 0.7),
)
#: Of a number, whose one-shot model own trees correct: rows out of fold flatter own models, whose
#: settings they chose, so all begin with at least half for those two.
NUMBER_STARTS: tuple[StartShares, ...] = (
    (0.15, 0.7, 0.15),
    (0.2, 0.5, 0.3),
    (0.35, 0.5, 0.15),
)
CORRECTED_PART = 0.6  # of the one-shot model's share begins with what corrects it, if there is
MOST_STARTS = 10  # that a site judges
SMALL = 0.01  # a weight below which a member is left out


def read_starts(sent: Params) -> list[StartShares]:
    """The starts that a server asks about; what are no shares is refused."""
    shares = sent["shares"].double()
    if shares.ndim != 2 or shares.shape[1] != 3 or not 0 < len(shares) <= MOST_STARTS:
        raise ConfigError(f"starts must be rows of 3 shares, got shape {tuple(shares.shape)}")
    if not bool((shares >= 0).all()) or not bool(((shares.sum(1) - 1.0).abs() < 1e-9).all()):
        raise ConfigError("the shares of a start must not be negative and sum to 1")
    return [tuple(row) for row in shares.tolist()]


def first_weights(members: Sequence[StackMember], start: StartShares | None = None) -> Tensor:
    """Where the weights of members in any order begin, (j,).

    The expert begins at almost nothing: others have heard him, and rows must speak for more.
    """
    if start is not None:
        known = {NETWORK: start[0], ONE_SHOT: start[1], EXPERT: HARDLY}
        if any(m.name == CORRECTED for m in members):
            known[CORRECTED] = CORRECTED_PART * start[1]
            known[ONE_SHOT] = start[1] - known[CORRECTED]
        own = sum(m.name not in known for m in members)
        parts = [known.get(m.name, start[2] / max(own, 1)) for m in members]
        if math.fsum(parts) > HARDLY:
            return torch.tensor(scale_weights(parts), dtype=torch.float64)
    shared = sum(member.shared for member in members)
    own = sum(not member.shared and member.name != EXPERT for member in members)
    if not shared + own:
        return torch.ones(1, dtype=torch.float64)
    usual = start_weights(shared, own)
    each = [usual[0] if m.shared else usual[-1] for m in members if m.name != EXPERT]
    found = [usual.new_tensor(HARDLY) if m.name == EXPERT else each.pop(0) for m in members]
    return torch.stack(found) / torch.stack(found).sum()


def prune_members(
    members: Sequence[StackMember], weights: Tensor
) -> tuple[list[StackMember], list[float]]:
    """The members that count; the network is always one of them, and what another corrects."""
    by_name = {member.name: float(w) for member, w in zip(members, weights, strict=True)}
    needed = {NETWORK, *([ONE_SHOT] if by_name.get(CORRECTED, 0.0) >= SMALL else [])}
    kept = [
        (member, float(w))
        for member, w in zip(members, weights, strict=True)
        if w >= SMALL or member.name in needed
    ]
    return [member for member, _ in kept], list(scale_weights([w for _, w in kept]))


def lift_expert(names: Sequence[str], weights: Tensor, least: float) -> Tensor:
    """Weights (j,) with at least `least` for the expert; the others keep their proportions."""
    his = torch.tensor([name == EXPERT for name in names])
    if not his.any() or float(weights[his]) >= least:
        return weights
    return torch.where(his, least, weights * (1.0 - least) / (1.0 - weights[his]))


def is_local(member: StackMember) -> bool:
    """Whether it was learned from the site's own rows alone."""
    return not member.shared and member.name not in (EXPERT, CORRECTED)


def keep_local(
    members: Sequence[StackMember], stack: _Stack, said: Tensor, report: Benefit
) -> tuple[list[StackMember], list[StackMember], dict[str, float], Tensor, Benefit]:
    """The site's own models alone, with the expert where he has a least trust.

    `said` is what they say of rows that did not weigh them. Members, those that count, their
    weights, what they say together, and the report.
    """
    least = stack.knowledge.least_trust
    expert = [m for m in members if m.name == EXPERT and least > 0.0]
    own = [m for m in members if is_local(m)]
    rows = torch.ones(len(stack.y), dtype=torch.bool)
    kept, weights = prune_members([*own, *expert], stack.weigh([*own, *expert], rows))
    share = {NETWORK: 0.0, **{m.name: w for m, w in zip(kept, weights, strict=True)}}
    his = share.get(EXPERT, 0.0)
    parts = torch.tensor([1.0 - his, *(his for _ in expert)], dtype=torch.float64)
    mixed = stack.mix([replace(own[0], oof=said), *expert], parts)
    names = ", ".join(member.name for member in kept)
    sentence = f"{report.sentence} It keeps its local best model: {names}."
    report = replace(report, weights=share, costs={}, sentence=sentence)
    return [*own, *expert], kept, share, mixed, report
