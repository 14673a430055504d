"""ONNX files as knowledge."""

import hashlib

import numpy as np
import pytest
import torch

from fedlore.errors import KnowledgeError
from fedlore.knowledge.sources.onnx import OnnxModel

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

WEIGHT = np.array([[1, 0, -1], [0, 1, -1]], dtype=np.float32)  # (d, k)
X = torch.randn(9, 2, generator=torch.Generator().manual_seed(1))


def write(path, ops, outputs, *, rows="n", kind=onnx.TensorProto.FLOAT, inputs=1):
    """A small file: `ops` are (op, inputs, outputs), over the input x and the weight w."""
    helper = onnx.helper
    nodes = [helper.make_node(op, list(i), list(o), **extra) for op, i, o, extra in ops]
    names = ["x", "x2"][:inputs]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, kind, [rows, 2]) for name in names],
        [helper.make_tensor_value_info(name, what, shape) for name, what, shape in outputs],
        [onnx.numpy_helper.from_array(WEIGHT, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


MATMUL = ("MatMul", "xw", "s", {})
SCORES = ("s", onnx.TensorProto.FLOAT, ["n", 3])
SOFTMAX = ("Softmax", "s", "p", {"axis": 1})
PROBABILITIES = ("p", onnx.TensorProto.FLOAT, ["n", 3])
ARGMAX = ("ArgMax", "s", "l", {"axis": 1, "keepdims": 0})
LABELS = ("l", onnx.TensorProto.INT64, ["n"])


def test_hard_and_soft_answers(tmp_path):
    path = write(tmp_path / "m.onnx", [MATMUL, SOFTMAX], [PROBABILITIES])
    scores = X @ torch.from_numpy(WEIGHT)
    assert torch.equal(OnnxModel(path)(X).argmax(1), scores.argmax(1))
    assert (OnnxModel(path)(X).sum(1) == 1).all()
    assert torch.allclose(OnnxModel(path, soft=True)(X), scores.softmax(1), atol=1e-6)
    assert OnnxModel(path)(X.double()).dtype == torch.float64
    assert OnnxModel(path)(X[:0]).shape == (0, 3)


def test_logits_need_to_be_called_so(tmp_path):
    path = write(tmp_path / "m.onnx", [MATMUL], [SCORES])
    scores = X @ torch.from_numpy(WEIGHT)
    soft = OnnxModel(path, soft=True, gives="logits")(X)
    assert torch.allclose(soft, scores.softmax(1), atol=1e-6)
    with pytest.raises(KnowledgeError, match="sum to 1"):
        OnnxModel(path, soft=True)(X)


def test_the_scores_are_taken_where_labels_stand_beside_them(tmp_path):
    ops = [MATMUL, SOFTMAX, ARGMAX]
    path = write(tmp_path / "m.onnx", ops, [LABELS, PROBABILITIES])
    assert OnnxModel(path, soft=True)(X).shape == (9, 3)


def test_labels_need_the_number_of_classes(tmp_path):
    path = write(tmp_path / "m.onnx", [MATMUL, ARGMAX], [LABELS])
    scores = X @ torch.from_numpy(WEIGHT)
    assert torch.equal(OnnxModel(path, classes=4)(X).argmax(1), scores.argmax(1))
    assert OnnxModel(path, classes=4)(X).shape == (9, 4)
    for settings in ({}, {"classes": 3, "soft": True}):
        with pytest.raises(KnowledgeError, match="needs classes="):
            OnnxModel(path, **settings)
    with pytest.raises(KnowledgeError, match="labels must lie in 0 to 1: row"):
        OnnxModel(path, classes=2)(X)


def test_the_hash_is_that_of_the_file(tmp_path):
    one = OnnxModel(write(tmp_path / "a.onnx", [MATMUL], [SCORES]))
    other = OnnxModel(write(tmp_path / "b.onnx", [MATMUL, SOFTMAX], [PROBABILITIES]))
    assert one.digest == hashlib.sha256((tmp_path / "a.onnx").read_bytes()).hexdigest()
    assert one.digest != other.digest


def test_files_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(KnowledgeError, match="cannot read"):
        OnnxModel(tmp_path / "absent.onnx")
    (tmp_path / "text.onnx").write_text("not a model")
    with pytest.raises(KnowledgeError, match="no ONNX model"):
        OnnxModel(tmp_path / "text.onnx")
    with pytest.raises(KnowledgeError, match="takes 1 rows at a time"):
        OnnxModel(write(tmp_path / "one.onnx", [MATMUL], [SCORES], rows=1))
    two = [("Add", ("x", "x2"), "y", {}), ("MatMul", "yw", "s", {})]
    with pytest.raises(KnowledgeError, match="one input of floats"):
        OnnxModel(write(tmp_path / "two.onnx", two, [SCORES], inputs=2))
    model = OnnxModel(write(tmp_path / "fine.onnx", [MATMUL], [SCORES]))
    with pytest.raises(KnowledgeError, match="cannot take rows"):
        model(torch.zeros(3, 5))
