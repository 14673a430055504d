"""Prices that may come: what a blend costs in each scenario, and the blend that is best in them.

In the mean over scenarios a blend costs what it costs at the mean prices, so that one plan answers.
In the worst of them the least cost is, by the duality of linear programs, that at some mixture of
the scenarios: plans are made at mixtures that lean ever more to the scenarios in which the plans so
far cost most (multiplicative weights: Freund, Schapire 1999), and the best of all of them is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from fedlore.data.rows import FileForm
from fedlore.errors import FedloreError, unknown

from .coals import Array, Coals, read_prices
from .order import BlendPlan, Order
from .plan import plan

Choice = Literal["mean", "worst"]
LIST = "list"  # the prices of the coals' own list
_LEANS = 6  # mixtures of scenarios that are tried for the worst case
_EAGER = 40.0  # how fast they lean, per part of the price


@dataclass(frozen=True, eq=False)
class Scenarios:
    """Prices of the c coals by name of a scenario, the list's own among them."""

    prices: dict[str, Array]
    choose: Choice = "mean"

    def __post_init__(self) -> None:
        if self.choose not in get_args(Choice):
            raise FedloreError(f"choose must be mean or worst, got '{self.choose}'")

    def costs(self, shares: Array) -> dict[str, float]:
        """What a blend costs in each scenario, per tonne."""
        return {name: float(shares @ price) for name, price in self.prices.items()}

    def value(self, shares: Array) -> float:
        """What is to be as low as can be."""
        costs = list(self.costs(shares).values())
        return max(costs) if self.choose == "worst" else float(np.mean(costs))


def read_scenarios(
    paths: Sequence[Path], coals: Coals, choose: str, *, form: FileForm | None = None
) -> Scenarios | None:
    """The list's columns `price:NAME` and files with coal and price, named by the file; or None."""
    if choose not in get_args(Choice):
        raise FedloreError(f"choose must be mean or worst, got '{choose}'")
    prices = {LIST: coals.price, **coals.scenarios}
    for path in paths:
        if path.stem in prices:
            raise FedloreError(f"there are two scenarios called '{path.stem}'")
        found = read_prices(path, form=form)
        odd = [name for name in found if name not in coals.names]
        if odd:
            raise FedloreError(f"{path.name}: {unknown('coal', odd[0], coals.names)}")
        lacking = [name for name in coals.names if name not in found]
        if lacking:
            raise FedloreError(f"{path.name} has no price of the coal '{lacking[0]}'")
        prices[path.stem] = np.array([found[name] for name in coals.names])
    if len(prices) == 1:
        return None
    return Scenarios(prices, "worst" if choose == "worst" else "mean")


def priced(order: Order, price: Array) -> Order:
    """The same order at other prices."""
    return replace(order, coals=replace(order.coals, price=price))


def lean_order(order: Order, scenarios: Scenarios, *, seed: int = 0) -> Order:
    """The order at the mixture of scenarios whose plan is best by the scenarios' own measure."""
    names = list(scenarios.prices)
    every = np.stack([scenarios.prices[name] for name in names])  # (s, c)
    mean = priced(order, every.mean(0))
    if scenarios.choose == "mean":
        return mean
    best, least = mean, np.inf
    weights = np.full(len(names), 1.0 / len(names))
    for _ in range(_LEANS):
        asked = priced(order, weights @ every)
        found = plan(asked, seed=seed, compare=False)
        if found.blend is None:
            return mean  # what no price makes possible
        shares = order.coals.shares(found.blend.shares)
        if scenarios.value(shares) < least - 1e-9:
            best, least = asked, scenarios.value(shares)
        costs = every @ shares
        weights = weights * np.exp(_EAGER * (costs - costs.max()) / max(float(costs.max()), 1e-9))
        weights /= weights.sum()
    return best


def scenario_costs(found: BlendPlan, scenarios: Scenarios) -> dict[str, float]:
    """What the plan costs in each scenario; empty without a plan."""
    if found.blend is None:
        return {}
    return scenarios.costs(found.order.coals.shares(found.blend.shares))
