"""FedPer: heads stay private and are learned, the rest is averaged."""

import torch

from fedlore import Plan, federate
from fedlore.algorithms import FedPer
from fedlore.core.nets import lenet5, mlp
from fedlore.engine import Local, Recipe

from ..engine.federation import CLASSES, FEATURES, federation


def train(private=(), rounds=2, hears=False):
    model = mlp(FEATURES, CLASSES, hidden=(5, 4), hears=hears)
    r = Recipe(model, FedPer(private), Plan(epochs=1), seed=1)
    transport = Local(federation(), r)
    run = federate(transport, r, rounds)
    return r, run, [m.after["head"] for m in transport.memories.values()]


def test_every_client_learns_a_head_of_its_own():
    r, run, heads = train()
    start = dict(r.model.named_parameters())
    assert [set(h) for h in heads] == [{"body.1.4.weight", "body.1.4.bias"}] * 3
    for name in heads[0]:
        assert torch.equal(run.state["model"][name], start[name])  # the server's was never used
        assert not torch.equal(heads[0][name], start[name])
        assert not torch.equal(heads[0][name], heads[1][name])
    assert not torch.equal(run.state["model"]["body.1.0.weight"], start["body.1.0.weight"])
    # a personal model is the shared body with the own head
    sent = r.algorithm.send(run.state)
    own = r.algorithm.personal(sent, {"head": heads[2]})
    assert set(own) == {name for name, _ in r.model.named_parameters()}
    assert torch.equal(own["body.1.4.bias"], heads[2]["body.1.4.bias"])
    assert torch.equal(own["body.1.0.bias"], run.state["model"]["body.1.0.bias"])


def test_layers_may_be_named():
    _, _, heads = train(("body.1.2", "body.1.0.bias"))
    assert set(heads[0]) == {"body.1.2.weight", "body.1.2.bias", "body.1.0.bias"}
    _, _, heads = train(hears=True)
    assert set(heads[0]) == {"head.4.weight", "head.4.bias"}
    _, _, heads = train(("first", "last"), hears=True)
    assert set(heads[0]) == {f"head.{i}.{part}" for i in (0, 4) for part in ("weight", "bias")}


def test_the_head_is_the_last_layer_of_a_network_of_convolutions_too():
    params = dict(lenet5().named_parameters())
    left = set(params) - set(FedPer().send({"model": params})["model"])
    assert left == {"body.1.4.weight", "body.1.4.bias"}


def test_a_layer_is_not_taken_for_one_whose_name_goes_on():
    params = {f"{layer}.weight": torch.zeros(1) for layer in ("1", "10", "12")}
    assert set(FedPer(("1",)).send({"model": params})["model"]) == {"10.weight", "12.weight"}
