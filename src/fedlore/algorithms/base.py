"""What every algorithm is made of: the plan of local steps, its facts, the work, the two halves."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, Protocol, get_args

import torch
from torch import Tensor

from ..core.aggregate import Aggregate
from ..core.tree import Params, Payload
from ..errors import ConfigError

Schedule = Literal["constant", "cosine"]


@dataclass(frozen=True)
class Plan:
    """How a client trains in one round: mini-batch SGD, momentum fresh each round.

    Rows are reshuffled for each epoch and the last, smaller batch is kept (the paper's
    Algorithm 1 splits into batches once per round).
    """

    epochs: int = 5  # E in the paper
    batch: int | None = 32  # C in the paper; None takes all rows at once
    lr: float = 0.1  # η in the paper
    momentum: float = 0.9  # of SGD
    decay: float = 5e-4  # weight decay, added to the gradient
    plain: float = 0.0  # α: share of ordinary cross-entropy in the loss
    finish: int = 0  # local steps after the last round; they stay at home
    schedule: Schedule = "constant"  # of the learning rate over the rounds
    clip: float | None = None  # largest norm of a batch gradient
    steps: int | None = None  # local steps per round, in place of epochs

    def __post_init__(self) -> None:
        _at_least("epochs", self.epochs, 1)
        _at_least("finish", self.finish, 0)
        for name in ("batch", "steps"):
            if getattr(self, name) is not None:
                _at_least(name, getattr(self, name), 1)
        _within("lr", self.lr, 0.0, math.inf)
        _within("momentum", self.momentum, 0.0, 1.0, open_end=True)
        _within("decay", self.decay, 0.0, math.inf)
        _within("plain", self.plain, 0.0, 1.0)
        if self.clip is not None and not self.clip > 0:
            raise ConfigError(f"clip must be positive, got {self.clip}")
        if self.schedule not in get_args(Schedule):
            raise ConfigError(f"schedule must be constant or cosine, got '{self.schedule}'")

    def rate(self, round: int, rounds: int) -> float:
        """The factor on the learning rate in round 1..rounds."""
        if self.schedule == "constant":
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * (round - 1) / rounds))

    def local_steps(self, rows: int) -> int:
        """Steps of one client in one round."""
        if self.steps is not None:
            return self.steps
        return self.epochs * self.per_epoch(rows)

    def per_epoch(self, rows: int) -> int:
        return 1 if self.batch is None else math.ceil(rows / self.batch)


def reach(steps: int, lr: float, momentum: float) -> float:
    """How far `steps` steps along a gradient of constant size 1 go.

    With momentum β this is η·Σ_t (1-β^t)/(1-β); without, η·K.
    """
    if momentum == 0.0:
        return lr * steps
    lost = momentum * (1 - momentum**steps) / (1 - momentum)
    return lr * (steps - lost) / (1 - momentum)


def inverse(x: float | Tensor) -> float | Tensor:
    """1/x, and 0 for 0: where nothing moved there is nothing to measure."""
    if isinstance(x, Tensor):
        return torch.where(x > 0, 1.0 / torch.where(x > 0, x, 1.0), 0.0)
    return 1.0 / x if x > 0 else 0.0


def _at_least(name: str, value: int, least: int) -> None:
    if type(value) is not int or value < least:  # True is not a count
        raise ConfigError(f"{name} must be a whole number of at least {least}, got {value}")


def _within(name: str, value: float, low: float, high: float, *, open_end: bool = False) -> None:
    inside = low <= value < high if open_end or high == math.inf else low <= value <= high
    if not inside:
        end = ")" if open_end or high == math.inf else "]"
        raise ConfigError(f"{name} must lie in [{low:g}, {high:g}{end}, got {value}")


@dataclass(frozen=True)
class Facts:
    """What is known about an algorithm before it runs."""

    paper: str = ""
    down: float = 1.0  # what a client gets each round, in multiples of the model
    up: float = 1.0  # what it returns
    note: str = ""  # what the two numbers cannot say
    memory: bool = False  # clients keep something between rounds
    everyone: bool = False  # every client in every round; otherwise the round is void
    mean: bool = False  # its invariants live on exact means: no medians, no clipped uploads
    momentum: bool = True  # bears momentum in the local steps

    @property
    def needs(self) -> list[str]:
        """What it asks of the federation, in words."""
        asked = {
            "memory at the clients": self.memory,
            "every client in every round": self.everyone,
            "the exact mean of uploads": self.mean,
            "local steps without momentum": not self.momentum,
        }
        return [what for what, wanted in asked.items() if wanted]


def facts_of(algorithm: object) -> Facts:
    """An algorithm's facts; one that states none asks for nothing."""
    found = getattr(algorithm, "facts", None)
    return found if isinstance(found, Facts) else Facts()


