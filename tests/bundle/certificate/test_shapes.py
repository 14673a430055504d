"""The claim `monotone`: proved by the checker from structure, or refuted by a row."""

import json

import pytest
import torch

from fedlore.bundle import bundle_of, write_bundle
from fedlore.bundle.certificate import certify, write_certificate
from fedlore.bundle.certificate.checker import check
from fedlore.bundle.certificate.checker.verdict import seal
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.onnx.finishing import save_graph
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.errors import FedloreError
from fedlore.knowledge import Knowledge
from fedlore.knowledge.formulas.formula import Formula
from fedlore.knowledge.formulas.grading import FormulaRange, GradedFormula
from fedlore.knowledge.schema import Feature, Schema
from fedlore.knowledge.shapes import FeatureShape, SiteShapes
from fedlore.knowledge.tables.rulesheets import table_of
from fedlore.personal.classifier import Personal

from ...theory.test_shapes import random_site

SCHEMA = Schema(
    (Feature("ash", low=5, high=15), Feature("Ro", low=0.5, high=2)),
    ("g1", "g2", "g3", "g4"),
)
WHAT = "more of a feature with a shape never moves the answer the other way"
IN_ORDER = table_of(
    [{"ash": "< 8", "then": "g2..g4"}, {"ash": "> 11", "then": "g1..g3"}], SCHEMA, kind="range"
)
FALLS = table_of([{"ash": "< 8", "then": "g1..g2"}], SCHEMA, kind="range")
EDGES = (8.0, 10.0, 12.0)


def formula(text):
    return Formula.parse(text, SCHEMA)


LINE = GradedFormula(formula("20 - ash + Ro"), EDGES)


def bundled(limits=None, said=None, *, effect="lowers", where="", hears=False, trust=0.0):
    shapes = SiteShapes((FeatureShape("ash", effect, where),), SCHEMA)
    known = Knowledge(said, limits, trust, schema=SCHEMA, shapes=shapes, conflict="error")
    options = Shaping(2, hears=hears, start="middle" if hears else "none")
    model = lipschitz_mlp(4, options, hidden=(5, 4), seed=2)
    with torch.no_grad():
        model.line.weight.copy_(torch.tensor([[0.7, -0.4, 0.3, 0.2]]))
    return bundle_of(Personal(model, known), "plant", schema=SCHEMA)


def claimed(bundle):
    return next(c["status"] for c in certify(bundle)["claims"] if c["claim"] == "monotone")


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ({}, "proved"),
        ({"limits": IN_ORDER}, "proved"),
        ({"limits": IN_ORDER, "hears": True}, "proved"),
        ({"limits": FALLS}, "refuted"),
        ({"limits": FALLS, "effect": "raises"}, "proved"),
        ({"limits": FALLS, "where": "ash >= 8"}, "proved"),
        ({"limits": FALLS, "where": "ash + Ro > 9"}, "unknown"),
        ({"said": LINE, "trust": 0.3}, "proved"),
        ({"said": LINE, "trust": 0.3, "effect": "raises"}, "proved"),
        (
            {
                "limits": FormulaRange(
                    formula("18 - ash"),
                    formula("25 - ash"),
                    EDGES,
                )
            },
            "proved",
        ),
        (
            {"limits": FormulaRange(None, formula("14 - log(ash)"), EDGES)},
            "unknown",
        ),
    ],
)
def test_what_is_claimed(parts, status):
    assert claimed(bundled(**parts)) == status


def kept(folder, bundle, values=None):
    write_bundle(bundle, folder / "b.lore")
    write_certificate(values or certify(bundle), folder / "c.json")
    return {line.what: line for line in check(folder / "c.json", folder / "b.lore")}


def test_the_checker_proves_it_anew(tmp_path):
    lines = kept(tmp_path, bundled(IN_ORDER, hears=True))
    assert all(line.holds for line in lines.values())
    assert lines[WHAT].found == "proved"
    assert lines["zeros outside the range on rows of the scope"].rows > 0


@pytest.mark.parametrize("where", ["", "ash < 9"])
def test_a_graph_of_it_is_certified_too(tmp_path, where):
    bundle = bundled(IN_ORDER, hears=True, where=where)
    kept(tmp_path, bundle)
    save_graph(bundle_to_onnx(bundle), tmp_path / "b.onnx")
    assert [x for x in check(tmp_path / "c.json", tmp_path / "b.onnx") if not x.holds] == []


def test_a_claim_that_is_not_so_does_not_hold(tmp_path):
    bundle = bundled(FALLS)
    said = json.loads(json.dumps(certify(bundle)))
    for claim in said["claims"]:
        if claim["claim"] == "monotone":
            claim["status"] = "proved"
    lines = kept(tmp_path, bundle, said | {"sha256": seal(said)})
    assert not lines[WHAT].holds and lines[WHAT].found.startswith("refuted by [5.0")


def test_a_number_is_refused_with_a_reason():
    found, _, _ = random_site(4, "number")
    with pytest.raises(FedloreError, match="networks of a number that keep shapes"):
        certify(bundle_of(found, "plant", schema=found.knowledge.schema))
