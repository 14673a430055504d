"""A federation of one's own files: read, run, saved, and gone on with."""

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import safetensors.torch
import torch

from fedlore import ConfigError, FedloreError, Knowledge, Personal
from fedlore.engine.lore import Candidate, SearchSpace, train_lore
from fedlore.experiments import runner, runs
from fedlore.experiments.benefit import benefit_path
from fedlore.experiments.runs import run_federation
from fedlore.experiments.sites import find_sites, gather, site_folders
from fedlore.experiments.weights import read_weights, weights_path
from fedlore.federation.settings import read_federation
from fedlore.report.benefit import write_benefit
from fedlore_coke.starter import write_starter

SMALL = """
name = "tiny"
rounds = 2
[run]
approaches = [{approaches}]
[model]
hidden = [4]
[algorithm]
name = "{algorithm}"
[plan]
epochs = 1
"""


@cache
def starter(root: Path) -> Path:
    write_starter(root / "starter")
    return root / "starter"


@pytest.fixture
def folder(tmp_path, tmp_path_factory) -> Path:
    """A copy of the starter, which takes a while to write."""
    shutil.copytree(starter(tmp_path_factory.getbasetemp()), tmp_path / "d")
    return tmp_path / "d"


def config(folder: Path, *approaches: str, algorithm: str = "fedavg", more: str = "") -> Path:
    names = ", ".join(f'"{name}"' for name in approaches or ("FL", "FL+mask"))
    text = SMALL.format(approaches=names, algorithm=algorithm)
    path = folder / "federation.toml"
    path.write_text(text.replace("[run]", more + "[run]"))
    return path


def test_the_starter_is_four_sites_whose_knowledge_holds(folder):
    found = gather(folder / "federation.toml")
    assert [c.id for c in found.clients] == ["plant-1", "plant-2", "plant-3", "plant-4"]
    assert [len(c.data) for c in found.clients] == [40, 60, 80, 110]
    assert found.size == (17, 20)
    for client in found.clients[:3]:
        assert client.audit.outside == 0
    for client in found.clients:
        inside = client.test.allowed.gather(1, client.test.y.unsqueeze(1)).double().mean()
        assert inside > 0.9
        assert client.knowledge.trust == 0.3


def test_a_folder_that_is_in_use_is_not_written_over(folder):
    with pytest.raises(FedloreError, match="is not empty: name a new folder"):
        write_starter(folder)
    with pytest.raises(FedloreError, match="is not empty"):
        write_starter(folder / "README.md")


def test_every_site_has_a_row_and_weights_that_predict_alike(folder, tmp_path, short_recipe):
    found = gather(config(folder, "ML", "FLwKM", "lore"))
    done = run_federation(found, tmp_path / "o")
    assert [(r["approach"], r["client"]) for r in done.rows] == [
        (a, f"plant-{i}") for a in ("ML", "FLwKM", "lore") for i in (1, 2, 3, 4)
    ]
    assert all(r["pov"] == 0 for r in done.rows if r["approach"] != "ML")
    assert {r["range"] for r in done.rows} == {"conformal"}  # plant-4's is statistical
    assert {r["approach"] for r in done.history} == {"ML", "FLwKM", "lore"}
    client = found.clients[1]
    weights, scaler = read_weights(weights_path(tmp_path / "o", "FLwKM", "plant-2"))
    model = found.make_model(False)
    personal = Personal(model, client.knowledge, scaler=scaler, weights=weights)
    right = (personal.predict(client.test.x) == client.test.y).double().mean()
    assert float(right) == next(
        r["ta"] for r in done.rows if r["approach"] == "FLwKM" and r["client"] == "plant-2"
    )


def test_a_finished_approach_is_not_computed_again(folder, tmp_path, monkeypatch):
    path, out = config(folder), tmp_path / "o"
    first = run_federation(gather(path), out)
    computed = []
    real = runs._compute

    def spy(gathering, approach, *rest):
        computed.append(approach.name)
        return real(gathering, approach, *rest)

    monkeypatch.setattr(runs, "_compute", spy)
    assert run_federation(gather(path), out).rows == first.rows
    assert computed == []
    config(folder, "FL", "FL+mask", "ML")  # one more
    run_federation(gather(path), out)
    assert computed == ["ML"]
    weights_path(out, "FL", "plant-1").unlink()  # lost
    run_federation(gather(path), out)
    assert computed == ["ML", "FL"]
    train = folder / "sites" / "plant-1" / "train.csv"
    train.write_text("\n".join(train.read_text().splitlines()[:-1]) + "\n")  # other data
    run_federation(gather(path), out)
    assert computed == ["ML", "FL", "ML", "FL", "FL+mask"]


