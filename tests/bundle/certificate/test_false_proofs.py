"""What once was called proved and was not so: refused now by issuer, lint and checker alike."""

import json

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from fedlore.bundle.onnx import to_onnx
from fedlore.checker.graphs import Graph, other_forms
from fedlore.checker.verdict import seal
from fedlore.errors import KnowledgeError
from fedlore.kernel.expressions import parse
from fedlore.kernel.intervals import Boxes
from fedlore.kernel.knowledge import read_knowledge
from fedlore.kernel.orders import never_above
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge import Formula, FormulaRange
from fedlore.knowledge.formulas.enclosure import enclose
from fedlore.knowledge.formulas.proofs import always_defined, never_crossed, never_exceeds

from ..onnx.worlds import EDGES, SCHEMA, worlds
from .test_certificate import LIMITS, failures, personal, site
from .test_mixtures import before, constant, forged, n, node_of

__all__ = ["site"]

UNIT = Schema((Feature("x", low=0.0, high=1.0), Feature("y", low=-1.0, high=1.0)), ("no", "yes"))
helper = onnx.helper


def limits(lower, upper, schema=UNIT, edges=(0.5,)):
    return FormulaRange(Formula.parse(lower, schema), Formula.parse(upper, schema), edges)


def checked(lower, upper, low=(0.0, -1.0), high=(1.0, 1.0)):
    """What the checker says of an order over one box."""
    boxes = Boxes(np.array([low]), np.array([high]))
    return bool(never_above(*(parse(text, UNIT.features) for text in (lower, upper)), boxes)[0])


def issued(lower, upper):
    """What the issuer's intervals say of it, before any row is tried."""
    corners = torch.tensor([[0.0, -1.0]]).double(), torch.tensor([[1.0, 1.0]]).double()
    return bool(never_exceeds(*(Formula.parse(text, UNIT) for text in (lower, upper)), *corners))


CROSSING = {  # lower, upper, and a row where they cross
    "a spike behind a small factor": (
        "1e-14 * where(abs(3*x - 1.2345) < 0.0003, 1e20, 0)",
        "1",
        (0.4115, 0.0),
    ),
    "a sum that rounds": ("(1e9 + y) - 1e9", "y + 0.1", (0.0, -0.9)),
    "what single precision takes for 0": ("where(exp(-200*x) > 0, 1, 5)", "2", (0.9, 0.0)),
    "a negative zero": ("(-min(y, 0)) ** (-3)", "1", (0.0, -0.1)),
    "numbers that are hardly positive": ("where(x > 0, -log(x), 0)", "80", (1e-38, 0.0)),
    "one argument of min": ("x", "min(x + 1, y)", (1.0, -1.0)),
    "one argument of max": ("max(x - 1, 0.5)", "x", (0.0, 0.0)),
    "products of negative numbers": ("(y - 2) * (y - 2)", "(y - 1) * (y - 1)", (0.0, -1.0)),
    "a negative factor": ("x * (0 - y * y)", "(x + 1) * (0 - y * y)", (0.0, 1.0)),
    "what is taken away may be negative": ("x - y", "x", (0.0, -1.0)),
    "what is added may be negative": ("x", "x + y", (1.0, -1.0)),
}


@pytest.mark.parametrize(("lower", "upper", "row"), CROSSING.values(), ids=CROSSING)
def test_limits_that_cross_somewhere_are_not_proved(lower, upper, row):
    with pytest.raises(KnowledgeError, match="exceeds"):
        limits(lower, upper)(torch.tensor([row]))
    assert never_crossed(limits(lower, upper)).status == "refuted"
    assert not checked(lower, upper)
    assert not issued(lower, upper)


ORDERED = {
    "what both share cancels": ("x * y + 0.3 * x - 1", "0.3 * x + x * y"),
    "rounding keeps the order": ("0.3 * (x - y * y) + y", "0.3 * x + y"),
    "more of what is positive": ("0.1 * x - 0.5", "x * 1 + 0.2"),
    "both arguments of min": ("x - 1", "min(x, y + 1)"),
    "either argument of max": ("x", "max(y, x)"),
    "rounded outwards, but not by much": ("exp(x)", "2.7183"),
}


@pytest.mark.parametrize(("lower", "upper"), ORDERED.values(), ids=ORDERED)
def test_what_never_crosses_is_still_proved(lower, upper):
    assert never_crossed(limits(lower, upper)).status == "proved"
    assert checked(lower, upper)
    assert issued(lower, upper)


@pytest.mark.parametrize("formula", ["x * 1e-30", "x / 1e30", "x ** 5", "exp(-x * 9e10)"])
def test_subnormal_numbers_may_be_taken_for_zero(formula):
    """A runtime that flushes them gets 0, another one does not: both count."""
    low, high = np.array([[1e-9, 0.0]]), np.array([[2e-9, 0.0]])
    found = Boxes(low, high).bounds(parse(formula, UNIT.features))
    steps = Formula.parse(formula, UNIT).steps
    same = enclose(steps, torch.from_numpy(low), torch.from_numpy(high))
    assert found[0] == 0 == same.low and 0 < found[1] < 1.2e-38 and 0 < same.high < 1.2e-38
    negative = Boxes(low, high).bounds(parse(f"-({formula})", UNIT.features))
    assert negative[1] == 0 > negative[0]


def test_a_small_weight_before_a_large_number_is_not_dropped():
    """0.1 * x and x / 10 are not the same number: what is left of them is bounded."""
    assert not checked("0.1 * x * 1e9", "x * 1e9 / 10")
    assert checked("0.1 * x * 1e9", "x * 1e9 / 10 + 100")


def test_a_quotient_near_zero_overflows():
    found = always_defined(Formula.parse("where(y != 0, 1 / y, 0)", UNIT))
    assert found.status == "refuted" and found.example is not None
    assert 0 < abs(found.example[1]) < 1e-38


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
