"""Clients whose labels are numbers, and the door where they become clients of classes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from ..core.nets import server
from ..errors import ConfigError, FedloreError
from ..knowledge import Knowledge
from ..knowledge.numbers.bins import Bins
from ..knowledge.numbers.measured import Measured
from ..knowledge.numbers.numbers import Numbers
from ..knowledge.numbers.scores import all_scores
from ..knowledge.numbers.told import HEARD, Told
from ..personal.regressor import decoded
from .client import Client


@dataclass(frozen=True, eq=False)
class NumberClient:
    """One site with measured numbers in raw units, and what its expert knows about them.

    With `injected` off the knowledge only measures violations; training and prediction do not
    see it.
    """

    id: str
    data: Measured
    knowledge: Numbers = field(default_factory=Numbers)
    test: Measured | None = None
    injected: bool = True

    def bare(self) -> "NumberClient":
        """The same client without its knowledge in training or prediction."""
        return replace(self, injected=False)

    def lift(self, bins: Bins, *, ordinal: float = 0.0, hears: bool = False) -> Client:
        """The client as the loop knows it: numbers and sets turned into classes, once."""
        known = self.knowledge
        try:
            told = known.examine(self.data, bins)
            test = None if self.test is None else known.examine(self.test, bins, training=False)
            return Client(
                self.id,
                self._seen(told).examples(ordinal=ordinal, hears=hears),
                Knowledge(
                    trust=known.trust,
                    rely=known.rely,
                    outside="widen" if known.outside == "widen" else "error",
                ),
                test=None if test is None else self._seen(test).examples(hears=hears),
                injected=self.injected,
                measure=None if test is None else _Scores(test, known.reliance, self.injected),
                told=HEARD if hears else 0,
            )
        except FedloreError as error:
            raise type(error)(f"client '{self.id}': {error}") from None

    def _seen(self, told: Told) -> Told:
        """What training and prediction may see of the knowledge."""
        return told if self.injected else replace(told, said=None, sets=None)


@dataclass(frozen=True, eq=False)
class _Scores:
    """Scores of a network's logits on one site's test rows, after decoding."""

    told: Told
    reliance: float
    injected: bool

    def __call__(self, logits: Tensor) -> dict[str, float]:
        told = self.told
        if told.y is None:
            return {}
        seen = told if self.injected else replace(told, said=None, sets=None)
        predicted = decoded(logits, seen, self.reliance).mean()
        return all_scores(predicted, told.y, told.sets)


def at_the_door(
    clients: Sequence[Client] | Sequence[NumberClient],
    task: str,
    bins: Bins | None,
    ordinal: float,
    hears: bool,
    model: nn.Module,
) -> list[Client]:
    """The clients as the loop wants them, or an error if they do not fit the task."""
    if task not in ("classification", "regression"):
        raise ConfigError(f"task must be classification or regression, got '{task}'")
    wanted = NumberClient if task == "regression" else Client
    for client in clients:
        if not isinstance(client, wanted):
            raise ConfigError(
                f"{task} needs clients of type {wanted.__name__}: '{client.id}' is a "
                f"{type(client).__name__}"
            )
    if task == "classification":
        if bins is not None or ordinal or hears:
            raise ConfigError("bins, ordinal and hears belong to task = regression")
        return [client for client in clients if isinstance(client, Client)]
    if bins is None:
        raise ConfigError("regression needs bins, the federation's declared bounds and edges")
    if not 0.0 <= ordinal < float("inf"):
        raise ConfigError(f"ordinal must not be negative, got {ordinal}")
    lifted = [
        c.lift(bins, ordinal=ordinal, hears=hears) for c in clients if isinstance(c, NumberClient)
    ]
    for client in lifted[:1]:
        _check_outputs(server(model), client, bins)
    return lifted


@torch.no_grad()
def _check_outputs(model: nn.Module, client: Client, bins: Bins) -> None:
    """Refuse a model with another number of outputs than there are bins, before it is trained."""
    one = client.data[:1].to(next(model.parameters()).device)
    x = one.x.to(next(model.parameters()).dtype)
    try:
        outputs = model(x, one.prior, one.allowed).shape[1]
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"the model cannot be called on rows of {x.shape[1]} inputs (of which {client.told} "
            f"are what the expert says): {reason}"
        ) from None
    if outputs != bins.k:
        raise ConfigError(f"the model has {outputs} outputs, there are {bins.k} bins")
