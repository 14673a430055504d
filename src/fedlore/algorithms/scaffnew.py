"""Scaffnew, or ProxSkip for federated learning: fewer rounds in theory, not only in practice.

Mishchenko, Malinovsky, Stich, Richtárik (2022), ProxSkip: Yes! Local Gradient Steps Provably
Lead to Communication Acceleration! Finally!, Algorithm 2.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from ..core import tree
from ..core.tree import Params, Payload
from .base import Facts, Work, check_settings, inverse, setting


@dataclass(frozen=True)
class Scaffnew:
    """Clients step along grad - shift until a common coin says meet; then they average.

    All clients flip the coin of the round's seed, so they take the same number of steps, 1/p on
    average; the plan's `epochs` and `steps` play no part. The shift learns each client's gradient
    at the optimum: h += p/η·(mean - own end). A client hears the mean one round later, so it
    remembers its end and settles then; a round that was not accepted is simply forgotten.
    """

    chance: float = setting(0.05, "p", "probability that a local step ends the round", "(0, 1]")

    facts: ClassVar[Facts] = Facts(
        "Mishchenko et al. 2022, ProxSkip: Yes! Local Gradient Steps Provably Lead to "
        "Communication Acceleration! Finally!",
        memory=True,
        everyone=True,
        mean=True,
        momentum=False,
    )
    uploads: ClassVar[tuple[str, ...]] = ("model",)

    def __post_init__(self) -> None:
        check_settings(self)

    def init(self, params: Params) -> Payload:
        return {"model": params}

    def send(self, state: Payload) -> Payload:
        return {"model": state["model"]}

    def start(self, sent: Payload, initial: Params) -> Payload:
        some = next(iter(initial.values()))
        blank = tree.zeros(initial)
        return {"shift": blank, "end": blank, "pace": {"pace": some.new_zeros(())}}

    def shift(self, sent: Payload, memory: Payload) -> Params:
        """h_i, now that the mean of the last round is known; the shifts of all clients sum to 0."""
        missed = tree.sub(sent["model"], memory["end"])
        return tree.axpy(memory["pace"]["pace"], missed, memory["shift"])

    def local(self, sent: Payload, memory: Payload, work: Work) -> tuple[Payload, Payload]:
        shift = self.shift(sent, memory)
        steps = self._flips(work.shared("coin"))
        end = work.descend(sent["model"], shift=tree.scale(shift, -1.0), steps=steps)
        # p/η of the round in which the end was reached: a schedule may change η before it is used
        pace = torch.zeros_like(memory["pace"]["pace"]) + self.chance * inverse(work.lr)
        memory = {"shift": shift, "end": end, "pace": {"pace": pace}}
        return {"model": tree.sub(end, sent["model"])}, memory

    def merge(self, state: Payload, mean: Payload, share: float) -> Payload:
        return {"model": tree.add(state["model"], mean["model"])}

    def personal(self, sent: Payload, memory: Payload) -> Params:
        return sent["model"]

    def _flips(self, coin: torch.Generator) -> int:
        """Flips until the first head, by inversion: 1 with probability p, and so on."""
        if self.chance == 1.0:
            return 1
        left = 1.0 - float(torch.rand((), generator=coin, dtype=torch.float64))  # in (0, 1]
        return 1 + math.floor(math.log(left) / math.log1p(-self.chance))
