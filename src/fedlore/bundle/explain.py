"""Why a bundle answers as it does: rules, formulas, trust and scope, row by row."""

import torch
from torch import Tensor

from ..kernel.schema import Schema
from ..knowledge import Knowledge
from ..knowledge.door import hide_others
from ..knowledge.missing import allow, hear
from ..knowledge.shapes.shape import shape_reasons
from ..knowledge.soft import has_soft
from ..knowledge.sources.kind import Reasons
from ..knowledge.sources.unapplied import missing_reasons
from ..knowledge.sources.words import reasons_of
from ..personal.answers import BOTH, EXPERT, RANGE, Answers
from ..personal.beside import AnyBeside
from ..personal.classifier import Personal
from ..words import Reason
from .ensemble import member_weights
from .header import Bundle
from .predict import answer_rows, shape_rows

_FAULT = "predict"  # the code of errors raised here


def reasons(bundle: Bundle, x: Tensor, answers: Answers | None = None) -> list[list[str]]:
    """Why each row is answered so, in words: what limited it, who decided, what is out of scope.

    `answers` saves computing them again where they are there already.
    """
    return [list(map(str, some)) for some in explain_rows(bundle, x, answers)]


@torch.no_grad()
def explain_rows(bundle: Bundle, x: Tensor, answers: Answers | None = None) -> Reasons:
    """The same as values."""
    found = answer_rows(bundle, x) if answers is None else answers
    raw = shape_rows(bundle, x)
    rows = hide_others(raw, bundle.schema)
    personal = bundle.personal
    lines: Reasons = [[] for _ in range(len(rows))]
    if isinstance(personal, Personal):
        known = personal.knowledge
        _add(lines, reasons_of(known.range, rows, "range"))
        _add(lines, reasons_of(known.prediction, rows, "prediction"))
        _add(lines, _explain_silence(known, rows, bundle.schema))
        us = "network" if personal.beside is None else "mixture"
        _add(lines, _say_decision(found, bundle.schema, known, rows, us))
    else:
        _add(lines, reasons_of(personal.knowledge.range, rows, "set"))
        _add(lines, reasons_of(personal.knowledge.prediction, rows, "number"))
        _add(lines, _numbers_decided(found, "network" if personal.beside is None else "mixture"))
    _add(lines, _say_trust(found, personal.knowledge, personal.reliance, rows))
    if personal.beside is not None:
        _add(lines, _say_members(found, personal.beside))
    if rows.ndim == 2:
        both = (personal.knowledge.range, personal.knowledge.prediction)
        _add(lines, missing_reasons(both, rows, bundle.schema))
    if personal.knowledge.shapes is not None:
        _add(lines, shape_reasons(personal.knowledge, rows, found.in_scope))
    _add(lines, _scope(bundle.schema, raw.flatten(1)))
    return lines


def _add(lines: Reasons, more: Reasons) -> None:
    for line, some in zip(lines, more, strict=True):
        line += some


def _explain_silence(known: Knowledge, x: Tensor, schema: Schema) -> Reasons:
    """Where the expert said something that the range forbids."""
    lines: Reasons = [[] for _ in range(len(x))]
    if known.prediction is None or known.range is None or not len(x):
        return lines
    prior, allowed = hear(known.prediction, x), allow(known.range, x).bool()
    outside = (prior > 0) & ~allowed
    for row in outside.any(1).nonzero().flatten().tolist():
        names = ", ".join(schema.classes[c] for c in outside[row].nonzero().flatten().tolist())
        kind = "forbidden-part" if known.conflict == "restrict" else "forbidden"
        lines[row].append(Reason(kind, {"outcome": names}))
    return lines


def _favoured(known: Knowledge, x: Tensor, schema: Schema) -> list[str]:
    """What the expert holds to be most likely in each row: several classes where they are equal."""
    if not has_soft(known.prediction):
        return []
    prior = hear(known.prediction, x)
    top = prior >= prior.amax(1, keepdim=True) - 1e-6
    return [" or ".join(schema.classes[c] for c in row.nonzero().flatten()) for row in top]


def _say_decision(found: Answers, schema: Schema, known: Knowledge, x: Tensor, us: str) -> Reasons:
    classes = schema.classes
    names = (found.predicted.tolist(), found.expert.tolist(), found.decided.tolist())
    said = _favoured(known, x, schema) or [classes[e] for e in names[1]]
    lines: Reasons = []
    for p, e, d, λ, own in zip(*names, found.trust.tolist(), said, strict=True):
        if d == RANGE:
            kind = "only-class"
        elif d == EXPERT:
            kind = "expert-outweighs"
        elif d == BOTH:
            kind = "both-say" if p == e else "both-favour"
        elif known.prediction is None:
            kind = "no-expert"
        elif e < 0:
            kind = "expert-silent"
        else:
            kind = "expert-unheard" if λ == 0 else "model-outweighs"
        args = {"answer": classes[p], "expert": own, "trust": λ, "model": us}
        lines.append([Reason(kind, args)])
    return lines


_NUMBER_KINDS = {RANGE: "only-number", EXPERT: "expert-number", BOTH: "mixed-number"}


def _numbers_decided(found: Answers, us: str) -> Reasons:
    assert found.low is not None and found.high is not None  # of a number
    lines: Reasons = []
    for p, e, d, λ, low, high in zip(
        found.predicted.tolist(),
        found.expert.tolist(),
        found.decided.tolist(),
        found.trust.tolist(),
        found.low.tolist(),
        found.high.tolist(),
        strict=True,
    ):
        args = {"answer": p, "expert": e, "trust": λ, "model": us, "low": low, "high": high}
        lines.append([Reason(_NUMBER_KINDS.get(d, "model-number"), args)])
    return lines


def _say_trust(found: Answers, known: Knowledge, constant: float, x: Tensor) -> Reasons:
    """Why the expert's word counted so much in each row, where λ is not one number."""
    if known.row_trust is None or not len(x):
        return [[] for _ in range(len(x))]
    silent = found.expert < 0 if found.low is None else found.expert.isnan()
    whose = zip(known.row_trust.reasons(x, constant), silent.tolist(), strict=True)
    return [[one] if one and not quiet else [] for one, quiet in whose]


def _say_members(found: Answers, beside: AnyBeside) -> Reasons:
    """Who spoke in each row with which weight; of a silent expert the others share the part."""
    trusts = found.trust.tolist()
    # the weight itself, not what single precision made of it
    own = {λ: beside.expert if abs(λ - beside.expert) < 1e-7 else λ for λ in set(trusts)}
    shares = {λ: member_weights(beside, expert=weight) for λ, weight in own.items()}
    said = {λ: Reason("members", {"shares": one}) for λ, one in shares.items()}
    return [[said[λ]] for λ in trusts]


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
