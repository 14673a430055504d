"""A monitor of a bundle: facts counted by hand, a record that survives, alarms that are named."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedlore import Knowledge
from fedlore.bundle import bundle_of
from fedlore.bundle.monitor import MeasuredRows, monitor_rows, open_record
from fedlore.bundle.monitor.facts import find_facts
from fedlore.bundle.monitor.report import (
    report_metrics,
    report_values,
    say_alarms,
    write_monitor_page,
)
from fedlore.core.statistics import wilson
from fedlore.errors import FedloreError
from fedlore.knowledge.tables.sheets import table_of

from .making import SCHEMA, bundle, number_bundle, regressor, rows


def labels(x, *, right=1.0, seed=0):
    """What the rules of the bundle say, B elsewhere; a share of rule rows is labelled wrongly."""
    y = torch.full((len(x),), 1)
    y[x[:, 0] > 12] = 2
    y[(x[:, 0] <= 8) & (x[:, 1] <= 3)] = 0
    draw = np.random.default_rng(seed)
    wrong = torch.from_numpy(draw.random(len(x)) >= right) & (x[:, 0] > 12) & (x[:, 0] <= 30)
    y[wrong] = 1
    return y


def facts_by_name(x, y):
    return {fact.question.name: fact.values for fact in find_facts(bundle(), x, y)}


def test_facts_are_what_a_person_counts():
    x = torch.tensor([[20.0, 1.0], [5.0, 4.0], [35.0, 1.0], [10.0, 1.0]])
    y = torch.tensor([1, 0, 1, 1])
    found = facts_by_name(x, y)
    high, low, sulphur, much = (v.tolist() for v in list(found.values())[:4])
    assert str(high) == "[1.0, nan, 1.0, nan]"  # said C twice, wrong twice
    assert str(low) == "[nan, 0.0, nan, nan]"
    assert str(sulphur) == "[nan, 1.0, nan, nan]"  # A is not allowed
    assert str(much) == "[nan, nan, 1.0, nan]"
    assert found["input s"].tolist() == [1.0, 4.0, 1.0, 1.0]
    assert str(found["the expert against the answers"].tolist()[3]) == "nan"
    assert len(found) == 4 + 2 + 2


def test_only_the_rule_that_is_heard_is_judged():
    """Of two rules that hit the first one speaks, or the one of the smaller number."""
    for policy, wanted in (("first", [[0.0], [None]]), ("priority", [[None], [1.0]])):
        rules = [{"ash": "> 5", "then": "C"}, {"ash": "> 4", "then": "A"}]
        if policy == "priority":
            rules = [rule | {"priority": n} for rule, n in zip(rules, "21", strict=True)]
        table = table_of(rules, SCHEMA, kind="predict", policy=policy)
        one = bundle(Knowledge(table, trust=0.5, schema=SCHEMA))
        found = find_facts(one, torch.tensor([[20.0, 1.0]]), torch.tensor([2]))[:2]
        assert [[None if v != v else v for v in f.values.tolist()] for f in found] == wanted


def test_a_rule_that_went_wrong_is_named_with_its_day(tmp_path):
    before, x = rows(250, seed=1), rows(400, seed=2)
    one = bundle()
    claims = MeasuredRows(before, labels(before, right=0.95))
    record = open_record(tmp_path / "a.monitor", one, reference=claims)
    good = labels(x[:150], right=0.95)
    days = [f"2026-05-{1 + i // 15:02}" for i in range(150)]
    assert not monitor_rows(record, one, MeasuredRows(x[:150], good, days)).alarms
    bad = labels(x[150:], right=0.5, seed=5)
    later = MeasuredRows(x[150:], bad, ["2026-06-01"] * 250)
    told = monitor_rows(record, one, later)
    names = [v.question.name for v in told.alarms]
    assert any("high ash" in name for name in names)
    judgement = next(v for v in told.alarms if "high ash" in v.question.name)
    assert judgement.since >= "2026-05-08" and "update" in judgement.advice
    assert any("since 2026-0" in line for line in say_alarms(told))
    again = open_record(tmp_path / "a.monitor", one)
    assert monitor_rows(again, one, later).new == 0
    assert (
        report_values(monitor_rows(again, one, MeasuredRows(x[:1], good[:1], days[:1])))["alarms"]
        == names
    )


def test_rows_that_move_are_named(tmp_path):
    one, draw = bundle(), np.random.default_rng(4)

    def make(n, shift):
        return torch.from_numpy(draw.normal(10 + shift, 3, (n, 2)).clip(0, 40)).float()

    before, x = make(250, 0.0), make(200, 1.5)
    x[:, 1], before[:, 1] = x[:, 1] / 8, before[:, 1] / 8
    record = open_record(
        tmp_path / "a.monitor", one, reference=MeasuredRows(before, labels(before))
    )
    told = monitor_rows(record, one, MeasuredRows(x, labels(x)))
    assert "input ash" in [v.question.name for v in told.alarms]


def test_a_record_survives_a_crash_and_refuses_what_is_not_its_own(tmp_path):
    one, x = bundle(), rows(20)
    place = tmp_path / "a.monitor"
    monitor_rows(open_record(place, one), one, MeasuredRows(x[:10], labels(x[:10])))
    whole = place.read_bytes()
    place.write_bytes(whole + b'{"row": "half')
    record = open_record(place, one)
    assert len(record.rows) == 10
    assert monitor_rows(record, one, MeasuredRows(x, labels(x))).new == 10
    assert len(open_record(place, one).rows) == 20
    assert place.stat().st_mode & 0o077 == 0
    with pytest.raises(FedloreError, match="is about another bundle"):
        open_record(place, bundle(seed=7))
    with pytest.raises(FedloreError, match="claims already"):
        open_record(place, one, reference=MeasuredRows(x, labels(x)))
    place.write_bytes(whole.replace(b'"facts"', b'"fakts"', 1))
    with pytest.raises(FedloreError, match="line 2 cannot be read"):
        open_record(place, one)
    place.write_text("hello")
    with pytest.raises(FedloreError, match=r"a\.monitor is not a record"):
        open_record(place, one)
    with pytest.raises(FedloreError, match="between 0 and 1"):
        open_record(tmp_path / "b.monitor", one, alarm=0.0)


def test_equal_rows_are_rows(tmp_path):
    """Without a day a row that equals an earlier one counts, whatever file it comes in."""
    one, x = bundle(), rows(2)[[0, 0, 1]]
    record, three = open_record(tmp_path / "a.monitor", one), MeasuredRows(x, labels(x))
    assert monitor_rows(record, one, three).new == 3
    assert monitor_rows(record, one, three).new == 0  # the file has not grown
    other = MeasuredRows(x[1:2], labels(x[1:2]))
    assert [monitor_rows(record, one, other).new for _ in range(2)] == [1, 1]
    longer = MeasuredRows(x[[0, 0, 2, 0, 0, 2]], labels(x[[0, 0, 2, 0, 0, 2]]))
    assert monitor_rows(record, one, longer).new == 1 and len(record.rows) == 6
    assert record.append(one, longer) == 6  # rows that are sent are not a file that grows
    dated = MeasuredRows(x, labels(x), ["monday"] * 3)
    assert [record.append(one, dated), record.append(one, dated)] == [3, 0]
    more = replace(dated, x=x[[0, 0, 0]], y=labels(x[[0, 0, 0]]))
    assert record.append(one, more) == 1  # two of the three are there


def in_lots(count, size, seed, *, shift=0.0):
    """Rows whose ash is that of their lot but for a little, labelled as the rules say."""
    draw = np.random.default_rng(seed)
    ash = np.repeat(draw.uniform(5, 25, count), size) + draw.normal(0, 0.3, count * size) + shift
    x = torch.from_numpy(np.stack([ash, draw.uniform(0, 3, len(ash))], 1)).float()
    return MeasuredRows(x, labels(x), (), [f"lot {i // size}" for i in range(len(x))])


def test_lots_that_hang_together_raise_no_alarm_and_a_move_of_them_does(tmp_path):
    one, before, calm = bundle(), in_lots(60, 10, 1), in_lots(60, 10, 2)
    place = tmp_path / "a.monitor"
    record = open_record(place, one, reference=before, in_lots=True)
    told = monitor_rows(record, one, calm)
    assert not told.alarms and (told.rows, told.lots, told.late) == (600, 59, 0)
    (said,) = say_alarms(told)
    assert "in 59 lots" in said and "however alike the rows of a lot are" in said
    apart = open_record(tmp_path / "b.monitor", one, reference=MeasuredRows(before.x, before.y))
    rows_alone = monitor_rows(apart, one, MeasuredRows(calm.x, calm.y))
    assert "input ash" in [v.question.name for v in rows_alone.alarms]  # the same rows as rows
    moved = in_lots(60, 10, 3, shift=12.0)
    moved = replace(moved, lots=[f"new {lot}" for lot in moved.lots])
    told = monitor_rows(open_record(place, one), one, moved)
    ash = next(v for v in told.alarms if v.question.name == "input ash")
    assert ash.since.startswith("lot ")


@pytest.mark.parametrize("lots", [False, True])
def test_claims_are_what_counting_rows_or_lots_gives(tmp_path, lots):
    """A rule's faults lean on those of all rules together, which err by one standard error."""
    one, drawn = bundle(), in_lots(20, 5, 3)
    x = drawn.x.flip(0)[torch.arange(100) * 7 % 100] * torch.tensor([1.0, 5 / 3])  # mixed lots
    wrong = labels(x, right=0.6, seed=4)
    before = MeasuredRows(x, wrong, (), drawn.lots if lots else None)
    record = open_record(tmp_path / "a.monitor", one, reference=before, in_lots=lots)
    names = before.lots or [str(i) for i in range(len(wrong))]
    heard = {}
    for fact in find_facts(one, x, wrong):
        parts = {}
        for name, value in zip(names, fact.values.tolist(), strict=True):
            if value == value:
                parts.setdefault(name, []).append(value)
        heard[fact.question] = [sum(part) / len(part) for part in parts.values()]
    for kind in ("rule", "range"):
        some = {q.name: said for q, said in heard.items() if q.kind == kind}
        counted = sum(some.values(), [])
        apart = min(len(counted), len(set(names)))
        shared = wilson(sum(counted) / len(counted), apart, wide=1.0)[1]
        for name, said in some.items():
            claim = (sum(said) + 30 * shared) / (len(said) + 30)
            assert record.rates[name] == pytest.approx(min(max(claim, 0.002), 0.95))
    for question, said in heard.items():
        known = record.before.get(question.name)
        assert (known is None) == (question.kind != "input")
        assert known is None or known.tolist() == pytest.approx(said)


