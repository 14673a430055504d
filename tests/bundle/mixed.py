"""Mixtures to test with: members made by hand, of every kind that a bundle holds."""

import torch
from torch import Tensor

from fedlore import Knowledge, Personal
from fedlore.core.nets import mlp
from fedlore.core.one_shot import Basis, Link, OneShot, OneShotModel, OneShotRows, solve
from fedlore.core.ordinal import Ordinal, ordered_mlp
from fedlore.core.rng import stream
from fedlore.core.scaler import Scaler
from fedlore.models.ensemble import CorrectedMember, Ensemble, OneShotMember
from fedlore.models.own.gaussian import Waves
from fedlore.models.own.linear import Linear
from fedlore.models.own.members import ClassMember, NumberMember, OrderMember
from fedlore.models.own.trees import LEAF, Trees
from fedlore.models.regressor import PersonalRegressor


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=stream("mixed", seed), dtype=torch.float64)


def linear(inputs: int, outputs: int, *, quadratic: bool = False, seed: int = 0) -> Linear:
    terms = inputs * (inputs + 3) // 2 if quadratic else inputs
    return Linear(
        10 * normal(inputs, seed=seed).abs(),
        1.0 + 5 * normal(inputs, seed=seed + 1).abs(),
        0.3 * normal(terms, outputs, seed=seed + 2),
        1.0 + normal(outputs, seed=seed + 3).abs(),
        quadratic,
    )


def waves(inputs: int, outputs: int, *, seed: int = 0) -> Waves:
    """Of each input what lies below 0 and what lies above."""
    line = linear(2 * inputs, outputs, seed=seed)
    column = torch.arange(2 * inputs, dtype=torch.int16) // 2
    below = torch.tensor([True, False]).repeat(inputs)
    far = torch.full((2 * inputs,), torch.finfo(torch.float32).max)
    low, high = torch.where(below, -far, 0.0), torch.where(below, 0.0, far)
    frequency = 0.3 * normal(2 * inputs, 8, seed=seed + 4)
    weight = 0.3 * normal(2 * inputs + 16, outputs, seed=seed + 5)
    return Waves(column, low, high, line.mean, line.scale, frequency, weight, line.constant)


def trees(
    inputs: int,
    outputs: int,
    *,
    count: int = 7,
    depth: int = 3,
    votes: bool = False,
    scale: float = 1.0,
    seed: int = 0,
) -> Trees:
    """Complete trees, but for the last one, which is a leaf alone."""
    draw = stream("trees", seed)
    feature, threshold, child, roots, leaves = [], [], [], [], 0
    for tree in range(count):
        levels = depth if tree < count - 1 else 0
        first = len(feature)
        roots.append(first)
        inner = 2**levels - 1
        for node in range(2 ** (levels + 1) - 1):
            if node < inner:
                feature.append(int(torch.randint(inputs, (), generator=draw)))
                threshold.append(float(10 * torch.rand((), generator=draw)))
                child.append(first + 2 * node + 1)
            else:
                feature.append(LEAF)
                threshold.append(0.0)
                child.append(leaves)
                leaves += 1
    values = torch.rand(leaves, outputs if votes else 1, generator=draw)
    if votes:
        values = values / values.sum(1, keepdim=True)
    wide = votes or outputs == 1
    output = torch.zeros(count) if wide else torch.arange(count) % outputs
    return Trees(
        torch.tensor(feature, dtype=torch.int16),
        torch.tensor(threshold, dtype=torch.float32),
        torch.tensor(child, dtype=torch.int32),
        torch.tensor(roots, dtype=torch.int32),
        values,
        output.to(torch.int16),
        torch.zeros(outputs, dtype=torch.float64),
        torch.full((outputs,), scale / count if votes else scale, dtype=torch.float64),
        depth,
    )


def one_shot_model(
    x: Tensor, classes: int, *, terms="quadratic", start="expert", hears=True, link=None, curves=0
):
    """The one-shot model of drawn places, found from rows without knowledge."""
    one_shot = OneShot(Basis(terms, curves), start, hears, link)
    scaler = Scaler.of(x)
    features, from_, bend = one_shot.rows(scaler(x), None, None, classes=classes)
    y = (classes - 1) * torch.rand(len(x), generator=stream("places"), dtype=torch.float64)
    rows = OneShotRows(features, y - from_, from_, bend)
    found = solve(rows.sums(), one_shot.basis.groups(one_shot.columns(x.shape[1])))
    return OneShotModel(one_shot, found, rows.home(found), classes), scaler


def class_members(d: int, k: int, sources: int, x: Tensor) -> tuple[object, ...]:
    """One of each kind; `sources` of the expert's two are there to be heard."""
    heard = d + sources * k
    return (
        OrderMember("ridge, over", linear(d + 3, 1, seed=1), True, True, 0.6, k),
        OrderMember("quadratic", linear(d, 1, quadratic=True, seed=5), False, False, 1.5, k),
        OrderMember("boosted", trees(d + 3, 1, scale=0.5, seed=2), True, False, 0.9, k),
        ClassMember("logistic", linear(heard, k, seed=9), True, False, 0.7),
        ClassMember("forest", trees(heard, k, votes=True, seed=3), True, True, 1.2),
        ClassMember("steps", trees(d, k, count=2 * k, seed=4), False, False, 1.0),
        OneShotMember(*one_shot_model(x, k, link=Link("middle", 0.9))),
    )


def mixture(
    knowledge: Knowledge,
    x: Tensor,
    classes: int,
    *,
    members: tuple[object, ...] | None = None,
    net: torch.nn.Module | None = None,
    expert: float = 0.1,
    inverse_temperature: float = 1.5,
) -> Personal:
    """A personal model with a member of each kind beside an ordinal head."""
    d = x.shape[1]
    sources = (knowledge.prediction is not None) + (knowledge.range is not None)
    members = class_members(d, classes, sources, x) if members is None else members
    share = (1.0 - expert) / (len(members) + 1)
    weights = (share,) * len(members)
    ensemble = Ensemble(members, weights, 1.0 - expert - sum(weights), expert, inverse_temperature)
    net = net or ordinal(d, classes)
    return Personal(net, knowledge, scaler=Scaler.of(x), ensemble=ensemble)


def ordinal(d: int, classes: int, **options) -> torch.nn.Module:
    net = ordered_mlp(d, classes, hidden=(6,), options=Ordinal(**options), seed=2)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.2 * torch.randn(p.shape, generator=stream("ordinal", p.numel())))
    return net


def number_mixture(plain: PersonalRegressor, x: Tensor, **basis) -> PersonalRegressor:
    """A regressor with members of its own."""
    d, k = x.shape[1], plain.bins.k
    shared = OneShotMember(*one_shot_model(x, k, **basis))
    correction = NumberMember("correcting", trees(d + 3, 1, scale=2.0, seed=3), True, False, 3.0)
    members = (
        NumberMember("ridge", linear(d + 3, 1, seed=1), True, True, 2.0),
        NumberMember("boosted", trees(d + 3, 1, scale=20.0, seed=2), True, False, 3.0),
        shared,
        CorrectedMember(correction, shared),
    )
    ensemble = Ensemble(members, (0.1, 0.2, 0.1, 0.2), 0.3, 0.1, width=4.0)
    return plain.with_ensemble(ensemble)


def plain_net(d: int, classes: int) -> torch.nn.Module:
    return mlp(d, classes, hidden=(8,), seed=1)
