"""A site's vote: the summed loss of what is tried on rows that it left out."""

from collections.abc import Sequence

import torch

from ...core.examples import Examples
from ...core.tree import Params
from ...models.regressor import decode_logits
from ..tuning.oof import Cached, hits, most_hits
from .rows import SiteRows, nll_rows
from .space import Trial


def vote(rows: SiteRows, trial: Trial, params: Params) -> Params:
    """The loss on the rows that a trial left out, summed, and how many they are."""
    candidate = rows.common.candidate(trial)
    _, held = rows.part(candidate, trial.fold)
    if held is None or not len(held):
        return ballot([0.0], 0)
    logits = rows.logits(candidate, params, held)
    if rows.common.bins is not None:
        assert rows.folds is not None
        away = rows.folds == trial.fold
        said = decode_logits(logits, rows.measured[away], 0.0).mean()
        return ballot([float(rows.number_losses(said, away).sum())], int(away.sum()))
    if not rows.member.injected:
        held = Examples(held.x, held.y)
    if rows.common.ordered or rows.metric:
        return ballot([float(rows.class_losses(logits, held).sum())], len(held))
    cached = Cached(logits.float(), held)
    wrong = 1.0 - float(hits(cached, [most_hits(cached)])[0].double().mean())
    # equal counts of right rows are common: the likelihood decides between them
    return ballot([wrong * len(held) + 1e-3 * float(nll_rows(logits, held).sum())], len(held))


def ballot(losses: Sequence[float], rows: int) -> Params:
    """A vote as it travels."""
    return {
        "loss": torch.tensor(losses, dtype=torch.float64),
        "rows": torch.tensor([float(rows)], dtype=torch.float64),
    }
