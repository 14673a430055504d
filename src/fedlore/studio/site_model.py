"""What the site's model says of a row, and would say under other rules or another λ."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..answers import Measured
from ..bundle import Bundle, read_bundle
from ..bundle.serve.answer import Answerer, NoAnswer, in_words
from ..core.examples import Examples
from ..errors import FedloreError
from ..knowledge import Knowledge
from ..knowledge.findings.checkup import Checkup
from ..models.ensemble import with_expert
from .answers import ClassAnswers, NumberAnswers, answer_draft, usable


class SiteBundle:
    """A bundle, opened when it is first asked."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._answering: Answerer | None = None

    def bundle(self) -> Bundle:
        """The bundle itself, or a sentence why there is none."""
        if self._path is None:
            raise FedloreError("there is no model in this folder: put its .lore file here")
        return self._open(self._path).bundle

    def _open(self, path: Path) -> Answerer:
        if self._answering is None:
            self._answering = Answerer.of(read_bundle(path))
        return self._answering

    def say(self, x: Tensor, checkup: Checkup) -> dict[str, Any] | None:
        """The bundle's own answer to a row, with the rules that it was made with."""
        if self._path is None:
            return None
        try:
            answering = self._open(self._path)
            schema = answering.bundle.schema
            known = checkup.knowledge
            if known is None or known.schema is None or schema.names != known.schema.names:
                raise FedloreError("the model has other features than the draft")
            return {**in_words(answering(x.double())[0][0]), "name": self._path.name}
        except (FedloreError, NoAnswer) as error:
            return {"name": self._path.name, "fault": str(error)}


TRUSTS = tuple(i / 20 for i in range(21))
MOST_ROWS = 5_000  # looked at, the first ones
MOVES_SHOWN = 20  # one by one


@torch.no_grad()
def draw_trust(bundle: Bundle, checkup: Checkup, rows: Examples | Measured) -> dict[str, Any]:
    """The score of the site's model behind the draft's rules over λ: accuracy, of a number RMSE."""
    known, _ = usable(checkup)
    assert rows.y is not None
    x, y = rows.x[:MOST_ROWS], rows.y[:MOST_ROWS]
    good = ~answer_draft(checkup, x).refused
    if not good.any():
        raise FedloreError(
            "the rules contradict each other on every row: there is nothing to score"
        )
    x, y = x[good], y[good]
    kind = ClassAnswers if known.line is None else NumberAnswers
    scores = [kind.judge(predict_under(bundle, known, x, trust=t), y) for t in TRUSTS]
    best = max(scores) if kind.score == "accuracy" else min(scores)
    return {
        "trust": list(TRUSTS),
        "scores": scores,
        "score": kind.score,
        "rows": len(x),
        "now": _trust_now(bundle, known),
        "best": TRUSTS[scores.index(best)],  # the least of equals
    }


def _trust_now(bundle: Bundle, known: Knowledge) -> float:
    """λ as the bundle has it behind these rules: in a mixture it is the expert's weight there."""
    ensemble = bundle.personal.ensemble
    if ensemble is None:
        return known.trust_at_prediction
    return max(ensemble.expert, known.least_trust)


def predict_under(
    bundle: Bundle, known: Knowledge, x: Tensor, *, trust: float | None = None
) -> Tensor:
    """The answers of a bundle's model to rows, (n,), seen through other rules, with another λ."""
    personal = bundle.personal
    schema = known.schema
    if schema is None or schema.names != bundle.schema.names:
        raise FedloreError("the model has other features than the draft")
    if schema.classes != bundle.schema.classes:
        raise FedloreError("the model has other answers than the draft")
    if (bundle.task == "regression") != (known.line is not None):
        raise FedloreError("of model and draft one is about a class, the other about a number")
    seen = known if trust is None else replace(known, trust=trust, reliance=None)
    model = personal.with_knowledge(seen).eval()
    if model.ensemble is not None:
        weight = _trust_now(bundle, known) if trust is None else trust
        if weight != model.ensemble.expert:
            model = model.with_ensemble(with_expert(model.ensemble, weight))
    return model.predict(x)


@torch.no_grad()
def list_moves(bundle: Bundle, old: Checkup, new: Checkup, rows: Tensor) -> dict[str, Any]:
    """Which predictions of the site's model move on its rows from one version to the other.

    Each version is heard with its own λ; rows that either of them contradicts are left out.
    """
    x = rows[:MOST_ROWS]
    heard = answer_draft(old, x)
    places = (~heard.refused & ~answer_draft(new, x).refused).nonzero().flatten()
    one, two = (predict_under(bundle, usable(known)[0], x[places]) for known in (old, new))
    moved = heard.apart(one, two).nonzero().flatten().tolist()
    shown = [
        {
            "line": int(places[i]) + 2,
            "before": heard.name(float(one[i])),
            "after": heard.name(float(two[i])),
        }
        for i in moved[:MOVES_SHOWN]
    ]
    return {"all": len(places), "moved": len(moved), "rows": shown}
