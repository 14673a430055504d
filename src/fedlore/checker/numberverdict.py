"""A bundle or a graph of a number against its certificate."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import KnowledgeError
from ..kernel.knowledge import scope_of
from ..kernel.numbersets import NumberKnown, refused_rows
from ..kernel.prove import agrees, inside, never_empty, sample_rows
from .graphs import Graph
from .headers import input_faults, model_faults, name_faults
from .lines import Line, compare_claim
from .numberforward import numbers_of
from .numbergraphs import number_differences, number_rows, number_structure, other_target


def number_claims(known: NumberKnown, said: Mapping[str, Any]) -> Iterator[Line]:
    """The scope with its names, and every claim over it, established anew."""
    scope = scope_of(known.columns)
    names = [column.name for column in known.columns]
    told = [(entry["feature"], entry["low"], entry["high"]) for entry in said["scope"]]
    same = told == list(zip(names, scope.low.tolist(), scope.high.tolist(), strict=True))
    own = {"lower": known.lower, "upper": known.upper}
    same = same and (said.get("target"), said["conflict"]) == (own, known.conflict)
    yield Line("scope", same, "" if same else "it is not the one of the knowledge")
    statuses = {claim["claim"]: claim["status"] for claim in said["claims"]}
    found = never_empty(known)
    yield compare_claim("the set is never empty", found, statuses.get("never-empty"))
    if any(getattr(source, "policy", "") == "unique" for source in known.predict.sources):
        found = agrees(known)
        told_status = statuses.get("prediction-agrees")
        yield compare_claim("the prediction never disagrees", found, told_status)
    if known.predict.sources:
        found, told_status = inside(known), statuses.get("prediction-inside")
        if known.conflict == "error":
            yield compare_claim("the prediction stays in the set", found, told_status)
        else:  # its policy takes care of it; the claim must not say more than is so
            fine = not (found.status == "refuted" and told_status == "proved")
            words = f"{found.status}; policy {known.conflict} takes care of what is outside"
            yield Line("the prediction stays in the set", fine, words)


def number_bundle(
    header: Mapping[str, Any],
    weights: Mapping[str, Any],
    known: NumberKnown,
    tensors: Mapping[str, Any] | None,
) -> Iterator[Line]:
    """What bundle.json says beside the knowledge, and its number on rows, worked out anew."""
    wrong = []
    if header.get("task") != "regression":
        wrong.append("it is of another task")
    wrong += name_faults([], header["schema"]["features"], known)
    ends = (header["bins"][0], header["bins"][-1])
    if ends != (known.lower, known.upper):
        wrong.append(f"its bins reach from {ends[0]:g} to {ends[1]:g}, the bounds otherwise")
    told = float(header["rely"]), header["conflict"]
    withheld = bool(known.directions) and told == (0.0, known.conflict)  # it moves another way
    if not withheld and told != (known.trust, known.conflict):
        wrong.append(f"it relies by {told[0]:g} with policy {told[1]}, the knowledge otherwise")
    wrong += [*model_faults(header), *input_faults(header, known)]
    yield Line("names, policy and layers", not wrong, wrong[0] if wrong else "")
    what = "numbers inside the set on rows of the scope"
    x = sample_rows(known, 500, seed=1).astype(np.float32)
    x = x[~refused_rows(known, x)]
    try:
        numbers, bands = numbers_of(header, weights, known, x, tensors)
    except KnowledgeError as error:
        yield Line(what, True, f"{error} is beyond this checker", rows=0)
        return
    yield Line(what, bool(bands.holds(numbers).all()), rows=len(x))


def number_graph(graph: Graph, known: NumberKnown) -> Iterator[Line]:
    """That the graph's number lies in the set that it gives out, and that this is the expert's."""
    wrong = number_structure(graph)
    yield Line("graph keeps the set by its structure", not wrong, "; ".join(wrong))
    wrong = other_target(graph, known)
    yield Line("names of features and target", not wrong, wrong[0] if wrong else "")
    rows = number_rows(known, seed=2)
    wrong = number_differences(graph, known, rows)
    what = "graph computes what the knowledge says"
    yield Line(what, not wrong, wrong[0] if wrong else "", rows=len(rows))
