"""The one-shot model: sums of the sites give what all rows in one place would give."""

import pytest
import torch

from fedlore.core.one_shot import (
    Basis,
    Posterior,
    foresee,
    leave_out,
    posterior,
    solve,
    sum_rows,
    take_in,
)
from fedlore.core.rng import stream
from fedlore.core.tree import add

SIZES = (9, 14, 30, 21)
BASIS = Basis("quadratic", random=7, seed=2)


def sites(sizes=SIZES, columns=4):
    """Features and numbers of sites that differ in their rows and in their levels."""
    g = stream("one round", *sizes)
    found = []
    for i, n in enumerate(sizes):
        x = torch.randn(n, columns, generator=g, dtype=torch.float64) + 0.3 * i
        y = x[:, 0] - 0.5 * x[:, 1] * x[:, 2] + 3.0 * i
        noise = 0.3 * torch.randn(n, generator=g, dtype=torch.float64)
        found.append((BASIS(x), y + noise))
    return found, BASIS.groups(columns)


def total(found):
    sums = [sum_rows(*one)[1] for one in found]
    whole = sums[0]
    for other in sums[1:]:
        whole = add(whole, other)
    return whole


def pooled(found, prior, noise):
    """The Bayesian fit of all rows at once with a free level for each site, and no sums."""
    phi = torch.cat([f for f, _ in found])
    y = torch.cat([t for _, t in found])
    which = torch.arange(len(found)).repeat_interleave(torch.tensor([len(t) for _, t in found]))
    design = torch.cat([phi, torch.nn.functional.one_hot(which, len(found)).double()], 1)
    precision = torch.cat([1.0 / prior, torch.zeros(len(found)).double()])
    covariance = torch.linalg.inv(design.T @ design / noise + torch.diag(precision))
    return covariance @ design.T @ y / noise, covariance


def test_it_is_the_pooled_fit_with_a_level_for_each_site():
    found, groups = sites()
    ours = solve(total(found), groups)
    weights, covariance = pooled(found, ours.prior[groups], ours.noise)
    f = len(groups)
    torch.testing.assert_close(ours.mean, weights[:f], rtol=0, atol=1e-9)
    torch.testing.assert_close(ours.covariance, covariance[:f, :f], rtol=0, atol=1e-9)
    g = stream("new rows")
    for i, (features, target) in enumerate(found):
        new = BASIS(torch.randn(5, 4, generator=g, dtype=torch.float64))
        mean, variance = foresee(ours, sum_rows(features, target)[0], new)
        level = torch.nn.functional.one_hot(torch.tensor([i] * 5), len(found)).double()
        row = torch.cat([new, level], 1)
        torch.testing.assert_close(mean, row @ weights, rtol=0, atol=1e-9)
        spread = ours.noise + ((row @ covariance) * row).sum(1)
        torch.testing.assert_close(variance, spread, rtol=0, atol=1e-9)


def evidence(found, logs, groups):
    """log p(rows | variances), levels integrated out: what `solve` says it has maximised."""
    values = logs.exp()
    prior, noise = values[:-1][groups], values[-1]
    sums = total(found)
    centred = torch.cat([f - f.mean(0) for f, _ in found])
    gram = centred.T @ centred
    mean, _ = posterior(gram, sums["cross"], noise, prior)
    inside = torch.eye(len(gram)).double() + prior.sqrt()[:, None] * gram * prior.sqrt() / noise
    fit = (sums["energy"] - mean @ sums["cross"]) / noise
    return -0.5 * (sums["free"] * noise.log() + torch.logdet(inside) + fit)


def test_the_variances_are_those_of_the_largest_evidence():
    found, groups = sites((60, 80, 90))
    ours = solve(total(found), groups)
    logs = torch.cat([ours.prior, ours.noise[None]]).log()
    best = evidence(found, logs, groups)
    free = [i for i, v in enumerate(ours.prior) if v > 1e-7]  # others have been switched off
    assert len(free) >= 2
    for i in [*free, len(logs) - 1]:
        for by in (-0.3, 0.3):
            moved = logs.clone()
            moved[i] += by
            assert evidence(found, moved, groups) < best
            moved[i] = logs[i] + by / 300
            assert abs(float(evidence(found, moved, groups) - best)) < 2e-3


