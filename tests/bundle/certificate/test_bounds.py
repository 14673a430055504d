"""An expert is proved inside as he is heard, and digests tell graphs apart."""

from dataclasses import replace

import numpy as np
import onnx

from fedlore.checker.graphs import Graph
from fedlore.kernel.knowledge import read_knowledge
from fedlore.kernel.prove import inside

helper = onnx.helper


KNOWLEDGE = {
    "knowledge.toml": """
classes = ["low", "mid", "high"]
conflict = "error"
[[features]]
name = "x"
low = 0
high = 1
[[predict.sources]]
table = "said.csv"
[[range.sources]]
table = "range.csv"
""",
    "said.csv": "x,then\n>= 0,low\n",
    "range.csv": 'x,then\n>= 0,"low, mid"\n',
}


def test_an_expert_is_proved_inside_as_he_is_heard_and_not_as_he_speaks():
    known = read_knowledge(KNOWLEDGE)
    assert inside(known).status == "proved"
    mid = np.array([[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert inside(replace(known, confusion=mid)).status == "proved"
    high = np.array([[0.6, 0.0, 0.4], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert inside(replace(known, confusion=high)).status == "refuted"
    faint = high * [1.0, 1.0, 1e-60]  # no row shows it in single precision; the proof must
    assert inside(replace(known, confusion=faint)).status == "unknown"


def test_the_digest_of_a_graph_holds_the_attributes_of_its_nodes():
    def digests(alpha: float, kind: str = "LeakyRelu") -> dict[str, str]:
        row = helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, ["n", 2])
        out = helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, ["n", 2])
        node = helper.make_node(kind, ["rows"], ["out"], alpha=alpha)
        graph = helper.make_graph([node], "g", [row], [out])
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        return Graph(model.SerializeToString()).digests()

    assert digests(0.1) == digests(0.1)
    assert digests(0.1) != digests(0.2)
    assert digests(0.1) != digests(0.1, "Elu")
