"""The one-shot model: sums of the sites give what all rows in one place would give."""

import math
from dataclasses import replace

import pytest
import torch

from fedlore import Examples
from fedlore.core.one_shot import (
    Basis,
    Bend,
    Link,
    OneShot,
    OneShotModel,
    OneShotRows,
    Posterior,
    bend_place,
    leave_out,
    posterior,
    predict_new,
    solve,
    squared_error,
    sum_rows,
    take_in,
)
from fedlore.core.rng import stream
from fedlore.core.tree import add
from fedlore.models.ensemble import OneShotMember
from fedlore.models.own.mixture import Mixture

SIZES = (9, 14, 30, 21)
BASIS = Basis("quadratic", curves=1)


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
        mean, variance = predict_new(ours, sum_rows(features, target)[0], new)
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
            mean, variance = predict_new(ours, sum_rows(a, b)[0], x[6:])
            inside.append(((y[6:] - mean).abs() < 1.645 * variance.sqrt()).double())
    assert float(torch.cat(inside).mean()) == pytest.approx(0.9, abs=0.03)


def test_a_posterior_travels_as_tensors():
    found, groups = sites()
    ours = solve(total(found), groups)
    again = Posterior.of(ours.bundle())
    assert all(torch.equal(getattr(again, n), t) for n, t in ours.bundle().items())


def bent_sites(share=0.9, sizes=(40, 60, 50)):
    """Rows whose number is bent into a range that moves with the first column of a row."""
    g = stream("bent", *sizes)
    basis = Basis("linear")
    found = []
    for i, n in enumerate(sizes):
        x = torch.randn(n, 4, generator=g, dtype=torch.float64)
        bend = Bend(1.5 * x[:, 0] + i, share * (1.0 + torch.rand(n, generator=g).double()))
        z = x @ torch.tensor([1.0, -0.5, 0.3, 0.0]).double() + i
        noise = 0.2 * torch.randn(n, generator=g, dtype=torch.float64)
        found.append(OneShotRows(basis(x), bend_place(z, bend)[0] + noise, torch.zeros(n), bend))
    return found, basis.groups(4)


def step(rows, groups, mean):
    sums = [one.sums(mean) for one in rows]
    whole = sums[0]
    for other in sums[1:]:
        whole = add(whole, other)
    return solve(whole, groups), whole


def converge(rows, groups, steps=30):
    mean = torch.zeros(len(groups)).double()
    for _ in range(steps):
        found, whole = step(rows, groups, mean)
        mean = found.mean
    return found, whole


def misses(rows, mean, levels):
    pairs = zip(rows, levels, strict=True)
    return torch.cat([r.target - bend_place(r.features @ mean + l, r.bend)[0] for r, l in pairs])


def test_steps_behind_a_bend_end_where_all_rows_pooled_would_have_them():
    """The slope of the pooled objective is 0: squares of all misses and the prior."""
    rows, groups = bent_sites(share=2.0)  # no slope is below what rows count for at least
    found, whole = converge(rows, groups)
    mean = found.mean.clone().requires_grad_()
    homes = [one.home(found) for one in rows]
    levels = torch.stack([h.level - h.middle @ found.mean for h in homes]).requires_grad_()
    error = misses(rows, mean, levels).square().sum()
    (error / found.noise + (mean.square() / found.prior[groups]).sum()).backward()
    assert float(mean.grad.abs().max()) < 1e-4 and float(levels.grad.abs().max()) < 1e-6
    assert squared_error(whole, found.mean) == pytest.approx(float(error.detach()), rel=1e-9)


def test_a_bend_without_end_is_none():
    rows, groups = bent_sites(share=1e7)
    straight = [replace(one, bend=None) for one in rows]
    (bent, _), (plain, _) = (step(some, groups, None) for some in (rows, straight))
    torch.testing.assert_close(bent.mean, plain.mean, rtol=1e-6, atol=1e-8)
    for one, other in zip(rows, straight, strict=True):
        for found in (predict_new, leave_out):
            rest = (one.target,) if found is leave_out else ()
            mine = found(bent, one.home(bent), one.features, *rest, one.bend)
            theirs = found(plain, other.home(plain), one.features, *rest)
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


def test_a_row_left_out_behind_a_bend_is_foreseen_nearly_as_if_it_had_never_been_there():
    rows, groups = bent_sites(share=1.2, sizes=(20, 25))
    found, _ = converge(rows, groups)
    place, _ = leave_out(found, rows[0].home(found), rows[0].features, rows[0].target, rows[0].bend)
    inside, _ = predict_new(found, rows[0].home(found), rows[0].features, rows[0].bend)
    gone, wanted = [], []
    for row in range(20):
        kept = torch.arange(20) != row
        one = rows[0]
        bend = Bend(one.bend.centre[kept], one.bend.width[kept])
        less = OneShotRows(one.features[kept], one.target[kept], one.start[kept], bend)
        again, _ = converge([less, rows[1]], groups)
        only = Bend(one.bend.centre[[row]], one.bend.width[[row]])
        wanted.append(predict_new(again, less.home(again), one.features[[row]], only)[0])
        gone.append(place[row] - inside[row])
    moved = torch.cat(wanted) - inside
    missed = torch.stack(gone) - moved
    assert float(missed.square().sum()) < 0.05 * float(moved.square().sum())


