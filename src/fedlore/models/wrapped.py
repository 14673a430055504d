"""Any network of a plain PyTorch program, with what an expert knows between it and its loss."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..answers import Measured
from ..core.examples import Examples
from ..core.inject import fill_trust, guard, inject, teach
from ..core.metrics import decide
from ..errors import FedloreError
from ..knowledge import Knowledge
from ..knowledge.missing import check_values
from .classifier import admit_shapes
from .regressor import decode_logits

_FAULT = "knowledge"  # the code of errors raised here

Change = Callable[[Tensor], Tensor]


def with_knowledge(
    net: nn.Module, knowledge: Knowledge, *, raw: Change | None = None
) -> "KnowingNet":
    """A network that gives logits, seen through knowledge: its loss and its answers go through T.

    Called on a batch it gives log-probabilities (n, k), for which `torch.nn.CrossEntropyLoss` is
    the paper's loss: no other line of a training changes. Outside the range they are -inf. Its
    state_dict is the network's own, so knowledge never travels with the weights. For numbers the
    network has one output per bin of the knowledge.

    Where batches come scaled, `raw` gives back the rows that the knowledge speaks of.

    >>> from fedlore import Knowledge
    >>> said = torch.tensor([[True, False, True]])
    >>> known = Knowledge(range=lambda x: said.expand(len(x), 3))
    >>> net = with_knowledge(torch.nn.Linear(2, 3), known)
    >>> net(torch.zeros(1, 2)).exp()[:, 1].item()
    0.0
    """
    return KnowingNet(net, knowledge, raw)


class KnowingNet(nn.Module):
    """What `with_knowledge` makes: λ is that of training in training mode, else of prediction."""

    def __init__(self, net: nn.Module, knowledge: Knowledge, raw: Change | None = None) -> None:
        super().__init__()
        for what, value, kind in (("net", net, nn.Module), ("knowledge", knowledge, Knowledge)):
            if not isinstance(value, kind):
                raise FedloreError(
                    f"with_knowledge needs a torch.nn.Module and Knowledge: {what} is of type "
                    f"{type(value).__name__}"
                )
        admit_shapes(net, knowledge, None, None)
        self.net, self.knowledge, self._raw = net, knowledge, raw
        self.register_state_dict_post_hook(_without_wrapper)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_into_wrapper)  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor) -> Tensor:
        """(n, *features) -> (n, k) log-probabilities of the classes, or of the bins of a number."""
        known = _as_classes(self._annotate(x))
        return self._mix(self._logits(x, known), known)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """The mean loss of a batch as `fedlore.fit` has it, up to a constant.

        Beside `CrossEntropyLoss` it follows the knowledge's policy on labels outside their range
        (`outside`), which would else cost infinitely much.
        """
        known = self.knowledge
        if known.outside == "drop":
            rows = self._annotate(x, y)
            _, allowed = known.answers.read(rows)
            if allowed is not None and rows.y is not None:
                kept = ~known.answers.find_outside(allowed, rows.y)
                if not kept.any():
                    raise FedloreError("every label of this batch is outside its range")
                x, y = x[kept], y[kept]
        seen = _as_classes(self._annotate(x, y, training=True))
        logits = self._logits(x, seen)
        seen.check(logits.shape[1])
        outside = "widen" if known.outside == "widen" else "error"
        lesson = teach(
            seen, logits.shape[1], trust=known.trust, outside=outside, floor=known.floor
        ).to(logits.device)
        return lesson.loss(logits).mean()

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """The class of each row, or its number within S(x), (n,)."""
        found = self._annotate(x)
        known = _as_classes(found)
        logits = self._logits(x, known)
        trust = fill_trust(found.trust, self.knowledge.trust_at_prediction)
        if isinstance(found, Measured):  # a number lies within its bin
            return decode_logits(guard(logits), found, trust).middle(ordered=False)
        return decide(inject(guard(logits), known.prior, known.allowed, trust), known.prior)

    def _annotate(
        self, x: Tensor, y: Tensor | None = None, *, training: bool = False
    ) -> Examples | Measured:
        """The rows with what the expert says about them."""
        rows = x if self._raw is None else self._raw(x)
        check_values(rows, self.knowledge.schema)
        if self.knowledge.line is not None:
            return self.knowledge.annotate(Measured(rows, y), training=training)
        return self.knowledge.annotate(Examples(rows, y), training=training)

    def _logits(self, x: Tensor, known: Examples) -> Tensor:
        """What the network alone says of the batch as it came, (n, k)."""
        heard: tuple[Any, ...] = ()
        if getattr(self.net, "hears", False):
            heard = (known.prior, known.allowed)
        logits: Tensor = self.net(x, *heard)
        shape = tuple(getattr(logits, "shape", ()))
        if len(shape) != 2 or shape[0] != len(x):
            found = shape or type(logits).__name__
            raise FedloreError(
                f"the network must give logits of shape ({len(x)}, k) for {len(x)} rows: got "
                f"{found}"
            )
        for rows in (known.prior, known.allowed):
            if rows is not None and rows.shape[1] != logits.shape[1]:
                bins = self.knowledge.line is not None
                raise FedloreError(
                    f"the network has {logits.shape[1]} outputs, the knowledge "
                    f"{rows.shape[1]} {'bins' if bins else 'classes'}: change its last layer"
                )
        return logits

    def _mix(self, logits: Tensor, known: Examples) -> Tensor:
        if self.training:  # not guarded: a loss that diverges shall show
            return inject(logits, known.prior, known.allowed, self.knowledge.trust)
        trust = fill_trust(known.trust, self.knowledge.trust_at_prediction)
        return inject(guard(logits), known.prior, known.allowed, trust)


def _as_classes(rows: Examples | Measured) -> Examples:
    """Numbers as bins; what is about classes is as it was."""
    return rows.examples() if isinstance(rows, Measured) else rows


_INSIDE = "net."  # what torch would put before the names of the network's own weights


def _without_wrapper(
    module: nn.Module, state: dict[str, Any], prefix: str, metadata: dict[str, Any]
) -> None:
    """Weights under the names that they have in the plain network."""
    _rename(state, prefix + _INSIDE, prefix)


def _into_wrapper(module: nn.Module, state: dict[str, Any], prefix: str, *told: Any) -> None:
    """The way back."""
    _rename(state, prefix, prefix + _INSIDE)


def _rename(state: dict[str, Any], before: str, after: str) -> None:
    taken = {name: state.pop(name) for name in list(state) if name.startswith(before)}
    state.update({after + name.removeprefix(before): value for name, value in taken.items()})
