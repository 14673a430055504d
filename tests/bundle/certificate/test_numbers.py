"""Certificates of a number: what is proved, what is refuted by a row, and forged graphs."""

import json

import numpy as np
import pytest
import torch

from fedlore import Bins, Knowledge, KnowledgeError, mlp, write_bundle
from fedlore.bundle.certify import certify, write_certificate
from fedlore.bundle.onnx import write_bundle_onnx
from fedlore.bundle.store import bundle_of
from fedlore.checker import check
from fedlore.checker.bundles import header_faults, knowledge_texts, read_weights
from fedlore.kernel.knowledge import read_knowledge
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.combine import AllOf
from fedlore.knowledge.conformal import ConformalInterval
from fedlore.knowledge.formulas import Formula
from fedlore.knowledge.intervals import Between
from fedlore.knowledge.tables.numbers import parse_numbers_table
from fedlore.knowledge.tables.sheets import parse_sheet
from fedlore.models.regressor import PersonalRegressor

onnx = pytest.importorskip("onnx")
BINS = Bins(0.0, 10.0, 5)
SCHEMA = Schema((Feature("x", low=0, high=8), Feature("z", low=0, high=1)), tuple("abcde"), "y")


def formula(text: str) -> Formula:
    return Formula.parse(text, SCHEMA)


def rules(text: str, kind: str = "range", policy: str | None = None):
    return parse_numbers_table(
        parse_sheet(text.encode(), "t.csv"), SCHEMA, kind=kind, policy=policy
    )


BAND = Between(formula("x - 1"), formula("x + 1 + z"))


def made(known: Knowledge):
    model = PersonalRegressor(mlp(2, BINS.k, hidden=(4,)), BINS, known)
    return bundle_of(model, "north", schema=SCHEMA)


def statuses(known: Knowledge) -> dict[str, str]:
    return {claim["claim"]: claim["status"] for claim in certify(made(known))["claims"]}


@pytest.mark.parametrize(
    ("limit", "row"),
    [
        (Between(formula("x"), formula("5")), lambda x: x[0] > 5),
        (Between(formula("x + 4"), None), lambda x: x[0] + 4 > 10),
        (rules("x,then\n> 6,<= 2\n> 7,>= 3\n"), lambda x: x[0] > 7),
        (AllOf((BAND, rules("x,then\n> 7.5,<= 1\n"))), lambda x: x[0] > 7.5),
        (rules("x,then\n> 6,>= 12\n"), lambda x: x[0] > 6),
    ],
    ids=["crossed", "beyond the bound", "rules that clash", "a rule against a band", "no number"],
)
def test_a_set_that_can_be_empty_is_refuted_by_such_a_row(limit, row):
    (claim,) = [c for c in certify(made(Knowledge(None, limit)))["claims"]
                if c["claim"] == "never-empty"]  # fmt: skip
    assert claim["status"] == "refuted" and row(claim["example"])
    known = Knowledge(None, limit)
    with pytest.raises(KnowledgeError):
        made(known).personal.annotate(torch.tensor([claim["example"]]))


def test_whether_the_expert_stays_inside_counts_where_nothing_takes_care_of_it():
    inside = Knowledge(formula("x"), BAND, 0.3, conflict="error")
    assert statuses(inside)["prediction-inside"] == "proved"
    outside = Knowledge(formula("x + 1.5"), BAND, 0.3, conflict="error")
    assert certify(made(outside))["verdict"] == "refuted"
    calm = Knowledge(formula("x + 1.5"), BAND, 0.3, conflict="project")
    assert certify(made(calm))["verdict"] == "proved"
    unique = rules("x,then\n> 6,4\n> 7,5\n", "predict", "unique")
    assert statuses(Knowledge(unique, None, 0.3))["prediction-agrees"] == "refuted"
    table = rules("x,then\n> 6,7.5\n", "predict")
    assert statuses(Knowledge(table, BAND, 0.3, conflict="error"))["prediction-inside"] == "refuted"


def test_a_calibrated_range_is_not_certified():
    known = Knowledge(None, ConformalInterval(formula("x"), 1.0, 0.1, 9), empty="all")
    with pytest.raises(KnowledgeError, match="'conformal' is neither a table nor a formula"):
        certify(made(known))


