"""A model and an algorithm of another package: in fit, in a run, and at sites that agree."""

import shutil
import sys
from dataclasses import replace

import pytest
import torch

from fedlore.core.wire import Task
from fedlore.experiments.runs import run_federation
from fedlore.experiments.sites import gather
from fedlore.experiments.weights import read_weights, weights_path
from fedlore.federation.remote import Refusal
from fedlore.federation.settings import Model, read_deployed
from fedlore.federation.site.doctor import _policy
from fedlore.federation.site.export import bundle_of_kit
from fedlore.federation.site.folder import Policy, read_kit
from fedlore.federation.site.worker import Worker
from fedlore.federation.terms import read_terms, terms_of
from fedlore_coke.starter import write_starter

from ..installed import forget, install
from ..laws.test_algorithms import assert_close
from .inside import Inside, edited, reference, small

WIDE = 'kind = "wide"\nsettings = {width = 4}\nhears = false'


@pytest.fixture
def installed(tmp_path, monkeypatch):
    install(
        monkeypatch,
        tmp_path / "package",
        models="wide = widenets:WideKind",
        algorithms="half = widenets:Half",
    )


@pytest.fixture
def folder(installed, tmp_path):
    """A deployed federation of three sites that names what another package brings."""
    made = small(tmp_path / "fed")
    text = (made / "federation.toml").read_text()
    start, end = text.index('kind = "mlp"'), text.index("[algorithm]")
    (made / "federation.toml").write_text(text[:start] + WIDE + "\n\n" + text[end:])
    edited(made / "federation.toml", ('"fedavg"', '"half"'))
    return made


def agree(folder, *changes):
    for home in (folder / "sites").iterdir():
        edited(home / "site.toml", *changes)


BOTH = (("models = []", 'models = ["wide"]'), ("algorithms = []", 'algorithms = ["half"]'))


def test_a_run_in_one_process_trains_it(installed, tmp_path):
    write_starter(tmp_path / "own")
    path = tmp_path / "own" / "federation.toml"
    text = f'rounds = 1\n[run]\napproaches = ["FL"]\n[model]\n{WIDE}\n[algorithm]\nname = "half"\n'
    path.write_text(text + "[plan]\nepochs = 1\n")
    assert len(run_federation(gather(path), tmp_path / "out").rows) == 4
    weights, _ = read_weights(weights_path(tmp_path / "out", "FL", "plant-1"))
    assert weights["body.scale"].shape == (4,)


def test_a_deployed_federation_trains_it_to_the_same_bits(folder, monkeypatch):
    agree(folder, *BOTH)
    run = Inside(folder, monkeypatch).train()
    assert run.round == 3 and run.state["model"]["body.scale"].shape == (4,)
    assert_close(run.state, reference(folder).state)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ((), "model 'wide' is not allowed: it is of another package and not named in models"),
        (BOTH[:1], "algorithm 'half' is not allowed: it is of another package"),
        (BOTH[1:], "model 'wide' is not allowed"),
        ((("models = []", 'models = ["mlp"]'), BOTH[1]), "model 'wide' is not allowed"),
    ],
)
def test_a_site_loads_nothing_that_its_policy_does_not_name(folder, monkeypatch, changes, reason):
    """An empty list covers fedlore's own, never the code of another package."""
    text = terms_of(read_deployed(folder), run="x", participants=3).text()
    home = folder / "sites" / "plant-1"
    edited(home / "site.toml", *changes)
    forget(monkeypatch)
    with pytest.raises(Refusal, match=reason):
        Worker(read_kit(home))(Task("train", 1), text)
    assert "widenets" not in sys.modules
    (home / "terms.json").write_text(text)
    with pytest.raises(Refusal, match=reason):
        _policy(read_kit(home))


def test_reading_terms_loads_nothing(folder, monkeypatch):
    text = terms_of(read_deployed(folder), run="x", participants=3).text()
    forget(monkeypatch)
    terms = read_terms(text)
    assert "widenets" not in sys.modules
    terms.recipe()
    assert "widenets" in sys.modules


def test_what_is_not_installed_at_a_site_is_refused_by_name(folder, tmp_path, monkeypatch):
    agree(folder, *BOTH)
    text = terms_of(read_deployed(folder), run="x", participants=3).text()
    shutil.rmtree(tmp_path / "package")
    install(monkeypatch, tmp_path / "other", package="other", models="secret = other:WideKind")
    told = []
    with pytest.raises(Refusal, match="cannot make model 'wide'.*installed") as refused:
        Worker(read_kit(folder / "sites" / "plant-1"), told.append)(Task("train", 1), text)
    assert "unknown model kind 'wide'; known: logistic, mlp, secret" in told[0]
    assert "secret" not in str(refused.value)  # what a site has installed stays there


def test_weights_are_not_exported_by_code_that_the_policy_took_back(folder, monkeypatch):
    agree(folder, *BOTH)
    Inside(folder, monkeypatch).train()
    home = folder / "sites" / "plant-1"
    edited(home / "site.toml", ('models = ["wide"]', "models = []"))
    forget(monkeypatch)
    with pytest.raises(Refusal, match="model 'wide' is not allowed"):
        bundle_of_kit(home)
    assert "widenets" not in sys.modules


def test_fedlores_own_need_no_list(folder):
    terms = terms_of(read_deployed(folder), run="x", participants=3)
    own = replace(terms, model=Model(), algorithm=replace(terms.algorithm, name="fedavg"))
    Policy().refuse(own, Task("train", 1))
    assert isinstance(own.recipe().model, torch.nn.Module)
