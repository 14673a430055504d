"""Folders of sites: with knowledge, without, and with holes in their rows."""

from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from fedlore.cli.app import app
from fedlore.errors import FedloreError
from fedlore.experiments.sites import find_difference, gather
from fedlore.knowledge import Feature, Schema

TOML = """
label = "grade"
classes = ["A", "B"]
outside = "widen"
[[features]]
name = "ash"
low = 0
high = 20
missing = "mean"
[[features]]
name = "mine"
levels = ["north", "south"]
missing = "level"
[[range.sources]]
table = "range.csv"
"""


def site(home, name, *, knowledge=TOML):
    folder = home / "sites" / name
    folder.mkdir(parents=True)
    rows = [f"{i % 20},{('north', 'south')[i % 2]},{'AB'[i % 20 > 9]}" for i in range(40)]
    rows += [",north,A", "15,,B"]
    (folder / "train.csv").write_text("\n".join(["ash,mine,grade", *rows]) + "\n")
    (folder / "test.csv").write_text("ash,mine,grade\n3,north,A\n,south,B\n12,,B\n")
    if knowledge:
        (folder / "knowledge.toml").write_text(knowledge)
        (folder / "range.csv").write_text("ash,then\n< 5,A\n")


def test_a_site_without_knowledge_takes_part_and_is_named(tmp_path):
    site(tmp_path, "a")
    site(tmp_path, "b", knowledge=None)
    (tmp_path / "federation.toml").write_text(
        'rounds = 1\n[run]\nsites = "sites"\napproaches = ["FLwKM"]\n'
    )
    found = gather(tmp_path / "federation.toml")
    assert [client.id for client in found.clients] == ["a", "b"] and found.quiet == ("b",)
    known = found.clients[1].knowledge
    assert known.range is None and known.schema.names == ("ash", "mine")
    said = CliRunner().invoke(
        app, ["run", str(tmp_path / "federation.toml"), "--out", str(tmp_path / "out")]
    )
    assert said.exit_code == 0, said.output
    assert "b has no knowledge.toml: it takes part as in plain federated learning" in said.output
    said = CliRunner().invoke(
        app, ["export", str(tmp_path / "out"), "--client", "b", "--out", str(tmp_path / "b.lore")]
    )
    (tmp_path / "new.csv").write_text("ash,mine\n,north\n3,\n")
    said = CliRunner().invoke(app, ["predict", str(tmp_path / "b.lore"), str(tmp_path / "new.csv")])
    assert said.exit_code == 0, said.output


def test_one_site_at_least_must_name_the_columns(tmp_path):
    site(tmp_path, "a", knowledge=None)
    with pytest.raises(FedloreError, match="no site has a knowledge.toml"):
        gather(tmp_path / "sites")


def test_sites_that_differ_say_in_what(tmp_path):
    site(tmp_path, "a")
    site(tmp_path, "b", knowledge=TOML.replace('"ash"', '"asch"').replace("range.csv", "r.csv"))
    (tmp_path / "sites" / "b" / "r.csv").write_text("asch,then\n< 5,A\n")
    (tmp_path / "sites" / "b" / "train.csv").write_text("asch,mine,grade\n1,north,A\n")
    (tmp_path / "sites" / "b" / "test.csv").write_text("asch,mine,grade\n1,north,A\n")
    with pytest.raises(FedloreError, match="'a' and 'b' differ in features: 'ash' is at the first"):
        gather(tmp_path / "sites")