def test_the_place_has_the_variance_of_the_weights_to_first_order():
    rows, groups = bent_sites()
    found, _ = converge(rows, groups)
    home, bend = rows[1].home(found), rows[1].bend
    small = replace(found, covariance=found.covariance / 100)  # so that a bend is a line
    _, variance = predict_new(small, replace(home, rows=math.inf), rows[1].features, bend)
    drawn = torch.distributions.MultivariateNormal(found.mean, small.covariance)
    torch.manual_seed(1)
    z = home.level + (rows[1].features - home.middle) @ drawn.sample((20_000,)).T
    wide = Bend(bend.centre[:, None], bend.width[:, None])
    spread = bend_place(z, wide)[0].var(1)
    torch.testing.assert_close(spread + found.noise, variance, rtol=2e-3, atol=1e-4)


def test_more_rows_taken_in_behind_a_bend_lead_where_sums_would():
    """Not exactly, as slopes are those of the moment: nearer than without the rows by far."""
    rows, groups = bent_sites(share=1.5, sizes=(30, 60))
    one = rows[0]
    early, late = (slice(None, 20), slice(20, None))
    cut = [Bend(one.bend.centre[s], one.bend.width[s]) for s in (early, late)]
    first = OneShotRows(one.features[early], one.target[early], one.start[early], cut[0])
    before, _ = converge([first, rows[1]], groups)
    whole, _ = converge(rows, groups)
    after, home = take_in(before, first.home(before), one.features[late], one.target[late], cut[1])
    near, far = ((w.mean - whole.mean).norm() for w in (after, before))
    assert float(near) < 0.3 * float(far)
    assert float((home.level - one.home(whole).level).abs()) < 0.1 and home.rows < 30


#: A site of ordered classes whose range is bent around, and its expert.
def bent_member(around="middle", share=0.9):
    g = stream("bent member", around)
    x = torch.randn(60, 3, generator=g)
    low = torch.randint(0, 6, (60,), generator=g)
    allowed = (torch.arange(10) >= low[:, None]) & (torch.arange(10) < low[:, None] + 4)
    y = low + torch.randint(0, 4, (60,), generator=g)
    prior = torch.nn.functional.one_hot(low + 1, 10).double()
    one_shot = OneShot(Basis("squares"), link=Link(around, share))
    features, start, bend = one_shot.rows(x, prior, allowed, classes=10)
    rows = OneShotRows(features, y - start, start, bend)
    found = converge([rows], one_shot.basis.groups(5), steps=3)[0]
    return OneShotModel(one_shot, found, rows.home(found), 10), Examples(x, y, prior, allowed)


@pytest.mark.parametrize("around", ["middle", "expert"])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_propositions_a_to_c_hold_for_any_weights(around, scale):
    model, known = bent_member(around)
    wild = replace(model.found, mean=scale * model.found.mean)
    member = OneShotMember(replace(model, found=wild), None)
    for trust in (0.0, 0.3, 0.6):
        found = Mixture((member,), (1.0 - trust,), trust).probabilities(known)
        assert torch.allclose(found.sum(1), torch.ones(60).double())  # (a)
        assert ((found * known.prior).sum(1) >= trust - 1e-12).all()  # (b)
        assert trust <= 0.5 or (found.argmax(1) == known.prior.argmax(1)).all()
        assert (found[~known.allowed] == 0).all()  # (c)


def test_within_one_half_width_of_the_middle_no_place_leaves_the_range():
    model, known = bent_member("middle", 1.0)
    wild = replace(model, found=replace(model.found, mean=1e4 * model.found.mean))
    place, _ = wild.normal(known.x, known.prior, known.allowed)
    at = known.allowed.double() * torch.arange(10)
    low, high = known.allowed.double().argmax(1) - 0.5, at.max(1).values + 0.5
    assert ((low <= place) & (place <= high)).all() and (place - place.round()).abs().max() > 0.4


@pytest.mark.parametrize("around", ["middle", "expert"])
def test_proposition_d_the_place_moves_with_the_weights_by_the_slope_of_the_bend(around):
    model, known = bent_member(around)

    def place(mean):
        there = replace(model, found=replace(model.found, mean=mean))
        return there.normal(known.x, known.prior, known.allowed)[0]

    wanted = torch.func.jacrev(place)(model.found.mean)
    found, slope = model.slopes(known.x, known.prior, known.allowed)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
    assert ((slope > 0) & (slope <= 1)).all()


def test_more_of_the_common_quantity_or_a_higher_range_never_lowers_the_place():
    z, c = torch.linspace(-9, 9, 400).double(), torch.linspace(-2, 2, 40).double()[:, None]
    place, slope = bend_place(z, Bend(c, torch.tensor(1.3).double()))
    assert (place.diff(dim=1) >= 0).all() and (place.diff(dim=0) >= -1e-12).all()
    assert ((slope >= 0) & (slope <= 1)).all()
