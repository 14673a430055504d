"""FedOpt: the mean difference as a gradient for an optimizer at the server.

Reddi et al. (2021), Adaptive Federated Optimization, Algorithm 2; momentum: Hsu et al. (2019).
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from ..core import tree
from ..core.tree import Params, Payload
from ..errors import ConfigError
from .base import Facts, Work, check_settings, choice, setting

_Kind = Literal["momentum", "adagrad", "adam", "yogi"]


@dataclass(frozen=True)
class FedOpt:
    """FedAvg whose server steps along the mean difference with an optimizer of its own.

    The moments live at the server and never travel. They start at 0 and are corrected for
    that as in torch's Adam, which `adam` equals; the paper starts them at τ² instead.
    """

    kind: _Kind = choice("adam", ", ".join(get_args(_Kind)))
    lr: float = setting(0.03, "η", "step size of the server; with momentum 1 is usual")
    beta1: float = setting(0.9, "β1", "memory of the first moment (not adagrad)", "[0, 1)")
    beta2: float = setting(0.99, "β2", "memory of the second moment (adam, yogi)", "[0, 1)")
    tau: float = setting(1e-3, "τ", "added to the second moment's root (not momentum)", "(0, inf)")

    facts: ClassVar[Facts] = Facts("Reddi et al. 2021, Adaptive Federated Optimization")
    uploads: ClassVar[tuple[str, ...]] = ("model",)

    def __post_init__(self) -> None:
        if self.kind not in get_args(_Kind):
            raise ConfigError(
                f"FedOpt: kind must be {', '.join(get_args(_Kind))}, got '{self.kind}'"
            )
        check_settings(self)

    def init(self, params: Params) -> Payload:
        blank = tree.zeros(params)
        some = next(iter(params.values()))
        merged = some.new_zeros((), dtype=torch.float64)
        return {"model": params, "first": blank, "second": blank, "count": {"merged": merged}}

    def send(self, state: Payload) -> Payload:
        return {"model": state["model"]}

    def start(self, sent: Payload, initial: Params) -> Payload:
        return {}

    def local(self, sent: Payload, memory: Payload, work: Work) -> tuple[Payload, Payload]:
        return {"model": tree.sub(work.descend(sent["model"]), sent["model"])}, {}

    def merge(self, state: Payload, mean: Payload, share: float) -> Payload:
        count = state["count"]["merged"] + 1  # t
        step = mean["model"]  # Δ: minus the pseudo-gradient
        if self.kind == "momentum":
            first = tree.axpy(self.beta1, state["first"], step)
            moved, second = first, state["second"]
        else:
            second = {n: self._second(state["second"][n], d.square()) for n, d in step.items()}
            first = step
            if self.kind != "adagrad":
                kept = tree.scale(state["first"], self.beta1)
                first = tree.axpy(1 - self.beta1, step, kept)
            moved = {n: self._scale(m, second[n], count) for n, m in first.items()}
        model = tree.axpy(self.lr, moved, state["model"])
        return {"model": model, "first": first, "second": second, "count": {"merged": count}}

    def personal(self, sent: Payload, memory: Payload) -> Params:
        return sent["model"]

    def _second(self, v: Tensor, square: Tensor) -> Tensor:
        if self.kind == "adagrad":
            return v + square
        if self.kind == "adam":
            return self.beta2 * v + (1 - self.beta2) * square
        return v - (1 - self.beta2) * square * torch.sign(v - square)

    def _scale(self, m: Tensor, v: Tensor, count: Tensor) -> Tensor:
        if self.kind == "adagrad":
            return m / (v.sqrt() + self.tau)
        small, large = 1 - self.beta1**count, 1 - self.beta2**count  # bias corrections
        return m / small / ((v / large).sqrt() + self.tau)
