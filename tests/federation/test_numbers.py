"""A deployed federation that learns a number: the same as in one process, and what it refuses."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fedlore.algorithms.catalog import Method
from fedlore.bundle.predict import answer_rows
from fedlore.cli.app import app
from fedlore.engine import NumberClient, Training, fit
from fedlore.engine.lore import Candidate, train, train_lore
from fedlore.errors import ConfigError
from fedlore.federation.journal import read_state
from fedlore.federation.kits.kit import add_local_site
from fedlore.federation.settings import read_deployed
from fedlore.federation.site.doctor import examine
from fedlore.federation.site.export import bundle_of_kit, bundle_of_shared
from fedlore.federation.site.folder import read_kit
from fedlore.knowledge.scope import count_inputs

from ..cli.tasks import write_knowledge, write_rows
from .inside import Inside, edited

SITES = ("east", "north", "west")
PATHS = {"data": "train.csv", "test": "test.csv", "knowledge": "knowledge.toml"}
MENU = """
[search_space]
folds = 2
finishes = [0]
own = false
[[search_space.candidates]]
hears = true
head = "ordered"
start = "expert"
private = true
hidden = [4]
[[search_space.candidates]]
hears = true
plain = 0.5
soft = 1.0
hidden = [4]
"""


def deployed(
    folder: Path,
    *,
    recipe: str = "none",
    hears: bool = False,
    secure: bool = False,
    holes: bool = False,
    address: str = "127.0.0.1:9",
):
    """A coordinator's folder and three sites, as `federation init` makes them of a target."""
    known = write_knowledge(folder / "k", "number", holes=holes)
    asked = ["federation", "init", str(folder / "fed"), "--address", address]
    done = CliRunner().invoke(app, [*asked, "--schema", str(known)])
    assert done.exit_code == 0, done.exception
    home = folder / "fed"
    changes = [("hidden = [64, 64]", "hidden = [6]"), ("epochs = 5", "epochs = 1")]
    changes += [("deadline = 120.0", "deadline = 20.0"), ("rounds = 20", "rounds = 2")]
    changes += [('recipe = "lore"', f'recipe = "{recipe}"')]
    changes += [('name = "fedper"', 'name = "fedavg"'), ("settings = {private", "# {private")]
    if not hears:
        changes.append(("hears = true ", "hears = false "))
    if not secure:
        changes.append(("secure_aggregation = true", "secure_aggregation = false"))
    if recipe == "lore":
        changes.append(("\n[model]", MENU + "\n[model]"))
    edited(home / "federation.toml", *changes)
    for number, name in enumerate(SITES):
        site = add_local_site(home, name, paths=PATHS)
        write_knowledge(site, "number", holes=holes)
        write_rows(site / "train.csv", "number", number, rows=30, holes=holes)
        write_rows(site / "test.csv", "number", 10 + number, rows=12, holes=holes)
    return home


def members(home: Path) -> list[NumberClient]:
    f = read_deployed(home)
    return [read_kit(home / "sites" / name).client(f.schema, f.target.cut()) for name in SITES]


@pytest.mark.parametrize(("hears", "holes"), [(False, False), (True, True)])
def test_a_plain_training_is_that_of_one_process(hears, holes, tmp_path, monkeypatch):
    home = deployed(tmp_path, hears=hears, holes=holes)
    run = Inside(home, monkeypatch).train()
    f = read_deployed(home)
    assert members(home)[0].data.x.isnan().any() == holes
    told = count_inputs(f.schema) + 4 * hears
    fitted = fit(
        members(home),
        f.model.make(told, len(f.schema.classes), seed=f.seed, hears=False),
        bins=f.target.cut(),
        hears=hears,
        algorithm=Method("fedavg").make(),
        plan=f.plan,
        rounds=f.rounds,
        seed=f.seed,
        engine="local",
        evaluate=f.rounds,
    )
    for site in members(home):
        bundle = bundle_of_kit(home / "sites" / site.id)
        mine = answer_rows(bundle, site.test.x).predicted
        assert torch.equal(mine, fitted.predict(site.id, site.test.x))
        (row,) = [r for r in run.rows if r.get("client") == site.id]
        assert row["rmse"] == fitted.scores(site.id)["rmse"] and row["pov"] == 0
    newcomer = bundle_of_shared(home, tmp_path / "k" / "knowledge.toml", client="new")
    assert newcomer.task == "regression" and newcomer.schema.unit == "MPa"


