"""SCAFFOLD: control variates against client drift.

Karimireddy et al. (2020), SCAFFOLD: Stochastic Controlled Averaging for Federated Learning,
Algorithm 1 with option II.
"""

from dataclasses import dataclass
from typing import ClassVar

from ..core import tree
from ..core.tree import Params, Payload
from .base import Facts, Work, check_settings, inverse, setting


@dataclass(frozen=True)
class Scaffold:
    """Each client corrects its gradients by c - c_i, the mean control less its own.

    A client's control is the mean gradient along its last path: the way it went, divided by the
    sum of its step sizes. That sum counts momentum and may differ by client, where the paper's
    K·η does neither. Weight decay is part of the gradient, hence of the control.
    """

    lr: float = setting(1.0, "η_g", "step size of the server")

    facts: ClassVar[Facts] = Facts(
        "Karimireddy et al. 2020, SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
        down=2,
        up=2,
        note="model and control",
        memory=True,
        mean=True,
    )
    uploads: ClassVar[tuple[str, ...]] = ("model", "control")

    def __post_init__(self) -> None:
        check_settings(self)

    def init(self, params: Params) -> Payload:
        return {"model": params, "control": tree.zeros(params)}  # x, c

    def send(self, state: Payload) -> Payload:
        return state

    def start(self, sent: Payload, initial: Params) -> Payload:
        return {"control": tree.zeros(initial)}  # c_i

    def local(self, sent: Payload, memory: Payload, work: Work) -> tuple[Payload, Payload]:
        start, common, own = sent["model"], sent["control"], memory["control"]
        end = work.descend(start, shift=tree.sub(common, own))
        # c_i+ - c_i = (start - end) / reach - c, written so that no step means no change
        way = tree.axpy(work.reach, common, tree.sub(end, start))
        change = tree.scale(way, -inverse(work.reach))
        upload = {"model": tree.sub(end, start), "control": change}
        return upload, {"control": tree.add(own, change)}

    def merge(self, state: Payload, mean: Payload, share: float) -> Payload:
        return {
            "model": tree.axpy(self.lr, mean["model"], state["model"]),
            "control": tree.axpy(share, mean["control"], state["control"]),  # share = |S| / M
        }

    def personal(self, sent: Payload, memory: Payload) -> Params:
        return sent["model"]
