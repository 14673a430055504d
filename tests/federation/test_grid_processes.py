"""The Flower app on a real grid: Flower's own SuperLink, SuperNodes and commands, TLS and keys."""

import json
from pathlib import Path

import pytest
import torch

from fedlore.experiments.sites import read_site
from fedlore.federation.journal import read_state
from fedlore.federation.settings import read_deployed
from fedlore.federation.site.export import bundle_of_kit
from fedlore.federation.site.folder import read_kit
from fedlore.federation.site.lore import personal_of
from fedlore.federation.terms import read_terms

from .inside import audit_lines, small
from .stock import bare_sites, make_app
from .stock_processes import stock_federation
from .test_grid import AVERAGE, LORE, OPEN, PLAIN, in_one_process, shared

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PATIENT = ("deadline = 2.0", "deadline = 200.0")
ALL = ("quorum = 0.5", "quorum = 1.0")


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """One SuperLink and four SuperNodes, each with a folder of its own."""
    folder = tmp_path_factory.mktemp("grid")
    sites = bare_sites(small(folder / "trial", sites=4), folder / "sites")
    with stock_federation(folder / "flower", sites) as made:
        yield made, sites


def trained(federation, app: Path, out: Path, **config) -> str:
    made, sites = federation
    asked = {"sites": len(sites), "wait": 280.0, "out": str(out)} | config
    words = " ".join(f"{k}={json.dumps(v)}" for k, v in asked.items())
    said = made.flwr("run", str(app), "plant", "--run-config", words, "--stream", timeout=1500)
    assert (out / "shared.weights").exists(), said + made.tails()
    return said


def test_fedavg_has_the_bits_of_fit(federation, tmp_path):
    _, sites = federation
    app = make_app(tmp_path / "app", sites[0], *PLAIN, *OPEN, *AVERAGE, PATIENT, ALL)
    said = trained(federation, app, tmp_path / "out")
    assert "the sites are plant-1, plant-2, plant-3, plant-4" in said
    fitted = in_one_process(app, sites)
    for name, value in shared(tmp_path / "out").items():
        assert torch.equal(value, fitted.run.state["model"][name])


def test_fedavg_under_secure_aggregation(federation, tmp_path):
    """Every message is a process of its own, and yet the masks of two exchanges fit."""
    _, sites = federation
    app = make_app(tmp_path / "app", sites[0], *PLAIN, *AVERAGE, PATIENT, ALL)
    trained(federation, app, tmp_path / "out")
    fitted = in_one_process(app, sites)
    for name, value in shared(tmp_path / "out").items():
        assert torch.allclose(value, fitted.run.state["model"][name], atol=1e-5)
    run = read_state(tmp_path / "out" / "shared.weights")[0]["run"]
    lines = [line for site in sites for line in audit_lines(site) if line.get("run") == run]
    sent = [line["sent"] for line in lines if line["kind"] == "train"]
    assert len(sent) == 3 * 4 and all("masked" in one for one in sent)


def test_a_recipe_that_the_sites_choose_has_the_bits_of_fit(federation, tmp_path):
    _, sites = federation
    app = make_app(tmp_path / "app", sites[0], *LORE, PATIENT, ALL)
    trained(federation, app, tmp_path / "out")
    space = read_deployed(app / "fedlore_app", address=False).offered()
    fitted = in_one_process(app, sites, recipe=space)
    for site in sites:
        about, payload = read_state(site / "personal.weights")
        model = personal_of(read_kit(site), about, payload, read_terms(about["terms"]))
        x = read_site(site).test.x
        assert torch.equal(model.predict_proba(x), fitted.model(site.name).predict_proba(x))
        assert bundle_of_kit(site).client == site.name