def forged(tmp_path, change) -> list[str]:
    """What fails after a graph was changed, its certificate made for the changed one."""
    bundle = made(Knowledge(formula("x"), AllOf((BAND, rules("x,then\n> 6,>= 7\n"))), 0.3))
    write_bundle_onnx(bundle, tmp_path / "b.onnx")
    model = onnx.load(tmp_path / "b.onnx")
    change(model)
    onnx.save(model, tmp_path / "b.onnx")
    write_certificate(certify(bundle), tmp_path / "c.json")
    lines = check(tmp_path / "c.json", tmp_path / "b.onnx")
    return [line.what for line in lines if not line.holds]


def node(model, output: str):
    return next(n for n in model.graph.node if output in n.output)


def test_a_number_that_is_not_moved_into_the_set_is_found(tmp_path):
    def skip(model):  # the number as it was before the last step
        shown = node(model, node(model, "number").input[0])
        near = node(model, shown.input[2])
        value = node(model, node(model, node(model, near.input[0]).input[0]).input[0])
        shown.input[2] = value.output[0]

    assert "graph is the compiler's own" in forged(tmp_path, skip)


def test_another_limit_in_the_graph_is_found(tmp_path):
    def widen(model):
        for tensor in model.graph.initializer:
            values = onnx.numpy_helper.to_array(tensor)
            if values.dtype == np.float64 and (values == 7.0).any():  # `>= 7` of the table
                tensor.CopyFrom(onnx.numpy_helper.from_array(np.where(values == 7.0, 0.5, values),
                                                             tensor.name))  # fmt: skip

    assert "graph is the compiler's own" in forged(tmp_path, widen)


def test_a_set_that_hangs_on_the_network_is_found(tmp_path):
    def lean(model):
        lower = node(model, "lower")
        weight = next(t.name for t in model.graph.initializer if t.name.startswith("model."))
        cast = onnx.helper.make_node("Cast", [weight], ["wide"], to=11)
        top = onnx.helper.make_node("ReduceMax", ["wide"], ["top"], axes=[0, 1], keepdims=1)
        moved = onnx.helper.make_node("Add", [lower.input[0], "top"], ["moved"])
        place = list(model.graph.node).index(lower)
        for at, one in enumerate((cast, top, moved)):
            model.graph.node.insert(place + at, one)
        lower.input[0] = "moved"

    assert "graph is the compiler's own" in forged(tmp_path, lean)


def test_another_certificate_is_found(tmp_path):
    bundle = made(Knowledge(None, BAND, 0.0))
    write_bundle(bundle, tmp_path / "b.lore")
    values = certify(bundle)
    values["target"]["upper"] = 12.0
    (tmp_path / "c.json").write_text(json.dumps(values))
    lines = check(tmp_path / "c.json", tmp_path / "b.lore")
    assert {"certificate's own hash", "certificate's fields"} <= {
        line.what for line in lines if not line.holds
    }


def cut_into(cut: Bins):
    """The members of a bundle whose number is cut like this."""
    model = PersonalRegressor(mlp(2, cut.k, hidden=(4,)), cut, Knowledge(None, BAND, 0.3))
    return bundle_of(model, "north", schema=SCHEMA).members


def faults(cut: Bins, **changes) -> list[str]:
    """What the checker says of a header after some changes."""
    members = cut_into(cut)
    texts = knowledge_texts(members)
    header = json.loads(members["bundle.json"]) | changes
    weights = read_weights(members["weights.safetensors"])
    return header_faults(header, read_knowledge(texts), texts, weights)


EVEN, UNEVEN = Bins(0.1, 0.7, 7), Bins.at([0.0, 0.1, 0.3, 10.0])


@pytest.mark.parametrize("cut", [BINS, EVEN, UNEVEN], ids=["twos", "not exact", "uneven"])
def test_edges_and_their_names_are_those_of_the_knowledge_file(cut):
    assert faults(cut) == []
    moved = [*cut.edges[:1], cut.edges[1] * (1 + 2**-52), *cut.edges[2:]]
    assert faults(cut, bins=moved)[0] == "its bins differ from the knowledge file"
    names = {"classes": [f"{n}" for n in range(cut.k)]}
    renamed = json.loads(cut_into(cut)["bundle.json"])["schema"] | names
    assert faults(cut, schema=renamed) == ["its classes differ from the knowledge file"]


def test_a_network_that_is_said_to_hear_must_have_the_inputs_for_it():
    assert faults(BINS, hears=True) == ["its network takes rows of another width"]
    ones = {"shift": [0.0] * 2, "spread": [1.0] * 2}
    assert faults(BINS, scaling=ones) == []
    assert len(faults(BINS, scaling=ones, hears=True)) == 2
    assert len(faults(BINS, scaling={"shift": [[0.0] * 2], "spread": [[1.0] * 2]})) == 1
