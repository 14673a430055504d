"""Why a bundle answers as it does, in words: rules, formulas, trust and scope, row by row."""

import torch
from torch import Tensor

from ...kernel.schema import Schema
from ...knowledge import Knowledge
from ...knowledge.door import hide_others
from ...knowledge.missing import allow, hear
from ...knowledge.shapes.words import shape_lines
from ...knowledge.soft import has_soft
from ...knowledge.sources.kind import Lines
from ...knowledge.sources.lines import number_text
from ...knowledge.sources.unapplied import missing_words
from ...knowledge.sources.words import words_of
from ...personal.answers import BOTH, EXPERT, RANGE, Answers
from ...personal.beside import AnyBeside
from ...personal.classifier import Personal
from ...personal.client import Known
from ..contents import Bundle
from ..mixtures import share_words
from .answering import answer_rows, shape_rows
from .blanks import tolerate


@torch.no_grad()
def reasons(bundle: Bundle, x: Tensor, answers: Answers | None = None) -> Lines:
    """Why each row is answered so: what limited it, who decided, and what lies out of scope.

    `answers` saves computing them again where they are there already.
    """
    bundle = tolerate(bundle)
    found = answer_rows(bundle, x) if answers is None else answers
    raw = shape_rows(bundle, x)
    rows = hide_others(raw, bundle.schema)
    personal = bundle.personal
    lines: Lines = [[] for _ in range(len(rows))]
    if isinstance(personal, Personal):
        known = personal.knowledge
        _add(lines, words_of(known.range, rows, "range"))
        _add(lines, words_of(known.prediction, rows, "prediction"))
        _add(lines, _explain_silence(known, rows, bundle.schema))
        us = "network" if personal.beside is None else "mixture"
        _add(lines, _say_decision(found, bundle.schema, known, rows, us))
    else:
        _add(lines, words_of(personal.knowledge.range, rows, "set"))
        _add(lines, words_of(personal.knowledge.prediction, rows, "number"))
        _add(lines, _numbers_decided(found, "network" if personal.beside is None else "mixture"))
    _add(lines, _say_trust(found, personal.knowledge, personal.reliance, rows))
    if personal.beside is not None:
        _add(lines, _say_members(found, personal.beside))
    if rows.ndim == 2:
        both = (personal.knowledge.range, personal.knowledge.prediction)
        _add(lines, missing_words(both, rows, bundle.schema))
    if personal.knowledge.shapes is not None:
        _add(lines, shape_lines(personal.knowledge, rows, found.in_scope))
    _add(lines, _scope(bundle.schema, raw.flatten(1)))
    return lines


def _add(lines: Lines, more: Lines) -> None:
    for line, some in zip(lines, more, strict=True):
        line += some


def _explain_silence(known: Knowledge, x: Tensor, schema: Schema) -> Lines:
    """Where the expert said something that the range forbids."""
    lines: Lines = [[] for _ in range(len(x))]
    if known.prediction is None or known.range is None or not len(x):
        return lines
    prior, allowed = hear(known.prediction, x), allow(known.range, x).bool()
    outside = (prior > 0) & ~allowed
    for row in outside.any(1).nonzero().flatten().tolist():
        names = ", ".join(schema.classes[c] for c in outside[row].nonzero().flatten().tolist())
        done = "that part is cut off" if known.conflict == "restrict" else "he is not heard"
        lines[row].append(f"the expert says {names}, which the range forbids: {done}")
    return lines


def _favoured(known: Knowledge, x: Tensor, schema: Schema) -> list[str]:
    """What the expert holds to be most likely in each row: several classes where they are equal."""
    if not has_soft(known.prediction):
        return []
    prior = hear(known.prediction, x)
    top = prior >= prior.amax(1, keepdim=True) - 1e-6
    return [" or ".join(schema.classes[c] for c in row.nonzero().flatten()) for row in top]


def _say_decision(found: Answers, schema: Schema, known: Knowledge, x: Tensor, us: str) -> Lines:
    classes = schema.classes
    names = (found.predicted.tolist(), found.expert.tolist(), found.decided.tolist())
    said = _favoured(known, x, schema) or [classes[e] for e in names[1]]
    lines: Lines = []
    for p, e, d, λ, own in zip(*names, found.trust.tolist(), said, strict=True):
        if d == RANGE:
            why = f"{classes[p]} is the only class that the range allows"
        elif d == EXPERT:
            why = f"the expert's {classes[p]} outweighs the {us}, with trust {λ:g}"
        elif d == BOTH and p == e:
            why = f"expert and {us} both say {classes[p]}"
        elif d == BOTH:
            why = f"{classes[p]} is what expert and {us} together favour, with trust {λ:g}"
        elif known.prediction is None:
            why = f"the {us} says {classes[p]}; there is no expert's prediction"
        elif e < 0:
            why = f"the {us} says {classes[p]}; the expert is silent"
        elif λ == 0:
            why = f"the {us} says {classes[p]}; the expert's {own} has trust 0"
        else:
            why = f"the {us}'s {classes[p]} outweighs the expert's {own}, trust {λ:g}"
        lines.append([why])
    return lines


def _numbers_decided(found: Answers, us: str) -> Lines:
    assert found.low is not None and found.high is not None  # of a number
    lines: Lines = []
    for p, e, d, λ, low, high in zip(
        found.predicted.tolist(),
        found.expert.tolist(),
        found.decided.tolist(),
        found.trust.tolist(),
        found.low.tolist(),
        found.high.tolist(),
        strict=True,
    ):
        number = number_text(p)
        if d == RANGE:
            why = f"{number} is the only number that the range allows"
        elif d == EXPERT:
            why = f"{number} is the expert's number, with trust {λ:g}"
        elif d == BOTH:
            why = f"{number} mixes the expert's {number_text(e)} and the {us}, trust {λ:g}"
        else:
            why = f"the {us} says {number} within {number_text(low)} to {number_text(high)}"
        lines.append([why])
    return lines


def _say_trust(found: Answers, known: Known, constant: float, x: Tensor) -> Lines:
    """Why the expert's word counted so much in each row, where λ is not one number."""
    if known.row_trust is None or not len(x):
        return [[] for _ in range(len(x))]
    silent = found.expert < 0 if found.low is None else found.expert.isnan()
    whose = zip(known.row_trust.words(x, constant), silent.tolist(), strict=True)
    return [[words] if words and not quiet else [] for words, quiet in whose]


def _say_members(found: Answers, beside: AnyBeside) -> Lines:
    """Who spoke in each row with which weight; of a silent expert the others share the part."""
    trusts = found.trust.tolist()
    # the weight itself, not what single precision made of it
    own = {λ: beside.expert if abs(λ - beside.expert) < 1e-7 else λ for λ in set(trusts)}
    words = {λ: f"spoke: {share_words(beside, expert=weight)}" for λ, weight in own.items()}
    return [[words[λ]] for λ in trusts]


def _scope(schema: Schema, x: Tensor) -> Lines:
    lines: Lines = [[] for _ in range(len(x))]
    for column, feature in enumerate(schema.features):
        values = x[:, column]
        if feature.levels:
            for row in (values >= len(feature.levels)).nonzero().flatten().tolist():
                lines[row].append(f"out of scope: {feature.name} has a level that nobody named")
            continue
        for row in ((values < feature.low) | (values > feature.high)).nonzero().flatten().tolist():
            unit = f" {feature.unit}" if feature.unit else ""
            lines[row].append(
                f"out of scope: {feature.name} = {number_text(float(values[row]))}{unit}, the "
                f"knowledge is declared for {feature.low:g} to {feature.high:g}"
            )
    return lines
