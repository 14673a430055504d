"""Which rules have ever applied: counted once, said by lint, the studio and the rule book."""

import torch

from fedlore import Knowledge, Personal
from fedlore.bundle import bundle_of, write_bundle
from fedlore.core.examples import Examples
from fedlore.core.nets import mlp
from fedlore.knowledge.findings.checkup import check_file
from fedlore.knowledge.findings.data import Evidence, count_uses, lint_coverage
from fedlore.studio.book import write_book
from fedlore.studio.checks import judge
from fedlore.studio.data import report_data

from ..bundle.making import call, run

FILES = {
    "knowledge.toml": b"""classes = ["A", "B"]
label = "grade"
examples = "examples.csv"
[[features]]
name = "ash"
low = 0
high = 40
missing = "mean"
[[predict.sources]]
table = "predict.csv"
[[range.sources]]
table = "range.csv"
""",
    "predict.csv": b"ash,then,rule\n> 30,B,high\n> 20,B,\n<= 5,A,low\n",
    "range.csv": b"ash,then,confidence\n> 35,B,\n> 10,B,0.9\n",
    "examples.csv": b"ash,expect\n25,B\n",
}


def messages(seen):
    return [f"{one.place}: {one.message}" for one in lint_coverage(Knowledge.read(FILES), seen)]


def data(*ash):
    return torch.tensor([[value] for value in ash])


def test_rules_are_counted_over_examples_data_and_monitored_rows():
    examples = check_file(FILES).examples
    assert messages(Evidence(examples)) == [
        "predict.csv: 2 of 3 rules applied to none of 1 example: 'high' (row 2), 'low' (row 4)",
        "range.csv: 1 of 2 rules applied to none of 1 example: row 2",
    ]
    seen = Evidence(examples, data(3.0, 36.0))
    assert messages(seen) == []
    judged = {"table-1-predict.csv, 'low' (row 4)": 1, "predict.csv, 'high' (row 2)": 0}
    seen = Evidence((), data(32.0, 25.0), {**judged, "predict.csv, 'low' (row 4)": 7}, 9)
    assert messages(seen) == [
        "range.csv: 1 of 2 rules applied to none of 2 rows of data and 9 monitored rows: row 2"
    ]


def test_nothing_is_said_where_nothing_was_looked_at():
    assert messages(Evidence()) == []
    assert lint_coverage(None, Evidence((), data(1.0))) == []
    assert messages(Evidence((), data()[:0].reshape(0, 1))) == []


def test_a_missing_value_shows_no_rule_at_work():
    uses = count_uses(Knowledge.read(FILES), Evidence((), data(float("nan"))))
    assert [one.rows for one in uses] == [0] * 5


def test_it_counts_as_the_rules_say_of_each_row():
    draw = torch.Generator().manual_seed(3)
    x = 40 * torch.rand(200, 1, generator=draw)
    counts = [one.rows for one in count_uses(Knowledge.read(FILES), Evidence((), x))]
    ash = x[:, 0]
    own = [(ash > 30), (ash > 20), (ash <= 5), (ash > 35), (ash > 10)]
    assert counts == [int(one.sum()) for one in own]


def test_rules_of_numbers_too():
    files = {
        "knowledge.toml": b'[target]\nlower = 0\nupper = 9\n[[features]]\nname = "ash"\n'
        b'[[range.sources]]\ntable = "r.csv"\n',
        "r.csv": b"ash,then\n> 5,[1..2]\n> 50,[1..2]\n",
    }
    (found,) = lint_coverage(Knowledge.read(files), Evidence((), data(6.0)))
    assert found.args["of"] == ["row 3"]


def write(folder):
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    (folder / "rows.csv").write_text("ash,grade\n3,A\n36,B\n")
    (folder / "few.csv").write_text("ash,grade\n3,A\n4,A\n")


def test_lint_says_it_with_data_and_without(tmp_path):
    write(tmp_path)
    path = tmp_path / "knowledge.toml"
    said = run("lint", path)
    assert "applied to none of 1 example: 'high' (row 2), 'low' (row 4)" in said
    said = run("lint", path, "--data", tmp_path / "few.csv")
    assert "1 of 3 rules applied to none of 1 example and 2 rows of data: 'high' (row 2)" in said
    assert "applied to none" not in run("lint", path, "--data", tmp_path / "rows.csv")


def test_lint_counts_the_rows_of_a_monitor(tmp_path):
    write(tmp_path)
    path = tmp_path / "knowledge.toml"
    toml = FILES["knowledge.toml"].replace(b'missing = "mean"\n', b"")
    known = Knowledge.read({**FILES, "knowledge.toml": toml})
    write_bundle(bundle_of(Personal(mlp(1, 2, hidden=(3,)), known), "p"), tmp_path / "p.lore")
    call("monitor", tmp_path / "p.lore", tmp_path / "rows.csv", "--record", tmp_path / "p.monitor")
    said = run("lint", path, "--monitored", tmp_path / "p.monitor")
    assert "applied to none" not in said


def test_the_studio_and_the_rule_book_say_it(tmp_path):
    write(tmp_path)
    found = [one for one in judge(FILES).findings if one.kind == "never-applied"]
    assert [one.args["of"] for one in found] == [["'high' (row 2)", "'low' (row 4)"], ["row 2"]]
    rows = Examples(data(3.0, 4.0), torch.tensor([0, 0]))
    told = report_data(judge(FILES), rows, "rows.csv")["findings"]
    assert [one["args"]["of"] for one in told if one["kind"] == "never-applied"] == [
        ["'high' (row 2)"], ["row 2"]
    ]  # fmt: skip
    book = write_book(FILES, "p", tmp_path / "knowledge.toml", tmp_path / "few.csv")
    assert "1 of 3 rules applied to none of 1 example and 2 rows of data" in book
    assert "to which the rule applied" in book
