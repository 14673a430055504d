"""A mixture of a site with shapes keeps them, whatever its network and own models learned."""

import random
from dataclasses import replace

import pytest
import torch

from fedlore.answers import Bins
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.errors import FedloreError
from fedlore.knowledge import Knowledge
from fedlore.knowledge.formulas import Formula, GradedFormula
from fedlore.knowledge.shapes import FeatureShape, SiteShapes
from fedlore.models.classifier import Personal
from fedlore.models.ensemble import Ensemble
from fedlore.models.own import baseline, own_numbers, own_order
from fedlore.models.own.linear import Linear
from fedlore.models.own.members import OrderMember, input_signs, keeps_signs
from fedlore.models.regressor import PersonalRegressor

from .test_shapes import EDGES, SCHEMA, K, count_broken, pairs_of, random_site


def own_models(personal, draw, seed, signs):
    """What a site learns from rows that go the wrong way as often as the right one."""
    x = 6 * torch.rand(36, 3, generator=draw) - 3
    slope = torch.randn(3, generator=draw)
    place = x @ slope + 0.3 * x[:, 0] * x[:, 1] + torch.randn(36, generator=draw)
    if isinstance(personal, PersonalRegressor):
        rows = replace(personal.annotate(x), y=place.clamp(-6, 6).double())
        return own_numbers(rows, seed=seed, signs=signs)
    rows = replace(personal.annotate(x), y=(place + 3).round().clamp(0, K - 1).long())
    return own_order(rows, K, seed=seed, signs=signs)


def mixed_site(seed, task, *, kept=True, turning=0.0):
    """The site of `random_site` with own models beside its network, and any weights."""
    personal, shapes, draw = random_site(seed, task, turning)
    pick = random.Random(seed)
    signs = input_signs(personal.knowledge, None)
    own = own_models(personal, draw, seed, signs if kept else None)
    found = own.best_ways("", torch.zeros(len(own.folds)))
    members = tuple(one.member for one in found)
    parts = [pick.random() + 0.05 for _ in range(len(members) + 2)]
    expert, network, *weights = (part / sum(parts) for part in parts)
    if isinstance(personal, PersonalRegressor):
        ensemble = Ensemble(members, tuple(weights), network, expert, width=pick.uniform(0.1, 2.0))
        return personal, ensemble, shapes, draw
    ensemble = Ensemble(members, tuple(weights), network, expert, pick.uniform(0.3, 2.0))
    return personal, ensemble, shapes, draw


def with_members(personal, ensemble):
    inner = personal.inner
    if isinstance(personal, PersonalRegressor):
        return PersonalRegressor(
            inner.model, personal.bins, personal.knowledge, scaler=inner.scaler, ensemble=ensemble
        )
    return Personal(inner.model, personal.knowledge, scaler=inner.scaler, ensemble=ensemble)


def check_mixture(seed, task, n, turning=0.0):
    personal, ensemble, shapes, draw = mixed_site(seed, task, turning=turning)
    mixture = with_members(personal, ensemble)
    low, high = pairs_of(shapes, draw, n)
    assert count_broken(mixture, low, high) == 0, (seed, task)
    return len(low)


@pytest.mark.parametrize("task", ["classes", "number"])
def test_no_pair_of_a_mixture_is_broken(task, monkeypatch):
    monkeypatch.setattr(baseline, "has_trees", lambda: False)
    assert sum(check_mixture(seed, task, 200) for seed in (1, 4)) > 150


@pytest.mark.parametrize("task", ["classes", "number"])
def test_no_pair_on_one_side_of_a_turn_is_broken_by_a_mixture(task, monkeypatch):
    monkeypatch.setattr(baseline, "has_trees", lambda: False)
    assert sum(check_mixture(seed, task, 200, turning=1.0) for seed in (1, 2, 4)) > 200


@pytest.mark.parametrize("task", ["classes", "number"])
def test_own_models_follow_an_arch_that_their_rows_have_and_not_one_they_lack(task):
    """With trees: what they say rises up to the turn and falls behind it, or does not move."""
    pytest.importorskip("sklearn")
    draw = torch.Generator().manual_seed(3)
    x = 6 * torch.rand(120, 3, generator=draw) - 3
    place = 3.0 - 2.0 * (x[:, 0] - 0.5).abs() + 0.3 * torch.randn(120, generator=draw)
    line = torch.zeros(41, 3)
    line[:, 0] = torch.linspace(-3, 3, 41)
    for effect, follows in (("arch", True), ("valley", False)):
        shapes = SiteShapes((FeatureShape("a", effect, turns_at=0.5),), SCHEMA, (-6.0, 6.0))
        model = lipschitz_mlp(K, Shaping(3))
        if task == "number":
            known = Knowledge(schema=SCHEMA, shapes=shapes)
            personal = PersonalRegressor(model, Bins(-6.0, 6.0, K), known)
            rows = replace(personal.annotate(x), y=place.clamp(-6, 6).double())
            own = own_numbers(rows, signs=input_signs(known, None))
            said = [one.member.number(personal.annotate(line)) for one in own.candidates]
        else:
            known = Knowledge(schema=SCHEMA, shapes=replace(shapes, bounds=None))
            personal = Personal(model, known)
            rows = replace(personal.annotate(x), y=(place + 3).round().clamp(0, K - 1).long())
            own = own_order(rows, K, signs=input_signs(known, None))
            heights = torch.arange(K).double()
            said = [one.member.log_probs(personal.annotate(line)).exp() @ heights
                    for one in own.candidates]  # fmt: skip
        assert len(said) > 2
        moved = torch.stack([one.double().diff() for one in said])
        moved = moved if follows else -moved
        assert (moved[:, :23] >= -1e-9).all() and (moved[:, 24:] <= 1e-9).all()
        top = torch.stack([one.max() - one.min() for one in said])
        assert (top > 2.0).all() if follows else (top < 1.0).all()


