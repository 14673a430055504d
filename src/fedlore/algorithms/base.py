"""What every algorithm is made of: the work of one round, and the two halves."""

from collections.abc import Callable
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from ..core.tree import Params, Payload
from .facts import Facts
from .plan import Plan

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
        ...

    @property
    def reach(self) -> float | Tensor:
        """The sum of step sizes of a full `descend`, () or (m,)."""
        ...

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
        ...

    def walk(self, points: Payload, slopes: Slopes) -> Payload:
        """SGD on several points at once, over the same batches as `descend`.

        In each step `slopes` says where every point goes, from gradients that it may take
        anywhere; step size and momentum are those of the plan.
        """
        ...

    def shared(self, purpose: str) -> torch.Generator:
        """Random numbers that every client of this round draws alike."""
        ...


class Algorithm(Protocol):
    """Both halves of a federated algorithm. All functions are pure; uploads are differences."""

    facts: ClassVar[Facts]
    uploads: ClassVar[tuple[str, ...]]  # bundles of what was sent that come back as differences

    def init(self, params: Params) -> Payload:
        """The server's state before round 1."""
        ...

    def send(self, state: Payload) -> Payload:
        """The part of the state that clients get."""
        ...

    def start(self, sent: Payload, initial: Params) -> Payload:
        """One client's memory before its first round; `initial` are the weights of round 1."""
        ...

    def local(self, sent: Payload, memory: Payload, work: Work) -> tuple[Payload, Payload]:
        """One round at a client: the upload and the new memory."""
        ...

    def merge(self, state: Payload, mean: Payload, share: float) -> Payload:
        """The new state, from the mean upload of a `share` of all clients."""
        ...

    def personal(self, sent: Payload, memory: Payload) -> Params:
        """What this client predicts with."""
        ...
