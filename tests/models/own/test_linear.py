"""Linear models by hand against scikit-learn, closed forms and finite differences."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as Peer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from fedlore.core.rng import stream
from fedlore.models.own import linear as ordinal
from fedlore.models.own.linear import LogisticLearner, OrdinalLinear, Ridge, log_between, log_masses

CLASSES = 9


@pytest.fixture(scope="module")
def rows():
    draw = stream("own", "linear")
    x = torch.randn(80, 5, generator=draw) * torch.tensor([1.0, 10.0, 0.1, 1.0, 1.0]) + 3.0
    x[:, 4] = 7.0  # says nothing
    y = 20 + x[:, 0] - 0.2 * x[:, 1] + torch.randn(80, generator=draw)
    return x, y.double().unsqueeze(1), torch.randn(30, 5, generator=draw) + 3.0


@pytest.mark.parametrize("quadratic", [False, True])
def test_ridge_is_scikit_learns(rows, quadratic):
    x, y, at = rows
    ours = Ridge("", quadratic=quadratic).fit(x, y, 0.1)
    steps = [StandardScaler()]
    if quadratic:
        steps += [PolynomialFeatures(2, include_bias=False), StandardScaler()]
    peer = make_pipeline(*steps, Peer(0.1 * len(x))).fit(x.double().numpy(), y.squeeze(1).numpy())
    at = at.clone()
    at[:, 4] = 7.0
    assert np.abs(ours(at).squeeze(1).numpy() - peer.predict(at.double().numpy())).max() < 1e-8


def test_a_flat_column_has_no_weight(rows):
    x, y, at = rows
    model = Ridge("").fit(x, y, 1e-4)
    moved = at.clone()
    moved[:, 4] += 100.0
    assert torch.equal(model(at), model(moved))


def test_more_penalty_is_less_weight(rows):
    x, y, _ = rows
    family = Ridge("")
    norms = [float(m.weight.norm()) for m in family.path(x, y, family.settings)]
    assert norms == sorted(norms, reverse=True)


def ordered(rows):
    x, y, _ = rows
    places = (y - y.min()).round().clamp(max=CLASSES - 1)
    return x, places


def test_masses_are_a_distribution_and_finite_however_far():
    place = torch.tensor([-1e4, 0.0, 3.3, 8.0, 1e4], dtype=torch.float64)
    masses = log_masses(place, 0.7, CLASSES)
    assert masses.isfinite().all()
    assert torch.allclose(masses.exp().sum(1), torch.ones(5, dtype=torch.float64))
    assert masses.argmax(1).tolist() == [0, 0, 3, 8, 8]
    # Φ(0.5 / 0.7) - Φ(-0.5 / 0.7) in the middle of the line
    middle = log_masses(torch.tensor([4.0]), 0.7, CLASSES)[0, 4].exp()
    assert float(middle) == pytest.approx(0.5249495, abs=1e-6)


def test_slopes_of_the_ordinal_likelihood_are_autograds(rows):
    x, places = ordered(rows)
    design = torch.cat([x[:, :4].double() - 3.0, torch.ones(len(x), 1)], 1).double()
    y = places.squeeze(1)
    low = (y - 0.5).masked_fill(y <= 0, -torch.inf)
    high = (y + 0.5).masked_fill(y >= CLASSES - 1, torch.inf)
    at = torch.tensor([0.3, -0.05, 0.1, 0.0, 2.0, 0.6], dtype=torch.float64)

    def loss(at):
        place = design @ at[:-1]
        a, b = at[-1] * (y - 0.5) - place, at[-1] * (y + 0.5) - place
        upper = torch.where(y >= CLASSES - 1, 1.0, torch.special.ndtr(b))
        lower = torch.where(y <= 0, 0.0, torch.special.ndtr(a))
        return -(upper - lower).log().sum()

    slope, curve = ordinal._slopes(design, low, high, at)
    assert torch.allclose(slope, torch.autograd.functional.jacobian(loss, at), atol=1e-8)
    assert torch.allclose(curve, torch.autograd.functional.hessian(loss, at), atol=1e-7)


def test_the_ordinal_model_is_the_most_likely_one(rows):
    x, places = ordered(rows)
    penalty = 0.01
    model = OrdinalLinear("", CLASSES).fit(x, places, penalty)
    z = (x.double() - model.mean) / model.scale
    z[:, 4] = 0.0
    y = places.squeeze(1)

    def loss(at):
        weight, constant, scale = torch.from_numpy(at[:5]), at[5], float(np.exp(at[6]))
        place = z @ weight + constant
        low = torch.where(y <= 0, -torch.inf, scale * (y - 0.5) - place)
        high = torch.where(y >= CLASSES - 1, torch.inf, scale * (y + 0.5) - place)
        return float(-log_between(low, high).mean()) + 0.5 * penalty * float(weight.square().sum())

    begin = np.zeros(7)
    begin[5] = float(y.mean())
    found = minimize(loss, begin, method="BFGS").x
    wanted = found[:5] / np.exp(found[6])
    assert np.abs(model.weight.squeeze(1).numpy() - wanted).max() < 1e-3


def test_residual_classes_are_closed(rows):
    x, places = ordered(rows)
    shifted = OrdinalLinear("").fit(x, places - 100.0, 0.01)
    plain = OrdinalLinear("").fit(x, places, 0.01)
    assert torch.allclose(shifted.weight, plain.weight, atol=1e-5)
    assert float(plain.constant - shifted.constant) == pytest.approx(100.0, abs=1e-4)


def test_logistic_is_scikit_learns(rows):
    x, y, _ = rows
    few = (y.squeeze(1).argsort().argsort() * 3) // len(x)
    ours = LogisticLearner("", 4).fit(x, few, 0.01)
    peer = make_pipeline(StandardScaler(), LogisticRegression(C=1 / (0.01 * len(x)), tol=1e-8))
    peer.fit(x.double().numpy(), few.numpy())
    said = ours(x).softmax(1)
    # an absent class keeps a little probability, and constants are held a little
    assert said[:, 3].max() < 0.05
    assert np.abs(said[:, :3].numpy() - peer.predict_proba(x.double().numpy())).max() < 0.03


def test_logistic_is_at_rest(rows):
    x, y, _ = rows
    few = (y.squeeze(1).argsort().argsort() * 3) // len(x)
    model = LogisticLearner("", 3).fit(x, few, 0.1)
    z = ((x.double() - model.mean) / model.scale)[:, :4]
    off = model(x).softmax(1) - torch.nn.functional.one_hot(few, 3)
    slope = z.T @ off / len(x) + 0.1 * model.weight[:4]
    assert slope.abs().max() < 1e-5