def setting(default: float, symbol: str, meaning: str, within: str = "[0, inf)") -> Any:
    """A number of an algorithm: the paper's symbol, what it means, and where it must lie."""
    about = {"symbol": symbol, "meaning": meaning, "within": within}
    return field(default=default, metadata=about)


def choice(default: Any, meaning: str) -> Any:
    """A setting of an algorithm that is no number."""
    return field(default=default, metadata={"symbol": "", "meaning": meaning})


def check_settings(algorithm: Any) -> None:
    """Refuse settings that are no numbers or lie outside their interval; for __post_init__."""
    for entry in fields(algorithm):
        if "within" not in entry.metadata:
            continue
        value, within = getattr(algorithm, entry.name), entry.metadata["within"]
        who = f"{type(algorithm).__name__}: {entry.name}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{who} must be a number, got {value!r}")
        low, high = map(float, within[1:-1].split(","))
        above = value >= low if within[0] == "[" else value > low  # NaN is never inside
        below = value <= high if within[-1] == "]" else value < high
        if not (above and below):
            raise ConfigError(f"{who} must lie in {within}, got {value}")


def check_fit(
    algorithm: object,
    plan: Plan,
    *,
    weights: str = "equal",
    aggregate: Aggregate | None = None,
    sample: float = 1.0,
) -> None:
    """Refuse a federation in which the algorithm would be wrong, with the reason."""
    facts, name = facts_of(algorithm), type(algorithm).__name__
    if facts.everyone and sample < 1.0:
        raise ConfigError(
            f"{name} needs every client in every round: sample must be 1, got {sample:g}"
        )
    if not facts.momentum and plan.momentum > 0.0:
        raise ConfigError(
            f"{name} is proven for plain gradient steps: momentum must be 0, got {plan.momentum:g}"
        )
    if facts.mean and aggregate is not None and aggregate.needs_individuals:
        raise ConfigError(
            f"{name} keeps sums over clients that only a mean preserves: "
            f"aggregate must be mean, got {aggregate.name}"
        )
    if facts.mean and weights == "size" and sample < 1.0:
        # the mean over a sample then estimates neither the weighted nor the plain sum
        raise ConfigError(
            f"{name} with weights by size needs every client in every round: "
            f"sample must be 1, got {sample:g}"
        )


Gradient = Callable[[Params], Params]  # the gradient of this step's batch at any point
Slopes = Callable[[Payload, Gradient], Payload]  # points -> the direction to leave each of them


class Work(Protocol):
    """One round of local training, for one client or for a stack of clients in lockstep.

    For a stack every tensor has a leading client axis, and so has what varies by client. The
    gradient is that of the client's whole objective: weight decay is part of it.
    """

    plan: Plan

    @property
    def lr(self) -> float:
        """The step size of this round."""

    @property
    def reach(self) -> float | Tensor:
        """The sum of step sizes of a full `descend`, () or (m,)."""

    def descend(
        self,
        start: Params,
        *,
        shift: Params | None = None,
        anchor: Params | None = None,
        pull: float = 0.0,
        steps: int | None = None,
    ) -> Params:
        """SGD from `start` along grad + shift + pull·(params - anchor).

        The pull is implicit, taken at the end of each step, so that it may be of any strength
        (an explicit one explodes above 2/lr): with v the velocity,
        v <- (momentum·v + grad + shift + pull·(params - anchor)) / (1 + lr·pull).
        """

    def walk(self, points: Payload, slopes: Slopes) -> Payload:
        """SGD on several points at once, over the same batches as `descend`.

        In each step `slopes` says where every point goes, from gradients that it may take
        anywhere; step size and momentum are those of the plan.
        """

    def shared(self, purpose: str) -> torch.Generator:
        """Random numbers that every client of this round draws alike."""


class Algorithm(Protocol):
    """Both halves of a federated algorithm. All functions are pure; uploads are differences."""

    facts: ClassVar[Facts]
    uploads: ClassVar[tuple[str, ...]]  # bundles of what was sent that come back as differences

    def init(self, params: Params) -> Payload:
        """The server's state before round 1."""

    def send(self, state: Payload) -> Payload:
        """The part of the state that clients get."""

    def start(self, sent: Payload, initial: Params) -> Payload:
        """One client's memory before its first round; `initial` are the weights of round 1."""

    def local(self, sent: Payload, memory: Payload, work: Work) -> tuple[Payload, Payload]:
        """One round at a client: the upload and the new memory."""

    def merge(self, state: Payload, mean: Payload, share: float) -> Payload:
        """The new state, from the mean upload of a `share` of all clients."""

    def personal(self, sent: Payload, memory: Payload) -> Params:
        """What this client predicts with."""
