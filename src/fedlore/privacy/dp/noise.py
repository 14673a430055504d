"""Gaussian noise: drawn from the operating system's bits, and how much privacy it buys.

No generator stands in between. Uploads hold exact zeros, so a server may see pure noise in them,
and from enough of it the state of a Mersenne Twister or PCG can be worked out.

Without subsampling k rounds of noise σ are one round of noise σ/√k, whose ε is known exactly: Balle
and Wang (2018), Improving the Gaussian Mechanism for Differential Privacy, Theorem 8. With Poisson
subsampling the privacy loss distribution of dp-accounting is composed (Koskela et al. 2020), which
errs on the safe side.
"""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ...core.tree import Payload
from ...errors import ConfigError, FedloreError

Entropy = Callable[[int], bytes]  # so many random bytes

_UNIT = 2.0**-53


def uniform(count: int, entropy: Entropy = os.urandom) -> Tensor:
    """Numbers in [0, 1) of 53 random bits each, (count,) in float64."""
    if count == 0:
        return torch.zeros(0, dtype=torch.float64)
    words = torch.frombuffer(bytearray(entropy(8 * count)), dtype=torch.int64)
    return ((words >> 11) & ((1 << 53) - 1)).double() * _UNIT


def gaussian(count: int, entropy: Entropy = os.urandom) -> Tensor:
    """Standard normal numbers, (count,) in float64.

    Each is the sum of four draws over two, after Holohan and Braghin (2021), Secure Random Sampling
    in Differential Privacy: the gaps that one draw leaves between floating-point numbers (Mironov
    2012) are then no longer a fingerprint of the value below the noise.
    """
    if count == 0:
        return torch.zeros(0, dtype=torch.float64)
    total = torch.zeros(count, dtype=torch.float64)
    for _ in range(2):  # Box and Muller (1958): two draws from two uniforms
        u = uniform(2 * count, entropy)
        radius = (-2.0 * torch.log1p(-u[:count])).sqrt_()  # 1 - u is never 0
        angle = u[count:].mul(2 * math.pi)
        total += radius * (angle.cos() + angle.sin())
    return total.div_(2.0)


def with_noise(payload: Payload, std: float, entropy: Entropy = os.urandom) -> Payload:
    """Every number of a payload with noise of this spread, added in float64."""
    if std == 0.0:
        return payload
    return {
        key: {
            name: (t.double() + std * gaussian(t.numel(), entropy).view(t.shape).to(t.device)).to(
                t.dtype
            )
            for name, t in bundle.items()
        }
        for key, bundle in payload.items()
    }


#: Rounding of the privacy loss adds about steps·grid² to ε; a finer grid takes longer.
ROUNDED = 5e-4
_LITTLE = 0.05  # a multiplier that keeps no epsilon below a thousand
_SLACK = 1e-6  # of a budget: two ways to add the same rounds differ in the last bits


@dataclass(frozen=True, order=True)
class Release:
    """`steps` times Gaussian noise of `noise` sensitivities, on a Poisson share of all units."""

    noise: float  # σ, the multiplier
    steps: int = 1
    sample: float = 1.0  # q

    def __post_init__(self) -> None:
        if not self.noise >= 0.0:
            raise ConfigError(f"noise must not be negative, got {self.noise}")
        if isinstance(self.steps, bool) or self.steps < 0:
            raise ConfigError(f"steps must be a whole number of at least 0, got {self.steps}")
        if not 0.0 < self.sample <= 1.0:
            raise ConfigError(f"sample must lie in (0, 1], got {self.sample}")


def epsilon_of(releases: Sequence[Release], delta: float) -> float:
    """The ε at this δ of all these releases together, about one site or one record."""
    check_delta(delta)
    joined = _join(releases)
    if not joined:
        return 0.0
    if any(noise == 0.0 for noise, _, _ in joined):
        return math.inf
    # with so little noise counting takes for ever, and sampling hardly helps: the safe side
    hopeless = min(noise for noise, _, _ in joined) < _LITTLE
    if hopeless or all(sample == 1.0 for _, _, sample in joined):
        # Gaussians compose like lengths: 1/σ² adds up
        return _gaussian_epsilon(sum(k / s**2 for s, k, _ in joined) ** -0.5, delta)
    return _compose(joined, delta)


def affordable(releases: Sequence[Release], epsilon: float, delta: float) -> bool:
    """Whether all these releases together stay within the budget.

    Counting subsampled releases takes time, so it is first tried for somewhat more of them: one
    answer then serves many rounds.
    """
    joined = _join(releases)
    if any(sample < 1.0 for _, _, sample in joined):
        more = [Release(s, _upwards(k), q) for s, k, q in joined]
        if epsilon_of(more, delta) <= epsilon:
            return True
    return epsilon_of(releases, delta) <= epsilon * (1 + _SLACK)


