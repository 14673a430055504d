"""Why a bundle answers as it does: rules, formulas, trust and scope, row by row."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from ..answers.axis import find_favoured
from ..kernel.schema import Schema
from ..knowledge import Knowledge
from ..knowledge.missing import evaluate_once, hear, hide_others
from ..knowledge.rowtrust import trust_reasons
from ..knowledge.shapes.shape import shape_reasons
from ..knowledge.sources.kind import Reasons
from ..knowledge.sources.reasons import (
    favoured_words,
    forbidden_words,
    missing_reasons,
    reasons_of,
)
from ..models.answers import BOTH, EXPERT, RANGE, Answers
from ..models.attribution import input_effects, name_effects, usual_row
from ..models.ensemble import Ensemble
from ..words import Reason
from .ensemble import member_weights
from .header import Bundle
from .predict import answer_rows, shape_rows

_FAULT = "predict"  # the code of errors raised here


def reasons(bundle: Bundle, x: Tensor, answers: Answers | None = None) -> list[list[str]]:
    """Why each row is answered so, in words: what limited it, who decided, what is out of scope.

    Where there are no answers yet, `answer_with_reasons` evaluates the knowledge once for both.
    """
    found = answer_with_reasons(bundle, x)[1] if answers is None else explain(bundle, x, answers)
    return [[one.text for one in some] for some in found]


def answer_with_reasons(bundle: Bundle, x: Tensor) -> tuple[Answers, Reasons]:
    """Answers for rows in raw units, and why they are so; each table is evaluated once."""
    answers, why = [], []
    chunk = bundle.personal.chunk
    for start in range(0, max(len(x), 1), chunk):
        part = x[start : start + chunk]
        with evaluate_once():
            answers.append(answer_rows(bundle, part))
            why += explain(bundle, part, answers[-1])
    return Answers.join(answers), why


@torch.no_grad()
def explain(bundle: Bundle, x: Tensor, found: Answers) -> Reasons:
    """What limited each row, who decided, and what lies out of scope, as values."""
    raw = shape_rows(bundle, x)
    rows = hide_others(raw, bundle.schema)
    personal = bundle.personal
    known = personal.knowledge
    us = "network" if personal.ensemble is None else "ensemble"
    prediction, limits = known.answers.asked
    forbidden = forbidden_words(known, rows)
    parts = [
        reasons_of(known.range, rows, limits),
        reasons_of(known.prediction, rows, prediction),
        _conflicts(known, forbidden),
        _decided(found, bundle.schema, known, rows, us, forbidden),
        _say_trust(found, known, personal.reliance, rows),
    ]
    if personal.ensemble is not None:
        parts.append(_say_opinions(found, bundle))
        parts.append(_say_members(found, personal.ensemble))
    if rows.ndim == 2:
        parts.append(missing_reasons((known.range, known.prediction), rows, bundle.schema))
    if known.shapes is not None:
        parts.append(shape_reasons(known, rows, found.in_scope))
    parts.append(_scope(bundle.schema, raw.flatten(1)))
    return [list(chain.from_iterable(some)) for some in zip(*parts, strict=True)]


_SHOWN = 3  # inputs that are named
_MOST_ASKED = 100_000  # rows times inputs: each input costs one more evaluation of all rows


def moved_by(bundle: Bundle, x: Tensor, found: Answers) -> Reasons:
    """The inputs that moved each answer most; nothing where there are very many rows."""
    rows = shape_rows(bundle, x)
    if rows.ndim != 2 or not 0 < rows.numel() <= _MOST_ASKED:
        return [[] for _ in range(len(x))]
    personal = bundle.personal
    usual = usual_row(personal.inner.scaler, rows, bundle.schema)
    answered: tuple[Tensor, Tensor | None] = (found.predicted, None)
    if personal.knowledge.line is None:
        likely = found.probabilities.gather(1, found.predicted.unsqueeze(1)).squeeze(1)
        answered = likely, found.predicted
    effects = input_effects(personal, rows, usual, answered)
    least = 1e-3 if personal.knowledge.line is None else 1e-9
    named = name_effects(effects, bundle.schema)
    large = (dict([(k, v) for k, v in one.items() if abs(v) >= least][:_SHOWN]) for one in named)
    return [[Reason("inputs", {"effects": one})] if one else [] for one in large]


_FORBIDDEN = {"restrict": "forbidden-part", "project": "forbidden-moved"}


def _conflicts(known: Knowledge, outcomes: Sequence[str]) -> Reasons:
    """Where the expert said something that the range forbids."""
    kind = _FORBIDDEN.get(known.conflict, "forbidden")
    made = {text: Reason(kind, {"outcome": text}) for text in {*outcomes} - {""}}
    return [[made[text]] if text else [] for text in outcomes]


def _name_expert(
    found: Answers, known: Knowledge, x: Tensor, schema: Schema, forbidden: Sequence[str]
) -> list[str]:
    """What the expert says of each row: several classes where he holds them equally likely."""
    names = [*schema.classes, ""]
    said = [names[place] for place in found.expert.tolist()]
    unnamed = found.silent.nonzero().flatten().tolist()
    if known.prediction is None or not unnamed:
        return said
    favoured = find_favoured(hear(known.prediction, x)[unnamed])
    for row, words in zip(unnamed, favoured_words(favoured, schema.classes), strict=True):
        said[row] = "" if forbidden[row] else words
    return said


def _decided(
    found: Answers,
    schema: Schema,
    known: Knowledge,
    x: Tensor,
    us: str,
    forbidden: Sequence[str],
) -> Reasons:
    """Who decided each row, and between what."""
    columns = [found.decided, found.trust, found.predicted, found.expert]
    if found.low is not None and found.high is not None:
        columns += [found.low, found.high]
    each = list(zip(*(column.tolist() for column in columns), strict=True))
    if known.line is None:  # what is said, and not its place; many rows are decided alike
        own = _name_expert(found, known, x, schema, forbidden)
        each = [(*one, said) for one, said in zip(each, own, strict=True)]
    silent, made = known.prediction is None, {}
    for one in set(each):
        d, λ, p, e, *rest = one
        args = {"answer": p, "expert": e, "trust": λ, "model": us}
        if known.line is None:
            args |= {"answer": schema.classes[p], "expert": rest[0]}
            kind = _class_kind(d, silent, agree=p == e, tied=e < 0, heard=bool(rest[0]), trust=λ)
        else:
            args |= {"low": rest[0], "high": rest[1]}
            kind = _NUMBER_KINDS.get(d, "model-number")
        made[one] = Reason(kind, args)
    return [[made[one]] for one in each]


_NUMBER_KINDS = {RANGE: "only-number", EXPERT: "expert-number", BOTH: "mixed-number"}


def _class_kind(
    decided: int, silent: bool, *, agree: bool, tied: bool, heard: bool, trust: float
) -> str:
    if decided == RANGE:
        return "only-class"
    if decided == EXPERT:
        return "expert-tied" if tied else "expert-outweighs"
    if decided == BOTH:
        return "both-say" if agree else "both-favour"
    if silent:
        return "no-expert"
    if not heard:
        return "expert-silent"
    return "expert-unheard" if trust == 0 else "model-outweighs"


def _say_trust(found: Answers, known: Knowledge, constant: float, x: Tensor) -> Reasons:
    """Why the expert's word counted so much in each row, where λ is not one number."""
    unheard = (found.silent & (found.trust == 0)).tolist()  # one who names several is heard
    whose = zip(trust_reasons(known, x, constant), unheard, strict=True)
    return [[one] if one and not quiet else [] for one, quiet in whose]


