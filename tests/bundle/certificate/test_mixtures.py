"""Certificates of mixtures, and forgers who let one row hear of another or swap names."""

import json

import numpy as np
import onnx
import pytest

from fedlore.bundle import bundle_of, write_bundle
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.checker import check, outcome_of
from fedlore.checker.bundles import mixture_faults, read_weights
from fedlore.checker.forms import read_mixture
from fedlore.checker.graphs import Graph
from fedlore.checker.verdict import seal
from fedlore.models.ensemble import OneShotMember

from ..mixed import class_members, mixture, one_shot_model, ordinal
from ..onnx.test_mixtures import CALM, MEMBERS, known
from .test_certificate import failures, personal, site

__all__ = ["site"]

helper, to_tensor = onnx.helper, onnx.numpy_helper.from_array


def mixed(**settings):
    one_shot = OneShotMember(*one_shot_model(CALM, 4, random=0))
    settings.setdefault("members", (*class_members(4, 4, 2, CALM)[:-1], one_shot))
    return mixture(known(), CALM, 4, **settings)


def test_bundle_and_graph_of_a_mixture_hold(site):
    certificate, bundle, graph = site(mixed(net=ordinal(4, 4, start="expert")))
    said = json.loads(certificate.read_text())
    assert said["verdict"] == "proved"
    assert "a sum of 8 members" in said["claims"][0]["how"]
    assert failures(certificate, bundle) == failures(certificate, graph) == []
    lines = {line.what: line.found for line in check(certificate, bundle)}
    (zeros,) = [x for x in check(certificate, bundle) if x.what.startswith("zeros outside")]
    assert zeros.rows == 3_000 and outcome_of([zeros]) == (
        "the certificate holds as far as it was tested, on 3000 rows",
        0,
    )
    assert lines["members finite, weights sum to 1"].startswith("7, ")


def test_weights_of_a_graph_are_read_from_its_nodes():
    graph = Graph(bundle_to_onnx(bundle_of(mixed(expert=0.1), "north")).SerializeToString())
    found = read_mixture(graph).weights
    assert len(found) == 8
    assert found == pytest.approx([1 / 8] * 8)


def forged(certificate, graph, change):
    """A changed graph whose certificate was issued and sealed for it: the lines that fail."""
    model = onnx.load(graph)
    change(model)
    onnx.checker.check_model(model, full_check=True)
    graph.write_bytes(model.SerializeToString())
    said = json.loads(certificate.read_text())
    said["graph"] = Graph(graph.read_bytes()).digests()
    said["sha256"] = seal(said)
    certificate.write_text(json.dumps(said))
    return {line.what: line.found for line in failures(certificate, graph)}


def node_of(model, name):
    return next(n for n in model.graph.node if name in n.output)


def before(model, name, *nodes):
    """New nodes in front of the one that makes a value."""
    all_ = list(model.graph.node)
    place = next(i for i, n in enumerate(all_) if name in n.output)
    model.graph.ClearField("node")
    model.graph.node.extend([*all_[:place], *nodes, *all_[place:]])


def constant(model, name, value):
    model.graph.initializer.append(to_tensor(np.asarray(value), name))


def widen_by(*nodes, **constants):
    """The range, wider where 'lie' is true."""

    def change(model):
        for name, value in constants.items():
            constant(model, name, value)
        mask = node_of(model, "allowed").input[0]
        made = [helper.make_node(*parts, **about) for parts, about in nodes]
        made.append(helper.make_node("Or", [mask, "lie"], ["wider"]))
        before(model, "allowed", *made)
        node_of(model, "allowed").input[0] = "wider"

    return change


def n(kind, inputs, output, **about):
    return (kind, inputs, [output]), about


