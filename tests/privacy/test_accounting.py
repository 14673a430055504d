"""ε from noise, and noise from ε, against accountants of other people and a closed form."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from fedlore.errors import ConfigError, FedloreError
from fedlore.privacy.dp.noise import (
    Release,
    _least,
    affordable,
    epsilon_of,
    gaussian,
    noise_for,
    uniform,
    with_noise,
)

#: σ, steps, q: 20 settings, half of them without subsampling
SETTINGS = [
    *itertools.product((3.0, 5.0, 8.0, 20.0, 60.0), (1, 40), (1.0,)),
    *((1.2, 500, 0.01), (1.0, 1000, 0.01), (1.1, 10_000, 0.004), (1.5, 200, 0.1)),
    *((2.0, 400, 0.1), (3.0, 2000, 0.05), (4.0, 2000, 0.3), (5.0, 100, 0.5)),
    *((8.0, 3000, 0.2), (1.3, 50, 0.2)),
]


def theirs(noise, steps, sample, delta) -> float:
    """dp-accounting with its own defaults."""
    import dp_accounting
    from dp_accounting import pld

    event = dp_accounting.GaussianDpEvent(noise)
    if sample < 1:
        event = dp_accounting.PoissonSampledDpEvent(sample, event)
    return pld.PLDAccountant().compose(event, steps).get_epsilon(delta)


def test_there_are_twenty_settings():
    assert len(set(SETTINGS)) == 20


_SAMPLED = [
    s if i % 4 == 0 else pytest.param(s, marks=pytest.mark.slow) for i, s in enumerate(SETTINGS)
]


@pytest.mark.parametrize("setting", _SAMPLED, ids=str)
def test_epsilon_is_that_of_dp_accounting_to_one_percent(setting):
    noise, steps, sample = setting
    ours = epsilon_of([Release(noise, steps, sample)], 1e-5)
    assert ours == pytest.approx(theirs(noise, steps, sample, 1e-5), rel=0.01)


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s[2] < 1][:6], ids=str)
def test_epsilon_is_that_of_opacus_too(setting):
    from opacus.accountants import PRVAccountant

    noise, steps, sample = setting
    prv = PRVAccountant()
    prv.history = [(noise, sample, steps)]
    ours = epsilon_of([Release(noise, steps, sample)], 1e-5)
    assert ours == pytest.approx(prv.get_epsilon(1e-5), rel=0.02)  # it rounds up by 0.01


@given(st.floats(0.3, 100), st.floats(1e-9, 0.1), st.integers(1, 200))
def test_without_sampling_it_is_the_analytic_gaussian(noise, delta, steps):
    """Balle and Wang (2018), Theorem 8, with scipy's Φ."""
    found = epsilon_of([Release(noise, steps)], delta)
    s = noise / math.sqrt(steps)

    def back(epsilon):
        near, far = norm.cdf(0.5 / s - epsilon * s), norm.logcdf(-0.5 / s - epsilon * s)
        return near - math.exp(min(epsilon + far, 700))

    assert back(found) <= delta * (1 + 1e-6)
    if found > 0:
        assert back(found * (1 - 1e-6)) >= delta * (1 - 1e-3)


def test_rounds_of_different_noise_add_up():
    # 1/σ² adds: two rounds of noise 2√2 are one of noise 2
    pair = [Release(math.sqrt(8)), Release(math.sqrt(8))]
    assert epsilon_of(pair, 1e-5) == pytest.approx(epsilon_of([Release(2.0)], 1e-5), rel=1e-6)
    assert epsilon_of([], 1e-5) == 0.0
    assert epsilon_of([Release(0.0)], 1e-5) == math.inf


@given(st.floats(0.1, 20), st.integers(1, 500))
def test_the_noise_for_a_budget_keeps_it_and_no_less_would(epsilon, steps):
    noise = noise_for(epsilon, 1e-5, steps)
    assert epsilon_of([Release(noise, steps)], 1e-5) <= epsilon
    assert epsilon_of([Release(0.998 * noise, steps)], 1e-5) > epsilon


def test_the_noise_for_a_budget_with_sampling():
    noise = noise_for(2.0, 1e-5, 1000, 0.02)
    assert epsilon_of([Release(noise, 1000, 0.02)], 1e-5) <= 2.0
    assert theirs(0.98 * noise, 1000, 0.02, 1e-5) > 2.0
    assert noise < noise_for(2.0, 1e-5, 1000) / 5


