"""Training in which no single record shows: DP-SGD on the federation's own loss.

Abadi et al. (2016), Deep Learning with Differential Privacy, Algorithm 1, with Poisson batches. The
gradient of every record goes through its site's knowledge, is clipped, and noise is added to their
sum. Per-sample gradients come from Opacus.
"""

import os
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...algorithms import Algorithm, FlatParams, Plan, Slopes, reach
from ...core import tree
from ...core.inject import Lesson
from ...core.rng import stream
from ...core.tree import Params, Payload
from ...errors import ConfigError, FedloreError
from .budget import Dp
from .filter import DONE
from .noise import Entropy, gaussian, uniform

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Records:
    """Part of a recipe: the sites train by DP-SGD within this budget."""

    dp: Dp
    rounds: int  # how many the budget must last for
    entropy: Entropy = os.urandom

    def __post_init__(self) -> None:
        if self.dp.level != "record":
            raise ConfigError(f"DP-SGD is record level, got level = '{self.dp.level}'")
        if self.rounds < 1:
            raise ConfigError(f"rounds must be at least 1, got {self.rounds}")

    def noisy(
        self, model: nn.Module, lesson: Lesson, plan: Plan, algorithm: Algorithm, seed: int
    ) -> "NoisyGrads":
        """One site's gradients, with the noise that its number of rows asks for."""
        sample = min(1.0, (plan.batch or len(lesson)) / len(lesson))
        noise = self.dp.noise
        if noise is None:
            steps = gradients_of(algorithm, model, plan, len(lesson), self.rounds, seed)
            noise = self.dp.multiplier(max(steps, 1), sample)
        return NoisyGrads(model, lesson, plan, self.dp.clip, noise, sample, self.entropy)


class NoisyGrads:
    """Mean gradients of Poisson batches, each record's clipped, with noise; counted."""

    def __init__(
        self,
        model: nn.Module,
        lesson: Lesson,
        plan: Plan,
        clip: float,
        noise: float,
        sample: float,
        entropy: Entropy = os.urandom,
    ) -> None:
        self._samples = Samples(model, plan.plain)
        self._clip, self._noise, self._sample = clip, noise, sample
        self._entropy = entropy
        self._taken = 0
        _check_rows_apart(self._samples, lesson[:3], type(model).__name__)

    def __call__(self, at: Tensor, lesson: Lesson) -> Tensor:
        """A batch of its own for every gradient, so that each is one subsampled release."""
        self._taken += 1
        rows = (uniform(len(lesson), self._entropy) < self._sample).nonzero().squeeze(1)
        total = torch.zeros_like(at)
        if len(rows):
            each = self._samples(at, lesson[rows.to(at.device)])  # (n, p)
            lengths = each.double().norm(dim=1)
            shrink = (self._clip / (lengths * (1 + _ROUNDING))).clamp(max=1.0)
            total = shrink.to(each.dtype) @ each
        noise = self._clip * self._noise * gaussian(at.numel(), self._entropy)
        expected = self._sample * len(lesson)
        return ((total.double() + noise.to(at.device)) / expected).to(at.dtype)

    @property
    def done(self) -> dict[str, float]:
        """What the site's ledger must know."""
        return dict(zip(DONE, (self._noise, self._taken, self._sample), strict=True))


class Samples:
    """The gradient of the loss for every row of a batch, (n, p)."""

    def __init__(self, model: nn.Module, plain: float) -> None:
        try:
            from opacus import GradSampleModule
        except ImportError:
            raise FedloreError("Opacus is missing: pip install 'fedlore[dp]'") from None
        self._buffer, self._plain = FlatParams(model), plain
        try:
            self._model = GradSampleModule(
                self._buffer.model, batch_first=True, loss_reduction="sum", strict=True
            )
        except Exception as error:  # whatever Opacus may find in a user's own model
            raise _say_refused(type(model).__name__, str(error)) from None

    def __call__(self, at: Tensor, batch: Lesson) -> Tensor:
        self._buffer.flat.copy_(at)
        with warnings.catch_warnings():
            # of hooks on a first layer, whose input needs no gradient
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            logits = self._model(batch.x, batch.prior, batch.allowed)
            logits.backward(batch.error(logits.detach(), self._plain))
        found = []
        for p in self._buffer.model.parameters():
            each = getattr(p, "grad_sample", None)
            if not isinstance(each, Tensor) or len(each) != len(batch):
                raise FedloreError(f"no gradient per record for a parameter of {tuple(p.shape)}")
            found.append(each.reshape(len(batch), -1))
            p.grad_sample = None  # type: ignore[attr-defined]
        return torch.cat(found, 1)


def _check_rows_apart(samples: Samples, rows: Lesson, name: str) -> None:
    """Refuse a model in which a row's gradient is not its own: clipping would bound nothing."""
    at = samples._buffer.flat.clone()
    try:
        together = samples(at, rows)
        apart = torch.cat([samples(at, rows[i : i + 1]) for i in range(len(rows))])
    except Exception as error:
        raise _say_refused(name, str(error)) from None
    if not torch.allclose(together, apart, rtol=1e-3, atol=1e-5 * float(apart.abs().max())):
        raise _say_refused(name, "a row's gradient changes with the rows beside it")


def _say_refused(name: str, why: str) -> ConfigError:
    reason = why.strip().split("\n")[0][:160]
    return ConfigError(
        f"record level differential privacy needs per-sample gradients, which {name} has not: "
        f"{reason}"
    )


def gradients_of(
    algorithm: Algorithm, model: nn.Module, plan: Plan, rows: int, rounds: int, seed: int
) -> int:
    """How many gradients an algorithm takes at a site in so many rounds, without taking them."""
    initial = {name: p.detach() for name, p in model.named_parameters()}
    sent = algorithm.send(algorithm.init(initial))
    memory = algorithm.start(sent, initial)
    total = 0
    for round in range(1, rounds + 1):
        counting = _Counting(plan, plan.local_steps(rows), seed, round)
        algorithm.local(sent, memory, counting)
        total += counting.gradients
        if not counting.coins:  # every round is like this one
            return total * rounds
    return total


class _Counting:
    """Work that stays where it is and counts the gradients it was asked for."""

    def __init__(self, plan: Plan, steps: int, seed: int, round: int) -> None:
        self.plan, self._steps, self._address = plan, steps, (seed, round)
        self.gradients, self.coins = 0, 0

    @property
    def lr(self) -> float:
        return self.plan.lr

    @property
    def reach(self) -> float:
        return reach(self._steps, self.lr, self.plan.momentum)

    def descend(
        self,
        start: Params,
        *,
        shift: Params | None = None,
        anchor: Params | None = None,
        pull: float = 0.0,
        steps: int | None = None,
    ) -> Params:
        self.gradients += self._steps if steps is None else steps
        return start

    def walk(self, points: Payload, slopes: Slopes) -> Payload:
        def gradient(at: Params) -> Params:
            self.gradients += self._steps
            return tree.zeros(at)

        slopes(points, gradient)
        return points

    def shared(self, purpose: str) -> torch.Generator:
        self.coins += 1
        return stream(*self._address, "shared", purpose)