ONE = np.array([1], np.int64)
ACROSS = {
    "the number of rows": widen_by(
        n("Shape", ["rows"], "size", start=0, end=1), n("Equal", ["size", "one"], "lie"), one=ONE
    ),
    "the number of rows as a width": widen_by(
        n("Shape", ["rows"], "size", start=0, end=1),
        n("Concat", ["size", "size"], "square", axis=0),
        n("Expand", ["unit", "square"], "ones"),
        n("ReduceSum", ["ones", "one"], "many", keepdims=1),
        n("Less", ["many", "two"], "lie"),
        one=ONE,
        unit=np.ones((1, 1), np.float32),
        two=np.float32(2),
    ),
    "the largest of all rows": widen_by(
        n("ReduceMax", ["rows"], "top", axes=[0], keepdims=1),
        n("Gather", ["top", "one"], "first", axis=1),
        n("Less", ["first", "far"], "lie"),
        one=ONE,
        far=np.float64(5),
    ),
    "the first row": widen_by(
        n("Gather", ["rows", "zero"], "first", axis=0),
        n("Gather", ["first", "zero"], "ash", axis=1),
        n("Less", ["ash", "far"], "lie"),
        zero=np.array([0], np.int64),
        far=np.float64(5),
    ),
    "the place of a row": widen_by(
        n("Gather", ["rows", "zero"], "ash", axis=1),
        n("Less", ["ash", "far"], "lie"),
        zero=np.array([0], np.int64),
        far=np.array([[-1.0], [99.0]]),
    ),
    "rows laid across": widen_by(
        n("Gather", ["rows", "zero"], "ash", axis=1),
        n("Squeeze", ["ash", "one"], "flat"),
        n("Less", ["ash", "flat"], "below"),
        n("Cast", ["below"], "numbers", to=1),
        n("ReduceMax", ["numbers"], "most", axes=[1], keepdims=1),
        n("Greater", ["most", "half"], "lie"),
        zero=np.array([0], np.int64),
        one=ONE,
        half=np.float32(0.5),
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("change", ACROSS.values(), ids=ACROSS)
@pytest.mark.parametrize("model", ["plain", "mixture"])
def test_a_row_that_hears_of_others_is_refused(site, change, model):
    certificate, _, graph = site(personal() if model == "plain" else mixed())
    wrong = forged(certificate, graph, change)
    assert "may hang on other rows" in wrong["graph keeps the range by its structure"]


def _weight(value):
    def change(model):
        share = next(
            n for n in model.graph.node if n.op_type == "Mul" and n.input[0].startswith("div_")
        )
        constant(model, "forged", np.float64(value))
        share.input[1] = "forged"

    return change


def _unmasked(model):
    all_ = [n for n in model.graph.node if n.op_type == "Where" and n.input[0] == "allowed"]
    for node in all_[2:4]:  # a member's own: before and after its exponential
        node.CopyFrom(helper.make_node("Identity", [node.input[1]], list(node.output)))


def _unguarded(model):
    clip = [n for n in model.graph.node if n.op_type == "Clip"][-1]
    clip.CopyFrom(helper.make_node("Identity", [clip.input[0]], list(clip.output)))


def _loud(model):
    taken = next(n for n in model.graph.node if n.op_type == "Min" and "reducesum" in n.input[0])
    taken.CopyFrom(helper.make_node("Identity", [taken.input[0]], list(taken.output)))


def _bare(model):
    last = node_of(model, "probabilities")
    last.CopyFrom(helper.make_node("Identity", [last.input[1]], ["probabilities"]))


def _forgetful(model):
    for node in model.graph.node:  # every choice by the range takes its first option
        if node.op_type == "Where" and node.input[0] == "allowed":
            node.CopyFrom(helper.make_node("Identity", [node.input[1]], list(node.output)))


def _hearing(model):
    """A mask that hangs on the network."""
    mask = node_of(model, "allowed")
    clip = next(node for node in model.graph.node if node.op_type == "Clip")
    constant(model, "far", np.float32(1e9))
    high = helper.make_node("Greater", [clip.output[0], "far"], ["high"])
    wide = helper.make_node("Or", [mask.input[0], "high"], ["tampered"])
    mask.input[0] = "tampered"
    waiting = [*model.graph.node, high, wide]
    made = {one.name for one in (*model.graph.initializer, *model.graph.input)} | {""}
    model.graph.ClearField("node")
    while waiting:  # in an order in which each finds what it needs
        ready = [node for node in waiting if made.issuperset(node.input)]
        waiting = [node for node in waiting if node not in ready]
        made.update(name for node in ready for name in node.output)
        model.graph.node.extend(ready)


@pytest.mark.parametrize(
    ("change", "why"),
    [(_bare, "comes from Identity"), (_forgetful, ""), (_hearing, "depends on the network")],
)
def test_a_graph_that_may_leave_the_range_is_refused(site, change, why):
    certificate, _, graph = site(personal())
    assert why in forged(certificate, graph, change)["graph keeps the range by its structure"]


SUMS = {
    "a weight too large": _weight(0.9),
    "a negative weight": _weight(-0.1),
    "a member without the range": _unmasked,
    "a member that is not finite": _unguarded,
    "an expert above 1": _loud,
}


@pytest.mark.parametrize("change", SUMS.values(), ids=SUMS)
def test_what_is_no_weighted_sum_is_refused(site, change):
    certificate, _, graph = site(mixed())
    wrong = forged(certificate, graph, change)
    assert "not a weighted sum" in wrong["graph keeps the range by its structure"]


def _meta(key, change):
    def forge(model):
        entry = next(e for e in model.metadata_props if e.key == key)
        entry.value = json.dumps(change(json.loads(entry.value)))

    return forge


NAMES = {  # more of them in test_forgers
    "another scope": _meta("fedlore.features", lambda f: [f[0] | {"high": 99.0}, *f[1:]]),
    "a feature more": _meta("fedlore.features", lambda f: [*f, f[0]]),
    "no classes": lambda m: m.metadata_props.remove(
        next(e for e in m.metadata_props if e.key == "fedlore.classes")
    ),
}


@pytest.mark.parametrize("change", NAMES.values(), ids=NAMES)
def test_swapped_names_are_refused(site, change):
    certificate, _, graph = site(personal())
    assert set(forged(certificate, graph, change)) == {"names of features and classes"}


def test_weights_of_a_bundle_are_looked_at():
    made = bundle_of(mixed(), "north")
    ensemble = json.loads(made.members["bundle.json"])["ensemble"]
    tensors = read_weights(made.members["ensemble.safetensors"])
    assert mixture_faults(ensemble, tensors) == []
    assert "sum to" in mixture_faults(ensemble | {"network": 0.9}, tensors)[0]
    assert "[0, 1]" in mixture_faults(ensemble | {"network": -0.1}, tensors)[0]
    endless = tensors | {"own.0.weight": np.array([np.inf])}
    assert mixture_faults(ensemble, endless) == ["'own.0.weight' is not finite"]


def test_a_changed_member_is_found(site, tmp_path):
    certificate, _, _ = site(mixed())
    other = mixed(members=(MEMBERS["ridge"],))
    write_bundle(bundle_of(other, "north"), tmp_path / "other.lore")
    assert "files as certified" in {x.what for x in failures(certificate, tmp_path / "other.lore")}
