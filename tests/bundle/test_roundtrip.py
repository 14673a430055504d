"""Written and read again, a bundle says the same to the last bit."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import fedlore
from fedlore import Client, Examples, Knowledge, Personal
from fedlore.answers import Bins
from fedlore.bundle import Policies, bundle_of, read_bundle, write_bundle
from fedlore.bundle.networks import describe_network
from fedlore.checker.bundles import _odd_layers as odd_layers
from fedlore.checker.bundles import network_shapes
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.core.nets import _AsImage, lenet5, logistic, mlp, server, small_cnn
from fedlore.core.ordinal import Ordinal, ordered_mlp
from fedlore.errors import FedloreError, KnowledgeError
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.estimators import from_sklearn
from fedlore.knowledge.formulas import Formula
from fedlore.knowledge.intervals import Band, Between
from fedlore.knowledge.sources.kind import EntryPoint
from fedlore.models.regressor import PersonalRegressor

from .making import SCHEMA, bundle, known, personal, rows


@settings(max_examples=40, deadline=None)
@given(
    hidden=st.lists(st.integers(1, 9), max_size=3),
    hears=st.booleans(),
    trust=st.floats(0, 1),
    reliance=st.none() | st.floats(0, 1),
    seed=st.integers(0, 10**6),
    double=st.booleans(),
    scaled=st.booleans(),
)
def test_predictions_are_the_same_bit_for_bit(
    tmp_path_factory, hidden, hears, trust, reliance, seed, double, scaled
):
    expert = known()
    model = mlp(2, 3, hidden=hidden, hears=hears, seed=seed)
    knowledge = Knowledge(expert.prediction, expert.range, trust, reliance, schema=SCHEMA)
    made = Personal(model, knowledge, scaler=personal().scaler if scaled else None)
    x = rows(20, seed)
    if double:
        made, x = made.double(), x.double()
    path = tmp_path_factory.mktemp("bundle") / "a.lore"
    first = bundle_of(made, "plant")
    write_bundle(first, path)
    again = read_bundle(path)
    assert torch.equal(again.personal(x), made(x))
    assert again.fingerprint == first.fingerprint
    write_bundle(again, path)
    assert read_bundle(path).members == again.members


NETS = {
    "logistic": (logistic(2, 3), (2,)),
    "lenet5": (lenet5(3), (28, 28)),
    "pooled": (
        nn.Sequential(
            _AsImage(),
            nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False, divisor_override=5),
            nn.Flatten(),
            nn.Linear(16, 3),
        ),
        (6, 6),
    ),
    "small_cnn": (small_cnn(3, side=6, hears=True), (6, 6)),
}


@pytest.mark.parametrize("name", NETS)
def test_networks_come_back(tmp_path, name):
    network, shape = NETS[name]
    d = int(np.prod(shape))
    schema = Schema(tuple(Feature(f"p{i}") for i in range(d)), ("A", "B", "C"))
    model = Personal(network)
    write_bundle(bundle_of(model, "plant", schema=schema), tmp_path / "n.lore")
    found = read_bundle(tmp_path / "n.lore")
    x = torch.rand(5, *shape)
    assert found.shape == shape
    assert torch.equal(found.personal(x), model(x))


STORED = {name: net for name, (net, _) in NETS.items()} | {
    "deaf": mlp(4, 3, hidden=(5, 4)),
    "ordered": ordered_mlp(4, 3, options=Ordinal(hears=True, linear=True), hidden=(5,)),
    "in order, alone": ordered_mlp(4, 3, options=Ordinal(start="middle", linear=False), hidden=()),
    "shaped": lipschitz_mlp(3, Shaping(4, hears=True, start="expert"), hidden=(5, 4)),
    "normed": nn.Sequential(
        nn.Linear(4, 6), nn.LayerNorm(6), nn.GroupNorm(2, 6), nn.GELU(), nn.Linear(6, 3, bias=False)
    ),
}


@pytest.mark.parametrize("network", STORED.values(), ids=STORED)
def test_the_checker_knows_the_layers_and_weights_of_all_that_fedlore_stores(network):
    said = json.loads(json.dumps(describe_network(server(network))))
    assert list(odd_layers(said)) == []
    weights = {n: tuple(t.shape) for n, t in server(network).state_dict().items()}
    wanted = dict(network_shapes(said))
    assert wanted.keys() == weights.keys()
    assert all(shape in (None, weights[n]) for n, shape in wanted.items())


def test_a_network_of_unknown_layers_is_refused():
    class Own(nn.Module):
        def forward(self, x):
            return x

    with pytest.raises(FedloreError, match="class Own"):
        describe_network(nn.Sequential(Own(), nn.Linear(2, 3)))


def fitted_elsewhere():
    linear = pytest.importorskip("sklearn.linear_model")
    x = rows().numpy()
    return linear.LogisticRegression().fit(x, (x[:, 0] > 20).astype(int))


def of_number(limits):
    known = Knowledge(None, limits)
    return PersonalRegressor(mlp(2, 4), Bins(0.0, 100.0, 4), known)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: personal(Knowledge(EntryPoint("plant.rules:csr", lambda x: x))),
            "entry point 'plant.rules:csr' .*cannot be stored",
        ),
        (
            lambda: personal(Knowledge(None, lambda x: torch.ones(len(x), 3).bool())),
            "<lambda> cannot be stored",
        ),
        (
            lambda: personal(Knowledge(from_sklearn(fitted_elsewhere(), classes=3))),
            "SklearnModel cannot be stored.*ONNX",
        ),
        (lambda: of_number(Band(Formula.parse("ash", SCHEMA), 1.0, 2.0)), "Band cannot be stored"),
        (lambda: of_number(Between(5.0, None)), "give its sides as formulas"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_name(make, words):
    with pytest.raises(KnowledgeError, match=words):
        bundle_of(make(), "plant", schema=SCHEMA)


def test_fitted_saves_the_model_of_a_client(tmp_path):
    x = rows(60)
    y = (x[:, 0] / 14).long().clamp(0, 2)
    clients = [
        Client(name, Examples(x, y), known(), test=Examples(x, y)) for name in ("north", "south")
    ]
    fitted = fedlore.fit(clients, mlp(2, 3, hidden=(4,)), rounds=2, evaluate=1)
    fitted.save("north", tmp_path / "north.lore")
    found = read_bundle(tmp_path / "north.lore")
    assert torch.equal(found.personal(x), fitted.model("north")(x))
    assert found.client == "north" and 0 <= found.metrics["ta"] <= 1
    assert "A, B, C" in found.card and "| ash | % | 0 to 40 |" in found.card


def test_a_bundle_names_its_columns():
    with pytest.raises(FedloreError, match="names its columns"):
        bundle_of(Personal(mlp(2, 3)), "plant")


def test_policies_travel(tmp_path):
    made = bundle_of(personal(), "plant", policies=Policies("error"))
    write_bundle(made, tmp_path / "a.lore")
    assert read_bundle(tmp_path / "a.lore").policies == Policies("error")


def test_loading_draws_no_random_numbers(tmp_path):
    write_bundle(bundle(), tmp_path / "a.lore")
    before = torch.get_rng_state()
    fedlore.load(tmp_path / "a.lore")
    assert torch.equal(torch.get_rng_state(), before)
