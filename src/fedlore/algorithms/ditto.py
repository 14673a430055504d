"""Ditto: a private model beside the shared one, pulled towards it.

Li, Hu, Beirami, Smith (2021), Ditto: Fair and Robust Federated Learning Through
Personalization, Algorithm 1.
"""

from dataclasses import dataclass
from typing import ClassVar

from ..core import tree
from ..core.tree import Params, Payload
from .base import Work
from .facts import Facts, check_settings, setting


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
