"""Small models that know their ignorance: the one-shot model, trees, and members of a number."""

import torch

from fedlore import Knowledge, Personal
from fedlore.answers import Bins
from fedlore.core.nets import mlp
from fedlore.core.one_shot import Basis, Link, OneShot, OneShotModel, solve, sum_rows
from fedlore.core.rng import stream
from fedlore.kernel.schema import Schema
from fedlore.models.ensemble import Ensemble, OneShotMember
from fedlore.models.own.linear import Ridge
from fedlore.models.own.members import NumberMember, OrderMember
from fedlore.models.own.trees import BoostedTrees
from fedlore.models.regressor import PersonalRegressor

from .world import GRADES, SCALE

STEPS = Schema(GRADES.features, tuple(f"Q{10 + i}" for i in range(8)), "grade")  # in order
CSR = Schema(GRADES.features, ("low", "high"), "csr")


def rows(seed: int, count: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    """Ash, rank and a place among eight classes: quality rises with rank and falls with ash."""
    draw = stream("blend doubters", seed)
    x = torch.rand(count, 2, generator=draw) * torch.tensor([10.0, 0.8]) + torch.tensor([7.0, 0.7])
    place = 3.5 + 5.0 * (x[:, 1] - 1.1) - 0.25 * (x[:, 0] - 12.0)
    return x, place + 0.5 * torch.randn(count, generator=draw)


def foreseen(
    seed: int = 0,
    knowledge: Knowledge | None = None,
    weight: float = 0.6,
    count: int = 60,
    link: Link | None = None,
) -> Personal:
    """A mixture in which the one-shot model speaks for itself."""
    x, place = rows(seed, count)
    y = place.round().clamp(0, 7).double()
    one_shot = OneShot(Basis("quadratic"), hears=False, link=link)
    features, start, bend = one_shot.rows(SCALE(x), None, None, classes=8)
    found = solve(sum_rows(features, y - start, bend)[1], one_shot.basis.groups(2))
    home, _ = sum_rows(features, y - start, bend, found.mean)
    member = OneShotMember(OneShotModel(one_shot, found, home, 8), SCALE)
    ensemble = Ensemble((member,), (weight,), 1.0 - weight)
    return Personal(mlp(2, 8, hidden=(4,), seed=seed), knowledge, scaler=SCALE, ensemble=ensemble)


def many_trees(seed: int = 0) -> Personal:
    """A mixture of steps: boosted trees and a line, no one-shot model."""
    x, place = rows(seed, 120)
    inputs, target = x.double(), place.double().unsqueeze(1)
    boosted, ridge = BoostedTrees("boosted trees"), Ridge("ridge")
    members = tuple(
        OrderMember(family.name, family.fit(inputs, target, setting), False, False, 0.6, 8)
        for family, setting in ((boosted, boosted.settings[2]), (ridge, ridge.settings[3]))
    )
    ensemble = Ensemble(members, (0.9, 0.1), 0.0)
    return Personal(mlp(2, 8, hidden=(4,), seed=seed), scaler=SCALE, ensemble=ensemble)


def numbers(seed: int = 0) -> PersonalRegressor:
    """Two members that name a number from 20 to 80 and do not agree."""
    x, place = rows(seed, 80)
    ridge = Ridge("ridge")
    y = (40.0 + 5.0 * place.double()).unsqueeze(1)
    members = tuple(
        NumberMember(str(i), ridge.fit(x[i::2].double(), y[i::2], setting), False, False, 3.0)
        for i, setting in enumerate((ridge.settings[0], ridge.settings[-1]))
    )
    bins = Bins(20.0, 80.0, 12)
    ensemble = Ensemble(members, (0.5, 0.5), 0.0, width=3.0)
    return PersonalRegressor(
        mlp(2, 12, hidden=(4,), seed=seed), bins, scaler=SCALE, ensemble=ensemble
    )
