"""A run over folders whose knowledge files hold shapes, and what is refused before it starts."""

import json

import pytest
import torch

from fedlore import ConfigError, FedloreError
from fedlore.core.lipschitz import Lipschitz
from fedlore.engine.lore import Candidate, SearchSpace
from fedlore.experiments.benefit import benefit_path
from fedlore.experiments.runs import run_federation
from fedlore.experiments.sites import gather
from fedlore.experiments.weights import find_bundle
from fedlore.federation.settings import Federation, Model
from fedlore.federation.terms import read_terms, terms_of
from fedlore.kernel.schema import Feature, Schema

from .folders import KNOWN, SHAPE, write_federation


def row(draw):
    a, b = draw.uniform(0, 4), draw.uniform(0, 4)
    return f"{a:.3f},{b:.3f},g{1 + (a > 1.5) + (a + b > 5)}"


def folder_of(root, lipschitz="true"):
    known = KNOWN.format(trust="trust = 0.2", more="")
    model = f"hears = true\nlipschitz = {lipschitz}"
    files = [known, known + SHAPE, known + SHAPE]
    approaches = ["FL", "FLwKM", "lore"]
    return write_federation(
        root, files, "a,b,label", row, rows=40, approaches=approaches, model=model
    )


@pytest.mark.usefixtures("short_recipe")
def test_a_run_keeps_the_shapes_of_the_sites_that_have_some(tmp_path):
    assert run_federation(gather(folder_of(tmp_path)), tmp_path / "out").left_out == {}
    low = 4 * torch.rand(300, 2, generator=torch.Generator().manual_seed(1))
    high = low.clone()
    high[:, 0] += (4 - low[:, 0]) * 0.5
    for approach in ("FLwKM", "lore"):
        found = find_bundle(tmp_path / "out", "s1", approach).personal
        assert found.knowledge.shapes is not None
        assert (found.predict(low) <= found.predict(high)).all()
        below, above = (found.predict_proba(x).double().cumsum(1) for x in (low, high))
        assert (above <= below + 1e-5).all()
        assert find_bundle(tmp_path / "out", "s0", approach).personal.knowledge.shapes is None
    names = {s: set(benefit_of(tmp_path, s)["weights"]) for s in ("s0", "s1")}
    assert any(name.startswith("quadratic") for name in names["s0"])
    assert not any(name.startswith("quadratic") for name in names["s1"])
    assert benefit_of(tmp_path, "s1")["left out"] == (
        "Left out so that the shapes hold for sure (a raises): own models with products of "
        "features and all but the linear part of the one-shot federation."
    )
    assert "left out" not in benefit_of(tmp_path, "s0")


def benefit_of(root, site):
    return json.loads(benefit_path(root / "out", site).read_text())


def test_a_run_without_such_a_network_names_the_site(tmp_path):
    with pytest.raises(FedloreError, match="client 's1': shapes need a network that keeps them"):
        run_federation(gather(folder_of(tmp_path, "false")), tmp_path / "out")


def schema(ordered=True):
    return Schema((Feature("a", low=0, high=1),), ("I", "II"), ordered=ordered)


def federation(**parts):
    return Federation(address="localhost:9000", **{"schema": schema(), **parts})


def test_terms_tell_the_network_and_nothing_of_shapes():
    terms = terms_of(
        federation(model=Model(hidden=(4,), hears=True, lipschitz=True)), run="1", participants=2
    )
    again = read_terms(terms.text())
    model = again.recipe().model
    assert isinstance(model, Lipschitz) and model.options.hears
    assert "shape" not in terms.text()


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            {"recipe": "lore", "search_space": SearchSpace((Candidate(head="ordered"),))},
            "candidates of .search_space. have head = shaped, got 'ordered'",
        ),
        ({"schema": schema(ordered=False)}, "is for ordered classes and numbers"),
    ],
)
def test_what_cannot_keep_shapes_is_refused(parts, said):
    with pytest.raises(ConfigError, match=said):
        federation(model=Model(hidden=(4,), lipschitz=True), **parts)


def test_such_a_candidate_needs_such_a_network():
    with pytest.raises(ConfigError, match="head = shaped belongs to .model. lipschitz = true"):
        federation(recipe="lore", search_space=SearchSpace((Candidate(head="shaped"),)))


def test_terms_of_lore_offer_networks_that_keep_shapes():
    asked = federation(model=Model(hidden=(4,), lipschitz=True), recipe="lore")
    again = read_terms(terms_of(asked, run="1", participants=2).text())
    assert {one.head for one in again.search_space.candidates} == {"shaped"}
    assert isinstance(again.recipe("2/main/20").model, Lipschitz)


def test_only_a_perceptron_keeps_shapes():
    with pytest.raises(ConfigError, match="for kind = mlp, .* kind 'logistic' could turn"):
        Model(kind="logistic", lipschitz=True)