def _upwards(steps: int) -> int:
    """The next of the numbers 1, 2, 3, 4, 5, 6, 7, 8, 10, ..., each about a quarter more."""
    found = 1
    while found < steps:
        found = max(found + 1, found * 5 // 4)
    return found


def _join(releases: Sequence[Release]) -> tuple[tuple[float, int, float], ...]:
    """Noise, steps and sample, each pair of noise and sample once."""
    counts: dict[tuple[float, float], int] = {}
    for r in releases:
        counts[r.noise, r.sample] = counts.get((r.noise, r.sample), 0) + r.steps
    return tuple(sorted((s, k, q) for (s, q), k in counts.items() if k))


@lru_cache(maxsize=1024)
def noise_for(epsilon: float, delta: float, steps: int, sample: float = 1.0) -> float:
    """The multiplier σ with which `steps` releases cost ε at δ, to 0.2 % and never more."""
    check_epsilon(epsilon)
    check_delta(delta)
    if steps < 1:
        raise ConfigError(f"steps must be at least 1, got {steps}")
    if epsilon == math.inf:
        return 0.0

    def cost(noise: float) -> float:
        return epsilon_of([Release(noise, steps, sample)], delta)

    # from above, where counting is quick; no sampling needs more noise than sampling
    high = 1.0 if sample == 1.0 else noise_for(epsilon, delta, steps)
    while cost(high) > epsilon:
        high *= 2
        if high > 1e6:
            raise FedloreError(f"no noise up to 1e6 keeps {steps} releases within ε = {epsilon:g}")
    return _least(cost, epsilon, high, close=1e-4 if sample == 1.0 else 2e-3)


def check_epsilon(epsilon: float) -> None:
    if not epsilon > 0.0:
        raise ConfigError(f"epsilon must be positive, got {epsilon}")


def check_delta(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise ConfigError(f"delta must lie in (0, 1), got {delta}")


def _least(cost: Callable[[float], float], epsilon: float, high: float, *, close: float) -> float:
    """The noise whose cost is the budget, at most the share `close` of it below, never above.

    log ε is nearly a line in log σ, so few steps do: each evaluation may take a second.
    """
    low, above, below = 0.0, math.inf, cost(high)
    aimed = epsilon * (1 - close / 2)
    while below < epsilon * (1 - close) and high - low > 1e-6 * high:
        if low == 0.0:  # ε falls about as 1/σ
            guess = high * min(max(below / aimed, 0.4), 0.97)
        else:
            part = math.log(above / aimed) / math.log(above / max(below, 1e-9 * aimed))
            guess = low * (high / low) ** min(max(part, 0.05), 0.95)
        found = cost(guess)
        if found <= epsilon:
            high, below = guess, found
        else:
            low, above = guess, found
    return high


def _gaussian_delta(noise: float, epsilon: float) -> float:
    """δ(ε) = Φ(1/2σ - εσ) - e^ε·Φ(-1/2σ - εσ)."""
    near, far = 0.5 / noise - epsilon * noise, -0.5 / noise - epsilon * noise
    tail = _log_normal(far)
    return math.exp(_log_normal(near)) - math.exp(min(epsilon + tail, 700.0))


def _log_normal(x: float) -> float:
    """log Φ(x), also where Φ underflows."""
    below = 0.5 * math.erfc(-x / math.sqrt(2.0))
    if below > 1e-290:
        return math.log(below)
    # Mills' ratio for |x| > 36, cut where it is too small: then δ is too large, the safe side
    ratio = math.log1p(-(x**-2) + 3 * x**-4 - 15 * x**-6)
    return -0.5 * x * x - math.log(-x) - 0.5 * math.log(2 * math.pi) + ratio


@lru_cache(maxsize=4096)
def _gaussian_epsilon(noise: float, delta: float) -> float:
    if _gaussian_delta(noise, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while _gaussian_delta(noise, high) > delta:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _gaussian_delta(noise, middle) <= delta else (middle, high)
    return high


@lru_cache(maxsize=4096)
def _compose(joined: tuple[tuple[float, int, float], ...], delta: float) -> float:
    try:
        import dp_accounting
        from dp_accounting import pld
    except ImportError:
        raise FedloreError(
            "the accountant of subsampled noise is missing: pip install 'fedlore[dp]'"
        ) from None
    grid = math.sqrt(ROUNDED / sum(steps for _, steps, _ in joined))
    accountant = pld.PLDAccountant(value_discretization_interval=min(grid, 5e-3))
    for noise, steps, sample in joined:
        event = dp_accounting.GaussianDpEvent(noise)
        if sample < 1.0:
            event = dp_accounting.PoissonSampledDpEvent(sample, event)
        accountant.compose(event, steps)
    return float(accountant.get_epsilon(delta))
