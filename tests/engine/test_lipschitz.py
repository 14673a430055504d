"""Training networks that keep shapes: by hand as by autograd, in both engines, at all sites."""

from dataclasses import replace

import pytest
import torch

from fedlore import Client, Examples, Knowledge, NumberClient, Plan, fit, mlp
from fedlore.answers import Bins, Measured
from fedlore.bundle import bundle_of
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.core.lipschitz import Lipschitz, Shaping, lipschitz_mlp
from fedlore.core.one_shot import (
    Basis,
    OneShot,
    OneShotModel,
    OneShotRows,
    Posterior,
    posterior,
    solve,
)
from fedlore.core.scaler import Scaler
from fedlore.engine.lore import default_space
from fedlore.engine.lore.one_shot import given_signs, sign_line
from fedlore.engine.lore.space import SHAPED, Agreement, SearchSpace
from fedlore.engine.stacked.params import Batch, StackedParams, Traced
from fedlore.errors import ConfigError, FedloreError
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.shapes import FeatureShape, SiteShapes
from fedlore.models.classifier import Personal
from fedlore.models.own import baseline

K = 6
SCHEMA = Schema(
    (
        Feature("a", low=-4, high=4),
        Feature("b", low=-4, high=4),
        Feature("mine", levels=("x", "y")),
    ),
    tuple(f"g{i}" for i in range(K)),
)


def rows(seed, n=40):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, generator=draw)
    x[:, 2] = (x[:, 2] > 0).float()
    place = 2.5 + x[:, 0] - 0.7 * x[:, 1] + x[:, 2] + 0.4 * torch.randn(n, generator=draw)
    return x, place


TWO = (FeatureShape("a", "raises"), FeatureShape("b", "lowers", "b < 1"))
#: False at both: what is kept is what was said, whatever the rows are.
TURNING = (
    FeatureShape("a", "arch", turns_at=0.5),
    FeatureShape("b", "valley", turns_at=(-0.5, 0.5)),
)

OPEN = (FeatureShape("a", "arch"), FeatureShape("b", "valley"))


def shapes(bounds=None, said=TWO):
    return SiteShapes(said, SCHEMA, bounds)


def client(i, task="classes", said=TWO):
    x, place = rows(i)
    test, truth = rows(50 + i, 60)
    if task == "number":
        known = Knowledge(schema=SCHEMA, shapes=shapes((-1.0, 6.0), said) if i % 2 else None)
        y, z = (p.clamp(-1.0, 6.0).double() for p in (place, truth))
        return NumberClient(f"s{i}", Measured(x, y), known, test=Measured(test, z))
    known = Knowledge(schema=SCHEMA, shapes=shapes(said=said) if i % 2 else None)
    y, z = (p.round().clamp(0, K - 1).long() for p in (place, truth))
    return Client(f"s{i}", Examples(x, y), known, test=Examples(test, z))


BINS = {"classes": None, "number": Bins(-1.0, 6.0, K)}
PLAN = Plan(lr=0.05, batch=16, epochs=1)
both_tasks = pytest.mark.parametrize("task", BINS)


def steps_along_shapes(model):
    """How the answer moves where a feature with a shape rises in its region, by its sign."""
    low, _ = rows(9, 300)
    for column, sign in ((0, 1), (1, -1)):
        high = low.clone()
        high[:, column] += torch.rand(300, generator=torch.Generator().manual_seed(2))
        inside = high[:, 1] < 1
        a, b = (model.predict(x[inside]) for x in (low, high))
        yield sign * (b - a)


def network(hears=True):
    options = Shaping(4, hears=hears, start="middle" if hears else "none")
    return lipschitz_mlp(K, options, hidden=(7, 4), seed=3)


def trained(engine, task="classes", said=TWO):
    sites = [client(i, task, said) for i in range(4)]
    bins = BINS[task]
    return fit(sites, network(), bins=bins, rounds=3, plan=PLAN, engine=engine, evaluate=3)


