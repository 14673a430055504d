"""Sums of rows under every filter: what the server finds from them is what it finds without."""

from dataclasses import replace

import pytest
import torch

from fedlore import ConfigError, FedAvg
from fedlore.core.one_shot import Basis, OneShot
from fedlore.engine.one_shot import solve_sums
from fedlore.privacy.filters import SiteFilters, guard_transport
from fedlore.testing.clients import FEATURES, Postbox, small_federation
from fedlore.testing.clients import small_recipe as recipe_for
from fedlore.testing.filter import make_filter, why_not

from .lists import each_engine
from .test_filters import FILTERS, each_filter


def asked(terms):
    """A recipe with a one-shot model, and the groups of its weights."""
    one_shot = OneShot(Basis(terms))
    return replace(recipe_for(FedAvg()), one_shot=one_shot), one_shot.basis.groups(
        one_shot.columns(FEATURES)
    )


def check_same(found, wanted, error):
    for name, value in wanted.bundle().items():
        gap = float((found.bundle()[name] - value).norm() / value.norm())
        assert gap < error, name


@pytest.mark.parametrize("weights", ["equal", "size"])  # sums are counted, never weighed
@each_engine
@each_filter
def test_sums_come_to_the_plain_ones(filter, engine, weights):
    defence, error = FILTERS[filter]
    if why_not(defence, FedAvg(), weights=weights, sites=3) is not None:
        pytest.skip("differential privacy weighs sites alike")
    recipe, groups = asked("quadratic")
    plain = solve_sums(engine(small_federation(), recipe), groups)
    one = make_filter(defence, FedAvg(), sites=3, weights=weights)
    hidden = guard_transport(engine(small_federation(), recipe), [one])
    check_same(solve_sums(hidden, groups), plain, error)


@each_engine
def test_sums_bear_the_loss_of_a_site(engine):
    """Under masks as without: the posterior is that of the sites whose sums arrived."""
    recipe, groups = asked("linear")
    clients = small_federation([9, 12, 15, 18, 21])
    plain = solve_sums(engine(clients[:-1], recipe), groups)
    one = make_filter(FILTERS["secure aggregation"][0], FedAvg(), sites=5)
    filtered = SiteFilters(
        engine(clients, recipe), {c.id: [one.site(c.id)] for c in clients}, hides=True
    )
    wire = Postbox(filtered, lose=lambda task, name: (task.kind, name) == ("gram", "site-4"))
    check_same(solve_sums(one.over(wire), groups), plain, 1e-6)


@each_engine
def test_sums_that_nobody_agreed_to_are_not_given(engine):
    transport = engine(small_federation(), recipe_for(FedAvg()))
    with pytest.raises(ConfigError, match="the recipe has no one-shot model"):
        solve_sums(transport, torch.zeros(1).long())
