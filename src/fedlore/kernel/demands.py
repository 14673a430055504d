"""What a graph must compute for some knowledge: range, prediction, refusals and the class.

Everything is rebuilt here from the texts of the knowledge; `terms.expect` then holds a graph to it.
"""

from typing import Any, NamedTuple

from .formulaterms import Formulas
from .graded import Graded, Limits
from .holes import hide, lack, may_lack, refuse
from .knowledge import Known
from .soft import Soft
from .softterms import (
    Hits,
    Lean,
    Seen,
    every_class,
    formula_lean,
    lean_rows,
    rule_lean,
    rule_rows,
    undecided,
    weighed_rows,
)
from .tables import Table
from .tableterms import Said, hit_terms, table_terms
from .terms import BOOL, DOUBLE, INT64, SINGLE, Named, Needed, Term, Terms

Array = Any  # of numpy


class Demands(NamedTuple):
    """The terms of a graph's outputs, and of the prediction that goes into its probabilities."""

    allowed: Needed
    refused: Needed
    chosen: Needed
    prior: Needed | None
    trust: Needed | None = None  # λ, where a row has one of its own


def demands(known: Known, *, strict: bool = True) -> Demands:
    """All that a graph has to compute in a given way; the probabilities are read elsewhere.

    A graph of 0.1.0 is not `strict`: it refuses no row for what is no value in it. Such a row is
    outside of every scope.
    """
    t = Terms()
    x: Needed = t.cast(Named("rows"), SINGLE)
    unusable = refuse(t, x, known) if strict else None
    x = hide(t, x, known)
    formulas = Formulas(t, x)
    allowed = _range(t, x, formulas, known) if known.range.sources else None
    spoken = known.predict.sources or known.soft
    prior = _prediction(t, x, formulas, known, allowed) if spoken else None
    refused = t.either(unusable, *[part.refused for part in (prior, allowed) if part is not None])
    rows = None if prior is None else prior.rows
    if prior is not None and allowed is not None:
        rows, conflict = _inside(t, prior.rows, allowed.rows, known.conflict)
        refused = t.either(refused, conflict)
    count = t.op("Shape", Named("rows"), start=0, end=1)
    if allowed is None:
        wide = t.op("Concat", count, t.constant([known.k], INT64), axis=0)
        allowed = Said(t.op("Expand", t.constant([[True]], BOOL), wide))
    if refused is None:
        one = t.op("Concat", count, t.constant([1], INT64), axis=0)
        refused = t.op("Expand", t.constant([[False]], BOOL), one)
    axis = t.constant([1], INT64)
    leaning = known.leaning
    return Demands(
        t.op("And", allowed.rows, t.op("Not", refused)),
        t.op("Squeeze", refused, axis),
        t.op(
            "Squeeze", _median(t, refused) if known.directions else _choose(t, rows, refused), axis
        ),
        rows,
        None if leaning is None else leaning.term(t, formulas, known.trust),
    )


def _choose(t: Terms, prior: Needed | None, refused: Needed) -> Needed:
    """The most probable class; at an exact tie the expert's, else the lowest; -1 if refused."""
    p = Named("probabilities")
    chosen = t.op("ArgMax", p, axis=1, keepdims=1)
    if prior is not None:
        top = t.op("ReduceMax", p, axes=[1], keepdims=1)
        spoken = t.op("Greater", prior, t.constant(0.0))
        tied = t.op("And", t.op("Equal", p, top), spoken)
        theirs = t.op("ArgMax", t.cast(tied, SINGLE), axis=1, keepdims=1)
        chosen = t.op("Where", t.any(tied), theirs, chosen)
    return t.op("Where", refused, t.constant(-1, INT64), chosen)


def _median(t: Terms, refused: Needed) -> Needed:
    """Of knowledge with shapes: the first class with half of the probability below or at it."""
    share = t.cast(Named("probabilities"), DOUBLE)
    below = t.op("CumSum", share, t.constant(1, INT64))
    half = t.op("Mul", t.total(share), t.constant(0.5, DOUBLE))
    some = t.op("Greater", share, t.constant(0.0, DOUBLE))
    reached = t.op("And", t.op("GreaterOrEqual", below, half), some)
    chosen = t.op("ArgMax", t.cast(reached, SINGLE), axis=1, keepdims=1)
    return t.op("Where", refused, t.constant(-1, INT64), chosen)


def _inside(t: Terms, prior: Needed, allowed: Needed, policy: str) -> tuple[Needed, Needed | None]:
    """The prediction with nothing left outside the range: silenced, restricted or refused."""
    zero = t.constant(0.0)
    conflict = t.any(t.op("And", t.op("Greater", prior, zero), t.op("Not", allowed)))
    if policy != "restrict":
        return t.op("Where", conflict, zero, prior), conflict if policy == "error" else None
    inside = t.op("Where", allowed, prior, zero)
    left = t.total(inside)
    some = t.op("Greater", left, zero)
    inside = t.op("Div", inside, t.op("Where", some, left, t.constant(1.0)))
    return t.op("Where", conflict, inside, prior), None


def _source(t: Terms, x: Needed, formulas: Formulas, source: Any, holes: bool) -> Said:
    if isinstance(source, Table):
        return table_terms(t, x, source, holes)
    if isinstance(source, Limits):
        crossed = source.crossed == "error"
        lacking = None
        if holes and not crossed and len(source.trees) == 2:
            lacking = lack(t, x, [source])
        whole = None if lacking is None else t.op("Not", lacking)
        return Said(*formulas.between(source.lower, source.upper, source.edges, crossed, whole))
    assert isinstance(source, Graded)
    if source.spread is None:
        return Said(formulas.one_hot(source.tree, source.edges))
    return Said(formulas.blur(source.tree, source.written, source.spread))


