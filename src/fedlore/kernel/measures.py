"""Another measure of the same thing: what a site has in place of a feature, and how far it errs.

`equals` names the feature, `by` is a formula over the measure's own name, and `within` how far what
it comes to can lie from the feature. Rows become the feature as they are read; limits and rules of
a range are moved apart by the error once, when knowledge is read, and `counted` says that they are.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import KnowledgeError, unknown
from .cells import Cut, NumberSpans, Span
from .expressions import Tree, columns_in, constant_of, parse
from .schema import Feature
from .sheets import Rule

_FAULT = "schema"  # the code of errors raised here

_RISING = ("exp", "log", "log10", "sqrt")


def join_measures(features: Sequence[Feature]) -> tuple[Feature, ...]:
    """The features of a file, each other measure of one put into it."""
    measures = [one for one in features if one.equals]
    plain = [one for one in features if not one.equals]
    found, owns = {one.name: one for one in plain}, dict[str, Feature]()
    for one in measures:
        where = f"feature '{one.name}': equals = '{one.equals}'"
        if one.equals in {other.name for other in measures}:
            raise KnowledgeError(
                f"{where} names another measure, which is a circle or a chain: name a feature that "
                "all sites share"
            )
        if one.equals not in found:
            raise KnowledgeError(f"{where}: {unknown('feature', one.equals, found)}")
        target = found[one.equals]
        if target.levels or target.date:
            raise KnowledgeError(
                f"{where} has {'levels' if target.levels else 'dates'}, and a formula gives "
                "numbers: name a feature that is a number"
            )
        if one.name in found:
            raise KnowledgeError(
                f"feature '{one.name}' is named twice, as itself and as another measure of "
                f"'{one.equals}': give one of them a name of its own, and its column"
            )
        if not target.have:
            raise KnowledgeError(
                f"{where} gives '{one.equals}' here, and that has have = false: leave have out"
            )
        if one.within >= target.high - target.low:
            raise KnowledgeError(
                f"feature '{one.name}': within = {one.within:g} is no less than the scope of "
                f"'{one.equals}', {target.low:g} to {target.high:g}: that says nothing. Leave "
                f"'{one.name}' out, and say have = false of '{one.equals}'"
            )
        if target.name in owns:
            other = owns[target.name].name
            raise KnowledgeError(f"{where} is equalled by '{other}' already: leave one")
        if re.search(rf"\b{one.equals}\b", one.by):
            raise KnowledgeError(
                f"{where} and by = '{one.by}' names it too, which is a circle: use '{one.name}' "
                "alone"
            )
        measure_tree(one)
        owns[target.name] = one
    return tuple(replace(one, own=owns[one.name]) if one.name in owns else one for one in plain)


def split_measures(features: Sequence[Feature]) -> list[Feature]:
    """Features as a file lists them."""
    plain = [replace(one, own=None) for one in features]
    return plain + [one.own for one in features if one.own is not None]


def measure_tree(measure: Feature) -> Tree:
    """What a measure comes to, over a single column."""
    where = f"feature '{measure.name}': by = '{measure.by}'"
    try:
        tree = parse(measure.by, (Feature(measure.name),))
    except KnowledgeError as error:
        said = str(error).partition("\n")[0]
        raise KnowledgeError(f"{where}: {said} (a formula over '{measure.name}' alone)") from None
    if not columns_in(tree):
        raise KnowledgeError(
            f"{where} gives the same number for every row: say how '{measure.equals}' follows from "
            f"'{measure.name}'"
        )
    return tree


def widen_limit(
    text: str, features: Sequence[Feature], errors: Mapping[int, float], side: int
) -> str:
    """A lower (-1) or an upper (1) limit, moved by the errors of the columns that it looks at."""
    for place, error in errors.items():
        tree, feature = parse(text, features), features[place]
        if place not in columns_in(tree):
            continue
        slope = find_slope(tree, place)
        if slope is None:
            raise KnowledgeError(
                f"'{text}' is not seen to only rise or only fall with '{feature.name}', so that "
                f"the error of '{feature.own and feature.own.name}' cannot be put into its width: "
                "widen it yourself, and say counted = true beside within"
            )
        sign = "+" if slope * side > 0 else "-"
        text = re.sub(rf"\b{feature.name}\b", f"({feature.name} {sign} {error!r})", text)
    return text


def open_errors(features: Sequence[Feature]) -> dict[int, float]:
    """By column how far it can be off in its rows, where the ranges do not have that in them."""
    return {
        place: one.own.within
        for place, one in enumerate(features)
        if one.own is not None and one.own.within and not one.own.counted
    }


def count_errors(features: Sequence[Feature]) -> tuple[Feature, ...]:
    """The same features where the ranges have all errors in them."""
    errors = open_errors(features)
    return tuple(
        replace(one, own=replace(one.own, counted=True)) if place in errors and one.own else one
        for place, one in enumerate(features)
    )


def find_slope(tree: Tree, column: int) -> int | None:
    """1 where a formula only rises with a column, -1 where it only falls; None: not known."""
    if column not in columns_in(tree):
        return 0
    op, *parts = tree
    if op == "column":
        return 1
    if op in _RISING:
        return find_slope(parts[0], column)
    if op in ("*", "/"):
        inner, factor = parts if column in columns_in(parts[0]) else parts[::-1]
        value, found = constant_of(factor), find_slope(inner, column)
        divides = op == "/" and inner is parts[1]
        return None if value is None or found is None or divides else int(np.sign(value)) * found
    if op not in ("neg", "+", "-", "min", "max"):
        return None
    slopes = [find_slope(part, column) for part in parts]
    if op in ("neg", "-"):
        slopes[-1] = None if slopes[-1] is None else -slopes[-1]
    known = {slope for slope in slopes if slope != 0}
    return known.pop() if len(known) == 1 else None


def widen_rules(
    rules: Sequence[Rule], errors: Mapping[int, float], policy: str, name: str
) -> tuple[Rule, ...]:
    """Rules of a range that hold for sure, however the measures err: each where it surely does."""
    if not any(column in errors for rule in rules for column, _ in rule.conditions):
        return tuple(rules)
    if policy != "intersect":
        raise KnowledgeError(
            f"{name}: rules of hit = {policy} cannot be moved apart by an error: write it into "
            "their cells, and say counted = true beside within"
        )
    found = []
    for rule in rules:
        narrowed = (
            (column, _narrow(one, errors[column]) if column in errors else one)
            for column, one in rule.conditions
        )
        conditions = tuple((column, one) for column, one in narrowed if one is not None)
        if len(conditions) == len(rule.conditions):
            found.append(replace(rule, conditions=conditions))
    if not found:
        raise KnowledgeError(
            f"{name}: no rule is left that holds for sure, whatever the error: its conditions are "
            "narrower than within, so leave the table out or make them wider"
        )
    return tuple(found)


def _narrow(condition: Any, error: float) -> NumberSpans | None:
    """The numbers that lie in a condition by more than an error; None where there are none."""
    spans = [
        Span(Cut(start.value + error, start.after), Cut(stop.value - error, stop.after))
        for start, stop in condition.spans
    ]
    kept = tuple(one for one in spans if one.start.value < one.stop.value)
    return NumberSpans(kept) if kept else None