def test_what_is_affordable_is_what_stays_within_the_budget():
    """Also next to the edge, where the quick answer does not decide."""
    releases = [Release(1.2, 30, 0.2), Release(1.5, 7, 0.3)]
    exact = epsilon_of(releases, 1e-5)
    assert affordable(releases, exact, 1e-5) and affordable(releases, 2 * exact, 1e-5)
    assert not affordable(releases, 0.999 * exact, 1e-5)
    assert affordable([Release(0.0)], math.inf, 1e-5)
    assert not affordable([Release(0.0)], 1e9, 1e-5)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: noise_for(0.0, 1e-5, 1), "epsilon must be positive, got 0.0"),
        (lambda: noise_for(1.0, 1.0, 1), r"delta must lie in \(0, 1\), got 1.0"),
        (lambda: noise_for(math.inf, 0.0, 1), r"delta must lie in \(0, 1\), got 0.0"),
        (lambda: epsilon_of([], 1.0), r"delta must lie in \(0, 1\), got 1.0"),
        (lambda: Release(1.0, True), "steps must be a whole number"),
        (lambda: Release(1.0, 1, 1.01), r"sample must lie in \(0, 1\], got 1.01"),
        (lambda: noise_for(1.0, 1e-5, 0), "steps must be at least 1, got 0"),
        (lambda: Release(-1.0), "noise must not be negative, got -1.0"),
        (lambda: Release(float("nan")), "noise must not be negative, got nan"),
        (lambda: Release(1.0, -1), "steps must be a whole number"),
        (lambda: Release(1.0, 1, 0.0), r"sample must lie in \(0, 1\], got 0.0"),
    ],
)
def test_what_cannot_be_counted_is_refused(call, rule):
    with pytest.raises(ConfigError, match=rule):
        call()


def test_the_ends_of_what_can_be_counted():
    assert Release(0.0, 0, 1e-9) and epsilon_of([Release(1.0, 0)], 1e-5) == 0.0
    assert noise_for(math.inf, 1e-5, 3) == 0.0
    assert epsilon_of([Release(1e9)], 1e-5) == 0.0
    tiny = epsilon_of([Release(0.04, 1, 0.5)], 1e-5)  # too little to be helped by sampling
    assert tiny == epsilon_of([Release(0.04)], 1e-5) > 300
    with pytest.raises(FedloreError, match="no noise up to 1e6 keeps 1 releases within ε = 1e-12"):
        noise_for(1e-12, 1e-300, 1)


def counted(*words):
    """Entropy that is known, and how many bytes were asked for."""
    asked = []

    def entropy(size):
        asked.append(size)
        return b"".join(word.to_bytes(8, "little") for word in words)

    return entropy, asked


def test_uniform_numbers_are_the_upper_53_bits_of_each_word():
    entropy, asked = counted(0, 2**64 - 1, 2**63, (1 << 11) - 1)
    assert uniform(4, entropy).tolist() == [0.0, 1 - 2.0**-53, 0.5, 0.0]
    assert asked == [32] and len(uniform(0, entropy)) == len(gaussian(0, entropy)) == 0


def test_gaussian_numbers_are_two_box_muller_pairs_over_two():
    entropy, _ = counted(2**63, 2**61)  # 0.5 and 0.125: radius √(2 log 2) at 45 degrees
    assert gaussian(1, entropy).tolist() == pytest.approx([2 * math.sqrt(math.log(2))])
    payload = {"net": {"w": torch.tensor([[1.0]])}}
    assert with_noise(payload, 0.0) is payload
    noised = with_noise(payload, 0.5, entropy)["net"]["w"]
    assert noised.shape == (1, 1) and noised.dtype == torch.float32
    assert noised.item() == pytest.approx(1 + math.sqrt(math.log(2)))


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("high", [1.0001, 3.0, 1e4])
@pytest.mark.parametrize("close", [1e-4, 2e-3, 0.2])
def test_the_noise_of_a_budget_is_found_in_a_few_looks_and_from_above(power, high, close):
    looks = []

    def cost(noise):
        looks.append(noise)
        return 2.0 * noise**-power  # ε = 2 at σ = 1

    noise = _least(cost, 2.0, high, close=close)
    assert 2.0 * (1 - close) <= cost(noise) <= 2.0
    assert len(looks) <= (12 if high < 10 else 21) and max(looks) == high
