"""FedAvg (McMahan et al. 2017; Algorithm 1 of Fan et al. 2022)."""

from dataclasses import dataclass
from typing import ClassVar

from .. import tree
from ..tree import Params, Payload
from .base import Work


@dataclass(frozen=True)
class FedAvg:
    """Clients descend from the shared model; the server takes the mean of where they got."""

    uploads: ClassVar[tuple[str, ...]] = ("model",)

    def init(self, params: Params) -> Payload:
        return {"model": params}

    def send(self, state: Payload) -> Payload:
        return {"model": state["model"]}

    def start(self, sent: Payload) -> Payload:
        return {}

    def local(self, sent: Payload, memory: Payload, work: Work) -> tuple[Payload, Payload]:
        end = work.descend(sent["model"])
        return {"model": tree.sub(end, sent["model"])}, memory

    def merge(self, state: Payload, mean: Payload, share: float) -> Payload:
        return {"model": tree.add(state["model"], mean["model"])}

    def personal(self, sent: Payload, memory: Payload) -> Params:
        return sent["model"]
