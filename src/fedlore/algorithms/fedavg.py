"""FedAvg (McMahan et al. 2017; Algorithm 1 of Fan et al. 2022), FedProx (Li et al. 2020), none."""

from dataclasses import dataclass
from typing import ClassVar

from ..core import tree
from ..core.tree import Params, Payload
from .base import Facts, Work, check_settings, setting


@dataclass(frozen=True)
class FedAvg:
    """Clients descend from the shared model; the server takes the mean of where they got.

    With `prox` each client minimises its loss + μ/2·|params - shared|², which is FedProx.
    """

    prox: float = setting(0.0, "μ", "pull towards the shared model (FedProx)")

    facts: ClassVar[Facts] = Facts(
        "McMahan et al. 2017, Communication-Efficient Learning of Deep Networks from Decentralized "
        "Data; prox: Li et al. 2020, Federated Optimization in Heterogeneous Networks"
    )
    uploads: ClassVar[tuple[str, ...]] = ("model",)

    def __post_init__(self) -> None:
        check_settings(self)

    def init(self, params: Params) -> Payload:
        return {"model": params}

    def send(self, state: Payload) -> Payload:
        return {"model": state["model"]}

    def start(self, sent: Payload, initial: Params) -> Payload:
        return {}

    def local(self, sent: Payload, memory: Payload, work: Work) -> tuple[Payload, Payload]:
        shared = sent["model"]
        end = work.descend(shared, anchor=shared, pull=self.prox)
        return {"model": tree.sub(end, shared)}, {}

    def merge(self, state: Payload, mean: Payload, share: float) -> Payload:
        return {"model": tree.add(state["model"], mean["model"])}

    def personal(self, sent: Payload, memory: Payload) -> Params:
        return sent["model"]


@dataclass(frozen=True)
class Alone:
    """Clients start from the common initial weights and keep what they learn; nothing travels."""

    facts: ClassVar[Facts] = Facts("no federation: the baselines ML and MLwKM", 0, 0, memory=True)
    uploads: ClassVar[tuple[str, ...]] = ()

    def init(self, params: Params) -> Payload:
        return {"model": params}

    def send(self, state: Payload) -> Payload:
        return {}

    def start(self, sent: Payload, initial: Params) -> Payload:
        return {"own": initial}

    def local(self, sent: Payload, memory: Payload, work: Work) -> tuple[Payload, Payload]:
        return {}, {"own": work.descend(memory["own"])}

    def merge(self, state: Payload, mean: Payload, share: float) -> Payload:
        return state

    def personal(self, sent: Payload, memory: Payload) -> Params:
        return memory["own"]
