"""The law of missing values where a number is learned: five ways, the same set and number."""

import numpy as np
import onnxruntime as ort
import pytest
import torch
from hypothesis import given, settings

from fedlore.bundle import answer_rows, bundle_of
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.checker.bundles import knowledge_texts
from fedlore.checker.forms import other_forms
from fedlore.checker.graphs import Graph
from fedlore.errors import FedloreError
from fedlore.kernel.answers import numbers_of, sets_of
from fedlore.kernel.numbersets import read_number_knowledge

from ..bundle.onnx.numberworlds import NUMBERED, number_worlds
from .asked import agree_on_rules, answers_of_file, answers_over_http
from .test_missing import LENIENT, ROWS

NEAR = 2e-5
LABEL = NUMBERED.label


@settings(max_examples=4, **LENIENT)
@given(number_worlds())
def test_a_sample_of_the_law_of_numbers(world):
    compare(world)


@pytest.mark.slow
@settings(max_examples=130, **LENIENT)  # of 20 rows each, some near an edge and left out
@given(number_worlds())
def test_two_thousand_cases_of_the_law_of_numbers(world):
    compare(world)


def compare(world):
    """The least and the greatest allowed number, refusal and answer of every row, by five ways."""
    x = world.x[:ROWS].clone()
    x[3, 0], x[3, 2] = 1.0, torch.nan  # heat must not be missing (a blank line is no row)
    x[4, 3] = 7.0  # nor is this any level
    made = bundle_of(world.personal, "site")
    wanted = [ask_python(made, row) for row in x.unsqueeze(1)]
    for way in (ask_file, ask_http, ask_graph, ask_certificate):
        for row, one, other in zip(x.tolist(), wanted, way(made, x), strict=True):
            place = f"{way.__name__} at {row}: {other}, not {one}"
            assert (one is None) == (other is None), place
            if one is not None:
                assert np.allclose(one[: len(other)], other, rtol=NEAR, atol=NEAR), place


def ask_python(made, row):
    """Least and greatest allowed number, and the answer between them; None where it is refused."""
    try:
        found = answer_rows(made, row)
    except FedloreError:
        return None
    return float(found.low), float(found.high), float(found.predicted)


def ask_file(made, x):
    return [
        None if row.get("error") else (float(row["low"]), float(row["high"]), float(row[LABEL]))
        for row in answers_of_file(made, x)
    ]


def ask_http(made, x):
    return [
        None if said is None else (said["low"], said["high"], said["predicted"])
        for said in answers_over_http(made, x)
    ]


def ask_graph(made, x):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    model = bundle_to_onnx(made).SerializeToString()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    got = dict(zip(names, session.run(None, {"rows": x.double().numpy()}), strict=True))
    agree_on_rules(made, x, got["unapplied"])
    found = zip(got["refused"], got["lower"], got["upper"], got["number"], strict=True)
    return [
        None if refused else (np.nanmin(low), np.nanmax(high), number)
        for refused, low, high, number in found
    ]


def ask_certificate(made, x):
    """What the kernel makes of the knowledge, and that the checker knows the graph's forms."""
    known = read_number_knowledge(knowledge_texts(made.members))
    wrong, _ = other_forms(Graph(bundle_to_onnx(made).SerializeToString()), known)
    assert not wrong
    sets, (_, refused) = sets_of(known, x.numpy()), numbers_of(known, x.numpy())
    found = zip(refused, sets.lower, sets.upper, strict=True)
    return [None if no else (np.nanmin(low), np.nanmax(high)) for no, low, high in found]
