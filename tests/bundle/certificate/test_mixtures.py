"""Certificates of mixtures, and forgers who let one row hear of another or swap names."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest

from fedlore.bundle import bundle_of, write_bundle
from fedlore.checker import check, outcome_of
from fedlore.checker.bundles import ensemble_faults, knowledge_texts, read_weights
from fedlore.checker.forms import Header
from fedlore.config import build
from fedlore.core.one_shot import Link
from fedlore.kernel.knowledge import read_knowledge
from fedlore.models.ensemble import OneShotMember

from ..mixed import class_members, mixture, one_shot_model, ordinal
from ..onnx.test_mixtures import CALM, MEMBERS, known
from .forging import Site, make
from .test_certificate import failures, personal, site

__all__ = ["site"]


def mixed(**settings):
    one_shot = OneShotMember(*one_shot_model(CALM, 4, link=Link("expert", 0.6)))
    settings.setdefault("members", (*class_members(4, 4, 2, CALM)[:-1], one_shot))
    return mixture(known(), CALM, 4, **settings)


def test_bundle_and_graph_of_a_mixture_hold(site):
    certificate, bundle, graph = site(mixed(net=ordinal(4, 4, start="expert")))
    assert json.loads(certificate.read_text())["verdict"] == "proved"
    assert failures(certificate, bundle) == failures(certificate, graph) == []
    (zeros,) = [x for x in check(certificate, bundle) if x.what == "inside-range"]
    assert zeros.rows == 3_000 and outcome_of([zeros]) == (
        "the certificate holds as far as it was tested, on 3000 rows",
        0,
    )
    assert outcome_of(check(certificate, graph)) == ("the certificate holds", 0)


@pytest.fixture
def forger(tmp_path):
    """What fails after a change to a graph, its certificate issued and sealed for it."""

    def forge(model, change):
        made = Site.of(tmp_path, model)
        made.subject = "graph"
        change(made)
        onnx.checker.check_model(made.model, full_check=True)
        made.reseal()
        return {line.what: line.found for line in made.check("graph") if not line.holds}

    return forge


def widen_by(*nodes, **constants):
    """The range, wider where 'lie' is true."""

    def change(site):
        mask = site.node("allowed")
        site.insert("allowed", *nodes, make("Or", [mask.input[0], "lie"], "wider"), **constants)
        mask.input[0] = "wider"

    return change


WHAT = "graph is the compiler's own"
BEHIND = set("size square ones many top first ash flat below numbers most lie".split())
ONE = np.array([1], np.int64)
ACROSS = {
    "the number of rows": widen_by(
        make("Shape", ["rows"], "size", start=0, end=1),
        make("Equal", ["size", "one"], "lie"),
        one=ONE,
    ),
    "the number of rows as a width": widen_by(
        make("Shape", ["rows"], "size", start=0, end=1),
        make("Concat", ["size", "size"], "square", axis=0),
        make("Expand", ["unit", "square"], "ones"),
        make("ReduceSum", ["ones", "one"], "many", keepdims=1),
        make("Less", ["many", "two"], "lie"),
        one=ONE,
        unit=np.ones((1, 1), np.float32),
        two=np.float32(2),
    ),
    "the largest of all rows": widen_by(
        make("ReduceMax", ["rows"], "top", axes=[0], keepdims=1),
        make("Gather", ["top", "one"], "first", axis=1),
        make("Less", ["first", "far"], "lie"),
        one=ONE,
        far=np.float64(5),
    ),
    "the first row": widen_by(
        make("Gather", ["rows", "zero"], "first", axis=0),
        make("Gather", ["first", "zero"], "ash", axis=1),
        make("Less", ["ash", "far"], "lie"),
        zero=np.array([0], np.int64),
        far=np.float64(5),
    ),
    "the place of a row": widen_by(
        make("Gather", ["rows", "zero"], "ash", axis=1),
        make("Less", ["ash", "far"], "lie"),
        zero=np.array([0], np.int64),
        far=np.array([[-1.0], [99.0]]),
    ),
    "rows laid across": widen_by(
        make("Gather", ["rows", "zero"], "ash", axis=1),
        make("Squeeze", ["ash", "one"], "flat"),
        make("Less", ["ash", "flat"], "below"),
        make("Cast", ["below"], "numbers", to=1),
        make("ReduceMax", ["numbers"], "most", axes=[1], keepdims=1),
        make("Greater", ["most", "half"], "lie"),
        zero=np.array([0], np.int64),
        one=ONE,
        half=np.float32(0.5),
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("change", ACROSS.values(), ids=ACROSS)
@pytest.mark.parametrize("model", ["plain", "mixture"])
def test_a_row_that_hears_of_others_is_refused(forger, change, model):
    wrong = forger(personal() if model == "plain" else mixed(), change)
    assert "'allowed' is not computed as the knowledge" in wrong[WHAT]


@pytest.mark.parametrize("change", ACROSS.values(), ids=ACROSS)
def test_a_network_that_hears_of_others_is_refused(forger, change):
    """The same in front of the scores, where the compiler says nothing of the nodes."""

    def turned(site):
        change(site)
        site.node("allowed").input[0] = site.node("wider").input[0]
        gate = next(n for n in site.nodes("IsNaN") if "gemm" in n.input[0])
        chosen = next(n for n in site.nodes("Where") if n.input[0] == gate.output[0])
        moved = [n for n in site.model.graph.node if n.output[0] in BEHIND]
        for node in moved:
            site.model.graph.node.remove(node)
        lie = [make("Cast", ["lie"], "lies", to=1), make("Add", [chosen.input[2], "lies"], "odd")]
        site.model.graph.node.remove(site.node("wider"))
        site.insert(gate.output[0], *moved, *lie)
        gate.input[0] = chosen.input[2] = "odd"

    assert "before the scores" in forger(personal(), turned)[WHAT]


def _weight(value):
    def change(site):
        share = next(n for n in site.nodes("Mul") if n.input[0].startswith("div_"))
        site.constant("forged", np.float64(value))
        share.input[1] = "forged"

    return change


def _skip(node):
    """A node that hands on its second input, or its first where there is one."""
    kept = node.input[1] if node.op_type == "Where" else node.input[0]
    node.CopyFrom(make("Identity", [kept], node.output[0]))


def _unmasked(site):  # a member's own: before and after its exponential
    for node in [n for n in site.nodes("Where") if n.input[0] == "allowed"][2:4]:
        _skip(node)


def _forgetful(site):  # every choice by the range takes its first option
    for node in [n for n in site.nodes("Where") if n.input[0] == "allowed"]:
        _skip(node)


def _hearing(site):
    """A mask that hangs on the network."""
    mask, clip = site.node("allowed"), site.nodes("Clip")[0]
    site.constant("far", np.float32(1e9))
    high = make("Greater", [clip.output[0], "far"], "high")
    wide = make("Or", [mask.input[0], "high"], "tampered")
    mask.input[0] = "tampered"
    graph = site.model.graph
    waiting = [*graph.node, high, wide]
    made = {one.name for one in (*graph.initializer, *graph.input)} | {""}
    graph.ClearField("node")
    while waiting:  # in an order in which each finds what it needs
        ready = [node for node in waiting if made.issuperset(node.input)]
        waiting = [node for node in waiting if node not in ready]
        made.update(name for node in ready for name in node.output)
        graph.node.extend(ready)


LOOSE = {
    "no mask at the end": lambda site: _skip(site.node("probabilities")),
    "no mask at all": _forgetful,
    "a mask that hangs on the network": _hearing,
    "a member that is not finite": lambda site: _skip(site.nodes("Clip")[0]),
}
SUMS = {
    "a weight too large": _weight(0.9),
    "a negative weight": _weight(-0.1),
    "a member without the range": _unmasked,
    "a member that is not finite": lambda site: _skip(site.nodes("Clip")[-1]),
    "an expert above 1": lambda site: _skip(
        next(n for n in site.nodes("Min") if "reducesum" in n.input[0])
    ),
}


@pytest.mark.parametrize("change", LOOSE.values(), ids=LOOSE)
def test_a_graph_that_may_leave_the_range_is_refused(forger, change):
    assert forger(personal(), change)


@pytest.mark.parametrize("change", SUMS.values(), ids=SUMS)
def test_what_is_no_weighted_sum_is_refused(forger, change):
    assert forger(mixed(), change)


NAMES = {  # more of them in test_forgers
    "another scope": lambda s: s.metadata("features", lambda f: [f[0] | {"high": 99.0}, *f[1:]]),
    "a feature more": lambda s: s.metadata("features", lambda f: [*f, f[0]]),
    "no classes": lambda s: s.model.metadata_props.remove(
        next(e for e in s.model.metadata_props if e.key == "fedlore.classes")
    ),
    "a note": lambda s: s.model.metadata_props.add(key="note", value="all is well"),
}


@pytest.mark.parametrize("change", NAMES.values(), ids=NAMES)
def test_swapped_names_are_refused(forger, change):
    assert set(forger(personal(), change)) == {"names in the graph"}


def test_weights_of_a_bundle_are_looked_at():
    made = bundle_of(mixed(), "north")
    header = build(Header, json.loads(made.members["bundle.json"]))
    tensors = read_weights(made.members["ensemble.safetensors"])
    known = read_knowledge(knowledge_texts(made.members))

    def faults(tensors, **changes):
        return ensemble_faults(replace(header, ensemble=header.ensemble | changes), tensors, known)

    assert faults(tensors) == []
    assert "sum to" in faults(tensors, network=0.9)[0]
    assert "[0, 1]" in faults(tensors, network=-0.1)[0]
    assert "inverse_temperature" in faults(tensors, inverse_temperature=None)[0]
    endless = tensors | {"own.0.weight": np.full_like(tensors["own.0.weight"], np.inf)}
    assert faults(endless) == ["'0.weight' must be finite"]
    turned = tensors | {"one_shot.spread": -tensors["one_shot.spread"]}
    assert faults(turned) == ["'one_shot.spread' is not above 0"]


def test_a_changed_member_is_found(site, tmp_path):
    certificate, _, _ = site(mixed())
    other = mixed(members=(MEMBERS["ridge"],))
    write_bundle(bundle_of(other, "north"), tmp_path / "other.lore")
    assert "certificate's fields" in {
        x.what for x in failures(certificate, tmp_path / "other.lore")
    }