SCHEMA = Schema((Feature("ash", missing="mean"), Feature("mine", levels=("a", "b"))), ("I", "II"))
ASH, MINE = SCHEMA.features
DIFFERENCES = {
    "order": (replace(SCHEMA, features=(MINE, ASH)), "the order of their features: ash, mine; m"),
    "classes": (replace(SCHEMA, classes=("I", "III")), "classes: 'II' is at the first only, 'III'"),
    "missing": (replace(SCHEMA, features=(Feature("ash"), MINE)), "missing of 'ash': mean; refuse"),
    "levels": (
        replace(SCHEMA, features=(ASH, replace(MINE, levels=("a",)))),
        "levels of 'mine': a, b; a",
    ),
    "unit": (replace(SCHEMA, features=(replace(ASH, unit="%"), MINE)), None),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_the_difference_is_named(name):
    other, said = DIFFERENCES[name]
    found = find_difference(SCHEMA, other)
    assert found is None if said is None else found.startswith(said)


HERE = TOML.replace('missing = "mean"', 'missing = "mean"\nhave = false')
OMITTED = TOML.replace('name = "ash"\nlow = 0\nhigh = 20\nmissing = "mean"\n[[features]]\n', "")


def without_ash(home, name, *, knowledge, blank=False):
    """A site whose rows have no ash: no such column, or one that is empty in every row."""
    site(home, name, knowledge=knowledge.replace("range.csv", "own.csv"))
    folder = home / "sites" / name
    (folder / "own.csv").write_text("mine,then\nnorth,A\n")
    for part in ("train", "test"):
        lines = (folder / f"{part}.csv").read_text().splitlines()
        cut = [("," if blank and i else "ash," if blank else "") + line.split(",", 1)[1]
               for i, line in enumerate(lines)]  # fmt: skip
        (folder / f"{part}.csv").write_text("\n".join(cut) + "\n")


def test_an_absent_column_is_an_empty_one_in_training(tmp_path):
    """Said to be absent, or left out of the site's own file: rows, knowledge and sums are equal."""
    found = {}
    for kind, toml in (("blank", TOML), ("said", HERE), ("left out", OMITTED)):
        site(tmp_path / kind, "a")
        without_ash(tmp_path / kind, "b", knowledge=toml, blank=kind == "blank")
        found[kind] = gather(tmp_path / kind / "sites").clients[1]
    blank = found.pop("blank")
    for client in found.values():
        assert client.knowledge.schema.absent == ("ash",) and client.inputs == blank.inputs
        for mine, other in ((client.data, blank.data), (client.test, blank.test)):
            for one, two in zip(vars(mine).values(), vars(other).values(), strict=True):
                same = one is two or torch.equal(one.float().nan_to_num(), two.float().nan_to_num())
                assert same
        sums = zip(client.sums().values(), blank.sums().values(), strict=True)
        assert all(torch.equal(*pair) for pair in sums)


def test_a_site_that_lacks_a_column_needs_others_that_let_it(tmp_path):
    site(tmp_path, "a", knowledge=TOML.replace('missing = "mean"\n', ""))
    (tmp_path / "sites" / "a" / "train.csv").write_text("ash,mine,grade\n1,north,A\n2,south,B\n")
    (tmp_path / "sites" / "a" / "test.csv").write_text("ash,mine,grade\n1,north,A\n2,south,B\n")
    without_ash(tmp_path, "b", knowledge=HERE)
    with pytest.raises(FedloreError, match="missing of 'ash': refuse; mean .one of them does not"):
        gather(tmp_path / "sites")


def test_no_column_at_all_is_nothing_to_learn_from():
    with pytest.raises(FedloreError, match="every feature has have = false"):
        Schema((Feature("ash", have=False),), ("I", "II"))
    with pytest.raises(FedloreError, match="'ash' has have = false and is the label"):
        Schema((Feature("ash", have=False), Feature("Ro")), ("I", "II"), "ash")


def test_lint_says_what_a_site_does_without(tmp_path):
    site(tmp_path, "a", knowledge=HERE)
    home = tmp_path / "sites" / "a"
    asked = ["lint", str(home / "knowledge.toml"), "--data", str(home / "train.csv")]
    said = CliRunner().invoke(app, asked)
    text = " ".join(said.output.split())
    assert "this site does not measure 'ash': 1 rule needs it and stays open in every row" in text
    assert "'ash' has values in 41 rows, but knowledge.toml says that this site does not" in text
