"""Ditto and APFL: a private model at each client, pulled towards the shared one, or mixed with it.

Li, Hu, Beirami, Smith (2021), Ditto: Fair and Robust Federated Learning Through Personalization,
Algorithm 1. Deng, Kamani, Mahdavi (2020), Adaptive Personalized Federated Learning, Algorithm 1 and
the adaptive α of section 4.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..core import tree
from ..core.tree import Params, Payload
from .base import Facts, Gradient, Work, check_settings, inverse, setting


@dataclass(frozen=True)
class Ditto:
    """FedAvg, and for each client a model of its own that minimises loss + λ/2·|own - shared|².

    Twice the arithmetic of FedAvg, the same traffic.
    """

    pull: float = setting(1.0, "λ", "pull of the shared model on the private one")

    facts: ClassVar[Facts] = Facts(
        "Li et al. 2021, Ditto: Fair and Robust Federated Learning Through Personalization",
        memory=True,
    )
    uploads: ClassVar[tuple[str, ...]] = ("model",)

    def __post_init__(self) -> None:
        check_settings(self)

    def init(self, params: Params) -> Payload:
        return {"model": params}

    def send(self, state: Payload) -> Payload:
        return {"model": state["model"]}

    def start(self, sent: Payload, initial: Params) -> Payload:
        return {"own": sent["model"]}

    def local(self, sent: Payload, memory: Payload, work: Work) -> tuple[Payload, Payload]:
        shared = sent["model"]  # w
        own = work.descend(memory["own"], anchor=shared, pull=self.pull)  # v
        return {"model": tree.sub(work.descend(shared), shared)}, {"own": own}

    def merge(self, state: Payload, mean: Payload, share: float) -> Payload:
        return {"model": tree.add(state["model"], mean["model"])}

    def personal(self, sent: Payload, memory: Payload) -> Params:
        return memory["own"]


@dataclass(frozen=True)
class Apfl:
    """Clients predict with α·own + (1-α)·shared, parameters mixed, and learn all three.

    In each step the shared model follows its own gradient, the private one the gradient of the
    mixture on the same batch. α is held during a round and moves once at its end, along the mean
    of its gradient over the steps, clipped to [0, 1]. Twice the arithmetic of FedAvg.
    """

    mix: float = setting(0.5, "α", "share of the private model, at the start", "[0, 1]")
    adapt: float = setting(0.1, "η_α", "step size of α per round; 0 keeps it fixed")

    facts: ClassVar[Facts] = Facts(
        "Deng et al. 2020, Adaptive Personalized Federated Learning", memory=True
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
        return {"own": sent["model"], "mix": {"mix": some.new_full((), self.mix)}}

    def local(self, sent: Payload, memory: Payload, work: Work) -> tuple[Payload, Payload]:
        mix = memory["mix"]["mix"]  # α

        def slopes(points: Payload, gradient: Gradient) -> Payload:
            mixed = gradient(_blend(mix, points["own"], points["shared"]))  # ∇f(v̄)
            apart = tree.sub(points["own"], points["shared"])
            return {
                "shared": gradient(points["shared"]),
                "own": tree.scale(mixed, mix),  # dv̄/dv = α
                "mix": {"mix": _dot(mixed, apart, mix)},  # dv̄/dα = v - w
            }

        start = {"shared": sent["model"], "own": memory["own"], "mix": memory["mix"]}
        end = work.walk(start, slopes)
        # how far α would have gone, over the sum of step sizes: minus its mean gradient
        slope = tree.scale(tree.sub(end["mix"], memory["mix"]), inverse(work.reach))
        moved = tree.axpy(self.adapt, slope, memory["mix"])
        mixture = {"mix": moved["mix"].clamp(0.0, 1.0)}
        upload = {"model": tree.sub(end["shared"], sent["model"])}
        return upload, {"own": end["own"], "mix": mixture}

    def merge(self, state: Payload, mean: Payload, share: float) -> Payload:
        return {"model": tree.add(state["model"], mean["model"])}

    def personal(self, sent: Payload, memory: Payload) -> Params:
        return _blend(memory["mix"]["mix"], memory["own"], sent["model"])


def _blend(mix: Tensor, own: Params, shared: Params) -> Params:
    """v̄ = α·v + (1-α)·w."""
    return tree.axpy(mix, own, tree.scale(shared, 1.0 - mix))


def _dot(a: Params, b: Params, like: Tensor) -> Tensor:
    """The inner product of two bundles, () or for each client (m,) as `like`."""
    parts = [(t * b[name]).reshape(*like.shape, -1).sum(-1) for name, t in a.items()]
    return torch.stack(parts).sum(0)
