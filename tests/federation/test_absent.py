"""A deployed site without a column: the bits of one process, and nobody learns who it is."""

import json
import re

import pytest
import torch

from fedlore.errors import ConfigError, FedloreError
from fedlore.federation.journal import read_state
from fedlore.federation.kits.kit import init
from fedlore.federation.settings import Federation, read_deployed
from fedlore.federation.site.folder import read_kit
from fedlore.kernel.schema import Feature, Schema
from fedlore.models.own import baseline
from fedlore.models.own.linear import Ridge

from .inside import Inside, audit_lines, edited, small
from .test_chosen import MENU, PRIVATE, at_once, check_same

LACK = "logMF"
FEATURE = re.compile(rf'\[\[features\]\]\nname = "{LACK}"\n(?:[^\[\n].*\n)*\n?')


def lacking(folder, kind, *, lore=True, sites=3):
    """A federation whose first site has a column empty in every row, or does not have it."""
    small(folder, sites=sites, rounds=2)
    assert f'name = "{LACK}"' in (folder / "federation.toml").read_text()
    changes = [(f'name = "{LACK}"', f'name = "{LACK}"\nmissing = "mean"')]
    if lore:
        changes += [('recipe = "none"', 'recipe = "lore"'), ("\n[model]", MENU)]
    home = sorted((folder / "sites").iterdir())[0]
    kit = read_kit(home)
    for part in (kit.file.data, kit.file.test):
        drop(kit.path(part), blank=kind == "blank")
    toml = kit.path(kit.file.knowledge)
    known = toml.read_text()
    if kind == "said":
        known = known.replace(f'name = "{LACK}"', f'name = "{LACK}"\nhave = false')
    elif kind == "left out":
        assert FEATURE.search(known)
        known = FEATURE.sub("", known)
    toml.write_text(known)
    edited(folder / "federation.toml", *changes)
    return folder


def drop(path, *, blank):
    rows = [line.split(",") for line in path.read_text().splitlines()]
    place = rows[0].index(LACK)
    for i, row in enumerate(rows):
        if not blank:
            del row[place]
        elif i:
            row[place] = ""
    path.write_text("\n".join(map(",".join, rows)) + "\n")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """In one process, with the column empty."""
    return at_once(lacking(tmp_path_factory.mktemp("blank") / "fed", "blank"))


@pytest.mark.parametrize("kind", ["said", "left out"])
def test_deployed_without_a_column_is_one_process_with_it_empty(
    tmp_path, monkeypatch, fitted, kind
):
    folder = lacking(tmp_path / "fed", kind)
    Inside(folder, monkeypatch).train()
    check_same(folder, fitted)


def test_what_a_column_is_worth_is_told_where_a_policy_allows_it(tmp_path, monkeypatch):
    """By the second site alone; all of them hear the figure, and not whose it is."""
    folder = lacking(tmp_path / "fed", "said")
    edited(folder / "federation.toml", (MENU, PRIVATE), ("own = false", "own = true"))
    monkeypatch.setattr(baseline, "_order_families", lambda *_: [Ridge("ridge")])  # one will do
    homes = sorted((folder / "sites").iterdir())
    edited(homes[1] / "site.toml", ("[policy]", f'[policy]\ncolumns = ["{LACK}", "Ro"]'))
    Inside(folder, monkeypatch).train()
    tables = [json.loads((home / "benefit.json").read_text()) for home in homes]
    assert "columns" not in tables[0]  # of what it lacks it can say nothing, of others nobody asks
    ((line,), (other,)) = (table["columns"] for table in tables[1:])
    assert line["name"] == other["name"] == LACK and line["low"] < line["value"] < line["high"]
    figures = [line[name] for name in ("value", "low", "high")]
    assert [table["others"] for table in tables] == [{LACK: [figures]}] * 3
    rows = map(json.loads, (folder / "scores.jsonl").read_text().splitlines())
    assert [list(row.values())[1:] for row in rows if "column" in row] == [
        [homes[1].name, LACK, *figures]
    ]
    told = {
        home.name
        for home in homes
        for event in audit_lines(home)
        if any("worth" in score for score in event.get("metrics", ()))
    }
    assert told == {homes[1].name}


def test_a_federation_that_refuses_holes_is_refused_by_the_site_without(tmp_path):
    folder = lacking(tmp_path / "fed", "said", lore=False)
    edited(folder / "federation.toml", (f'name = "{LACK}"\nmissing = "mean"', f'name = "{LACK}"'))
    kit = read_kit(sorted((folder / "sites").iterdir())[0])
    with pytest.raises(ConfigError, match="'logMF' is absent here, and the federation refuses"):
        kit.client(read_deployed(folder).schema)


def test_a_federation_names_all_its_columns(tmp_path):
    own = Feature("mm", equals="ash", by="2*mm", within=0.1)
    other = Schema((Feature("ash", own=own), Feature("Ro")), ("I", "II"))
    with pytest.raises(ConfigError, match="another measure, as 'ash', belongs in the knowledge.to"):
        Federation(schema=other)
    init(tmp_path / "other", name="f", address="127.0.0.1:9", schema=other)
    assert "mm" not in (tmp_path / "other" / "federation.toml").read_text()
    schema = Schema((Feature("ash"), Feature("Ro", have=False)), ("I", "II"))
    with pytest.raises(ConfigError, match="have = false of 'Ro' belongs in the knowledge.toml of"):
        Federation(schema=schema)
    init(tmp_path / "fed", name="f", address="127.0.0.1:9", schema=schema)
    assert read_deployed(tmp_path / "fed").schema == schema.shared


def test_what_a_site_lacks_stands_in_nothing_that_leaves_it(tmp_path, monkeypatch):
    """Messages, refusals and terms are those of a site whose column is empty, bit by bit."""
    sent = {}
    for kind in ("blank", "said"):
        folder = lacking(tmp_path / kind, kind, lore=False)
        Inside(folder, monkeypatch).train()
        sent[kind] = read_state(folder / "shared.weights")
    (about, weights), (other, others) = sent["blank"], sent["said"]
    run = re.compile(r'"run": "[^"]*"')
    assert run.sub("", about["terms"]) == run.sub("", other["terms"])
    assert all(torch.equal(weights["model"][n], t) for n, t in others["model"].items())


def test_a_site_whose_column_is_away_without_a_word_names_it_to_its_owner_alone(tmp_path):
    folder = lacking(tmp_path / "fed", "said", lore=False)
    kit = read_kit(sorted((folder / "sites").iterdir())[0])
    toml = kit.path(kit.file.knowledge)
    toml.write_text(toml.read_text().replace("\nhave = false", ""))
    with pytest.raises(FedloreError, match="'logMF' is missing.*say have = false"):
        kit.client(read_deployed(folder).schema)
