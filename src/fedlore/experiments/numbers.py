"""Numbers at a site: the local baseline, how an approach predicts, and scores in its units."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..answers import Bins, Line, Measured
from ..answers.measured import all_scores, quantile_score, region_scores
from ..core.history import Row
from ..core.metrics import write_bins
from ..core.scaler import from_moments
from ..engine import Fitted, NumberClient
from ..errors import FedloreError
from ..models.own.baseline import LocalBest, own_numbers
from ..models.regressor import LEVEL, SCORED_LEVELS, PersonalRegressor
from .approaches import Approach, trust_client
from .classes import LocalCalls, make_local_best


@dataclass(frozen=True)
class NumberJudge:
    """Scores the test rows of clients with a number."""

    bins: Bins
    metric: str = ""  # by which a site chooses; "": as is usual

    def local_best(self, clients: Sequence[Any], *, seed: int) -> dict[str, LocalBest]:
        """Each site's local best model of the number, by client, chosen on its own rows."""
        rows = {c.id: _encode(c, self._examine(c, training=True)) for c in clients}
        calls: LocalCalls = {n: ((known,), {"seed": seed, "site": n}) for n, known in rows.items()}
        labels = {name: known.numbers() for name, known in rows.items()}
        return make_local_best(own_numbers, calls, labels, self.metric)

    @torch.no_grad()
    def score(
        self,
        approach: Approach,
        fitted: Fitted[PersonalRegressor] | None,
        client: Any,
        best: LocalBest | None,
    ) -> tuple[dict[str, float | str], list[Row]]:
        """RMSE, MAE and R² on a site's test rows, violations, CRPS, and how its intervals cover.

        An expert alone is scored where he speaks, and the share of rows on which he does not is
        counted.
        """
        known = self._examine(client, training=False)
        assert known.y is not None
        if approach.silent:
            return {**_expert(client, known)}, []
        if approach.alone:
            assert best is not None
            number = best.number(_encode(client, known))
            return {**all_scores(number, known.y, known.sets)}, []
        assert fitted is not None
        regressor = fitted.model(client.id)
        seen = known if approach.guarded else replace(known, said=None, sets=None)
        if not approach.chosen:
            own = trust_client(client, approach.trust).knowledge if approach.guarded else None
            regressor = regressor.with_knowledge(own)
        scores = all_scores(regressor.predict(seen), known.y, known.sets)
        scores |= region_scores(regressor.distribution(seen).region(LEVEL), known.y)
        quantiles = regressor.quantiles(seen, SCORED_LEVELS)
        scores["crps"] = quantile_score(quantiles, known.y, SCORED_LEVELS)
        diagram = write_bins(regressor.reliability(seen, known.y))
        return {**scores, "diagram": diagram}, []

    def _examine(self, client: NumberClient, *, training: bool) -> Measured:
        data = client.data if training else client.test
        if data is None or data.y is None:
            raise FedloreError(f"client '{client.id}' has no test rows to score")
        return client.knowledge.annotate(data, Line(self.bins), training=training)


def _expert(client: NumberClient, known: Measured) -> dict[str, float]:
    said, y = known.said, known.y
    if said is None or y is None:
        raise FedloreError(f"client '{client.id}' has no expert's prediction to score")
    spoken = ~said.isnan()
    if not spoken.any():
        raise FedloreError(f"client '{client.id}': its expert is silent on every test row")
    sets = None if known.sets is None else known.sets[spoken]
    silent = float((~spoken).double().mean())
    return {**all_scores(said[spoken], y[spoken], sets), "abstained": silent}


def _encode(client: NumberClient, known: Measured) -> Measured:
    """Rows as learners take them; the site's own means stand for what is missing."""
    inputs = client.inputs
    if inputs is None:
        return known
    return replace(known, x=from_moments(inputs.moments(client.data.x), inputs).encode(known.x))