def _say_members(found: Answers, ensemble: Ensemble) -> Reasons:
    """Who spoke in each row with which weight; of a silent expert the others share the part."""
    trusts = found.trust.tolist()
    # the weight itself, not what single precision made of it
    own = {λ: ensemble.expert if abs(λ - ensemble.expert) < 1e-7 else λ for λ in set(trusts)}
    shares = {λ: member_weights(ensemble, expert=weight) for λ, weight in own.items()}
    said = {λ: Reason("members", {"shares": one}) for λ, one in shares.items()}
    return [[said[λ]] for λ in trusts]


_SHARED = ("network", "one_shot")  # members that all sites made together


def _say_opinions(found: Answers, bundle: Bundle) -> Reasons:
    """Who of the ensemble says what by itself, where the range leaves a choice."""
    ensemble, classes = bundle.personal.ensemble, bundle.schema.classes
    assert ensemble is not None
    if found.opinions is None:  # there are no rows
        return []
    names = [name for name in member_weights(ensemble, expert=0.0) if name != "expert"]
    weights = (ensemble.network, *ensemble.weights)
    said = found.opinions.tolist()
    kind = "opinions" if bundle.task == "classification" else "opinions-number"
    made: dict[tuple[float, ...], Reason] = {}
    for row in {tuple(row) for row in said}:
        named = [classes[int(one)] for one in row] if kind == "opinions" else list(row)
        heard = [(n, o) for n, o, w in zip(names, named, weights, strict=True) if w > 0]
        own = [opinion for name, opinion in heard if name not in _SHARED]
        shared = {name: opinion for name, opinion in heard if name in _SHARED}
        made[row] = Reason(kind, {"all": len(own), "shared": shared, **_sum_up(own)})
    chosen = zip(said, found.decided.tolist(), strict=True)
    return [[made[tuple(row)]] if decided != RANGE else [] for row, decided in chosen]


def _sum_up(own: Sequence[Any]) -> dict[str, Any]:
    """Answers and how many models give each, the commonest first; of numbers both ends."""
    if not own or isinstance(own[0], str):
        return {"own": Counter(own).most_common()}
    low, high = f"{min(own):.4g}", f"{max(own):.4g}"
    return {"low": low, "high": "" if high == low else high}


def _scope(schema: Schema, x: Tensor) -> Reasons:
    lines: Reasons = [[] for _ in range(len(x))]
    for column, feature in enumerate(schema.features):
        values = x[:, column]
        if feature.levels:
            for row in (values >= len(feature.levels)).nonzero().flatten().tolist():
                lines[row].append(Reason("scope-level", {"feature": feature.name}))
            continue
        for row in ((values < feature.low) | (values > feature.high)).nonzero().flatten().tolist():
            args = {"feature": feature.name, "unit": feature.unit, "value": float(values[row])}
            bounds = {"low": feature.low, "high": feature.high}
            lines[row].append(Reason("scope-number", args | bounds))
    return lines