@pytest.mark.parametrize(
    ("secure", "holes"), [(False, True), pytest.param(True, False, marks=pytest.mark.slow)]
)
def test_the_sites_choose_a_recipe_for_a_number(secure, holes, tmp_path, monkeypatch):
    home = deployed(tmp_path, recipe="lore", hears=True, secure=secure, holes=holes)
    run = Inside(home, monkeypatch).train()
    if secure:  # where sums alone are seen every training has a start of its own
        usual = train.conduct
        monkeypatch.setattr(train, "conduct", lambda *a, **k: usual(*a, **{**k, "salt": ""}))
    f = read_deployed(home)
    training = Training(rounds=f.rounds, plan=f.plan, seed=f.seed, engine="local",
                        algorithm=Method("fedavg").make(), evaluate=f.rounds)  # fmt: skip
    fitted = train_lore(
        members(home),
        training,
        search_space=f.offered(),
        bins=f.target.cut(),
        hidden=f.model.hidden,
    )
    scores = {r["client"]: r for r in run.rows if "client" in r}
    for site in members(home):
        about, _ = read_state(home / "sites" / site.id / "personal.weights")
        assert about["mixture"] is not None
        bundle = bundle_of_kit(home / "sites" / site.id)
        mine = answer_rows(bundle, site.test.x).predicted
        theirs = fitted.predict(site.id, site.test.x)
        assert float((mine - theirs).abs().max()) <= (1e-3 if secure else 0.0)
        assert scores[site.id]["pov"] == 0
        assert (home / "sites" / site.id / "benefit.json").exists()


def test_bounds_bins_and_task_must_be_the_federations(tmp_path):
    home = deployed(tmp_path)
    site = home / "sites" / "east"
    checks = {check.name: check for check in examine(site)}
    assert checks["data"].fine and checks["knowledge"].fine
    f = read_deployed(home)
    edited(site / "knowledge.toml", ("upper = 20.0", "upper = 25.0"))
    with pytest.raises(ConfigError, match="bounds or bins of its \\[target\\] are not"):
        read_kit(site).client(f.schema, f.target.cut())
    write_knowledge(site, "classes")
    with pytest.raises(ConfigError, match="is about classes, the federation learns a number"):
        read_kit(site).client(f.schema, f.target.cut())
    path = home / "federation.toml"
    path.write_text(path.read_text().replace('task = "regression"', 'task = "classification"'))
    with pytest.raises(ConfigError, match="task must be regression"):
        read_deployed(home)


def test_a_site_without_knowledge_learns_a_number_too(tmp_path):
    home = deployed(tmp_path)
    site = home / "sites" / "west"
    edited(site / "site.toml", ('knowledge = "knowledge.toml"', ""))
    f = read_deployed(home)
    client = read_kit(site).client(f.schema, f.target.cut())
    assert isinstance(client, NumberClient) and client.knowledge.range is None
    assert replace(client, test=None).data.y is not None


def test_a_vote_cannot_be_larger_than_the_worst(tmp_path):
    """Else the coordinator would reject the vote of a site whose numbers are all alike."""
    from fedlore.engine.lore import Agreement, SiteRows, Trial, default_space, vote

    clients = members(deployed(tmp_path))
    bins = read_deployed(tmp_path / "fed").target.cut()
    search_space = replace(default_space(2, numbers=True), candidates=(Candidate(soft=1.0),))
    common = Agreement(2, bins.k, search_space, bins=bins, hidden=(3,))
    data = clients[0].data
    odd = replace(data, y=torch.ones_like(data.y))  # no variance to measure misses by
    calm = replace(clients[0].knowledge, prediction=None, range=None)
    seat = SiteRows(replace(clients[0], data=odd, knowledge=calm), common)
    params = dict(common.recipe(search_space.candidates[0]).model.state_dict())
    for fold in range(search_space.folds):
        ballot = vote(seat, Trial(0, fold, common.rounds), params)
        assert float(ballot["loss"]) <= 20.0 * float(ballot["rows"])