@pytest.mark.slow
@pytest.mark.parametrize("task", ["classes", "number"])
@pytest.mark.parametrize("start", range(3000, 3060, 20))
def test_no_pair_on_one_side_of_a_turn_is_broken_by_many_mixtures(task, start):
    """With trees: 100,000 pairs of each task."""
    pairs = sum(check_mixture(s, task, 4000, turning=1.0) for s in range(start, start + 20))
    assert pairs > 34_000


@pytest.mark.slow
@pytest.mark.parametrize("task", ["classes", "number"])
@pytest.mark.parametrize("start", range(2000, 2060, 20))
def test_no_pair_of_many_mixtures_with_trees_is_broken(task, start):
    assert sum(check_mixture(seed, task, 3000) for seed in range(start, start + 20)) > 30_000


@pytest.mark.parametrize("task", ["classes", "number"])
def test_members_that_were_not_told_of_shapes_are_refused_and_would_break_them(task, monkeypatch):
    """The tests above can fail: the same models without signs."""
    monkeypatch.setattr(baseline, "has_trees", lambda: False)
    broken = 0
    for seed in (1, 4):
        personal, ensemble, shapes, draw = mixed_site(seed, task, kept=False)
        with pytest.raises(FedloreError, match="in the ensemble does not keep the shapes"):
            with_members(personal, ensemble)
        mixture = with_members(
            personal, replace(ensemble, members=(), weights=(), network=1.0, expert=0.0)
        )
        mixture.ensemble = ensemble
        low, high = pairs_of(shapes, draw, 200)
        broken += count_broken(mixture, low, high)
    assert broken > 10


@pytest.mark.parametrize(("formula", "weight"), [("1 - a", 0.0), ("1 + a", 0.3), ("c", 0.3)])
def test_an_expert_who_goes_the_other_way_is_silenced(formula, weight):
    shapes = SiteShapes((FeatureShape("a", "raises"),), SCHEMA)
    said = GradedFormula(Formula.parse(formula, SCHEMA), EDGES)
    known = Knowledge(said, None, 0.4, schema=SCHEMA, shapes=shapes)
    model = lipschitz_mlp(K, Shaping(3))
    assert Personal(model, known, ensemble=Ensemble((), (), 0.7, 0.3)).reliance == weight
    assert Personal(model, known).reliance == (0.4 if weight else 0.0)


@pytest.mark.parametrize(("formula", "heard"), [("1 - a", False), ("1 + a", True)])
def test_own_models_hear_an_expert_who_moves_as_the_shape_says_and_no_other(
    formula, heard, monkeypatch
):
    """Another word of his changes nothing that a member says, though his word is always right."""
    monkeypatch.setattr(baseline, "has_trees", lambda: False)
    shapes = SiteShapes((FeatureShape("a", "raises"),), SCHEMA)
    said = GradedFormula(Formula.parse(formula, SCHEMA), EDGES)
    known = Knowledge(said, None, 0.4, schema=SCHEMA, shapes=shapes)
    personal = Personal(lipschitz_mlp(K, Shaping(3)), known)
    x = 6 * torch.rand(90, 3, generator=torch.Generator().manual_seed(5)) - 3
    rows = personal.annotate(x)
    rows = replace(rows, y=rows.prior.argmax(1))
    turned = replace(rows, prior=rows.prior.flip(1))
    own = own_order(rows, K, signs=input_signs(known, None))
    members = [one.member for one in own.candidates]
    other = [not torch.equal(m.log_probs(rows), m.log_probs(turned)) for m in members]
    assert members and any(other) == heard


@pytest.mark.parametrize(("formula", "kept"), [("1 - a", False), ("1 + a", True)])
def test_a_member_that_starts_from_an_expert_moves_as_he_does(formula, kept):
    """It adds nothing of its own, and breaks the shape all the same where the expert does."""
    shapes = SiteShapes((FeatureShape("a", "raises"),), SCHEMA)
    said = GradedFormula(Formula.parse(formula, SCHEMA), EDGES)
    signs = input_signs(Knowledge(said, None, 0.4, schema=SCHEMA, shapes=shapes), None)
    none = torch.zeros(3, 1, dtype=torch.float64)
    body = Linear(none[:, 0], none[:, 0] + 1.0, none, none[0])
    member = OrderMember("over the expert", body, hears=False, over=True, width=1.0, classes=K)
    assert keeps_signs(member, signs) == kept
    assert keeps_signs(replace(member, over=False), signs)
