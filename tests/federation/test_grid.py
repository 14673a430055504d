"""The Flower app on a grid that somebody else runs: the bits of `fit`, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from flwr.app import Context, RecordDict

from fedlore import FedloreError, fit
from fedlore.core.store import unpack_payload
from fedlore.experiments.sites import read_site
from fedlore.federation.coordinator.grid import read_run_config
from fedlore.federation.journal import Journal, read_state
from fedlore.federation.settings import read_deployed
from fedlore.federation.site.grid import kit_of, site_kit

from .inside import audit_lines, small
from .stock import StockGrid, bare_sites, halves, make_app, run_app

QUICK = [("hidden = [64, 64]", "hidden = [6]"), ("epochs = 5", "epochs = 1")]
QUICK += [("rounds = 20", "rounds = 3"), ("deadline = 300.0", "deadline = 2.0")]
PLAIN = [*QUICK, ('recipe = "lore"', 'recipe = "none"'), ("hears = true", "hears = false")]
OPEN = [("secure_aggregation = true", "secure_aggregation = false")]
AVERAGE = [('name = "fedper"', 'name = "fedavg"'), ('settings = {private = ["first", "last"]}', "")]
SPACE = "[search_space]\nfolds = 2\ncandidates = [{hidden = [5]}, {hears = true, hidden = [5]}]\n"
SPACE += "one_shot = {}\n\n[plan]"
LORE = [*QUICK, *OPEN, *AVERAGE, ("[plan]", SPACE)]


@pytest.fixture(scope="module")
def plants(tmp_path_factory):
    """Three plants with rows and knowledge, as `fedlore new` and `fedlore run` have them."""
    folder = tmp_path_factory.mktemp("plants")
    return bare_sites(small(folder / "trial"), folder / "sites")


@pytest.fixture
def sites(plants, tmp_path):
    return [Path(shutil.copytree(one, tmp_path / "sites" / one.name)) for one in plants]


def in_one_process(app, sites, **more):
    """`fit` over the same folders with the same settings."""
    f = read_deployed(app / "fedlore_app", address=False)
    clients = [read_site(site) for site in sites]
    more = {"plan": f.plan, "rounds": f.rounds, "seed": f.seed, "evaluate": f.rounds} | more
    if "recipe" in more:
        return fit(clients, algorithm=f.algorithm.make(), engine="local", **more)
    model = f.model.make(len(f.schema.features), len(f.schema.classes), seed=f.seed)
    return fit(clients, model, algorithm=f.algorithm.make(), engine="local", **more)


def shared(out):
    return read_state(out / "shared.weights")[1]["model"]


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "fedper"])
def test_without_masks_the_bits_are_those_of_fit(plants, sites, tmp_path, algorithm):
    changes = [*PLAIN, *OPEN, *AVERAGE, ('name = "fedavg"', f'name = "{algorithm}"')]
    if algorithm == "scaffold":
        changes.append(("lr = 0.05", "lr = 0.05\nmomentum = 0.0\nsteps = 5"))
    app = make_app(tmp_path / "app", sites[0], *changes)
    run_app(app, sites, tmp_path / "out")
    fitted = in_one_process(app, plants)
    for name, value in shared(tmp_path / "out").items():
        assert torch.equal(value, fitted.run.state["model"][name])
    lines = (tmp_path / "out" / "scores.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if "ta" in row]
    assert rows == [r for r in fitted.run.rows if "ta" in r]
    for site in sites:  # and each site's own model
        own = read_state(site / "personal.weights")[1]["model"]
        wanted = fitted.model(site.name).model.state_dict()
        assert all(torch.equal(own[n], wanted[n]) for n in own)


def test_under_masks_it_is_the_same_up_to_rounding_and_takes_two_exchanges(plants, sites, tmp_path):
    app = make_app(tmp_path / "app", sites[0], *PLAIN, *AVERAGE)
    asked = []
    with halves(app) as (_, client):
        nodes = {10 + i: {"site": str(site)} for i, site in enumerate(sites)}
        grid = StockGrid(client, nodes, before=lambda message, node: asked.append(kind_of(message)))
    run_app(app, sites, tmp_path / "out", grid=grid)
    fitted = in_one_process(app, plants)
    for name, value in shared(tmp_path / "out").items():
        assert torch.allclose(value, fitted.run.state["model"][name], atol=1e-5)
    assert asked.count("unmask") == 3 * 4 and asked.count("train") == 3 * 3
    lines = [line for site in sites for line in audit_lines(site)]
    assert all("masked" in line["sent"] for line in lines if line["kind"] == "train")


def kind_of(message):
    return message.content["task"]["kind"] if "task" in message.content else "hello"


def test_secrets_of_a_sum_are_in_the_memory_of_the_node_and_on_no_disk(sites, tmp_path):
    app = make_app(tmp_path / "app", sites[0], *PLAIN, *AVERAGE)
    grid = run_app(app, sites, tmp_path / "out")
    for state in grid.states.values():
        kept = state["fedlore.memory"]
        about, payload = unpack_payload(kept["0"])
        secret = payload["next"]["private"].numpy().tobytes()
        assert len(secret) == 32 and about["pact"]["kind"] in ("train", "moments")
        assert payload["own"]["private"].numel() == 0  # of the sum that was opened
        for path in (*tmp_path.rglob("*"),):
            assert not path.is_file() or secret not in path.read_bytes()
        assert not any(secret in data for data in grid.wire)


def test_a_node_that_forgets_in_the_middle_of_a_sum_makes_it_void_and_goes_on(sites, tmp_path):
    """A SuperNode that was started again: the round is tried again with a key that it makes."""
    app = make_app(tmp_path / "app", sites[0], *PLAIN, *AVERAGE)
    done = []

    def forget(message, node):
        if kind_of(message) == "unmask" and message.content["task"]["round"] == 2 and not done:
            done.append(node)
            grid.states[node] = RecordDict()

    with halves(app) as (_, client):
        nodes = {10 + i: {"site": str(site)} for i, site in enumerate(sites)}
        grid = StockGrid(client, nodes, before=forget)
    run_app(app, sites, tmp_path / "out", grid=grid)
    assert done and read_state(tmp_path / "out" / "shared.weights")[0]["round"] == 3


class Stopped(BaseException):
    pass


def test_a_run_that_was_killed_goes_on_to_the_same_bits(plants, sites, tmp_path):
    app = make_app(tmp_path / "app", sites[0], *PLAIN, *OPEN, *AVERAGE)

    def stop(message, node):
        if kind_of(message) == "train" and message.content["task"]["round"] == 3:
            raise Stopped

    with halves(app) as (_, client):
        grid = StockGrid(client, {10 + i: {"site": str(s)} for i, s in enumerate(sites)})
    grid.before = stop
    with pytest.raises(Stopped):
        run_app(app, sites, tmp_path / "out", grid=grid)
    assert Journal(tmp_path / "out" / "journal").last()[0].run.round == 2
    run_app(app, sites, tmp_path / "out", resume=True)
    fitted = in_one_process(app, plants)
    for name, value in shared(tmp_path / "out").items():
        assert torch.equal(value, fitted.run.state["model"][name])


def test_no_row_no_rule_and_no_trust_travels(sites, tmp_path):
    for site in sites:
        text = (site / "knowledge.toml").read_text()
        (site / "knowledge.toml").write_text(text.replace("trust = 0.3", "trust = 0.31415926"))
    app = make_app(tmp_path / "app", sites[0], *PLAIN, *OPEN, *AVERAGE)
    grid = run_app(app, sites, tmp_path / "out")
    wire = b"".join(grid.wire)
    rows = [line for s in sites for line in (s / "train.csv").read_bytes().splitlines()[1:5]]
    assert not any(row in wire for row in rows)
    assert b"0.31415926" not in wire and str(tmp_path).encode() not in wire


def test_a_policy_wins_on_any_grid(sites, tmp_path):
    kit = site_kit(sites[1])
    path = kit.path("site.toml")
    text = path.read_text().replace("secure_aggregation = false", "secure_aggregation = true")
    path.write_text(text)
    app = make_app(
        tmp_path / "app", sites[0], *PLAIN, *OPEN, *AVERAGE, ("quorum = 0.5", "quorum = 1.0")
    )
    with pytest.raises(FedloreError, match="2 of 3 sites gave a usable answer"):
        run_app(app, sites, tmp_path / "out")
    status = json.loads((tmp_path / "out" / "status.json").read_text())
    assert "secure aggregation is demanded" in status["sites"]["plant-2"]["note"]


def test_terms_that_site_toml_pins_are_the_only_ones(sites, tmp_path):
    path = site_kit(sites[1]).path("site.toml")
    path.write_text('agreed = "0123456789abcdef"\n' + path.read_text())
    app = make_app(
        tmp_path / "app", sites[0], *PLAIN, *OPEN, *AVERAGE, ("quorum = 0.5", "quorum = 1.0")
    )
    with pytest.raises(FedloreError, match="2 of 3 sites"):
        run_app(app, sites, tmp_path / "out")
    assert (sites[1] / "terms.offered.json").exists()


def test_two_nodes_of_one_folder_and_too_few_nodes_are_said(sites, tmp_path):
    app = make_app(tmp_path / "app", sites[0], *PLAIN, *OPEN, *AVERAGE)
    with pytest.raises(FedloreError, match="two SuperNodes say that they are site 'plant-1'"):
        run_app(app, [sites[0], sites[0]], tmp_path / "out")
    with pytest.raises(FedloreError, match="1 of 2 SuperNodes are here after 1 s.*sites=1"):
        run_app(app, sites[:1], tmp_path / "out", count=2, wait=1.0)


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({}, "names no site: start it with --node-config 'site="),
        ({"site": "/nowhere/at/all"}, "its own log says why"),
        ({"partition-id": 0, "num-partitions": 2}, "simulate="),
    ],
)
def test_a_node_without_a_site_says_what_to_do(sites, tmp_path, node, said, capfd):
    app = make_app(tmp_path / "app", sites[0], *PLAIN, *OPEN, *AVERAGE)
    with halves(app) as (_, client):
        grid = StockGrid(client, {10: {"site": str(sites[0])}, 11: node})
    with pytest.raises(FedloreError, match=f"SuperNode 11 cannot take part: .*{said}") as found:
        run_app(app, sites[:2], tmp_path / "out", grid=grid)
    assert "/nowhere" not in str(found.value)  # a path is the site's own business
    assert "/nowhere" in capfd.readouterr().err or "site" not in node


def test_a_simulation_takes_the_folders_in_order(sites, tmp_path):
    run = {"simulate": str(sites[0].parent)}
    names = [kit_of({"partition-id": i, "num-partitions": 3}, run).file.name for i in range(3)]
    assert names == ["plant-1", "plant-2", "plant-3"]
    with pytest.raises(FedloreError, match="num-supernodes = 3"):
        kit_of({"partition-id": 3, "num-partitions": 4}, run)


def test_a_folder_becomes_a_site_by_what_lies_in_it(sites, tmp_path):
    (sites[0] / "knowledge.toml").unlink()
    file = site_kit(sites[0]).file
    assert (file.name, file.data, file.test, file.knowledge) == (
        "plant-1",
        "train.csv",
        "test.csv",
        None,
    )
    before = (sites[0] / "site.toml").read_text()
    site_kit(sites[0])
    assert (sites[0] / "site.toml").read_text() == before
    with pytest.raises(FedloreError, match="neither a site.toml nor a train.csv"):
        site_kit(tmp_path)
    (tmp_path / "a b").mkdir()
    shutil.copy(sites[0] / "train.csv", tmp_path / "a b")
    with pytest.raises(FedloreError, match="letters, digits"):
        site_kit(tmp_path / "a b")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"site": 3}, "unknown key 'site'; did you mean 'sites'"),
        ({"sites": "3"}, "sites must be int, got '3'"),
        ({"sites": True}, "sites must be int"),
        ({"sites": 0}, "sites must be at least 1"),
        ({"rounds": -1}, "rounds must be at least 0"),
        ({"out": ""}, "out must name a folder"),
        ({"resume": "yes"}, "resume must be bool"),
    ],
)
def test_a_run_config_that_cannot_be_is_a_sentence(config, said):
    with pytest.raises(FedloreError, match=said):
        read_run_config(config)


def test_what_cannot_be_trained_is_refused_before_anybody_is_asked(sites, tmp_path):
    app = make_app(tmp_path / "app", sites[0], *PLAIN, *OPEN)  # one layer, and both ends private
    with pytest.raises(FedloreError, match="nothing is left to share"):
        run_app(app, sites, tmp_path / "out")
    assert not (tmp_path / "out").exists() and not (sites[0] / "site.toml").exists()


def test_rounds_of_the_run_config_stand_in_place_of_the_file_s(sites, tmp_path):
    app = make_app(tmp_path / "app", sites[0], *PLAIN, *OPEN, *AVERAGE)
    run_app(app, sites, tmp_path / "out", rounds=1)
    assert read_state(tmp_path / "out" / "shared.weights")[0]["round"] == 1


def test_the_app_s_config_is_what_fedlore_reads(sites, tmp_path):
    import tomllib

    app = make_app(tmp_path / "app", sites[0])
    project = tomllib.loads((app / "pyproject.toml").read_text())
    assert project["project"]["dependencies"] == []
    found = read_run_config(project["tool"]["flwr"]["app"]["config"])
    assert found["sites"] == 3 and found["out"] == "knowing"
    for half in ("server_app", "client_app"):
        lines = (app / "fedlore_app" / f"{half}.py").read_text().splitlines()
        assert len([line for line in lines if line.strip()]) <= 12
    with pytest.raises(FedloreError, match="not empty"):
        make_app(tmp_path / "app", sites[0])


def test_a_message_of_somebody_else_is_answered_with_an_error(sites, tmp_path):
    """Not with a traceback, whose text could quote what is private."""
    from flwr.app import ConfigRecord, Message
    from flwr.supercore.task_identity import TaskIdentity

    from fedlore.flower import answer

    from .inprocess import carried

    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    message = Message(RecordDict({"task": ConfigRecord({"kind": "train"})}), 10, "train")
    context = Context(1, 10, {"site": str(sites[0])}, RecordDict(), {})
    reply = answer(carried(message, []), context)
    assert reply.has_error() and "its own log says why" in reply.error.reason