LORE_ONLY = """recipe = "lore"
[search_space]
folds = 2
finishes = [0]
own = false
candidates = [{hears = true, plain = 0.5}]
"""


def test_lore_chooses_from_the_menu_of_the_federation(folder, tmp_path):
    """It was left out of the training, and yet stood in the fingerprint of every approach."""
    path, out, fresh = config(folder, "FL", "lore", more=LORE_ONLY), tmp_path / "o", []
    found = run_federation(gather(path), out).rows
    assert {r["chosen"] for r in found if r["approach"] == "lore"} == {str(Candidate(True, 0.5))}
    config(folder, "FL", "lore", more=LORE_ONLY.replace("[0]", "[0, 1]"))
    run_federation(gather(path), out, on_approach=lambda *done: fresh.append(done))
    assert fresh == [("FL", False), ("lore", True)]


def test_a_recipe_that_the_run_leaves_out_is_refused(folder):
    with pytest.raises(ConfigError, match="approaches leaves it out"):
        gather(config(folder, "FL", more='recipe = "lore"\n'))


@pytest.mark.slow
def test_the_chosen_recipe_says_what_it_chose(folder, tmp_path, monkeypatch):
    few = SearchSpace((Candidate(), Candidate(True, 0.5)), folds=2, finishes=(0, 2))
    monkeypatch.setattr(
        runner, "train_lore", lambda *a, **k: train_lore(*a, **k | {"search_space": few})
    )
    done = run_federation(gather(config(folder, "lore")), tmp_path / "o")
    assert {r["chosen"] for r in done.rows} < {str(one) for one in few.candidates}
    assert all(r["trust"] is None and r["pov"] == 0 for r in done.rows)
    for client in ("plant-1", "plant-4"):
        path = benefit_path(tmp_path / "o", client)
        told = json.loads(path.read_text())
        names = [line["name"] for line in told["lines"]]
        assert names[:3] == ["local best", "federation without knowledge", "network"]
        assert names[-1] == "mixture" and told["site"] == client
        assert path.stat().st_mode & 0o077 == 0  # it is the site's own
        assert "Taking part" in write_benefit(path).read_text()


def test_own_best_needs_no_weights_and_says_what_it_picked(folder, tmp_path):
    found = gather(config(folder, "local best", "ML"))
    done = run_federation(found, tmp_path / "o")
    mine = [r for r in done.rows if r["approach"] == "local best"]
    assert len(mine) == 4 and all(r["pov"] == 0 and r["chosen"] for r in mine)
    assert not (tmp_path / "o" / "weights" / "own-best").exists()
    told = []
    run_federation(found, tmp_path / "o", on_approach=lambda *a: told.append(a))
    assert told == [("local best", False), ("ML", False)]


def test_own_best_is_left_out_where_a_site_has_too_few_rows(folder, tmp_path):
    train = folder / "sites" / "plant-2" / "train.csv"
    train.write_text("\n".join(train.read_text().splitlines()[:4]) + "\n")
    done = run_federation(gather(config(folder, "local best", "P-KM")), tmp_path / "o")
    assert done.left_out == {
        "local best": "site 'plant-2' has 3 training rows, its own models need at least 5"
    }


def test_other_algorithms_and_a_plain_folder_of_sites(folder, tmp_path):
    path = config(folder, "FL", algorithm="ditto")
    assert len(run_federation(gather(path), tmp_path / "o").rows) == 4
    assert gather(folder / "sites").setting.name == "sites"
    listed = config(folder, "FL").read_text()
    path.write_text(listed.replace("[run]", '[run]\nsites = ["sites/plant-3", "sites/plant-2"]'))
    assert [c.id for c in gather(path).clients] == ["plant-3", "plant-2"]


def test_a_site_without_test_rows_keeps_some_for_it(folder):
    (folder / "sites" / "plant-2" / "test.csv").unlink()
    found = gather(config(folder))
    client = found.clients[1]
    assert (len(client.data), len(client.test)) == (45, 15)
    seen = {tuple(row) for row in client.data.x.tolist()}
    assert not seen & {tuple(row) for row in client.test.x.tolist()}


