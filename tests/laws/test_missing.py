"""One law of missing values: Python, files, HTTP, graph and certificate give the same answer."""

import numpy as np
import onnxruntime as ort
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings

from fedlore.bundle import answer_rows, bundle_of
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.checker.bundles import knowledge_texts
from fedlore.checker.forms import other_forms
from fedlore.checker.graphs import Graph
from fedlore.errors import FedloreError
from fedlore.kernel.answers import said_of
from fedlore.kernel.knowledge import read_knowledge

from ..bundle.onnx.worlds import CLASSES, HOLED, thin, worlds
from .asked import agree_on_rules, answers_of_file, answers_over_http

ROWS = 20
NEAR = 1e-5
LENIENT = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "database": None,
    "phases": (Phase.generate,),  # a case asks a service and a graph: shrinking takes minutes
}


@settings(max_examples=4, **LENIENT)
@given(worlds(HOLED))
def test_a_sample_of_the_law(world):
    compare(world)


@pytest.mark.slow
@settings(max_examples=110, **LENIENT)  # of 20 rows each, some near an edge and left out
@given(worlds(HOLED))
def test_two_thousand_cases_of_the_law(world):
    compare(world)


def compare(world):
    """Range, refusal and answer of every row, by five ways."""
    known = world.personal.knowledge
    x = world.x[:ROWS].clone()
    x[3, 0], x[3, 2] = 1.0, torch.nan  # heat must not be missing (a blank line is no row)
    x[4, 3] = 7.0  # nor is this any level
    made = bundle_of(world.personal, "site")
    x = x[~thin(known.prediction, x)]
    wanted = [ask_python(made, row) for row in x.unsqueeze(1)]
    for way in (ask_file, ask_http, ask_graph, ask_certificate):
        for row, one, other in zip(x.tolist(), wanted, way(made, x), strict=True):
            place = f"{way.__name__} at {row}: {other}, not {one}"
            assert (one is None) == (other is None), place
            if one is not None:
                assert one[0] == other[0], place  # the range
                if other[1] is None:  # the kernel knows no network
                    continue
                assert np.allclose(one[1], other[1], atol=NEAR), place
                assert all(
                    p == 0 for c, p in zip(CLASSES, other[1], strict=True) if c not in one[0]
                )


def ask_python(made, row):
    """The classes that are allowed and the probability of each; None where it is refused."""
    try:
        found = answer_rows(made, row)
    except FedloreError:
        return None
    return allowed_names(found.allowed[0].tolist()), found.probabilities[0].tolist()


def allowed_names(row):
    return {name for name, may in zip(CLASSES, row, strict=True) if may}


def ask_file(made, x):
    return [
        None
        if row.get("error")
        else (set(row["allowed"].split("|")), [float(row[f"p_{c}"]) for c in CLASSES])
        for row in answers_of_file(made, x)
    ]


def ask_http(made, x):
    return [
        None
        if said is None
        else (set(said["allowed"]), [said["probabilities"][c] for c in CLASSES])
        for said in answers_over_http(made, x)
    ]


def ask_graph(made, x):
    model = bundle_to_onnx(made).SerializeToString()
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    got = dict(zip(names, session.run(None, {"rows": x.double().numpy()}), strict=True))
    agree_on_rules(made, x, got["unapplied"])
    found = zip(got["refused"], got["allowed"], got["probabilities"], strict=True)
    return [
        None if refused else (allowed_names(allowed), p.tolist()) for refused, allowed, p in found
    ]


def ask_certificate(made, x):
    """What the kernel makes of the knowledge, and that the checker knows the graph's forms."""
    known = read_knowledge(knowledge_texts(made.members))
    wrong, _ = other_forms(Graph(bundle_to_onnx(made).SerializeToString()), known)
    assert not wrong
    said = said_of(known, x.numpy())
    return [
        None if refused else (allowed_names(allowed), None)
        for refused, allowed in zip(said.refused, said.allowed, strict=True)
    ]