def test_a_lot_is_judged_when_it_is_over_and_rows_that_come_later_are_not(tmp_path):
    one, some = bundle(), in_lots(4, 3, 5)
    record = open_record(tmp_path / "a.monitor", one, in_lots=True)
    told = monitor_rows(record, one, some)
    ash = next(v for v in told.judgements if v.question.name == "input ash")
    assert (told.lots, ash.rows, ash.course.capital.shape) == (3, 3, (3,))
    late = replace(some, lots=["lot 1"] * 3 + ["lot 9"] * 9, days=["later"] * 12)
    told = monitor_rows(record, one, late)
    assert (told.lots, told.late) == (4, 3) and "3 rows came when their lot" in say_alarms(told)[-1]
    after = next(v for v in told.judgements if v.question.name == "input ash").course.capital
    assert (after[:3] == ash.course.capital).all()  # what was judged stays
    with pytest.raises(FedloreError, match="was begun with lots: name their column"):
        record.append(one, MeasuredRows(some.x, some.y))
    with pytest.raises(FedloreError, match="rows of before need lots"):
        open_record(tmp_path / "b.monitor", one, reference=some)
    with pytest.raises(FedloreError, match="2 lots for 12 rows"):
        replace(some, lots=["a", "b"])


def test_numbers_are_monitored_too(tmp_path):
    one = bundle_of(regressor(), "plant", schema=bundle().schema)
    x = rows(60)
    y = (x[:, 0] + 25).double()
    record = open_record(tmp_path / "a.monitor", one, reference=MeasuredRows(x, y))
    told = monitor_rows(record, one, MeasuredRows(x[:30], y[:30] + 60.0))
    assert "range 1 (lower)" in [v.question.name for v in told.alarms]


