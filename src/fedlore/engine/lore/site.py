"""The site half of the recipe: a vote for the server, and what a site chooses for itself.

Pure functions of a site's own rows and of what the server sent. Only votes leave the site.
"""

from collections.abc import Sequence

import torch

from ...core.exact import Posterior
from ...core.examples import Examples
from ...core.tree import Params
from ...personal.client import NumberClient
from ...personal.regressor import decode_logits
from ..tuning.curves import Cached, hits, most_hits
from .private import Private
from .seat import WORST, Seat, nll_rows
from .settling import settle_classes
from .settlingnumbers import settle_number
from .trial import Trial


def vote(seat: Seat, trial: Trial, params: Params) -> Params:
    """The loss on the rows that a trial held back, summed, and how many they are."""
    candidate = seat.common.candidate(trial)
    _, held = seat.part(candidate, trial.fold)
    if held is None or not len(held):
        return _ballot(0.0, 0)
    logits = seat.logits(candidate, params, held)
    if isinstance(seat.member, NumberClient):
        places = seat.folds
        assert places is not None
        told = seat.told
        rows = told[places == trial.fold]
        assert told.y is not None and rows.y is not None
        # in units of the site's own variance, so that no site counts for more by its scale
        spread = told.y.double().var(correction=0).clamp(min=1e-12)
        missed = decode_logits(logits, rows, 0.0).mean() - rows.y
        # no row counts for more than the worst of classes does
        losses = (missed.square() / spread).clamp(max=-WORST)
        return _ballot(float(losses.sum()), len(rows))
    if not seat.member.injected:
        held = Examples(held.x, held.y)
    if seat.common.ordered:
        return _ballot(float(nll_rows(logits, held).sum()), len(held))
    cached = Cached(logits.float(), held)
    wrong = 1.0 - float(hits(cached, [most_hits(cached)])[0].double().mean())
    # equal counts of right rows are common: the likelihood decides between them
    return _ballot(wrong * len(held) + 1e-3 * float(nll_rows(logits, held).sum()), len(held))


def settle(
    seat: Seat,
    trial: Trial,
    main: Params,
    *,
    folds: Sequence[Params] = (),
    posterior: Posterior | None = None,
) -> Private:
    """A site's own model of all that it knows, from networks that had not seen its folds."""
    with torch.no_grad():
        if isinstance(seat.member, NumberClient):
            return settle_number(seat, trial, main, folds, posterior)
        return settle_classes(seat, trial, main, folds, posterior)


def _ballot(loss: float, rows: int) -> Params:
    return {
        "loss": torch.tensor([loss], dtype=torch.float64),
        "rows": torch.tensor([float(rows)], dtype=torch.float64),
    }
