"""λ learned row by row: found where it is there, left alone where it is not."""

import pytest
import torch

from fedlore.core.examples import Examples
from fedlore.core.inject import inject
from fedlore.core.metrics import decide
from fedlore.core.rng import stream
from fedlore.engine.tuning.oof import Cached, hits, most_hits
from fedlore.engine.tuning.trust import (
    TRUST_ROWS,
    Tuning,
    class_costs,
    learn_rows,
    number_costs,
    pick,
)
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.rowtrust import RowTrust, TrustRegion

K = 4
SCHEMA = Schema((Feature("ash"), Feature("mine", levels=("own", "import"))), tuple("abcd"))


def site(n, seed, *, own, other, by=1, confident=3.0):
    """A network that is right in half of the rows, and an expert who is so by ash or by mine."""
    draw = stream("rowwise", seed)
    x = torch.stack(
        [torch.randn(n, generator=draw), (torch.rand(n, generator=draw) < 0.5).float()], 1
    )
    y = torch.randint(K, (n,), generator=draw)
    logits = torch.randn(n, K, generator=draw)
    logits[torch.arange(n), y] += 0.9
    chance = torch.where(x[:, by] > 0, other, own)
    right = torch.rand(n, generator=draw) < chance
    wrong = (y + 1 + torch.randint(K - 1, (n,), generator=draw)) % K
    prior = torch.nn.functional.one_hot(torch.where(right, y, wrong), K).float()
    return Cached(confident * logits, Examples(x, y, prior))


def learned(cached, rows, seed=0):
    found = pick([(0.0, cached)], Tuning(), rows, seed)
    return found.reliance, found.formula


def accuracy(cached, rows, reliance, formula):
    trust = reliance
    if formula:
        own = rows.with_formula(formula)(cached.known.x)
        trust = torch.where(own.isnan(), reliance, own)
    said = decide(inject(cached.logits, cached.known.prior, None, trust), cached.known.prior)
    return float((said == cached.y).double().mean())


@pytest.mark.parametrize(
    ("rows", "by"),
    [
        (RowTrust(SCHEMA, features=("ash", "mine")), 1),
        (RowTrust(SCHEMA, features=("ash",)), 0),
        (RowTrust(SCHEMA, (TrustRegion("mine == 'own'"),)), 1),
    ],
)
def test_a_region_is_found_and_beats_the_best_one_number(rows, by):
    gains = []
    for seed in range(2):
        seen, new = (site(n, f"{seed} {n}", own=0.95, other=0.15, by=by) for n in (160, 2000))
        reliance, formula = learned(seen, rows, seed)
        assert formula
        best = float(hits(new, [i / 20 for i in range(20)]).double().mean(1).max())
        gains.append(accuracy(new, rows, reliance, formula) - best)
    assert sum(gains) / len(gains) > 0.03


def test_without_regions_it_stays_one_number_and_costs_nothing():
    rows, losses, taken = RowTrust(SCHEMA, features=("ash", "mine")), [], 0
    for seed in range(12):
        seen, new = (site(n, f"none {seed} {n}", own=0.6, other=0.6) for n in (60, 2000))
        reliance, formula = learned(seen, rows, seed)
        taken += bool(formula)
        one = float(hits(new, [reliance]).double().mean())
        losses.append(one - accuracy(new, rows, reliance, formula))
    assert taken <= 3 and 100 * sum(losses) / len(losses) < 0.3


def test_few_rows_silent_experts_and_rows_alike_keep_one_number():
    rows = RowTrust(SCHEMA, features=("ash",))
    seen = site(TRUST_ROWS - 1, 1, own=1.0, other=0.0, by=0)
    assert learned(seen, rows)[1] == ""
    many = site(100, 2, own=1.0, other=0.0, by=0)
    silent = Examples(many.known.x, many.y, torch.zeros_like(many.known.prior))
    assert learned(Cached(many.logits, silent), rows)[1] == ""
    alike = Examples(torch.ones_like(many.known.x), many.y, many.known.prior)
    assert learned(Cached(many.logits, alike), rows)[1] == ""
    assert learned(many, None)[1] == "" and learned(many, rows)[1]


def test_rows_with_a_stated_trust_are_not_learned_from():
    rows = RowTrust(SCHEMA, (TrustRegion("mine == 'own'", 0.3),), features=("ash",))
    seen = site(100, 3, own=1.0, other=0.0, by=0)
    own = seen.known.x[:, 1] == 0
    assert int((~own).sum()) >= TRUST_ROWS
    turned = seen.known.prior.clone()
    turned[own] = turned[own].roll(1, 1)  # what he says there must not matter
    other = Cached(seen.logits, Examples(seen.known.x, seen.y, turned))
    costs = [class_costs(c.logits.double().softmax(1), c.known.prior, c.y) for c in (seen, other)]
    heard = torch.ones(100, dtype=torch.bool)
    one, two = (learn_rows(rows, seen.known.x, *both, 0.3, heard=heard) for both in costs)
    assert one.formula == two.formula != ""
    assert one.held[own].isnan().all() and not one.held[~own].isnan().any()


def test_the_one_number_is_chosen_for_the_rows_that_have_no_other():
    seen = site(200, 4, own=1.0, other=0.0)
    rows = RowTrust(SCHEMA, (TrustRegion("mine == 'own'", 0.9),))
    told = Examples(seen.known.x, seen.y, seen.known.prior, trust=rows(seen.known.x))
    assert most_hits(Cached(seen.logits, told)) < 0.1 < most_hits(site(200, 5, own=1.0, other=1.0))


def test_of_a_number_the_error_decides():
    draw = stream("rowwise number")
    x = torch.stack([torch.randn(120, generator=draw), torch.zeros(120)], 1)
    y = torch.randn(120, generator=draw).double()
    rest = y + 0.7 * torch.randn(120, generator=draw)
    said = y + torch.where(x[:, 0] > 0, 0.1, 3.0) * torch.randn(120, generator=draw)
    cost, loss = number_costs(rest, said, y, rest)
    heard = torch.ones(120, dtype=torch.bool)
    rows = RowTrust(SCHEMA, features=("ash",))
    found = learn_rows(rows, x, cost, loss, 0.0, heard=heard)
    trust = rows.with_formula(found.formula)(x)
    assert found.gain > 0 and trust[x[:, 0] > 0.5].min() > trust[x[:, 0] < -0.5].max()
    assert trust[x[:, 0] < -1].max() < 0.5
