"""No federation: every client trains its own model. With knowledge this is MLwKM, without ML."""

from dataclasses import dataclass
from typing import ClassVar

from ..core.tree import Params, Payload
from .base import Work
from .facts import Facts


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
