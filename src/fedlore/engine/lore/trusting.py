"""Whose word counts how much in which row: the expert's weight in a mixture, row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...answers import Measured
from ...core.examples import Examples
from ...core.scaler import Scaler
from ...knowledge.door import hide_others
from ...knowledge.models import Knowledge
from ...personal.brought import Brought
from ...personal.own.members import within
from ...personal.own.mixture import mix, scale_weights
from ..tuning.rowwise import RowChoice, RowCost, class_costs, learn_rows, number_costs
from .private import EXPERT, Voice, measure_line

BY_ROW = "trust by row"  # its line in the site's table


@dataclass(frozen=True, eq=False)
class Lean:
    """What a site knows of its expert's weight in each row of its own."""

    choice: RowChoice
    rows: Tensor | None = None  # (n,) λ as rows that it was not learned from teach it, NaN: one

    def knowledge(self, known: Knowledge) -> Knowledge:
        """The site's knowledge with what was learned."""
        if known.row_trust is None:
            return known
        return replace(known, row_trust=known.row_trust.with_formula(self.choice.formula))

    def tell(self, brought: Brought, errors: Tensor) -> Brought:
        """The site's table, with a line for λ row by row where there is one."""
        if self.rows is None:
            return brought
        line = measure_line(BY_ROW, errors, brought.measure)
        return replace(brought, lines=(*brought.lines, line))


def lean_classes(
    known: Knowledge,
    heard: Examples,
    parts: Sequence[tuple[Voice, Tensor]],  # voices, and what they say of unseen rows, (n, k)
    share: Mapping[str, float],
    *,
    ordered: bool,
    scaler: Scaler | None,
    seed: int,
) -> Lean:
    """The expert's weight in a mixture of classes, row by row, where the site's rows say more."""
    others = [(said, share[v.name]) for v, said in parts if v.name in share and v.name != EXPERT]
    if known.row_trust is None or heard.prior is None or heard.y is None or not others:
        return Lean(RowChoice())
    rest = mix(torch.stack([said for said, _ in others]), [weight for _, weight in others])
    cost, loss = class_costs(rest, heard.prior, heard.y, ordered=ordered)
    spoken = heard.prior.sum(1) > 0
    return _lean(known, heard, cost, loss, share.get(EXPERT, 0.0), spoken, scaler, seed)


def lean_numbers(
    known: Knowledge,
    told: Measured,
    voices: Sequence[Voice],
    share: Mapping[str, float],
    together: Tensor,  # (n,) what the mixture says with one number
    *,
    scaler: Scaler | None,
    seed: int,
) -> tuple[Lean, Tensor]:
    """The same of a number, and what the mixture says of unseen rows then."""
    others = [v for v in voices if v.name in share and v.name != EXPERT]
    if known.row_trust is None or told.said is None or told.y is None or not others:
        return Lean(RowChoice()), together
    weights = scale_weights([share[v.name] for v in others])
    rest = together.new_tensor(weights) @ torch.stack([v.held for v in others])
    spoken, said = ~told.said.isnan(), told.said.nan_to_num(nan=0.0)
    cost, loss = number_costs(rest, said, told.y, together)
    found = _lean(known, told, cost, loss, share.get(EXPERT, 0.0), spoken, scaler, seed)
    if found.rows is None:
        return found, together
    own = spoken & ~found.rows.isnan()
    mixed = torch.where(own, (1.0 - found.rows) * rest + found.rows * said, together)
    return found, within(mixed, told)


def _lean(
    known: Knowledge,
    rows: Examples | Measured,
    cost: RowCost,
    loss: RowCost,
    constant: float,
    spoken: Tensor,
    scaler: Scaler | None,
    seed: int,
) -> Lean:
    if known.orders is not None and not known.orders.hears_prediction:
        return Lean(RowChoice())  # he is not heard in any row
    x = rows.x if scaler is None or scaler.inputs is None else scaler.inputs.decode(rows.x)
    x = hide_others(x, known.schema)
    choice = learn_rows(known.row_trust, x, cost, loss, constant, heard=spoken, seed=seed)
    held = rows.trust
    if choice.held is not None:
        held = choice.held if held is None else torch.where(held.isnan(), choice.held, held)
    return Lean(choice, held)
