"""The number behind a grade: where it lies in its class, and who learns from it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedlore import Examples, FedloreError, Knowledge, KnowledgeError
from fedlore.core.one_shot import Link, OneShot
from fedlore.data import read_table
from fedlore.engine.one_shot import one_shot_rows
from fedlore.experiments.sites import read_site
from fedlore.knowledge import Feature, Formula, FormulaRange, GradedFormula, Mask, Schema
from fedlore.models.client import Client
from fedlore.models.own import baseline
from fedlore.models.own.baseline import own_order
from fedlore.models.own.members import see_order

FILE = """
label = "grade"
classes = ["low", "mid", "high"]
ordered = true
measured = "CSR"
features = [{name = "x"}]
"""


def place_numbers(numbers, y):
    return Examples(torch.zeros(len(y), 1), y).place_numbers(numbers).place


def test_a_number_stays_in_its_grade_and_keeps_its_order_there():
    csr = torch.linspace(30.0, 60.0, 31).double()
    y = ((csr - 30.0) / 10.0).floor().clamp(max=2).long()
    place = place_numbers(csr, y)
    assert ((place - y).abs() <= 0.5).all()
    assert (place.diff() >= 0).all() and (place.diff() > 0).double().mean() > 0.8
    falling = place_numbers(csr, 2 - y)  # grades that fall with the number
    torch.testing.assert_close(falling, 2 - place)


def test_stated_edges_say_where_a_number_lies_and_open_grades_have_no_end():
    csr = torch.tensor([30.0, 38.0, 41.0, 44.0, 58.0, torch.nan]).double()
    rows = Examples(torch.zeros(6, 1), torch.tensor([0, 0, 1, 1, 2, 1]))
    place = rows.place_numbers(csr, (40.0, 44.0)).place  # 4 points a grade, at both ends too
    torch.testing.assert_close(
        place, torch.tensor([-2.0, 0.0, 0.75, 1.5, 5.0, torch.nan]).double(), equal_nan=True
    )


def test_what_formulas_come_to_is_heard_where_the_number_was_measured():
    schema = Schema((Feature("x"),), ("low", "mid", "high"), ordered=True)
    edges = (40.0, 44.0)
    expert, low, high = (
        Formula.parse(t, schema) for t in ("x", "x - 4", "where(x < 60, x + 4, 1/0)")
    )
    known = Knowledge(
        Mask((0,), GradedFormula(expert, edges)), FormulaRange(low, high, edges), schema=schema
    )
    x = torch.tensor([[30.0], [41.0], [70.0]])
    assert known.annotate(Examples(x)).stated is None
    rows = replace(known, measured="CSR").annotate(Examples(x))
    stated = torch.tensor([[-2.0, -3.0, -1.0], [0.75, -0.25, 1.75], [8.0, torch.nan, torch.nan]])
    torch.testing.assert_close(rows.stated, stated.double(), equal_nan=True)
    sight = see_order(rows, 3)  # own learners hear the number, of an open range its classes
    assert sight.heard[:2].tolist() == [[-2.0, -2.0, 1.0], [0.75, 0.75, 1.0]]
    assert sight.heard[2].tolist() == [8.0, 2.0, 0.0]
    _, start, bend = OneShot(start="expert", link=Link("middle", 0.5)).rows(
        x, rows.prior, rows.allowed, rows.stated, classes=3
    )
    assert start.tolist() == [-2.0, 0.75, 8.0]
    assert bend.width.tolist() == [0.5, 0.5, 0.25] and bend.centre.tolist() == [0.0, 0.0, -6.0]
    assert replace(known, prediction=None, range=None).edges == ()


def test_where_nothing_was_measured_the_grade_is_learned():
    csr = torch.tensor([31.0, torch.nan, 45.0, 52.0, 58.0]).double()
    y = torch.tensor([0, 1, 1, 2, 2])
    rows = Examples(torch.zeros(5, 1), y, place=place_numbers(csr, y))
    assert rows.aim[1] == 1.0 and rows.aim[0] != 0.0
    assert place_numbers(csr[:2], y[:2]).isnan().all()  # one number is no line
    assert torch.equal(Examples(torch.zeros(5, 1), y).aim, y.double())


def test_one_shot_models_and_own_learners_learn_the_place(monkeypatch):
    monkeypatch.setattr(baseline, "has_trees", lambda: False)  # of its learners the ridge is read
    monkeypatch.setattr(baseline, "MOST_GAUSSIAN", 0)  # which took most of the time
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(60, 2, generator=draw)
    place = (0.6 * x[:, 0] + 2.0).clamp(0, 4).double()
    rows = Examples(x, place.round().long())
    known = replace(rows, place=place)
    bare, told = (
        one_shot_rows(Client("a", r, Knowledge()), OneShot(hears=False), None, classes=5)
        for r in (rows, known)
    )
    assert torch.equal(told.target + told.start, place) and not torch.equal(
        bare.target, told.target
    )
    a, b = (
        next(c.member for c in own_order(r, 5).candidates if c.member.name == "ridge")
        for r in (rows, known)
    )
    missed = [(one.body(x).squeeze(1) - place).square().mean() for one in (a, b)]
    assert missed[1] < 0.5 * missed[0]


def test_a_site_names_the_column_in_its_knowledge_file(tmp_path):
    folder = tmp_path / "plant"
    folder.mkdir()
    (folder / "knowledge.toml").write_text(FILE)
    rows = ["x,grade,CSR", "1,low,31", "2,mid,", "3,mid,44", "4,high,52", "5,high,58"]
    (folder / "train.csv").write_text("\n".join(rows) + "\n")
    assert read_site(folder).data.place.isnan().tolist() == [False, True, False, False, False]
    cut = '[[predict.sources]]\nformula = "10 * x + 21"\nedges = [40, 50]\n'
    (folder / "knowledge.toml").write_text(FILE + cut)
    site = read_site(folder)  # a formula states how grades are cut
    assert site.data.place[0] == pytest.approx(-0.4) and site.data.stated[0, 0] == pytest.approx(
        -0.4
    )
    (folder / "knowledge.toml").write_text(FILE)
    (folder / "train.csv").write_text("\n".join(rows).replace("44", "forty") + "\n")
    with pytest.raises(Exception, match="forty"):
        read_site(folder)
    known = Knowledge.read(folder / "knowledge.toml")
    known.write(folder / "again.toml")
    assert Knowledge.read(folder / "again.toml").measured == "CSR"
    assert read_table(folder / "train.csv", known.schema, label="grade").place is None


def test_a_number_behind_classes_without_order_is_refused(tmp_path):
    (tmp_path / "knowledge.toml").write_text(FILE.replace("ordered = true", "ordered = false"))
    with pytest.raises(
        KnowledgeError, match="measured = 'CSR' is the number that classes in order"
    ):
        Knowledge.read(tmp_path / "knowledge.toml")


@pytest.mark.parametrize(
    ("numbers", "grades", "line"),
    [
        ([1.0, 2.0], [0, 1], False),  # two rows are no line yet
        ([1.0, 2.0, 3.0], [0, 1, 2], True),
        ([2.0, 2.0, 2.0], [0, 1, 2], False),  # and neither is one number
        ([0.0, 1.0, 9.0], [1, 1, 1], True),
        ([0.0, 1.0, 10.0], [0, 0, 2], True),
        ([0.0, 0.0, 0.0, 100.0], [0, 1, 2, 0], True),
    ],
)
def test_the_line_through_numbers_and_grades_stays_in_each_class(numbers, grades, line):
    found = place_numbers(torch.tensor(numbers), torch.tensor(grades)).tolist()
    if not line:
        assert all(place != place for place in found)
        return
    x, y = (np.array(v, dtype=float) for v in (numbers, grades))
    slope, constant = np.polyfit(x, y, 1)
    wanted = np.clip(slope * x + constant, y - 0.5, y + 0.5)
    assert found == pytest.approx(wanted.tolist(), abs=1e-9)


def test_numbers_that_do_not_fit_the_labels_are_refused():
    with pytest.raises(FedloreError, match="2 measured numbers do not fit 3 labels"):
        place_numbers(torch.zeros(2), torch.zeros(3).long())
