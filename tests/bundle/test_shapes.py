"""A model that keeps shapes goes through bundle, update, graph and answers, and stays in order."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedlore.answers import Bins, Measured
from fedlore.bundle import bundle_of, read_bundle, write_bundle
from fedlore.bundle.explain import reasons
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.update import update_bundle
from fedlore.core.examples import Examples
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.core.nets import mlp
from fedlore.errors import FedloreError
from fedlore.knowledge import Knowledge
from fedlore.knowledge.formulas import Formula, FormulaRange
from fedlore.knowledge.shapes import FeatureShape, SiteShapes
from fedlore.models.classifier import Personal
from fedlore.models.client import Client, NumberClient
from fedlore.models.ensemble import Ensemble
from fedlore.models.own import baseline
from fedlore.models.own.linear import Linear
from fedlore.models.own.members import OrderMember
from fedlore.models.regressor import PersonalRegressor

from ..theory.test_shaped_mixtures import mixed_site, with_members
from ..theory.test_shapes import EDGES, SCHEMA, K, count_broken, pairs_of, random_site, wild

ort = pytest.importorskip("onnxruntime")
K_HALF = torch.tensor([3.0]).double()


def graph_of(bundle):
    session = ort.InferenceSession(bundle_to_onnx(bundle).SerializeToString())
    names = [value.name for value in session.get_outputs()]

    def run(x):
        found = session.run(None, {"rows": x.double().numpy()})
        return {n: torch.from_numpy(np.asarray(v)) for n, v in zip(names, found, strict=True)}

    return run


def kept(seed, task, tmp_path, *, mixed=False, turning=0.0):
    personal, shapes, draw = random_site(seed, task, turning)
    if mixed:
        _, ensemble, shapes, draw = mixed_site(seed, task, turning=turning)
        personal = with_members(personal, ensemble)
    bundle = bundle_of(personal, "plant", schema=SCHEMA)
    write_bundle(bundle, tmp_path / f"{task}{seed}.lore")
    return personal, read_bundle(tmp_path / f"{task}{seed}.lore"), shapes, draw


def check_graph(seed, task, tmp_path, n, **how):
    """A graph says what Python says, and no pair of its answers is broken; how many pairs."""
    personal, bundle, shapes, draw = kept(seed, task, tmp_path, **how)
    run = graph_of(bundle)
    low, high = pairs_of(shapes, draw, n)
    a, b = run(low), run(high)
    if task == "number":
        assert (a["number"] <= b["number"] + 1e-4).all()
        torch.testing.assert_close(a["number"], personal.predict(low), atol=2e-3, rtol=1e-3)
        return len(low)
    p, q = (found["probabilities"].double().cumsum(1) for found in (a, b))
    assert (q <= p + 1e-5).all() and (a["class"] <= b["class"]).all()
    torch.testing.assert_close(
        a["probabilities"], personal.predict_proba(low), atol=1e-3, rtol=1e-3
    )
    return len(low)


#: Seeds, pairs of rows of each, how many of them are compared at least.
GRAPHS = {
    "plain": ((2, 4), 100, 50, {}),
    "turning": (range(5), 400, 800, {"turning": 1.0}),
    "mixture": ((4,), 100, 20, {"mixed": True}),
    "turning mixture": ((2,), 200, 40, {"mixed": True, "turning": 1.0}),
}
MANY = {
    "plain": (range(60, 100), 2000, 40_000, {}),
    "turning": (range(20, 65), 4000, 100_000, {"turning": 1.0}),
    "mixture with trees": (range(60, 75), 1000, 8_000, {"mixed": True}),
}


@pytest.mark.parametrize("task", ["classes", "number"])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_keeps_the_order(name, task, tmp_path, monkeypatch):
    monkeypatch.setattr(baseline, "has_trees", lambda: False)
    seeds, n, least, how = GRAPHS[name]
    assert sum(check_graph(seed, task, tmp_path, n, **how) for seed in seeds) > least


@pytest.mark.slow
@pytest.mark.parametrize("task", ["classes", "number"])
@pytest.mark.parametrize("name", MANY)
def test_many_graphs_keep_the_order(name, task, tmp_path):
    seeds, n, least, how = MANY[name]
    assert sum(check_graph(seed, task, tmp_path, n, **how) for seed in seeds) > least


def test_other_shapes_are_refused_where_members_do_not_keep_them(tmp_path):
    body = Linear(*(torch.ones(3).double() for _ in range(2)), torch.ones(3, 1).double(), K_HALF)
    ensemble = Ensemble((OrderMember("ridge", body, False, False, 1.0, K),), (0.5,), 0.5)
    rises, falls = (SiteShapes((FeatureShape("a", e),), SCHEMA) for e in ("raises", "lowers"))
    model = lipschitz_mlp(K, Shaping(3))
    known = Knowledge(schema=SCHEMA, shapes=rises)
    bundle = bundle_of(Personal(model, known, ensemble=ensemble), "plant", schema=SCHEMA)
    replace(known, shapes=falls).write(tmp_path / "other.toml")
    with pytest.raises(
        FedloreError, match="'ridge' in the ensemble .* not keep the shapes .a lowers"
    ):
        update_bundle(bundle, tmp_path / "other.toml")


def test_another_shape_needs_no_training(tmp_path):
    personal, bundle, shapes, draw = kept(4, "classes", tmp_path)
    effect = "lowers" if shapes.shapes[0].effect == "raises" else "raises"
    turned = SiteShapes((FeatureShape("a", effect),), SCHEMA)
    Knowledge(schema=SCHEMA, shapes=turned).write(tmp_path / "other" / "knowledge.toml")
    other = update_bundle(bundle, tmp_path / "other" / "knowledge.toml").personal
    low, high = pairs_of(turned, draw, 200)
    assert count_broken(other, low, high) == 0
    assert not torch.equal(other.predict(low), personal.predict(low))


def test_an_update_takes_the_turn_that_the_rows_of_the_bundle_showed(tmp_path):
    """New rules of the same expert leave the turn open; another arch has none to take."""
    old = shaped_bundle(FeatureShape("a", "arch", turns_at=(0.25, 0.5), estimated=True))
    for name, feature in (("same", "a"), ("other", "b")):
        open_ = SiteShapes((FeatureShape(feature, "arch"),), SCHEMA)
        Knowledge(schema=SCHEMA, shapes=open_).write(tmp_path / name / "knowledge.toml")
    new = update_bundle(old, tmp_path / "same" / "knowledge.toml")
    assert "kept for any weights: a arch (turns at 0.25 to 0.5, estimated)" in new.card
    with pytest.raises(FedloreError, match="nobody knows where 'b arch' turns"):
        update_bundle(old, tmp_path / "other" / "knowledge.toml")


@pytest.mark.parametrize("task", ["classes", "number"])
def test_a_turn_from_rows_is_kept_like_one_that_is_stated(task, tmp_path):
    """Rows of an arch around 0.5; the bundle, read back, keeps what they showed."""
    draw = torch.Generator().manual_seed(3)
    x = 6 * torch.rand(150, 3, generator=draw) - 3
    place = 4.5 - (x[:, 0] - 0.5).square() / 4 + x[:, 1] / 2 + torch.rand(150, generator=draw)
    shapes = SiteShapes((FeatureShape("a", "arch"),), SCHEMA, (-6.0, 9.0))
    model = wild(lipschitz_mlp(K, Shaping(3), hidden=(8,)), draw)
    if task == "number":
        bins = Bins(-6.0, 9.0, K)
        known = Knowledge(schema=SCHEMA, shapes=shapes).of_number(bins)
        site = NumberClient("s", Measured(x, place.double()), known)
        personal = PersonalRegressor(model, bins, site.knowledge)
    else:
        known = Knowledge(schema=SCHEMA, shapes=replace(shapes, bounds=None))
        site = Client("s", Examples(x, place.round().clamp(0, K - 1).long()), known)
        personal = Personal(model, site.knowledge)
    write_bundle(bundle_of(personal, "s", schema=SCHEMA), tmp_path / "s.lore")
    bundle = read_bundle(tmp_path / "s.lore")
    placed = bundle.personal.knowledge.shapes
    low, high = placed.shapes[0].turns
    assert -0.5 < low < 0.5 < high < 1.5 and placed.shapes[0].estimated
    assert count_broken(bundle.personal, *pairs_of(placed, draw, 2000)) == 0
    assert "estimated)' holds here: where a <= " in reasons(bundle, torch.full((1, 3), -2.0))[0][-1]
    a, b = map(graph_of(bundle), pairs_of(placed, draw, 500))
    said = "number" if task == "number" else "class"
    assert (a[said] <= b[said] + 1e-4).all()


def test_a_plain_network_is_not_given_shapes(tmp_path):
    plain = bundle_of(Personal(mlp(3, 7), Knowledge(schema=SCHEMA)), "plant", schema=SCHEMA)
    shapes = SiteShapes((FeatureShape("a", "raises"),), SCHEMA)
    Knowledge(schema=SCHEMA, shapes=shapes).write(tmp_path / "knowledge.toml")
    with pytest.raises(FedloreError, match=r"cannot keep the shapes \(a raises\)"):
        update_bundle(plain, tmp_path / "knowledge.toml")


def test_a_regressor_refuses_them_too():
    found, _, _ = random_site(4, "number")
    assert isinstance(found, PersonalRegressor)
    with pytest.raises(FedloreError, match="cannot keep the shapes"):
        PersonalRegressor(mlp(3, 7), found.bins, found.knowledge)


def shaped_bundle(*shapes, limits=None):
    known = Knowledge(None, limits, schema=SCHEMA, shapes=SiteShapes(shapes, SCHEMA))
    return bundle_of(Personal(lipschitz_mlp(K, Shaping(3)), known), "plant", schema=SCHEMA)


def test_reasons_say_which_shapes_hold_in_a_row():
    bundle = shaped_bundle(FeatureShape("a", "lowers"), FeatureShape("b", "raises", "b < 1"))
    x = torch.tensor([[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 9.0]])
    said = [[line for line in some if line.startswith("'")] for some in reasons(bundle, x)]
    lowers = "'a lowers' holds here: more a never raises the answer"
    assert said[0] == [lowers, "'b raises where b < 1' holds here: more b never lowers the answer"]
    assert said[1] == [lowers, "'b raises where b < 1' does not apply here"]
    # outside the scope nothing is claimed
    assert said[2] == [
        "'a lowers' does not apply here",
        "'b raises where b < 1' does not apply here",
    ]


def test_reasons_say_on_which_side_of_its_turn_a_row_lies():
    bundle = shaped_bundle(FeatureShape("a", "arch", "b < 1", (-0.5, 0.5)))
    x = torch.tensor([[-1.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0], [2.0, 2.0, 0.0]])
    said = [[line for line in some if line.startswith("'")] for some in reasons(bundle, x)]
    name = "'a arch (turns at -0.5 to 0.5) where b < 1'"
    assert said == [
        [f"{name} holds here: where a <= -0.5, more a never lowers the answer"],
        [f"{name} holds here: where a >= 0.5, more a never raises the answer"],
        [f"{name} does not apply here"],  # between the ends of its turn
        [f"{name} does not apply here"],
    ]
    assert "- shape, kept for any weights: a arch (turns at -0.5 to 0.5) where b < 1" in bundle.card


def test_a_range_that_moves_otherwise_narrows_what_is_said():
    rising = FormulaRange(Formula.parse("a", SCHEMA), None, EDGES)
    bundle = shaped_bundle(FeatureShape("a", "lowers"), limits=rising)
    words = "a lowers between rows of the same range"
    assert f"- shape, kept for any weights: {words}" in bundle.card
    assert any(
        line.endswith("never raises the answer between rows of the same range")
        for line in reasons(bundle, torch.zeros(1, 3))[0]
    )
