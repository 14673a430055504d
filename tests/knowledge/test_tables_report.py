"""Figures per rule, on rows one can count by hand."""

import pytest
import torch

from fedlore.core.examples import Examples
from fedlore.errors import KnowledgeError
from fedlore.kernel import sheets as kernel_sheets
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge import audit
from fedlore.knowledge.audit import rule_report
from fedlore.knowledge.tables import sheets
from fedlore.knowledge.tables.sheets import table_of

SCHEMA = Schema((Feature("ash"),), ("I", "II", "III"))
X = torch.tensor([[1.0], [2.0], [3.0], [4.0], [float("nan")]])
Y = torch.tensor([0, 0, 1, 1, 2])


def report(cells, kind, policy=None, y=Y):
    return rule_report(table_of(cells, SCHEMA, kind=kind, policy=policy), Examples(X, y))


def column(rows, name):
    return [row[name] for row in rows]


CELLS = [
    {"ash": "<= 2", "then": "I", "rule": "low"},
    {"ash": "<= 3", "then": "I"},
    {"ash": "> 2", "then": "II"},
    {"ash": "> 9", "then": "III"},
]


def test_predictions_are_counted_rule_by_rule():
    rows = report(CELLS, "predict", "first")
    assert column(rows, "rule") == ["low", "row 2", "row 3", "row 4"]
    assert column(rows, "rows") == [2, 3, 2, 0]
    assert column(rows, "coverage") == [0.4, 0.6, 0.4, 0.0]
    assert column(rows, "overlaps") == [0.4, 0.6, 0.2, 0.0]
    assert column(rows, "conflicts") == [0.0, 0.2, 0.2, 0.0]
    assert column(rows, "decides") == [0.4, 0.2, 0.2, 0.0]
    assert column(rows, "correct") == [2, 2, 2, 0]
    assert column(rows, "incorrect") == [0, 1, 0, 0]
    assert column(rows, "accuracy") == [1.0, 2 / 3, 1.0, None]


def test_the_smaller_priority_decides():
    cells = [cell | {"priority": rank} for cell, rank in zip(CELLS, [4, 3, 2, 1], strict=True)]
    assert column(report(cells, "predict"), "decides") == [0.0, 0.4, 0.4, 0.0]


def test_a_range_is_right_when_it_holds_the_label_and_opposed_when_nothing_is_shared():
    cells = [
        {"ash": "<= 3", "then": "I, II"},
        {"ash": "> 1", "then": "II, III"},
        {"ash": "= 3", "then": "III"},
    ]
    rows = report(cells, "range", "union")
    assert column(rows, "correct") == [3, 2, 0]
    assert column(rows, "conflicts") == [0.2, 0.0, 0.2]
    assert column(rows, "decides") == column(rows, "coverage")


def test_without_labels_nothing_is_right_or_wrong():
    rows = report(CELLS, "predict", y=None)
    assert column(rows, "accuracy") == column(rows, "correct") == [None] * 4
    assert column(rows, "coverage") == [0.4, 0.6, 0.4, 0.0]


def test_parts_add_up(monkeypatch):
    whole = report(CELLS, "predict")
    monkeypatch.setattr(audit, "CELLS", 8)  # two rows at a time
    assert report(CELLS, "predict") == whole


def test_no_data_is_refused():
    table = table_of(CELLS, SCHEMA, kind="predict")
    with pytest.raises(KnowledgeError, match="at least one row"):
        rule_report(table, Examples(torch.zeros(0, 1)))


def test_a_table_may_have_just_as_many_rules_as_are_allowed(monkeypatch):
    monkeypatch.setattr(kernel_sheets, "MOST_RULES", 2)
    rules = [{"a": "> 1", "then": "no"}, {"a": "> 2", "then": "yes"}]
    schema = Schema((Feature("a"),), ("no", "yes"))
    assert len(sheets.table_of(rules, schema, kind="predict").rules) == 2
    with pytest.raises(KnowledgeError, match="has more than 2 rules"):
        sheets.table_of([*rules, {"then": "no"}], schema, kind="predict")
