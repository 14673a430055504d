"""The Gaussian process of a site: near its closed form, good at curves, and no rows are kept."""

import math
from dataclasses import fields

import numpy as np
import pytest
import torch

from fedlore.core.rng import stream
from fedlore.models.own import gaussian
from fedlore.models.own.gaussian import GaussianLearner
from fedlore.models.own.linear import Ridge, standardise


def curve(rows, seed=0):
    draw = stream("gaussian", seed)
    x = torch.rand(rows, 3, generator=draw) * 4.0
    y = torch.sin(2.0 * x[:, :1]) + 0.5 * x[:, 1:2] + 0.1 * torch.randn(rows, 1, generator=draw)
    return x, y.double()


def exact(x, y, at, setting):
    """The posterior mean as the textbook has it, with numpy alone."""
    z, mean, scale = standardise(x)
    spread, middle = y.std(correction=0), y.mean()
    found = gaussian._most_evident(z, (y - middle) / spread, setting).numpy()
    linear, curved, noise = np.exp(found[:3])
    length = np.exp(found[3:])

    def kernel(a, b):
        far = (((a[:, None] - b[None]) / length) ** 2).sum(2)
        return linear / a.shape[1] * a @ b.T + curved * np.exp(-far / 2) + 0.1

    z, w = z.numpy(), ((at.double() - mean) / scale).numpy()
    whole = kernel(z, z) + (noise + 1e-4) * np.eye(len(z))
    said = kernel(w, z) @ np.linalg.solve(whole, ((y - middle) / spread).numpy())
    return float(middle) + float(spread) * said


@pytest.mark.parametrize("setting", GaussianLearner("").settings)
def test_random_features_come_near_the_closed_form(setting):
    (x, y), (at, _) = curve(60), curve(200, seed=1)
    said = GaussianLearner("").fit(x, y, setting)(at).numpy()
    assert np.sqrt(np.mean((said - exact(x, y, at, setting)) ** 2)) < 0.05 * float(y.std())


def test_it_learns_a_curve_that_a_line_does_not():
    (x, y), (at, truth) = curve(60), curve(500, seed=1)
    missed = {
        name: float((family.fit(x, y, family.settings[-1])(at) - truth).square().mean().sqrt())
        for name, family in (("line", Ridge("")), ("process", GaussianLearner("")))
    }
    assert missed["process"] < 0.5 * missed["line"]


@pytest.mark.parametrize("ranks", [False, True])
def test_no_row_and_no_target_is_stored(ranks):
    x, y = curve(41)  # so many that every decile is a row's value
    body = GaussianLearner("", ranks=ranks).fit(x, y, 0.25)
    z, _, _ = standardise(x)
    for field in fields(body):
        values = getattr(body, field.name).double().flatten()
        for row in (*x.double(), *z, *y):
            assert not any(torch.isclose(values, v, rtol=1e-9, atol=0).any() for v in row)


@pytest.mark.parametrize("y", [torch.zeros(12, 1).double(), torch.arange(12.0)[:, None].double()])
@pytest.mark.parametrize("x", [torch.ones(12, 2), torch.arange(24.0).reshape(12, 2)])
def test_flat_columns_and_flat_targets_give_numbers(x, y):
    for ranks in (False, True):
        said = GaussianLearner("", ranks=ranks).fit(x, y, 0.25)(x)
        assert said.isfinite().all()
        if not y.any():
            assert said.abs().max() < 1e-9


def test_ranks_forget_how_a_column_is_stretched():
    (x, y), (at, truth) = curve(80), curve(500, seed=1)
    plain = GaussianLearner("", ranks=True).fit(x, y, 0.25)(at)
    stretched = GaussianLearner("", ranks=True).fit(x.pow(6), y, 0.25)(at.pow(6))
    spread = float(truth.std())
    missed = float((GaussianLearner("").fit(x.pow(6), y, 0.25)(at.pow(6)) - truth).std())
    assert float((plain - truth).std()) < 0.5 * spread
    assert float((stretched - truth).std()) < 0.75 * missed


def test_a_row_far_away_gives_a_number():
    x, y = curve(30)
    assert GaussianLearner("").fit(x, y, 0.75)(torch.full((1, 3), 3e38)).isfinite().all()


def test_the_evidence_finds_the_column_that_matters():
    x, y = curve(80)
    z, _, _ = standardise(x)
    length = gaussian._most_evident(z, (y - y.mean()) / y.std(), 0.75)[3:]
    assert length[0] < length[2] - math.log(1.5)