def test_a_row_left_out_is_foreseen_as_if_it_had_never_been_there():
    found, groups = sites()
    ours = solve(total(found), groups)
    features, target = found[1]
    mean, variance = leave_out(ours, sum_rows(features, target)[0], features, target)
    for row in (0, 5, 13):
        kept = torch.arange(len(target)) != row
        rest = [*found[:1], (features[kept], target[kept]), *found[2:]]
        weights, covariance = pooled(rest, ours.prior[groups], ours.noise)
        level = torch.nn.functional.one_hot(torch.tensor([1]), len(found)).double()
        one = torch.cat([features[row : row + 1], level], 1)
        torch.testing.assert_close(mean[row : row + 1], one @ weights, rtol=0, atol=1e-8)
        spread = ours.noise + ((one @ covariance) * one).sum(1)
        torch.testing.assert_close(variance[row : row + 1], spread, rtol=0, atol=1e-8)


def test_rows_taken_in_later_are_as_good_as_rows_that_were_summed():
    found, groups = sites()
    ours = solve(total(found), groups)
    features, target = found[1]
    early = [*found[:1], (features[:11], target[:11]), *found[2:]]
    sums = total(early)
    upper = torch.triu_indices(len(groups), len(groups))
    gram = torch.zeros(len(groups), len(groups), dtype=torch.float64)
    gram[upper[0], upper[1]] = sums["squares"]
    gram = gram + gram.triu(1).T
    known = posterior(gram, sums["cross"], ours.noise, ours.prior[groups])
    before = Posterior(*known, ours.noise, ours.prior)
    home = sum_rows(features[:11], target[:11])[0]
    after, moved = take_in(before, home, features[11:], target[11:])
    torch.testing.assert_close(after.mean, ours.mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(after.covariance, ours.covariance, rtol=0, atol=1e-8)
    whole = sum_rows(features, target)[0]
    torch.testing.assert_close(moved.middle, whole.middle, rtol=0, atol=1e-9)
    assert (moved.rows, float(moved.level)) == (14, pytest.approx(float(whole.level)))
    twice = take_in(before, home, features[11:12].expand(2, -1), target[11:12].expand(2))
    heavy = take_in(before, home, features[11:12], target[11:12], weight=2.0)
    for one, other in zip(heavy, twice, strict=True):
        for name, value in vars(one).items():
            torch.testing.assert_close(
                value, vars(other)[name], rtol=0, atol=1e-8, check_dtype=False
            )


def test_a_sites_level_shows_in_no_sum():
    (features, target), *_ = sites()[0]
    one, two = (sum_rows(features, target + by) for by in (0.0, 1000.0))
    assert float(two[0].level - one[0].level) == pytest.approx(1000.0)
    for name, value in one[1].items():
        torch.testing.assert_close(value, two[1][name], rtol=0, atol=1e-9)


def test_its_variance_is_honest():
    """Nine of ten new rows lie within the middle nine tenths of what was foreseen."""
    inside = []
    for seed in range(30):
        g = stream("honest", seed)
        w = torch.randn(6, generator=g, dtype=torch.float64)
        rows = [torch.randn(12, 6, generator=g, dtype=torch.float64) for _ in range(6)]
        noise = torch.randn(6, 12, generator=g, dtype=torch.float64)
        data = [(x, x @ w + i + e) for i, (x, e) in enumerate(zip(rows, noise, strict=True))]
        learn = [(x[:6], y[:6]) for x, y in data]
        ours = solve(total(learn), Basis("linear").groups(6))
        for (x, y), (a, b) in zip(data, learn, strict=True):
            mean, variance = foresee(ours, sum_rows(a, b)[0], x[6:])
            inside.append(((y[6:] - mean).abs() < 1.645 * variance.sqrt()).double())
    assert float(torch.cat(inside).mean()) == pytest.approx(0.9, abs=0.03)


def test_a_posterior_travels_as_tensors():
    found, groups = sites()
    ours = solve(total(found), groups)
    again = Posterior.of(ours.bundle())
    assert all(torch.equal(getattr(again, n), t) for n, t in ours.bundle().items())
