"""One law of missing values: Python, files, HTTP, graph and certificate give the same answer."""

import csv
import io
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings

from fedlore.bundle import answer_rows, bundle_of
from fedlore.bundle.files import predict_file
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.serve import make_app
from fedlore.checker.bundles import knowledge_texts
from fedlore.checker.graphs import Graph, graph_faults
from fedlore.errors import FedloreError
from fedlore.kernel.answers import numbers_of, said_of, sets_of
from fedlore.kernel.knowledge import read_knowledge
from fedlore.knowledge.missing import hide_others
from fedlore.knowledge.sources.reasons import count_unapplied

from ..bundle.onnx.numberworlds import NUMBERED, number_worlds
from ..bundle.onnx.worlds import CLASSES, HOLED, thin, worlds
from ..bundle.serve.asking import ask_all

ROWS = 20
LENIENT = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "database": None,
    "phases": (Phase.generate,),  # a case asks a service and a graph: shrinking takes minutes
}


@dataclass(frozen=True)
class Classes:
    """What is read of one answer: which classes are allowed, and the probability of each."""

    near = 1e-5

    def python(self, found):
        return *found.allowed[0].tolist(), *found.probabilities[0].tolist()

    def file(self, row):
        allowed = row["allowed"].split("|")
        return *(c in allowed for c in CLASSES), *(float(row[f"p_{c}"]) for c in CLASSES)

    def http(self, said):
        return *(c in said["allowed"] for c in CLASSES), *(
            said["probabilities"][c] for c in CLASSES
        )

    def graph(self, got, i):
        return *got["allowed"][i], *got["probabilities"][i]

    def kernel(self, texts, x):
        known = read_knowledge(texts)
        said = said_of(known, x)
        return known, said.refused, [tuple(row) for row in said.allowed]

    def check(self, one, place):
        k = len(CLASSES)
        assert all(p == 0 for may, p in zip(one[:k], one[k:], strict=False) if not may), place


@dataclass(frozen=True)
class Numbers:
    """The least and the greatest allowed number, and the one that is answered."""

    near = 2e-5

    def python(self, found):
        return float(found.low), float(found.high), float(found.predicted)

    def file(self, row):
        return float(row["low"]), float(row["high"]), float(row[NUMBERED.label])

    def http(self, said):
        return said["low"], said["high"], said["predicted"]

    def graph(self, got, i):
        return np.nanmin(got["lower"][i]), np.nanmax(got["upper"][i]), got["number"][i]

    def kernel(self, texts, x):
        known = read_knowledge(texts)
        sets, (_, refused) = sets_of(known, x), numbers_of(known, x)
        ends = zip(sets.lower, sets.upper, strict=True)
        with np.errstate(all="ignore"):
            return known, refused, [ends_of(*pair) for pair in ends]

    def check(self, one, place): ...


def ends_of(low, high):
    return (np.nan, np.nan) if np.isnan(low).all() else (np.nanmin(low), np.nanmax(high))


TASKS = {"classes": (Classes(), worlds(HOLED)), "number": (Numbers(), number_worlds())}


@pytest.mark.parametrize("task", TASKS)
def test_a_sample_of_the_law(task):
    over(task, 4)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "cases"), [("classes", 110), ("number", 130)])
def test_two_thousand_cases_of_the_law(task, cases):
    """Of 20 rows each, some near an edge and left out."""
    over(task, cases)


def over(task, cases):
    reading, strategy = TASKS[task]
    settings(max_examples=cases, **LENIENT)(
        given(strategy)(lambda world: compare(world, reading))
    )()


def compare(world, reading):
    """Range, refusal and answer of every row, by five ways; the kernel knows no network."""
    x = world.x[:ROWS].clone()
    x[3, 0], x[3, 2] = 1.0, torch.nan  # heat must not be missing (a blank line is no row)
    x[4, 3] = 7.0  # nor is this any level
    made = bundle_of(world.personal, "site")
    x = x[~thin(world.personal.knowledge.prediction, x)]
    wanted = [ask_python(made, row, reading) for row in x.unsqueeze(1)]
    for way in (ask_file, ask_http, ask_graph, ask_certificate):
        for row, one, other in zip(x.tolist(), wanted, way(made, x, reading), strict=True):
            place = f"{way.__name__} at {row}: {other}, not {one}"
            assert (one is None) == (other is None), place
            if one is not None:
                near = {"rtol": reading.near, "atol": reading.near}
                assert np.allclose(np.float64(one[: len(other)]), np.float64(other), **near), place
                reading.check(other, place)


def ask_python(made, row, reading):
    """What is read of the answer; None where the row is refused."""
    try:
        return reading.python(answer_rows(made, row))
    except FedloreError:
        return None


def ask_file(made, x, reading):
    rows = answers_of_file(made, x)
    return [None if row.get("error") else reading.file(row) for row in rows]


def ask_http(made, x, reading):
    said = answers_over_http(made, x)
    return [None if one is None else reading.http(one) for one in said]


def ask_graph(made, x, reading):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    model = bundle_to_onnx(made).SerializeToString()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    got: dict[str, Any] = dict(
        zip(names, session.run(None, {"rows": x.double().numpy()}), strict=True)
    )
    agree_on_rules(made, x, got["unapplied"])
    return [None if no else reading.graph(got, i) for i, no in enumerate(got["refused"])]


def ask_certificate(made, x, reading):
    """What the kernel makes of the knowledge, and that the checker knows the graph's forms."""
    known, refused, said = reading.kernel(knowledge_texts(made.members), x.numpy())
    graph = Graph(bundle_to_onnx(made).SerializeToString())
    assert not graph_faults(graph, known, getattr(made.personal, "reliance", None))
    return [None if no else one for no, one in zip(refused, said, strict=True)]


def named(row):
    """A row as a person has it; a level that is none is told by its number."""
    levels = {0.0: "north", 1.0: "south", 2.0: "west", 3.0: "the new one"}
    values = [None if v != v else v for v in row]
    return dict(zip(HOLED.names, [*values[:3], levels.get(values[3], values[3])], strict=True))


def agree_on_rules(made, x, unapplied):
    """That a graph counts the rules which missing values left open as Python does."""
    known = made.personal.knowledge
    seen = hide_others(x, made.schema)
    assert (unapplied == count_unapplied((known.range, known.prediction), seen).numpy()).all()


def answers_of_file(made, x):
    """What `fedlore predict` writes of a CSV file, whose wrong rows are marked."""
    folder = os.environ.get("TMPDIR", "/tmp")
    source, out = (f"{folder}/law-{os.getpid()}-{name}.csv" for name in ("rows", "answers"))
    text = io.StringIO()
    writer = csv.DictWriter(text, HOLED.names)
    writer.writeheader()
    rows = [named(row) for row in x.tolist()]
    # a number is no level's name, but in a file it would be one that nobody named
    for row in rows:
        if isinstance(row["mine"], float):
            row |= {"mine": "north", "heat": ""}
    writer.writerows(rows)
    try:
        with open(source, "w") as file:
            file.write(text.getvalue())
        predict_file(made, source, out, on_error="mark")
        with open(out) as lines:
            return list(csv.DictReader(lines))
    finally:
        for path in (source, out):
            if os.path.exists(path):
                os.remove(path)


def answers_over_http(made, x):
    """What the service says of each row; None where it refuses."""
    rows = [("POST", "/predict", {"json": named(row)}) for row in x.tolist()]
    return [
        None if answer.status_code in (409, 422) else answer.json()["answers"][0]
        for answer in ask_all(make_app(made), rows)
    ]
