"""What once was called proved and was not so: refused now by issuer, lint and checker alike."""

import json

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings

from fedlore.bundle.onnx import to_onnx
from fedlore.checker.forms import other_forms
from fedlore.checker.graphs import Graph
from fedlore.checker.verdict import seal
from fedlore.kernel.knowledge import read_knowledge
from fedlore.knowledge import Formula, FormulaRange

from ..onnx.worlds import EDGES, SCHEMA, worlds
from .test_certificate import LIMITS, failures, personal, site
from .test_mixtures import before, constant, forged, n, node_of

__all__ = ["site"]

helper = onnx.helper


def backdoor(model):
    """The range, wider in a sliver of the scope that no random row hits."""
    for name, value in (("column", np.array([1], np.int64)), ("middle", np.float32(3.14159))):
        constant(model, name, value)
    constant(model, "sliver", np.float32(0.0005))
    parts = (
        n("Cast", ["rows"], "short", to=1),
        n("Gather", ["short", "column"], "sulfur", axis=1),
        n("Sub", ["sulfur", "middle"], "away"),
        n("Abs", ["away"], "size"),
        n("Less", ["size", "sliver"], "lie"),
        n("Or", [node_of(model, "allowed").input[0], "lie"], "wider"),
    )
    before(model, "allowed", *[helper.make_node(*inner, **about) for inner, about in parts])
    node_of(model, "allowed").input[0] = "wider"


@pytest.mark.parametrize("kept", [{}, {"range": LIMITS}], ids=["tables", "formulas"])
def test_a_backdoor_that_no_row_finds_is_read_off_the_nodes(site, kept):
    certificate, _, graph = site(personal(**kept))
    wrong = forged(certificate, graph, backdoor)
    assert set(wrong) == {"graph computes what the knowledge says"}
    assert "comes from Or" in wrong["graph computes what the knowledge says"]


def test_what_the_certificate_says_is_not_believed(site):
    model = personal(None, FormulaRange(*(Formula.parse(t, SCHEMA) for t in ("ash", "20")), EDGES))
    certificate, bundle, graph = site(model)
    said = json.loads(certificate.read_text())
    for claim in said["claims"]:
        claim |= {"status": "proved", "how": "trust me"}
    certificate.write_text(json.dumps(said | {"sha256": seal(said)}))
    for subject in (bundle, graph):
        assert "the range is never empty" in [line.what for line in failures(certificate, subject)]


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_every_kind_of_knowledge_is_read_off_the_nodes(world):
    graph = Graph(to_onnx(world.personal, SCHEMA).SerializeToString())
    wrong, count = other_forms(graph, read_knowledge(graph.knowledge()))
    assert wrong == [] and count > 3


def other_lookup(model):
    """A rule of the range that holds where it should not."""
    for one in model.graph.initializer:
        values = onnx.numpy_helper.to_array(one).copy()
        if values.shape[1:] == (3,) and len(values) > 2 and one.name.startswith("constant"):
            values[0, 0] = 1 - values[0, 0]
            one.CopyFrom(onnx.numpy_helper.from_array(values, one.name))
            return


def last_of_equals(model):
    chosen = next(node for node in model.graph.node if node.op_type == "ArgMax")
    chosen.attribute.append(helper.make_attribute("select_last_index", 1))


@pytest.mark.parametrize(
    ("change", "why"),
    [(other_lookup, "holds other numbers"), (last_of_equals, "other attributes")],
)
def test_nodes_are_held_to_their_constants_and_attributes(site, change, why):
    certificate, _, graph = site(personal())
    assert why in forged(certificate, graph, change)["graph computes what the knowledge says"]
