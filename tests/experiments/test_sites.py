"""Folders of sites: with knowledge, without, and with holes in their rows."""

from dataclasses import replace

import pytest
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
        "levels of 'mine': ('a', 'b'); ('a',)",
    ),
    "unit": (replace(SCHEMA, features=(replace(ASH, unit="%"), MINE)), None),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_the_difference_is_named(name):
    other, said = DIFFERENCES[name]
    found = find_difference(SCHEMA, other)
    assert found is None if said is None else found.startswith(said)