def test_rules_about_a_number_are_monitored_one_by_one(tmp_path):
    one, x = number_bundle(tmp_path), rows(400)
    right = torch.where(x[:, 0] > 30, 60.0, torch.where(x[:, 0] > 12, 40.0, 20.5)).double()
    facts = {f.question.name: f for f in find_facts(one, x, right + 5.0)}
    named = {name: f.question.kind for name, f in facts.items() if ", row" in name}
    assert sorted(named.values()) == ["miss", "miss", "range", "range"]
    (low,) = (f for name, f in facts.items() if named.get(name) == "miss" and "row 3" in name)
    assert low.values[x[:, 0] <= 8].allclose(torch.tensor(5.0).double())
    assert low.values[x[:, 0] > 8].isnan().all()
    before = MeasuredRows(x[:200], right[:200])
    record = open_record(tmp_path / "a.monitor", one, reference=before)
    moved = MeasuredRows(x[200:], torch.where(x[200:, 0] > 30, 20.0, right[200:]))
    alarms = [v.question.name for v in monitor_rows(record, one, moved).alarms]
    assert any("row 2" in name and "r" in name for name in alarms)


def test_it_is_told_to_machines_and_to_people(tmp_path):
    one, x = bundle(), rows(120)
    record = open_record(tmp_path / "a.monitor", one)
    told = monitor_rows(record, one, MeasuredRows(x, labels(x, right=0.2)))
    lines = report_metrics(told, 'a "site"').splitlines()
    assert 'fedlore_monitor_rows{site="a \\"site\\""} 120' in lines
    assert any(line.startswith("fedlore_monitor_alarm{") and line.endswith(" 1") for line in lines)
    json.dumps(report_values(told))
    write_monitor_page(told, "plant", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page and "high ash" in page
