"""No federation: every client trains its own model. With knowledge this is MLwKM, without ML."""

from dataclasses import dataclass
from typing import ClassVar

from ..tree import Params, Payload
from .base import Work


@dataclass(frozen=True)
class Alone:
    """Clients start from the shared initial weights, keep what they learn and upload nothing."""

    uploads: ClassVar[tuple[str, ...]] = ()

    def init(self, params: Params) -> Payload:
        return {"model": params}

    def send(self, state: Payload) -> Payload:
        return {"model": state["model"]}

    def start(self, sent: Payload) -> Payload:
        return {"own": sent["model"]}

    def local(self, sent: Payload, memory: Payload, work: Work) -> tuple[Payload, Payload]:
        return {}, {"own": work.descend(memory["own"])}

    def merge(self, state: Payload, mean: Payload, share: float) -> Payload:
        return state

    def personal(self, sent: Payload, memory: Payload) -> Params:
        return memory["own"]
