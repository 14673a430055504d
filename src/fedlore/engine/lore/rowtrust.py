"""Row trust: the expert's weight in a site's ensemble, row by row (λ as a function of the row)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...answers import Measured
from ...core.examples import Examples
from ...core.scaler import Scaler
from ...knowledge.missing import hide_others
from ...knowledge.models import Knowledge
from ...models.own.members import within
from ...models.own.mixture import mix, scale_weights
from ..tuning.rowtrust import RowChoice, RowCost, class_costs, learn_rows, number_costs
from .report import StackMember
from .temperature import EXPERT

BY_ROW = "trust by row"  # its line in the site's table


@dataclass(frozen=True, eq=False)
class LearnedTrust:
    """What a site knows of its expert's weight in each row of its own."""

    choice: RowChoice
    rows: Tensor | None = None  # (n,) λ as rows that it was not learned from teach it, NaN: one

    def knowledge(self, known: Knowledge) -> Knowledge:
        """The site's knowledge with what was learned."""
        if known.row_trust is None:
            return known
        return replace(known, row_trust=known.row_trust.with_formula(self.choice.formula))


def trust_classes(
    known: Knowledge,
    heard: Examples,
    parts: Sequence[
        tuple[StackMember, Tensor]
    ],  # members, and what they say of unseen rows, (n, k)
    share: Mapping[str, float],
    *,
    ordered: bool,
    scaler: Scaler | None,
    seed: int,
) -> LearnedTrust:
    """The expert's weight in a mixture of classes, row by row, where the site's rows say more."""
    others = [(said, share[v.name]) for v, said in parts if v.name in share and v.name != EXPERT]
    if known.row_trust is None or heard.prior is None or heard.y is None or not others:
        return LearnedTrust(RowChoice())
    rest = mix(torch.stack([said for said, _ in others]), [weight for _, weight in others])
    cost, loss = class_costs(rest, heard.prior, heard.y, ordered=ordered)
    spoken = heard.prior.sum(1) > 0
    return _learn(known, heard, cost, loss, share.get(EXPERT, 0.0), spoken, scaler, seed)


def trust_numbers(
    known: Knowledge,
    measured: Measured,
    members: Sequence[StackMember],
    share: Mapping[str, float],
    mixed: Tensor,  # (n,) what the ensemble says with one number
    *,
    scaler: Scaler | None,
    seed: int,
) -> tuple[LearnedTrust, Tensor]:
    """The same of a number, and what the mixture says of unseen rows then."""
    others = [v for v in members if v.name in share and v.name != EXPERT]
    if known.row_trust is None or measured.said is None or measured.y is None or not others:
        return LearnedTrust(RowChoice()), mixed
    weights = scale_weights([share[v.name] for v in others])
    rest = mixed.new_tensor(weights) @ torch.stack([v.oof for v in others])
    spoken, said = ~measured.said.isnan(), measured.said.nan_to_num(nan=0.0)
    cost, loss = number_costs(rest, said, measured.y, mixed)
    found = _learn(known, measured, cost, loss, share.get(EXPERT, 0.0), spoken, scaler, seed)
    if found.rows is None:
        return found, mixed
    own = spoken & ~found.rows.isnan()
    mixed = torch.where(own, (1.0 - found.rows) * rest + found.rows * said, mixed)
    return found, within(mixed, measured)


def _learn(
    known: Knowledge,
    rows: Examples | Measured,
    cost: RowCost,
    loss: RowCost,
    constant: float,
    spoken: Tensor,
    scaler: Scaler | None,
    seed: int,
) -> LearnedTrust:
    if known.orders is not None and not known.orders.hears_prediction:
        return LearnedTrust(RowChoice())  # he is not heard in any row
    x = rows.x if scaler is None or scaler.inputs is None else scaler.inputs.decode(rows.x)
    x = hide_others(x, known.schema)
    choice = learn_rows(known.row_trust, x, cost, loss, constant, heard=spoken, seed=seed)
    held = rows.trust
    if choice.held is not None:
        held = choice.held if held is None else torch.where(held.isnan(), choice.held, held)
    return LearnedTrust(choice, held)