def test_without_a_p_km_the_expert_alone_is_left_out(folder, tmp_path):
    site = folder / "sites" / "plant-3"
    known = Knowledge.read(site / "knowledge.toml")
    replace(known, prediction=None).write(site / "knowledge.toml")
    done = run_federation(gather(config(folder, "P-KM", "FLwKM")), tmp_path / "o")
    assert done.left_out == {
        "P-KM": "site 'plant-3' has no expert's prediction ([[predict.sources]])"
    }
    assert {r["approach"] for r in done.rows} == {"FLwKM"}


def test_keys_of_a_deployed_federation_are_passed_over(folder):
    more = 'address = "localhost:7000"\nquorum = 0.5\n'
    assert read_federation(config(folder, more=more)).name == "tiny"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rounds = 2", "round = 2", "federation.toml: unknown key 'round'; did you mean 'rounds'"),
        ("rounds = 2", "rounds = 0", "rounds must be at least 1, got 0"),
        ('"FL"', '"FLw"', r"\[run\] unknown approach 'FLw'; did you mean"),
        ('"fedavg"', '"fedag"', r"unknown algorithm 'fedag'; did you mean 'fedavg'"),
        ("hidden", "hiden", r"\[model\] unknown key 'hiden'; did you mean 'hidden'"),
    ],
)
def test_bad_settings_are_named(folder, old, new, message):
    path = config(folder)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=message):
        gather(path)


def test_bad_sites_are_named(folder):
    path = config(folder)
    path.write_text(path.read_text().replace("[run]", '[run]\nsites = "nowhere"'))
    with pytest.raises(FedloreError, match="no site in '.*nowhere'"):
        gather(path)
    with pytest.raises(FedloreError, match="did you mean '.*federation.toml'"):
        site_folders(folder)
    with pytest.raises(FedloreError, match="did you mean '.*sites'"):
        site_folders(find_sites(folder / "sites")[0])
    path.write_text(path.read_text().replace('"nowhere"', "[]"))
    with pytest.raises(FedloreError, match="at least one site"):
        gather(path)
    with pytest.raises(ConfigError, match="cannot read '.*none.toml'"):
        gather(folder / "none.toml")
    (folder / "sites" / "plant-1" / "train.csv").unlink()
    with pytest.raises(FedloreError, match="site 'plant-1' has no train.csv"):
        gather(config(folder))


def test_weights_hold_no_pickle(folder, tmp_path):
    run_federation(gather(config(folder, "FL")), tmp_path / "o")
    path = weights_path(tmp_path / "o", "FL", "plant-1")
    weights, scaler = read_weights(path)  # refuses pickles
    assert all(isinstance(t, torch.Tensor) for t in weights.values())
    assert scaler.shift.shape == (17,)
    assert safetensors.torch.load(path.read_bytes())["weights/body.1.0.weight"].shape == (4, 17)


HIDDEN = "[privacy]\nsecure_aggregation = true\n"


def test_secure_aggregation_changes_no_score(folder, tmp_path, short_recipe):
    plain = run_federation(gather(config(folder, "ML", "FLwKM", "lore")), tmp_path / "plain")
    path = config(folder, "ML", "FLwKM", "lore", more=HIDDEN)
    assert gather(path).setting.privacy.secure_aggregation
    hidden = run_federation(gather(path), tmp_path / "hidden")
    assert [r["ta"] for r in hidden.rows] == pytest.approx([r["ta"] for r in plain.rows], abs=0.02)
    one, two = (
        read_weights(weights_path(tmp_path / out, "FLwKM", "plant-2"))[0]
        for out in ("plain", "hidden")
    )
    assert all(((two[name] - t).norm() / t.norm()) < 1e-5 for name, t in one.items())


def test_privacy_that_cannot_be_is_refused(folder, tmp_path):
    few = HIDDEN.replace("[privacy]", "sample = 0.5\n[privacy]")
    with pytest.raises(ConfigError, match="at least 3 sites in a round, got 2 of 4"):
        run_federation(gather(config(folder, "FL", more=few)), tmp_path / "o")
    noisy = "[privacy]\ndp = {epsilon = 4, delta = 1e-5}\n"
    with pytest.raises(ConfigError, match="every trial of lore would spend the budget"):
        gather(config(folder, "lore", more=noisy))
