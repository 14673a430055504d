"""Boosting over sites: the server draws trees, sites sum what is left to learn in their leaves."""

import torch
from torch import Tensor

from ...core.boosting import CURVATURE, Forest, draw_trees, find_cuts, keep_trees
from ...core.tree import Params
from ...core.wire import Task, Transport
from ...errors import ConfigError
from ...privacy.filters import SumWithheld
from ..one_shot import sum_replies
from .rows import SiteRows
from .space import Agreement


def grow_forest(transport: Transport, common: Agreement) -> tuple[Forest, str]:
    """The trees of all rounds; where a sum is withheld those until then, and why it was."""
    boost = common.search_space.boost
    assert boost is not None
    free = common.bins is None and not common.ordered
    models, outputs = common.search_space.folds + 1, common.classes if free else 1
    forest = Forest.empty(models, boost.depth, outputs)
    try:
        grid = common.boost_grid()
        counts = sum_replies(transport, Task("leaves", 0, {"boost": {"grid": grid}}))["counts"]
        cuts = find_cuts(counts, grid, boost)
        for round in range(1, boost.rounds + 1 if any(map(len, cuts)) else 1):
            drawn = draw_trees(cuts, boost, models, f"{common.seed} {round}")
            sent = forest.bundle() | {f"drawn {name}": t for name, t in drawn.items()}
            total = sum_replies(transport, Task("leaves", round, {"boost": sent}))
            steep = CURVATURE if free else 1.0
            forest = forest.add(keep_trees(total, drawn, boost, curvature=steep))
    except SumWithheld as error:
        return forest, str(error)
    return forest, ""


class BoostingSite:
    """A site's part: counts on the grid of cut points, sums of leaves, and what trees say."""

    def __init__(self, rows: SiteRows) -> None:
        self._rows = rows
        self._last: tuple[Forest, Tensor] | None = None

    def sums(self, sent: Params) -> Params:
        """Sums of leaves of drawn trees, or counts on the grid that their cut points come from."""
        if self._rows.common.search_space.boost is None:
            raise ConfigError("sums of leaves were asked for, and the search space has no boosting")
        rows = self._rows.boost_rows
        if "grid" in sent:
            if not torch.equal(sent["grid"], rows.grid):
                raise ConfigError("boost: the grid that was sent is not that of the agreement")
            return rows.counts()
        asked = {name: sent[f"drawn {name}"] for name in ("feature", "cut")}
        rows.check(asked)
        return rows.sums(self.scores(Forest.of(sent)), asked)

    def scores(self, forest: Forest) -> Tensor:
        """What the trees so far say of the rows; those before the last are not asked again."""
        boost = self._rows.common.search_space.boost
        assert boost is not None
        said = forest.score(self._rows.boost_rows.inputs, boost.keep, self._last)
        self._last = forest, said
        return said
