"""A client at work: its rows made ready for one recipe, its scores, and what it remembers."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from ..core.examples import Examples
from ..core.inject import Lesson, fill_trust, guard, inject, teach
from ..core.lipschitz import lay_shapes
from ..core.scaler import Scaler
from ..core.tree import Payload
from ..errors import FedloreError
from ..knowledge.shapes.shape import refuse_bends
from ..knowledge.shapes.turns import refuse_estimated
from ..models.client import Client, Member, score_rows


@dataclass(frozen=True, eq=False)
class Site:
    """A client made ready for one recipe: scaled tensors, no knowledge models."""

    client: Client
    lesson: Lesson
    test: Examples | None

    @property
    def id(self) -> str:
        return self.client.id


def ready(client: Client, model: nn.Module, scaler: Scaler | None) -> Site:
    """Check a client against the server model and turn its rows into what training reads."""
    client = client.encode(scaler)
    try:
        data = see_rows(client.injected, client.data, scaler, model)
        test = (
            None if client.test is None else see_rows(client.injected, client.test, scaler, model)
        )
        with torch.no_grad():
            classes = model(data.x[:1], _first(data.prior), _first(data.allowed)).shape[1]
        for part in (client.data, client.test):
            if part is not None:
                check_rows(part, classes)
        lesson = lesson_of(client, data, classes, model)
    except FedloreError as error:
        raise type(error)(f"client '{client.id}': {error}") from None
    return Site(client, lesson, test)


def check_shapes(member: Member[Any], *, noisy: bool) -> None:
    """Refuse shapes that no network keeps by itself, or that noise on its gradients cannot hide."""
    shapes = member.knowledge.shapes if member.injected else None
    try:
        if shapes is not None:
            refuse_bends(shapes)
        if shapes is not None and noisy:
            refuse_estimated(shapes)
    except FedloreError as error:
        raise type(error)(f"client '{member.id}': {error}") from None


def lesson_of(client: Client, data: Examples, classes: int, model: nn.Module) -> Lesson:
    """Scaled rows as this client, and every other of its kind, learns from them."""
    if not client.injected:
        return teach(replace(data, prior=None, allowed=None), classes)
    known = client.knowledge
    return teach(
        data,
        classes,
        trust=known.trust,
        outside=known.outside,
        heard=getattr(model, "hears", True),
        floor=known.floor,
    )


@torch.no_grad()
def score(site: Site, model: nn.Module) -> dict[str, float]:
    """TA, POV and negative log-likelihood of the model on the site's own test rows.

    A client with a measure of its own is scored by that: numbers have an RMSE, not a TA.
    """
    test = site.test
    if test is None or test.y is None:
        return {}
    if site.client.measure is not None:
        heard = (test.prior, test.allowed) if site.client.injected else (None, None)
        return site.client.measure(guard(model(test.x, *heard)))
    if site.client.injected:
        logits = guard(model(test.x, test.prior, test.allowed))
        trust = fill_trust(test.trust, site.client.knowledge.trust_at_prediction)
        return score_rows(inject(logits, test.prior, test.allowed, trust), test, test)
    return score_rows(guard(model(test.x)).log_softmax(1), Examples(test.x), test)


def see_rows(injected: bool, data: Examples, scaler: Scaler | None, model: nn.Module) -> Examples:
    """A client's rows as the network takes them, with its shapes where it has and uses some."""
    like = next(model.parameters())
    scaled = scale_rows(data, scaler, like)
    if injected:
        return lay_shapes(model, scaled, scaler)
    bare = lay_shapes(model, replace(scaled, prior=None, allowed=None, signs=None), scaler)
    return replace(scaled, x=bare.x, signs=None)


def scale_rows(data: Examples, scaler: Scaler | None, like: torch.Tensor) -> Examples:
    """Rows as the network takes them: scaled, in its precision and on its device."""
    x = data.x if scaler is None else scaler(data.x)
    return replace(data, x=x.to(like.dtype)).to(like.device)


def _first(rows: torch.Tensor | None) -> torch.Tensor | None:
    return None if rows is None else rows[:1]


def check_rows(data: Examples, classes: int) -> None:
    """Refuse labels and knowledge of other classes than the network has."""
    data.check(classes)
    for who, rows in (("P-KM", data.prior), ("R-KM", data.allowed), ("target", data.target)):
        if rows is not None and rows.shape[1] != classes:
            raise FedloreError(
                f"the {who} knows {rows.shape[1]} classes, the server model {classes}"
            )


@dataclass(frozen=True)
class Memory:
    """Two versions: before the last round answered and after it.

    SCAFFOLD and Scaffnew break when a site remembers a round that the server dropped. So each
    task names the last accepted round, and that decides which version counts.
    """

    round: int = 0  # the last round answered
    before: Payload = field(default_factory=dict)
    after: Payload = field(default_factory=dict)

    def settle(self, accepted: int) -> Payload:
        """The version that the server knows of."""
        return self.after if accepted >= self.round else self.before
