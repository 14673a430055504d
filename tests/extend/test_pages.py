"""Each page of docs/extend brings a package that works in fit, in a run and at sites that agree."""

import importlib.util
import os
import sys

import pytest
import torch
from typer.testing import CliRunner

from fedlore import Client, FedloreError, Knowledge, Plan, Privacy, fit
from fedlore.algorithms import make
from fedlore.cli.app import app
from fedlore.core.models import make_kind, make_network
from fedlore.core.nets import mlp
from fedlore.core.wire import Task
from fedlore.experiments.sites import read_site
from fedlore.federation.coordinator.training import train_federation
from fedlore.federation.settings import read_deployed
from fedlore.federation.site.doctor import _knowledge
from fedlore.federation.site.folder import read_kit
from fedlore.federation.site.worker import Worker
from fedlore.federation.terms import terms_of
from fedlore.testing.clients import CLASSES, FEATURES, same_payloads, small_federation
from fedlore_coke.starter import write_starter

from ..federation.inside import Inside, reference, small
from ..federation.test_processes import running, trial
from .pages import EXAMPLES, know_bands

each_page = pytest.mark.parametrize("example", EXAMPLES, ids=[e.page for e in EXAMPLES])
#: Where every page costs seconds, one is tried in the sample and the others in `make slow`.
one_page = pytest.mark.parametrize(
    "example",
    [EXAMPLES[0], *(pytest.param(e, marks=pytest.mark.slow) for e in EXAMPLES[1:])],
    ids=[e.page for e in EXAMPLES],
)


@pytest.fixture
def installed(example, tmp_path, monkeypatch):
    example.install(monkeypatch, tmp_path / "packages")
    yield example
    example.forget()


def moved(fitted, start):
    end = fitted.model("site-0").model
    return {name: end.get_parameter(name) - p for name, p in start.named_parameters()}


@one_page
def test_the_laws_of_the_page_hold(installed, tmp_path):
    path = tmp_path / "test_own.py"
    path.write_text(installed.laws)
    spec = importlib.util.spec_from_file_location("test_own", path)
    own = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(own)
    tests = [found for name, found in vars(own).items() if name.startswith("test_")]
    assert len(tests) == 1
    tests[0]()


@each_page
def test_fit_takes_it(installed, tmp_path):
    page = installed.page
    net = mlp(FEATURES, CLASSES, hidden=(5,))
    settings = {"rounds": 1, "seed": 0, "plan": Plan(epochs=1)}
    plain = moved(fit(small_federation(), net, **settings), net)
    if page == "algorithm":
        slow = fit(small_federation(), net, algorithm=make("slow", way=0.25), **settings)
        for name, way in moved(slow, net).items():
            assert torch.allclose(way, plain[name] / 4, atol=1e-6)
    elif page == "model":
        kind = make_kind("normed", {"width": 8})
        model = make_network("normed", kind, FEATURES, CLASSES, hears=False, seed=0)
        found = fit(small_federation(), model, **settings).model("site-0")
        assert found(small_federation()[0].data.x).shape == (20, CLASSES)
    elif page == "filter":
        privacy = Privacy(filters={"grid": {"step": 0.01}})
        found = fit(small_federation(), net, privacy=privacy, **settings)
        assert found.privacy == ("uploads are rounded to multiples of 0.01",)
        for name, way in moved(found, net).items():
            assert not torch.equal(way, plain[name])
            assert torch.allclose(way, plain[name], atol=0.006)
    else:
        write_starter(tmp_path / "own")
        home = tmp_path / "own" / "sites" / "plant-2"
        know_bands(home)
        site = read_site(home)
        assert isinstance(site, Client) and isinstance(site.knowledge, Knowledge)
        assert float(site.knowledge.annotate(site.data).prior.sum()) > 0
        found = fit([site], mlp(17, 20, hidden=(5,)), **settings).model("plant-2")
        assert found(site.data.x).shape == (len(site.data), 20)


@one_page
def test_fedlore_run_takes_it(installed, tmp_path):
    write_starter(tmp_path / "own")
    path = tmp_path / "own" / "federation.toml"
    path.write_text(
        'rounds = 1\n[run]\napproaches = ["FLwKM"]\n[model]\nkind = "mlp"\nhidden = [6]\n'
        '[algorithm]\nname = "fedavg"\n[plan]\nepochs = 1\n[privacy]\nsecure_aggregation = false\n'
    )
    installed.ask(tmp_path / "own")
    found = CliRunner().invoke(app, ["run", str(path), "--out", str(tmp_path / "out")])
    assert found.exit_code == 0, found.output
    assert installed.module in sys.modules
    assert len((tmp_path / "out" / "results.jsonl").read_text().splitlines()) == 4


@pytest.fixture
def folder(installed, tmp_path):
    made = small(tmp_path / "fed")
    installed.ask(made)
    return made


@pytest.mark.slow
@each_page
def test_a_deployed_federation_takes_it(installed, folder, monkeypatch):
    for home in (folder / "sites").iterdir():
        installed.agree(home)
    run = Inside(folder, monkeypatch).train()
    assert run.round == 3 and installed.module in sys.modules
    near = {"rtol": 0.0, "atol": 1e-3} if installed.page == "filter" else {}
    same_payloads(run.state, reference(folder).state, **near)


@each_page
def test_a_site_loads_nothing_that_its_policy_does_not_name(installed, folder, monkeypatch):
    """An empty list covers fedlore's own, never the code of another package."""
    text = terms_of(read_deployed(folder), run="x", participants=3).text()
    kit = read_kit(folder / "sites" / "plant-1")
    installed.forget()
    reason = f"policy: .*'{installed.entry[0]}'.* of another package"
    # what kind of knowledge a site has is its own business: its doctor says it, no refusal does
    told = "does not fit the federation" if installed.page == "source" else reason
    with pytest.raises(FedloreError, match=told):
        Worker(kit)(Task("train", 1), text)
    if installed.page == "source":
        with pytest.raises(FedloreError, match=reason):
            _knowledge(kit)
        with pytest.raises(FedloreError, match=reason):
            kit.client(kit.terms().schema)
    assert installed.module not in sys.modules


@pytest.mark.slow
def test_all_of_them_in_a_federation_of_processes(tmp_path, monkeypatch):
    folder = trial(tmp_path / "fed", rounds=2)
    for example in EXAMPLES:
        example.install(monkeypatch, tmp_path / "packages")
        example.ask(folder)
        for home in (folder / "sites").iterdir():
            example.agree(home)
    places = [str(tmp_path / "packages" / e.module) for e in EXAMPLES]
    inherited = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*places, *filter(None, [inherited])]))
    try:
        with running(folder):
            run = train_federation(folder)
        assert run.round == 2 and "body.0.2.weight" in run.state["model"]
        same_payloads(run.state, reference(folder).state, rtol=0.0, atol=1e-3)
    finally:
        for example in EXAMPLES:
            example.forget()
