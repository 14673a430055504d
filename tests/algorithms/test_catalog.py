"""Algorithms by name, and the errors for settings they cannot bear."""

import math
from dataclasses import fields

import pytest
import torch

from fedlore import ConfigError, Plan, fit
from fedlore.algorithms import (
    ALGORITHMS,
    Alone,
    Apfl,
    Ditto,
    FedAvg,
    FedOpt,
    FedPer,
    Scaffnew,
    Scaffold,
    check_fit,
    make,
)
from fedlore.core.nets import mlp

from ..engine.federation import CLASSES, FEATURES, federation


def test_every_name_makes_its_class_with_its_defaults():
    assert list(ALGORITHMS) == [
        "fedavg", "fedopt", "scaffold", "scaffnew", "ditto", "apfl", "fedper", "alone",
    ]  # fmt: skip
    for name, kind in ALGORITHMS.items():
        assert make(name) == make(name.upper()) == kind()
        assert kind.__name__.lower() == name and kind.facts.paper


def test_settings_go_through():
    assert make("fedopt", kind="yogi", lr=1, tau=0.1) == FedOpt("yogi", lr=1.0, tau=0.1)
    assert make("fedper", private=["head"]) == FedPer(private=("head",))
    assert make("alone") == Alone()


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("fedavgg", {}, "unknown algorithm 'fedavgg'; did you mean 'fedavg'?"),
        ("FedProx", {}, "fedprox is fedavg with settings = { prox = 0.1 }"),
        ("adam", {}, "known: alone, apfl, ditto"),
        ("fedavg", {"proxy": 1.0}, r"\[fedavg\] unknown key 'proxy'; did you mean 'prox'"),
        ("fedavg", {"prox": "a"}, "prox must be a number, got 'a'"),
        ("fedopt", {"kind": "sgd"}, "kind must be one of momentum, adagrad, adam, yogi, got 'sgd'"),
    ],
)
def test_what_is_unknown_is_named(name, settings, message):
    with pytest.raises(ConfigError, match=message):
        make(name, **settings)


SETTINGS = [
    (kind, entry.name)
    for kind in (FedAvg, FedOpt, Scaffold, Scaffnew, Ditto, Apfl)
    for entry in fields(kind)
    if entry.name != "kind"
]


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), True, "1"])
@pytest.mark.parametrize(("kind", "name"), SETTINGS, ids=lambda v: getattr(v, "__name__", v))
def test_a_number_outside_its_interval_is_refused_with_rule_and_value(kind, name, value):
    with pytest.raises(ConfigError, match=f"{kind.__name__}: {name} must .*got {value!r}"):
        kind(**{name: value})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Scaffnew(chance=0.0), r"chance must lie in \(0, 1\], got 0.0"),
        (lambda: Apfl(mix=1.5), r"mix must lie in \[0, 1\], got 1.5"),
        (lambda: FedOpt(beta1=1.0), r"beta1 must lie in \[0, 1\), got 1.0"),
        (lambda: FedOpt(tau=0.0), r"tau must lie in \(0, inf\), got 0.0"),
        (lambda: FedOpt(kind="adm"), "kind must be momentum, adagrad, adam, yogi, got 'adm'"),
        (lambda: FedPer(private="head"), "private must be a list of layers, got 'head'"),
    ],
)
def test_edges(build, message):
    with pytest.raises(ConfigError, match=message):
        build()


def test_every_number_has_a_symbol_and_a_meaning():
    for kind, name in SETTINGS:
        about = {entry.name: entry.metadata for entry in fields(kind)}[name]
        assert about["symbol"] and about["meaning"]


PLAIN = Plan(epochs=1, momentum=0.0)


@pytest.mark.parametrize(
    ("algorithm", "arguments", "message"),
    [
        (Scaffnew(), {"plan": PLAIN, "sample": 0.5}, "sample must be 1, got 0.5"),
        (Scaffnew(), {"plan": Plan()}, "momentum must be 0, got 0.9"),
        (Scaffold(), {"sample": 0.5, "weights": "size"}, "weights by size needs every client"),
        (Scaffold(), {"aggregate": "median"}, "aggregate must be mean, got median"),
        (Scaffnew(), {"plan": PLAIN, "aggregate": "trimmed"}, "must be mean, got trimmed"),
        (FedAvg(), {"aggregate": "median", "weights": "size"}, "counts clients equally"),
        (FedAvg(), {"aggregate": "medium"}, "unknown aggregate 'medium'; did you mean 'median'"),
        (FedAvg(), {"sample": 1e-12}, "sample 1e-12 of 3 clients leaves no client"),
        (FedPer(private=("hed",)), {}, "FedPer: unknown layer 'hed'"),
        (FedPer(private=("body",)), {}, "nothing is left to share"),
    ],
)
def test_a_federation_that_would_be_wrong_is_refused_with_the_reason(algorithm, arguments, message):
    with pytest.raises(ConfigError, match=message):
        fit(federation(), mlp(FEATURES, CLASSES), algorithm=algorithm, rounds=1, **arguments)


def test_an_algorithm_that_states_no_facts_asks_for_nothing():
    check_fit(object(), Plan(), sample=0.1, weights="size")


@pytest.mark.parametrize("kind", ["adagrad", "adam", "yogi", "momentum"])
def test_a_servers_steps_are_those_of_the_paper(kind):
    """Reddi et al. (2021), in plain numbers; Adam's bias is corrected."""
    algorithm = FedOpt(kind, lr=0.1, beta1=0.9, beta2=0.99, tau=0.01)
    state = algorithm.init({"w": torch.tensor([1.0])})
    x, m, v = 1.0, 0.0, 0.0
    for t, step in enumerate((0.5, -0.2, 0.3), 1):
        state = algorithm.merge(state, {"model": {"w": torch.tensor([step])}}, 1.0)
        if kind == "momentum":
            m = 0.9 * m + step
            x += 0.1 * m
        elif kind == "adagrad":
            v += step**2
            x += 0.1 * step / (v**0.5 + 0.01)
        else:
            m = 0.9 * m + 0.1 * step
            more = math.copysign(1.0, step**2 - v) if kind == "yogi" else None
            v = 0.99 * v + 0.01 * step**2 if more is None else v + 0.01 * step**2 * more
            x += 0.1 * (m / (1 - 0.9**t)) / ((v / (1 - 0.99**t)) ** 0.5 + 0.01)
        assert float(state["model"]["w"]) == pytest.approx(x, abs=1e-6)
    assert float(state["count"]["merged"]) == 3
