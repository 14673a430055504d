"""Parts of the checker, each by itself: where several would find a lie, each one must."""

import numpy as np
import onnx
import pytest

from fedlore.bundle import bundle_of, write_bundle
from fedlore.bundle.certify import certify
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.checker.bundles import MANIFEST, certificate_faults, digest, faults, read_members
from fedlore.checker.forms import differences
from fedlore.checker.graphs import Graph, crossing
from fedlore.errors import KnowledgeError
from fedlore.kernel.knowledge import read_knowledge

from .test_certificate import personal

helper = onnx.helper


def test_weights_are_held_to_their_values():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    said = {"w": {"shape": [2, 3], "sha256": digest(values.tobytes())}}
    assert faults({"w": values}, said) == []
    other = values.copy()
    other[1, 2] += 1e-6
    assert faults({"w": other}, said) == ["'w' has other values than certified"]


def test_a_member_is_held_to_the_manifest(tmp_path):
    write_bundle(bundle_of(personal(), "north"), tmp_path / "site")
    assert MANIFEST not in read_members(tmp_path / "site")
    with open(tmp_path / "site" / "card.md", "a") as card:
        card.write("and more")
    with pytest.raises(KnowledgeError, match="not what its manifest says"):
        read_members(tmp_path / "site")


def test_a_verdict_is_held_to_the_claims():
    said = certify(bundle_of(personal(), "north"))
    assert certificate_faults(said) == []
    needed = next(claim for claim in said["claims"] if claim["needed"])
    needed["status"] = "unknown"
    assert certificate_faults(said) == ["its verdict is 'proved'"]


def test_a_graph_that_refuses_every_row_is_found():
    model = bundle_to_onnx(bundle_of(personal(), "north"))
    files = Graph(model.SerializeToString()).knowledge()
    known = read_knowledge(files)
    rows = np.array([[9.0, 1.2, 0.0, 0.5]][:1], np.float64)[:, : len(known.columns)]
    assert differences(Graph(model.SerializeToString()), known, rows) == []
    for node in model.graph.node:
        for place, name in enumerate(node.output):
            if name == "refused":
                node.output[place] = "was_refused"
    model.graph.node.append(helper.make_node("Not", ["was_refused"], ["refused"]))
    found = differences(Graph(model.SerializeToString()), known, rows)
    assert any("refuses other rows" in line for line in found)


def graph_of(*nodes, **constants):
    rows = helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, ["n", 2])
    out = helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, ["n", 2])
    made = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(list(nodes), "g", [rows], [out], initializer=made)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8), constants


ZERO, ONE = (np.array([i], np.int64) for i in (0, 1))


def test_a_sum_within_a_row_is_fine_and_one_over_rows_is_not():
    for axes, wrong in ((ONE, None), (ZERO, "goes along the rows"), (-2 * ONE, "along the rows")):
        node = helper.make_node("ReduceSum", ["rows", "axes"], ["sums"], keepdims=1)
        last = helper.make_node("Add", ["rows", "sums"], ["out"])
        found = crossing(*graph_of(node, last, axes=axes))
        assert (found is None) == (wrong is None) and (wrong or "") in (found or "")


def test_the_number_of_rows_is_no_number():
    shape = helper.make_node("Shape", ["rows"], ["size"], start=0, end=1)
    cast = helper.make_node("Cast", ["size"], ["many"], to=1)
    last = helper.make_node("Add", ["rows", "many"], ["out"])
    assert "looks at the number of rows" in (crossing(*graph_of(shape, cast, last)) or "")


def test_the_digest_of_a_graph_holds_the_attributes_of_its_nodes():
    def digests(alpha, kind="LeakyRelu"):
        node = helper.make_node(kind, ["rows"], ["out"], alpha=alpha)
        return Graph(graph_of(node)[0].SerializeToString()).digests()

    assert digests(0.1) == digests(0.1)
    assert digests(0.1) not in (digests(0.2), digests(0.1, "Elu"))
