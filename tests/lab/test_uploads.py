"""What an upload gives away, by hand and on the simulated plants."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from fedlore import Client, Examples, FedAvg, FedloreError, Knowledge, Plan
from fedlore.algorithms import FedPer
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.core.nets import mlp
from fedlore.core.rng import stream
from fedlore.core.wire import Task
from fedlore.engine import Recipe, Stacked
from fedlore.engine.training import scaler_of
from fedlore.experiments.approaches import FL_MASK, FLWKM, LORE
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.shapes import FeatureShape, SiteShapes
from fedlore.privacy.secagg.filter import SecureAggregation
from fedlore_coke.plants import coking_plants
from fedlore_lab.leak.coordinator import anatomy, as_trained, observe_run
from fedlore_lab.leak.score import auc, score_leak, shadow_guess, shadow_mean
from fedlore_lab.leak.settings import LeakSetting
from fedlore_lab.leak.uploads import STILL, Anatomy, Seen, find_untouched, one_row, stray
from studies.shape_leak import shape_signs

PLAN = Plan(epochs=2, batch=16, lr=0.05)  # momentum and weight decay as in the paper
PLAIN = LeakSetting("plain", "")
HYBRID = replace(FLWKM, plain=0.5)


def plants() -> list[Client]:
    some = coking_plants(0, rows=(20, 20, 20, 20), test_rows=1)
    return [Client(p.id, p.train, p.knowledge, test=p.test) for p in some]


def seen_of(clients, setting, *, plan=PLAN, hidden=(12,), one_by_one=False, filters=()):
    """The first round of a run: what the coordinator holds against each site, and the anatomy."""
    k = clients[0].data.allowed.shape[1]
    d = clients[0].data.x.shape[1]
    run = observe_run(
        [as_trained(c, setting) for c in clients],
        mlp(d, k, hidden=hidden, hears=setting.approach.hears),
        setting,
        plan=plan,
        rounds=1,
        seed=0,
        scaler=scaler_of(clients) if len(clients) > 1 else None,
        filters=filters,
        one_by_one=one_by_one,
    )
    looks = {c.id: run.exchanges[0].seen(c.id, setting.view, run.start) for c in clients}
    return looks, anatomy(run, setting)


@given(
    st.floats(0, 0.1), st.floats(0, 0.95), st.integers(1, 60), st.integers(1, 5), st.floats(0, 0.2)
)
def test_weight_decay_alone_never_strays(decay, momentum, steps, sites, lr):
    start = torch.randn(3, 8, generator=stream("stray"))
    moved = torch.zeros_like(start)
    for extra in range(sites):  # sites with more rows take more steps
        w, velocity = start.clone(), torch.zeros_like(start)
        for _ in range(steps + extra):
            velocity = momentum * velocity + decay * w
            w = w - lr * velocity
        moved += w - start
    assert (stray(start, moved / sites) < STILL).all()


def test_one_row_of_data_strays_by_hand():
    start, moved = torch.tensor([[3.0, 4.0]]), torch.tensor([[-0.3, -0.4 + 0.5]])
    # (-0.3, 0.1) less its part along (0.6, 0.8), which is -0.1: (-0.24, 0.18) of length 0.3
    torch.testing.assert_close(stray(start, moved).float(), torch.tensor([0.3 / 5]))


@pytest.mark.parametrize(
    ("first", "setting", "least"),
    [
        (0, PLAIN, 20),
        (
            0,
            LeakSetting("lore", "", LORE),
            20,
        ),  # the columns of a hearing network, whatever the loss
        (2, LeakSetting("", "", view="collusion"), 0),  # of two sites only the other one is left
    ],
)
def test_the_union_of_ranges_is_told_exactly(first, setting, least):
    clients = plants()[first:]
    looks, at = seen_of(clients, setting)
    excluded = {c.id: ~c.data.allowed.any(0) for c in clients}
    assert all(torch.equal(find_untouched(looks[name], at), out) for name, out in excluded.items())
    assert sum(int(out.sum()) for out in excluded.values()) > least  # there was something to find


@pytest.mark.parametrize(
    "setting",
    [LeakSetting("", "", HYBRID), LeakSetting("", "", floor=0.1), LeakSetting("", "", FL_MASK)],
    ids=["hybrid", "floor", "mask"],
)
def test_other_losses_leave_no_row_untouched(setting):
    looks, at = seen_of(plants(), setting)
    assert not any(find_untouched(look, at).any() for look in looks.values())


def test_a_head_that_stays_at_home_cannot_be_read_so():
    looks, at = seen_of(plants(), LeakSetting("", "", replace(FLWKM, algorithm=FedPer())))
    assert at.head not in looks["plant-1"].moved
    assert not find_untouched(looks["plant-1"], at).any()


def test_a_sum_tells_only_what_no_site_allows():
    clients = plants()
    anyone = torch.stack([c.data.allowed.any(0) for c in clients]).any(0)
    looks, at = seen_of(clients, LeakSetting("", "", view="sum"))
    assert torch.equal(find_untouched(looks["plant-1"], at), ~anyone)
    first = looks["plant-1"].moved
    assert all(torch.equal(first[n], looks["plant-4"].moved[n]) for n in first)


def lone(right: bool, trust: float, draw: torch.Generator, k: int = 6) -> Client:
    """One row, a range of three classes, an expert who is right or not."""
    order = torch.randperm(k, generator=draw)
    allowed = torch.zeros(1, k, dtype=torch.bool)
    allowed[0, order[:3]] = True
    said = one_hot(order[:1] if right else order[1:2], k).float()
    x = torch.randn(1, 5, generator=draw)
    return Client("one", Examples(x, order[:1], said, allowed), Knowledge(trust=trust))


@pytest.mark.parametrize(
    "setting",
    [
        PLAIN,
        LeakSetting("", "", HYBRID),
        LeakSetting("", "", floor=0.1),
        LeakSetting("", "", replace(FLWKM, algorithm=FedPer())),
        LeakSetting("", "", replace(FLWKM, hears=True)),
    ],
    ids=["plain", "hybrid", "floor", "private head", "hears"],
)
def test_one_step_on_one_row_tells_everything_in_every_setting_that_shows_uploads(setting):
    plan = Plan(steps=1, batch=1, lr=0.1)
    draw = stream("lone")
    for number in range(20):
        trust = 0.1 * (1 + number % 5)
        client = lone(number % 2 == 0, trust, draw)
        looks, at = seen_of([client], setting, plan=plan, hidden=(32,), one_by_one=True)
        told = one_row(looks["one"], at, lr=plan.lr, decay=plan.decay, plain=setting.approach.plain)
        assert told.label == int(client.data.y[0])
        assert torch.equal(told.allowed, client.data.allowed[0])
        assert told.trust == pytest.approx(trust if number % 2 == 0 else 0.0, abs=0.02)


def test_one_step_without_knowledge_tells_no_range():
    plan = Plan(steps=1, batch=1, lr=0.1)
    client = lone(True, 0.3, stream("bare"))
    looks, at = seen_of([client], LeakSetting("", "", FL_MASK), plan=plan, one_by_one=True)
    assert one_row(looks["one"], at, lr=plan.lr, decay=plan.decay).allowed.all()


def test_models_without_linear_layers_are_refused():
    with pytest.raises(FedloreError, match="linear layers"):
        Anatomy.of({"conv.weight": (6, 1, 5, 5)})


def test_a_score_is_the_share_of_the_error_that_an_attack_takes_away():
    found = score_leak([0.1, 0.3], [0.5, 0.3])  # 1 - 0.4 / 0.8
    assert found.score == pytest.approx(0.5)
    assert found.low == pytest.approx(0.0) and found.high == pytest.approx(0.8)
    assert found.at_chance
    assert score_leak([0.5] * 9, [0.5] * 9).at_chance
    assert not score_leak([0.1] * 9, [0.5] * 9).at_chance
    assert score_leak([0.0], [0.0]).score == 0.0  # nothing could be gained
    with pytest.raises(FedloreError, match="as many errors as chances"):
        score_leak([], [])


@given(st.integers(1, 20), st.integers(1, 20))
def test_auc_of_values_apart_is_one_and_of_equal_ones_a_half(p, q):
    assert auc(torch.arange(p) + 100.0, torch.arange(q) * 1.0) == 1.0
    assert auc(torch.ones(p), torch.ones(q)) == 0.5
    with pytest.raises(FedloreError, match="either kind"):
        auc(torch.ones(p), torch.ones(0))


def test_shadows_never_know_the_secret_under_attack():
    draw = stream("shadows")
    signs = torch.randn(40, 3, generator=draw, dtype=torch.float64)
    secrets = torch.rand(40, generator=draw, dtype=torch.float64)
    groups = torch.arange(40) // 10
    changed = secrets.clone()
    changed[:10] = 7.0
    for guess in (lambda s: shadow_guess(signs, s, groups), lambda s: shadow_mean(s, groups)):
        assert torch.equal(guess(secrets)[:10], guess(changed)[:10])
        assert not torch.equal(guess(secrets)[10:], guess(changed)[10:])


def test_shadows_learn_what_is_there_and_fall_back_to_the_mean_where_nothing_is():
    draw = stream("learned")
    signs = torch.randn(200, 4, generator=draw, dtype=torch.float64)
    groups = torch.arange(200) // 40
    told = signs[:, 0] - 2 * signs[:, 1]
    assert (shadow_guess(signs, told, groups) - told).abs().mean() < 0.1
    noise = torch.randn(200, generator=draw, dtype=torch.float64)
    apart = (shadow_guess(signs, noise, groups) - shadow_mean(noise, groups)).abs().mean()
    assert apart < 0.2


def test_an_upload_of_zeros_says_nothing_and_breaks_nothing():
    before = {"head.weight": torch.randn(4, 3), "head.bias": torch.randn(4)}
    nothing = Seen(before, {n: torch.zeros_like(t) for n, t in before.items()})
    at = Anatomy.of({n: tuple(t.shape) for n, t in before.items()})
    told = one_row(nothing, at, lr=0.1)
    assert told.weight == 1.0 and told.trust == 0.0


@pytest.mark.parametrize("hidden_by", ["secagg", "ckks"])
def test_behind_the_real_filters_the_coordinator_holds_the_sum_that_the_audit_attacks(hidden_by):
    clients = plants()
    by_sum = LeakSetting("", "", view="sum")
    if hidden_by == "secagg":
        pytest.importorskip("cryptography")
        filters = [SecureAggregation()]
    else:
        pytest.importorskip("tenseal")
        from fedlore.privacy.ckks.cipher import new_key
        from fedlore.privacy.ckks.filter import Ckks

        filters = [Ckks(4, key=new_key())]
    plain, at = seen_of(clients, by_sum)
    behind, _ = seen_of(clients, by_sum, filters=filters)
    for name, moved in plain["plant-1"].moved.items():
        torch.testing.assert_close(behind["plant-1"].moved[name], moved, atol=1e-6, rtol=1e-4)
    single = LeakSetting("", "")  # asking for a single upload gets the same sum
    asked, _ = seen_of(clients, single, filters=filters)
    for name, moved in behind["plant-1"].moved.items():
        torch.testing.assert_close(asked["plant-3"].moved[name], moved, atol=1e-6, rtol=1e-4)


SCHEMA = Schema(
    tuple(Feature(n, low=-4, high=4) for n in "abc"), tuple(f"g{i}" for i in range(6)), "grade"
)


def test_signs_are_those_of_the_column_beside_the_others():
    before = {"line.weight": torch.tensor([[0.5, 0.0]]), "trunk.1.weight": torch.ones(1, 2)}
    moved = {
        "line.weight": torch.tensor([[0.1, 10.0]]),
        "trunk.0.weight": torch.tensor([[3.0, 0.0], [0.0, 4.0]]),
    }
    size, line, wide, pull, start = shape_signs(Seen(before, moved), 0).tolist()
    assert abs(size + 1.0) < 1e-6  # a hundredth of the other, the mean lies half way
    assert abs(line - 0.01) < 1e-4 and abs(start - 0.5) < 1e-6
    assert abs(pull - 0.6) < 1e-6  # of (3, 4)
    assert abs(wide - torch.tensor([3.0, 4.0]).log10().diff().item() * -0.5) < 1e-6


def first_upload(shaped: bool) -> Seen:
    draw = stream("shape leak test")
    x = torch.randn(60, 3, generator=draw)
    y = (2.5 + x[:, 0] + x[:, 1]).round().clamp(0, 5).long()
    said = SiteShapes((FeatureShape("a", "raises"),), SCHEMA) if shaped else None
    client = Client("s", Examples(x, y), Knowledge(schema=SCHEMA, shapes=said))
    model = lipschitz_mlp(6, Shaping(3), hidden=(8,))
    start = {n: p.detach().clone() for n, p in model.named_parameters()}
    engine = Stacked([client], Recipe(model, FedAvg(), Plan(lr=0.01, batch=16, epochs=1)))
    (reply,) = engine.exchange(Task("train", 1, {"model": start}), ["s"])
    return Seen(start, reply.upload["model"])


def test_a_declared_shape_holds_its_coefficient_back_and_no_other():
    free, held = (first_upload(shaped) for shaped in (False, True))
    column = {name: [shape_signs(seen, c)[1].item() for c in (0, 1)] for name, seen in
              (("free", free), ("held", held))}  # fmt: skip
    assert abs(column["held"][0]) < 0.5 * abs(column["free"][0])
    assert abs(column["held"][1]) > 0.9 * abs(column["free"][1])
