"""FedPer: the first layers are shared, the last stay private.

Arivazhagan, Aggarwal, Singh, Choudhary (2019), Federated Learning with Personalization Layers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from ..core import tree
from ..core.tree import Params, Payload
from ..errors import ConfigError, unknown
from .base import Facts, Work, choice


@dataclass(frozen=True)
class FedPer:
    """FedAvg on the shared layers; each client trains the private ones along and keeps them.

    `private` names layers by the beginning of their parameters' names, or as "first" and "last";
    empty means the last layer, the head. Private layers never travel, not even at the start: every
    client has the recipe's initial weights.
    """

    private: tuple[str, ...] = choice(
        (), "layers that stay at home: names, first, last; () is the last one"
    )

    facts: ClassVar[Facts] = Facts(
        "Arivazhagan et al. 2019, Federated Learning with Personalization Layers",
        note="the shared layers only, less than the whole model",
        memory=True,
    )
    uploads: ClassVar[tuple[str, ...]] = ("model",)

    def __post_init__(self) -> None:
        listed = type(self.private) in (tuple, list)  # a bare string is a tuple of letters
        if not listed or not all(isinstance(layer, str) for layer in self.private):
            raise ConfigError(f"FedPer: private must be a list of layers, got {self.private!r}")
        object.__setattr__(self, "private", tuple(self.private))  # lists have no hash

    def init(self, params: Params) -> Payload:
        self._private_names(params)  # refuse unknown layers before round 1
        return {"model": params}

    def send(self, state: Payload) -> Payload:
        kept = self._private_names(state["model"])
        return {"model": {n: t for n, t in state["model"].items() if n not in kept}}

    def start(self, sent: Payload, initial: Params) -> Payload:
        return {"head": {n: t for n, t in initial.items() if n not in sent["model"]}}

    def local(self, sent: Payload, memory: Payload, work: Work) -> tuple[Payload, Payload]:
        shared, head = sent["model"], memory["head"]
        end = work.descend(shared | head)
        upload = {"model": {n: end[n] - t for n, t in shared.items()}}
        return upload, {"head": {n: end[n] for n in head}}

    def merge(self, state: Payload, mean: Payload, share: float) -> Payload:
        return {"model": state["model"] | tree.add(mean["model"], state["model"])}

    def personal(self, sent: Payload, memory: Payload) -> Params:
        return sent["model"] | memory["head"]

    def _private_names(self, names: Iterable[str]) -> set[str]:
        """The names of the parameters that stay at home."""
        names = list(names)
        layers = {n.rpartition(".")[0] for n in names}
        ends = {"first": names[0], "last": names[-1]}
        kept: set[str] = set()
        for named in self.private or ("last",):
            end = ends.get(named)
            layer = named if end is None else end.rpartition(".")[0] or end
            found = {n for n in names if n == layer or n.startswith(f"{layer}.")}
            if not found:
                raise ConfigError(f"FedPer: {unknown('layer', layer, layers)}")
            kept |= found
        if len(kept) == len(names):
            raise ConfigError("FedPer: every layer would be private, nothing is left to share")
        return kept
