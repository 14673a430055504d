"""The one-shot model under a budget: what one site can change, and how much noise hides it."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore.algorithms import FedAvg
from fedlore.core.aggregate import Mean
from fedlore.core.one_shot import OneShotRows, sum_rows
from fedlore.core.wire import Reply, Task
from fedlore.errors import FedloreError
from fedlore.privacy.dp.budget import Dp, clip_upload
from fedlore.privacy.dp.filter import Noise
from fedlore.privacy.filters import Placement, filter_context

from ..engine.sums import posterior_of
from ..privacy.test_dp import assert_variance, noising, seeded

DP = Dp(epsilon=4, delta=1e-5, sums=50.0)
GRAM = Task("gram", 0)


def sums_of(rows, features=30, seed=0, size=1.0):
    g = torch.Generator().manual_seed(seed)
    x = size * torch.randn(rows, features, generator=g, dtype=torch.float64)
    return sum_rows(x, x[:, 0] - 0.5 * x[:, 1])[1]


def made(dp, rounds, sites, sums):
    asked = {"sites": sites, "rounds": rounds, "weights": "equal", "aggregate": Mean()}
    return Noise(dp).make(filter_context(FedAvg(), **asked, least=sites, sums=sums), Placement())


def flat(upload):
    return torch.cat([t.reshape(-1) for t in upload["gram"].values()])


@given(st.integers(1, 60), st.floats(1e-6, 1e6), st.floats(1e-3, 1e5), st.integers(0, 99))
def test_a_site_changes_the_sum_by_no_more_than_the_bound(rows, size, bound, seed):
    """Sensitivity: whatever its rows are and however many; its sums keep their proportions."""
    whole = {"gram": sums_of(rows, 4, seed, size)}
    short = clip_upload(whole, bound)
    assert float(flat(short).norm()) <= bound
    scale = float(flat(short).norm() / flat(whole).norm()) if rows > 1 else 1.0
    assert torch.allclose(flat(short), scale * flat(whole), rtol=1e-9, atol=1e-12 * bound)


@pytest.mark.parametrize("where", ["distributed", "central"])
def test_the_noise_on_the_sum_is_sigma_times_the_bound(where):
    dp = replace(DP, where=where)
    filter, ledgers = noising(dp, entropy=seeded(where), least=3, noise=2.0)
    sums = {name: sums_of(40, seed=i) for i, name in enumerate("abc")}  # beyond the bound, all

    class Sites:
        def clients(self):
            return list(sums)

        def exchange(self, task, to):
            for name in to:
                reply = Reply(name, task.round, {"gram": sums[name]}, 40)
                yield filter.site(name).outbound(task, reply)

    replies = list(filter.over(Sites()).exchange(GRAM, list(sums)))
    total = sum(len(r.names) * flat(r.upload) for r in replies)
    plain = sum(flat(clip_upload({"gram": one}, dp.sums)) for one in sums.values())
    assert_variance(total - plain, 2.0 * dp.sums)
    assert [(e.round, e.noise, e.steps) for e in ledgers["a"].entries()] == [(0, 2.0, 1)]


def test_the_budget_counts_the_sums_as_one_more_round():
    without, with_sums = (made(DP, 9, 3, sums) for sums in (False, True))
    assert with_sums.noise == DP.multiplier(10) > without.noise == DP.multiplier(9)
    assert "10 rounds" in with_sums.lines(rounds=9, sample=1.0, bare=False)[0]


def test_at_record_level_there_are_no_sums():
    filter, _ = noising(Dp(epsilon=4, delta=1e-5, level="record"), noise=0.0)
    with pytest.raises(FedloreError, match="sums of rows are noised for whole sites"):
        filter.site("a").outbound(GRAM, Reply("a", 0, {"gram": sums_of(5)}, 5))


def sites_of(count, rows=20):
    g = torch.Generator().manual_seed(5)
    made = {}
    for i in range(count):
        x = torch.randn(rows, 3, generator=g, dtype=torch.float64)
        noise = 0.3 * torch.randn(rows, generator=g, dtype=torch.float64)
        y = x @ torch.tensor([1.0, -0.5, 0.0]).double() + noise + i % 7
        made[f"{i:04d}"] = OneShotRows(x, y, torch.zeros(rows).double())
    return made


@pytest.mark.parametrize(("count", "near"), [(400, 0.1), (3, math.inf)])
def test_many_sites_find_the_law_through_the_noise_and_few_find_something_finite(count, near):
    dp = Dp(epsilon=4, delta=1e-5, sums=30.0)
    filter = replace(made(dp, 0, count, True), entropy=seeded("law"))
    found = posterior_of(sites_of(count), torch.zeros(3).long(), [filter], noised=True)
    assert all(bool(value.isfinite().all()) for value in found.bundle().values())
    assert float(found.noise) > 0
    assert float((found.mean - torch.tensor([1.0, -0.5, 0.0]).double()).abs().max()) < near
