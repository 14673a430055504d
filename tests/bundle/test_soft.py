"""A bundle with rules that hold in most cases only: heard, told of, and counted by nobody."""

import json

import numpy as np
import pytest
import torch

from fedlore.bundle import bundle_of, reasons, write_bundle
from fedlore.bundle.certify import certify, write_certificate
from fedlore.bundle.monitor.facts import find_facts
from fedlore.bundle.monitor.record import open_record
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.onnx.builder import save_graph
from fedlore.checker import check
from fedlore.checker.certificate import seal
from fedlore.knowledge import Knowledge, table_of
from fedlore.knowledge.formulas import Formula, FormulaRange
from fedlore.knowledge.soft import Softened, SoftFormulas
from fedlore.knowledge.tables.soft import SoftTable

from .making import SCHEMA, personal

LIMITS = table_of([{"ash": "> 30", "then": "B..C"}], SCHEMA, kind="range")
EXPERT = SoftTable(
    table_of([{"s": "> 4", "then": "C"}, {"ash": "<= 8", "then": "A"}], SCHEMA, kind="predict"),
    (1.0, 0.8),
)
RULES = SoftTable(
    table_of(
        [{"ash": "> 12", "then": "B, C", "rule": "high ash"}, {"s": "> 3", "then": "C"}],
        SCHEMA,
        kind="range",
    ),
    (0.9, 0.6),
)
UPPER = SoftFormulas(
    FormulaRange(None, Formula.parse("ash / 10 + s", SCHEMA), (2.0, 4.0), "all"), 0.7
)


def known(expert=EXPERT, limits=LIMITS, soft=(RULES, UPPER), **settings):
    said = Softened(expert, soft) if soft else expert
    return Knowledge(said, limits, 0.5, schema=SCHEMA, **settings)


def bundled(knowledge=None):
    return bundle_of(personal(knowledge or known()), "plant", schema=SCHEMA)


def checked(bundle, tmp_path, values=None, subject=None):
    write_certificate(values or certify(bundle), tmp_path / "c.json")
    if subject is None:
        subject = tmp_path / "b.lore"
        write_bundle(bundle, subject)
    return check(tmp_path / "c.json", subject)


def test_reasons_and_card_say_that_rules_are_soft():
    made = bundled()
    (said,) = reasons(made, torch.tensor([[20.0, 1.0]]))
    assert "table-3.csv, 'high ash' (row 2): ash > 12 -> not A (in 90 % of cases)" in said
    assert "at most ash / 10 + s = 3 (in 70 % of cases)" in said
    assert any(
        "soft rules: they hold in most cases only" in line for line in made.card.splitlines()
    )
    (said,) = reasons(bundled(known(None, None, (RULES,))), torch.tensor([[20.0, 1.0]]))
    assert any("B or C" in line or "both" in line or "favour" in line for line in said)


def test_no_claim_hangs_on_a_soft_rule(tmp_path):
    hard = known(table_of([{"ash": "> 12", "then": "C"}], SCHEMA, kind="predict"), soft=())
    ensemble = known(hard.prediction, soft=(RULES, UPPER))
    without, with_ = (
        {c["claim"]: c for c in certify(bundled(k))["claims"]} for k in (hard, ensemble)
    )
    for name in ("inside-range", "finite-weights", "never-empty"):
        assert with_[name] == without[name]
    assert without["prediction-inside"]["status"] == "proved"
    assert with_["prediction-inside"]["status"] == "unknown"
    assert "is not counted" in with_["prediction-inside"]["how"]


def test_a_certificate_that_claims_more_of_soft_rules_is_found_out(tmp_path):
    bundle = bundled()
    values = certify(bundle)
    claims = [
        c | ({"status": "proved"} if c["claim"] == "prediction-inside" else {})
        for c in values["claims"]
    ]
    forged = values | {"claims": claims}
    lines = checked(bundle, tmp_path, forged | {"sha256": seal(forged)})
    assert [line.what for line in lines if not line.holds] == ["prediction-inside"]


@pytest.mark.parametrize("constant", [0.9, 0.6, 0.7])
def test_a_graph_with_another_confidence_is_found_out(tmp_path, constant):
    import onnx

    bundle = bundled()
    graph = bundle_to_onnx(bundle)
    changed = 0
    for tensor in graph.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype == np.float64 and (values == constant).any() and values.ndim == 2:
            other = np.where(values == constant, 0.99, values)
            tensor.CopyFrom(onnx.numpy_helper.from_array(other, tensor.name))
            changed += 1
    assert changed
    save_graph(graph, tmp_path / "g.onnx")
    lines = checked(bundle, tmp_path, certify(bundle), tmp_path / "g.onnx")
    failed = {line.what for line in lines if not line.holds}
    assert "graph is the compiler's own" in failed


def test_a_monitor_holds_a_rule_to_its_own_word(tmp_path):
    x = torch.tensor([[20.0, 1.0], [5.0, 1.0], [5.0, 3.5], [20.0, 4.5]])
    y = torch.tensor([0, 0, 1, 2])
    found = {f.question.name: f for f in find_facts(bundled(), x, y)}
    high = found["table-3.csv, 'high ash' (row 2)"]
    assert str(high.values.tolist()) == "[1.0, nan, nan, 0.0]"
    record = open_record(tmp_path / "w.jsonl", bundled())
    assert record.rates[high.question.name] == pytest.approx(0.1)
    assert json.loads((tmp_path / "w.jsonl").read_text())["rates"][
        "prediction 3 ('upper = ash / 10 + s')"
    ] == pytest.approx(0.3)
