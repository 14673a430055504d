"""Why a bundle answers as it does: rules, formulas, trust and scope, row by row."""

from itertools import chain, compress

import torch
from torch import Tensor

from ..kernel.schema import Schema
from ..knowledge import Knowledge
from ..knowledge.missing import allow, evaluate_once, hear, hide_others
from ..knowledge.shapes.shape import shape_reasons
from ..knowledge.soft import has_soft
from ..knowledge.sources.kind import Reasons
from ..knowledge.sources.reasons import missing_reasons, reasons_of
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
    parts = [
        reasons_of(known.range, rows, limits),
        reasons_of(known.prediction, rows, prediction),
        _conflicts(known, rows, bundle.schema),
        _decided(found, bundle.schema, known, rows, us),
        _say_trust(found, known, personal.reliance, rows),
    ]
    if personal.ensemble is not None:
        parts.append(_say_members(found, personal.ensemble))
    if rows.ndim == 2:
        parts.append(missing_reasons((known.range, known.prediction), rows, bundle.schema))
    if known.shapes is not None:
        parts.append(shape_reasons(known, rows, found.in_scope))
    parts.append(_scope(bundle.schema, raw.flatten(1)))
    return [list(chain.from_iterable(some)) for some in zip(*parts, strict=True)]


_SHOWN = 3  # inputs that are named
_MOST_INPUTS = 100  # each costs one more evaluation of all rows


def moved_by(bundle: Bundle, x: Tensor) -> list[list[str]]:
    """The inputs that moved each answer most, in words."""
    rows = shape_rows(bundle, x)
    if rows.ndim != 2 or rows.shape[1] > _MOST_INPUTS or not len(rows):
        return [[] for _ in range(len(x))]
    personal = bundle.personal
    effects = input_effects(personal, rows, usual_row(personal.inner.scaler, rows))
    least = 1e-3 if personal.knowledge.line is None else 1e-9
    return [
        [f"moved most by {said}"] if (said := _say_effects(one, least)) else []
        for one in name_effects(effects, bundle.schema)
    ]


def _say_effects(effects: dict[str, float], least: float) -> str:
    shown = [(name, by) for name, by in effects.items() if abs(by) >= least][:_SHOWN]
    return ", ".join(f"{name} ({by:+.2g})" for name, by in shown)


_FORBIDDEN = {"restrict": "forbidden-part", "project": "forbidden-moved"}


def _conflicts(known: Knowledge, x: Tensor, schema: Schema) -> Reasons:
    """Where the expert said something that the range forbids."""
    lines: Reasons = [[] for _ in range(len(x))]
    if known.prediction is None or known.range is None or not len(x):
        return lines
    said, allowed = hear(known.prediction, x), allow(known.range, x)
    clash = known.answers.find_conflicts(said, allowed)
    rows = clash.nonzero().flatten()
    kind = _FORBIDDEN.get(known.conflict, "forbidden")
    if known.line is not None:
        outcomes = [f"{value:.6g}" for value in said[rows].tolist()]
    else:
        outside = ((said[rows] > 0) & ~allowed[rows].bool()).tolist()
        outcomes = [", ".join(compress(schema.classes, one)) for one in outside]
    made = {text: Reason(kind, {"outcome": text}) for text in set(outcomes)}
    for row, text in zip(rows.tolist(), outcomes, strict=True):
        lines[row].append(made[text])
    return lines


def _favoured(known: Knowledge, x: Tensor, schema: Schema) -> list[str]:
    """What the expert holds to be most likely in each row: several classes where they are equal."""
    if not has_soft(known.prediction):
        return []
    prior = hear(known.prediction, x)
    top = prior >= prior.amax(1, keepdim=True) - 1e-6
    return [" or ".join(schema.classes[c] for c in row.nonzero().flatten()) for row in top]


def _decided(found: Answers, schema: Schema, known: Knowledge, x: Tensor, us: str) -> Reasons:
    """Who decided each row, and between what."""
    columns = [found.decided, found.trust, found.predicted, found.expert]
    if found.low is not None and found.high is not None:
        columns += [found.low, found.high]
    each = list(zip(*(column.tolist() for column in columns), strict=True))
    if known.line is None:  # what is said, and not its place; many rows are decided alike
        names = [*schema.classes, ""]
        own = _favoured(known, x, schema) or [names[one[3]] for one in each]
        each = [(*one, said) for one, said in zip(each, own, strict=True)]
    silent, made = known.prediction is None, {}
    for one in set(each):
        d, λ, p, e, *rest = one
        args = {"answer": p, "expert": e, "trust": λ, "model": us}
        if known.line is None:
            args |= {"answer": schema.classes[p], "expert": rest[0]}
            kind = _class_kind(d, silent, agree=p == e, heard=e >= 0, trust=λ)
        else:
            args |= {"low": rest[0], "high": rest[1]}
            kind = _NUMBER_KINDS.get(d, "model-number")
        made[one] = Reason(kind, args)
    return [[made[one]] for one in each]


_NUMBER_KINDS = {RANGE: "only-number", EXPERT: "expert-number", BOTH: "mixed-number"}


def _class_kind(decided: int, silent: bool, *, agree: bool, heard: bool, trust: float) -> str:
    if decided == RANGE:
        return "only-class"
    if decided == EXPERT:
        return "expert-outweighs"
    if decided == BOTH:
        return "both-say" if agree else "both-favour"
    if silent:
        return "no-expert"
    if not heard:
        return "expert-silent"
    return "expert-unheard" if trust == 0 else "model-outweighs"


def _say_trust(found: Answers, known: Knowledge, constant: float, x: Tensor) -> Reasons:
    """Why the expert's word counted so much in each row, where λ is not one number."""
    if known.row_trust is None or not len(x):
        return [[] for _ in range(len(x))]
    whose = zip(known.row_trust.reasons(x, constant), found.silent.tolist(), strict=True)
    return [[one] if one and not quiet else [] for one, quiet in whose]


def _say_members(found: Answers, ensemble: Ensemble) -> Reasons:
    """Who spoke in each row with which weight; of a silent expert the others share the part."""
    trusts = found.trust.tolist()
    # the weight itself, not what single precision made of it
    own = {λ: ensemble.expert if abs(λ - ensemble.expert) < 1e-7 else λ for λ in set(trusts)}
    shares = {λ: member_weights(ensemble, expert=weight) for λ, weight in own.items()}
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