def _range(t: Terms, x: Needed, formulas: Formulas, known: Known) -> Said:
    side, holes = known.range, may_lack(known)
    parts = [_source(t, x, formulas, source, holes) for source in side.sources]
    if len(parts) == 1:
        return parts[0]
    either = side.combine == "any"
    rows = parts[0].rows
    for part in parts[1:]:
        rows = t.op("Or" if either else "And", rows, part.rows)
    refused = t.either(*[part.refused for part in parts])
    if either:
        return Said(rows, refused)
    none = t.op("Not", t.any(rows))
    if side.empty == "error":
        return Said(rows, t.either(refused, none))
    lacking = lack(t, x, side.sources) if holes else None
    none = none if lacking is None else t.op("Or", none, lacking)
    instead = t.op("And", none, parts[0].rows) if side.empty == "first" else none
    return Said(t.op("Or", rows, instead), refused)


def _prediction(
    t: Terms, x: Needed, formulas: Formulas, known: Known, allowed: Said | None
) -> Said:
    said = None
    lacking = lack(t, x, known.range.sources) if may_lack(known) else None
    seen = Seen(every_class(t, x, known.k) if allowed is None else allowed.rows, lacking)
    if known.predict.sources:
        said = _experts(t, x, formulas, known, seen)
    if not known.soft:
        assert said is not None
        return _confused(t, said, known)
    leans = [_lean(t, x, formulas, one, seen.allowed, may_lack(known)) for one in known.soft]
    unsure = None
    if may_lack(known):
        unsure = t.either(*[_undecided(t, x, one) for one in known.soft], lacking)
    rows = weighed_rows(t, None if said is None else said.rows, leans, seen.allowed, unsure)
    return _confused(t, Said(rows, None if said is None else said.refused), known)


def _undecided(t: Terms, x: Needed, source: Soft) -> Needed | None:
    if isinstance(source.inner, Table):
        return undecided(t, _bothhit_terms(t, x, source, True))
    return lack(t, x, [source.inner])


def _bothhit_terms(t: Terms, x: Needed, source: Soft, holes: bool) -> Hits:
    perhaps = hit_terms(t, x, source.inner, perhaps=True) if holes else None
    return Hits(hit_terms(t, x, source.inner), perhaps)


def _lean(
    t: Terms, x: Needed, formulas: Formulas, source: Soft, allowed: Needed, holes: bool
) -> Lean:
    if isinstance(source.inner, Table):
        return rule_lean(t, source, _bothhit_terms(t, x, source, holes), allowed)
    return formula_lean(t, source, _source(t, x, formulas, source.inner, holes).rows, allowed)


def _soft(t: Terms, x: Needed, formulas: Formulas, source: Soft, seen: Seen, holes: bool) -> Said:
    """A prediction that is right in most cases only."""
    if isinstance(source.inner, Table):
        return Said(rule_rows(t, source, _bothhit_terms(t, x, source, holes), seen))
    lean = _lean(t, x, formulas, source, seen.allowed, holes)
    unsure = t.either(lack(t, x, [source.inner]), seen.lacking) if holes else None
    return Said(t.cast(lean_rows(t, lean, seen.allowed, unsure), SINGLE))


def _experts(t: Terms, x: Needed, formulas: Formulas, known: Known, seen: Seen) -> Said:
    side, holes = known.predict, may_lack(known)
    parts = [
        _soft(t, x, formulas, source, seen, holes)
        if isinstance(source, Soft)
        else _source(t, x, formulas, source, holes)
        for source in side.sources
    ]
    around = known.range.sources
    lacking = [
        lack(t, x, [source, *around] if isinstance(source, Soft) else [source]) if holes else None
        for source in side.sources
    ]
    rows, refused = parts[0].rows, t.either(*[part.refused for part in parts])
    if len(parts) > 1 and side.combine == "average":
        total = t.op("Mul", rows, t.constant(side.weights[0]))
        for part, weight in zip(parts[1:], side.weights[1:], strict=True):
            total = t.op("Add", total, t.op("Mul", part.rows, t.constant(weight)))
        rows = _normalise(t, total, SINGLE)
        for part, lacks in zip(parts, lacking, strict=True):
            if lacks is not None:
                silent = t.op("Equal", t.total(part.rows), t.constant(0.0))
                rows = t.op("Where", t.op("And", lacks, silent), t.constant(0.0), rows)
    else:
        over: Needed | None = None
        for part, lacks in zip(parts[1:], lacking, strict=False):
            spoken = t.any(t.op("Not", t.op("Equal", rows, t.constant(0.0))))
            over = t.either(over, lacks)
            spoken = spoken if over is None else t.op("Or", spoken, over)
            rows = t.op("Where", spoken, rows, part.rows)
    return Said(rows, refused)


def _confused(t: Terms, said: Said, known: Known) -> Said:
    """An expert behind his confusion, where there is one."""
    if known.confusion is None:
        return said
    table = t.constant(known.confusion, DOUBLE)
    soft = t.op("MatMul", t.cast(said.rows, DOUBLE), table)
    return Said(t.cast(_normalise(t, soft, DOUBLE), SINGLE), said.refused)


def _normalise(t: Terms, rows: Needed, dtype: Any) -> Term:
    """Rows divided by their sums, where those are positive."""
    total = t.total(rows)
    some = t.op("Greater", total, t.constant(0.0, dtype))
    return t.op("Div", rows, t.op("Where", some, total, t.constant(1.0, dtype)))