@pytest.mark.parametrize("hidden", [(), (6,), (7, 4)])
@pytest.mark.parametrize("start", ["none", "middle"])
def test_steps_by_hand_are_those_of_autograd(hidden, start):
    draw = torch.Generator().manual_seed(1)
    model = lipschitz_mlp(5, Shaping(3, hears=True, start=start), hidden=hidden)
    a, b, wide = 3, 4, model.options.wide
    params = {n: torch.randn(a, *p.shape, generator=draw) for n, p in model.named_parameters()}
    x = torch.randn(a, b, 3 + model.options.heard_inputs, generator=draw)
    inputs, signs = x[:, :, :wide], torch.randint(-1, 2, (a, b, wide), generator=draw)
    parts = [inputs * (signs == way) for way in (1, -1, 0)]
    x[:, :, wide + 1 :] = torch.cat(parts, 2)
    target = torch.zeros(a, 5, b)
    target[:, 2] = 1.0
    stack = StackedParams(model, x[0], a)
    assert stack.by_hand
    stack.load(params, a)
    found = []
    for program in (stack.program(a, b), Traced(model, *stack.params(a))):
        stack.away(a).fill_(0.3)
        program.gradient(Batch(x, target), 0.2, 0.5)
        found.append((stack.away(a).clone(), program.logits(x, None).clone()))
    torch.testing.assert_close(*(grad for grad, _ in found), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(*(logits for _, logits in found), atol=1e-4, rtol=1e-4)


def test_a_row_with_several_largest_weights_has_the_slope_of_autograd():
    model = lipschitz_mlp(5, Shaping(3), hidden=())
    a, b = 2, 4
    params = {n: p.detach().expand(a, *p.shape).clone() for n, p in model.named_parameters()}
    params["trunk.0.weight"].fill_(2.0)
    x = torch.randn(
        a, b, 3 + model.options.heard_inputs, generator=torch.Generator().manual_seed(2)
    )
    wide = model.options.wide
    x[:, :, wide + 1 :] = torch.cat([x.new_zeros(a, b, 2 * wide), x[:, :, :wide]], 2)
    target = torch.zeros(a, 5, b)
    target[:, 4] = 1.0
    stack = StackedParams(model, x[0], a)
    stack.load(params, a)
    found = []
    for program in (stack.program(a, b), Traced(model, *stack.params(a))):
        program.gradient(Batch(x, target), 0.0, 0.0)
        found.append(stack.away(a).clone())
    torch.testing.assert_close(*found, atol=1e-6, rtol=1e-4)


@both_tasks
@pytest.mark.parametrize("said", [TWO, TURNING], ids=["directions", "turns"])
def test_both_engines_train_the_same_network(task, said):
    one, two = trained("local", task, said), trained("stacked", task, said)
    for name, values in one.model("s0").inner.model.state_dict().items():
        other = two.model("s0").inner.model.state_dict()[name]
        torch.testing.assert_close(values, other, atol=1e-4, rtol=1e-3)
    key = "rmse" if task == "number" else "ta"
    scores = [[r[key] for r in fitted.history if key in r] for fitted in (one, two)]
    torch.testing.assert_close(*map(torch.tensor, scores), atol=0.02, rtol=0.0)


@both_tasks
def test_a_trained_site_keeps_its_shapes_and_others_share_its_weights(task):
    fitted = trained("stacked", task)
    with_shapes, without = fitted.model("s1"), fitted.model("s0")
    same = with_shapes.inner.model.state_dict()
    assert all(torch.equal(v, same[n]) for n, v in without.inner.model.state_dict().items())
    assert all((steps >= -1e-4).all() for steps in steps_along_shapes(with_shapes))


def worst_step(model, said=TURNING, predict=None):
    """How far the answer goes against two shapes that turn, in 100,000 pairs."""
    draw, worst = torch.Generator().manual_seed(4), 0.0
    predict = predict or model.predict
    for column, (shape, sign) in enumerate(zip(said, (1, -1), strict=True)):
        low, high = shape.turns[0], shape.turns[-1]
        x, _ = rows(11, 25_000)
        for least, most, way in ((-9.0, low, sign), (high, 9.0, -sign)):
            other = 8 * torch.rand(len(x), generator=draw) - 4
            ends = x[:, column].clamp(least, most), other.clamp(least, most)
            a, b = x.clone(), x.clone()
            a[:, column], b[:, column] = torch.minimum(*ends), torch.maximum(*ends)
            worst = min(worst, float((way * (predict(b) - predict(a))).min()))
    return worst


@both_tasks
@pytest.mark.parametrize("engine", ["local", "stacked"])
def test_a_trained_site_keeps_arches_that_its_rows_contradict(task, engine):
    fitted = trained(engine, task, TURNING)
    assert worst_step(fitted.model("s1")) >= -1e-4
    assert worst_step(fitted.model("s0")) < -0.5  # the others are free to do otherwise


@both_tasks
@pytest.mark.parametrize("engine", ["local", "stacked"])
def test_a_trained_site_keeps_arches_whose_turns_its_rows_gave(task, engine):
    """As intervals; in its ONNX graph too."""
    ort = pytest.importorskip("onnxruntime")
    model = trained(engine, task, OPEN).model("s1")
    said = model.knowledge.shapes.shapes
    assert all(shape.estimated and len(shape.turns) == 2 for shape in said)
    assert worst_step(model, said) >= -1e-4
    bundle = bundle_of(model, "s1", schema=SCHEMA)
    session = ort.InferenceSession(bundle_to_onnx(bundle).SerializeToString())
    name = "number" if task == "number" else "class"

    def graph(x):
        (found,) = session.run([name], {"rows": x.double().numpy()})
        return torch.from_numpy(found)

    assert worst_step(model, said, graph) >= -1e-4


def test_a_network_that_cannot_keep_them_is_refused_with_the_site():
    with pytest.raises(FedloreError, match=r"client 's1': shapes need a network that keeps them"):
        fit([client(0), client(1)], mlp(4, K), rounds=1)
    assert fit([client(0), client(1).bare()], mlp(4, K), rounds=1).model("s1") is not None


class Turned(Lipschitz):
    """Somebody's own trunk, in the place of one that is known."""

    def bend(self, inputs):
        return -10.0 * inputs[:, :1]


def test_a_trunk_of_ones_own_is_refused_since_no_slope_of_it_is_known():
    own = Turned((4,), K, Shaping(4))
    assert fit([client(0), client(2)], own, rounds=1).model("s0") is not None  # without shapes
    with pytest.raises(FedloreError, match="client 's1': .*no bound on the slopes of a Turned"):
        fit([client(0), client(1)], own, rounds=1)
    known = client(1).knowledge
    with pytest.raises(FedloreError, match="this network cannot keep the shapes"):
        Personal(own, known)
    with pytest.raises(ConfigError, match="leave the model out, got a Turned"):
        fit([client(0), client(1)], own, recipe="lore", rounds=1)


@both_tasks
@pytest.mark.parametrize("said", [TWO, TURNING], ids=["directions", "turns"])
def test_the_default_recipe_keeps_shapes_and_tells_what_it_went_without(task, said, monkeypatch):
    monkeypatch.setattr(baseline, "has_trees", lambda: False)
    number = task == "number"
    sites = [client(i, task, said) for i in range(3)]
    search_space = replace(
        default_space(4, ordered=True, numbers=number, shaped=True), folds=2, finishes=(0,)
    )
    fitted = fit(
        sites,
        bins=BINS[task],
        recipe=replace(search_space, candidates=SHAPED[:1]),
        rounds=3,
        plan=PLAN,
        ordered=None if number else True,
    )
    model = fitted.model("s1")
    assert {m.name for m in model.ensemble.members} >= {"one_shot", "ridge"}
    assert "all but the linear part" in fitted.benefit("s1").left_out
    assert not fitted.benefit("s0").left_out
    if said is TURNING:
        assert worst_step(model) >= -1e-6
        return
    for steps in steps_along_shapes(model):
        assert (steps >= -1e-6).all() and (steps != 0).any()


def test_the_linear_part_of_one_round_is_the_posterior_given_the_rest():
    """Weights taken for 0 are what a model without those features finds from the same sums."""
    draw = torch.Generator().manual_seed(3)
    phi = torch.randn(60, 5, generator=draw).double()
    phi[:, 4] += 0.8 * phi[:, 0]
    y = phi @ torch.tensor([1.0, -0.5, 0.3, 0.0, 0.9]).double()
    gram, cross, one = phi.T @ phi, phi.T @ y, torch.tensor(1.0).double()
    mean, covariance = posterior(gram, cross, one, torch.ones(5).double())
    whole = Posterior(mean, covariance, one, torch.ones(1).double())
    signs = torch.tensor([1.0, 1.0, 0.0, 0.0, torch.nan]).double()  # the second goes the other way
    found = given_signs(whole, signs)
    kept = torch.tensor([0, 2, 3])
    alone, spread = posterior(gram[kept][:, kept], cross[kept], one, torch.ones(3).double())
    torch.testing.assert_close(found.mean[kept], alone, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(found.covariance[kept][:, kept], spread, atol=1e-6, rtol=1e-6)
    assert found.mean[1] == found.mean[4] == 0.0


@pytest.mark.parametrize("hears", [False, True])
@pytest.mark.parametrize("start", ["none", "expert"])
@pytest.mark.parametrize("bins", [None, Bins(-1.0, 6.0, K)], ids=["classes", "number"])
@pytest.mark.parametrize("curve", [0.0, -1.0, 1.0], ids=["linear", "concave", "convex"])
def test_a_signed_line_says_what_the_one_shot_model_says(hears, start, bins, curve):
    """Where no sign is asked for but of one square, of rows as they are measured."""
    x, place = rows(3)
    y = place.round().long().clamp(0, K - 1)
    prior = torch.nn.functional.one_hot((y + 1).clamp(max=K - 1), K).float()
    scaler = Scaler(x.mean(0), x.std(0))
    known = Examples(scaler(x), y, prior=prior, allowed=torch.ones(len(y), K, dtype=torch.bool))
    one_shot = OneShot(Basis("squares" if curve else "linear"), start=start, hears=hears)
    features, begun, bend = one_shot.rows(known.x, prior, known.allowed, classes=K)
    held = OneShotRows(features, y.double() - begun, begun, bend)
    found = solve(held.sums(), one_shot.basis.groups(one_shot.columns(3)))
    common = Agreement(3, K, SearchSpace(), scaler=scaler, bins=bins)
    signs = torch.full((4, 6), torch.nan, dtype=torch.float64)
    signs[[0, 3]] = 0.0  # any way, and nothing turns
    signs[3, 1] = curve
    line = sign_line(common, one_shot, held, found, signs)
    assert (line.hears, line.over) == (hears, start == "expert")
    assert line.body.keeps(signs if hears else signs[:, :3])
    ways = torch.zeros(len(found.mean)).double()
    ways[4:] = torch.nan  # how far the expert is from the middle of the range is not asked
    if curve:
        squares = one_shot.columns(3)
        ways[3 + hears :] = torch.nan
        ways[squares + 1] = curve
    given = given_signs(found, ways)
    model = OneShotModel(one_shot, given, held.home(given), K)
    wanted, _ = model.normal(known.x, prior, known.allowed)
    # of a number: the middle of the bin that lies so far up
    step, first = (1.0, 0.0) if bins is None else (7 / K, -1.0 + 7 / K / 2)
    place_of = (prior @ torch.arange(K).float()).double()
    middle, half = first + step * (K - 1) / 2, step * (K - 1) / 2
    heard = torch.stack([first + step * place_of, torch.full_like(place_of, middle),
                         torch.full_like(place_of, half)], 1)  # fmt: skip
    inputs = torch.cat([x.double(), heard], 1) if hears else x.double()
    said = line.body(inputs.float()).squeeze(1)
    said = said + (first + step * begun if line.over else 0.0)
    torch.testing.assert_close(said, first + step * wanted, atol=1e-4, rtol=1e-4)
    assert (line.held - (first + step * wanted)).abs().max() < step  # each row left out of it
