"""A number that is concave or convex in a feature stays so, whatever own models learn."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedlore import NumberClient, Plan, fit
from fedlore.answers import Bins, Measured
from fedlore.bundle import bundle_of, read_bundle, write_bundle
from fedlore.bundle.certify import certify
from fedlore.bundle.ensemble import describe_ensemble
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.onnx.builder import save_graph
from fedlore.checker.shapes import curvature
from fedlore.checker.verdict import check
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.core.nets import mlp
from fedlore.engine.lore.space import default_space
from fedlore.errors import FedloreError
from fedlore.kernel.knowledge import read_knowledge
from fedlore.knowledge import Knowledge
from fedlore.knowledge.formulas import Formula
from fedlore.knowledge.intervals import Between
from fedlore.knowledge.shapes import FeatureShape, SiteShapes
from fedlore.models.ensemble import Ensemble
from fedlore.models.own import baseline, own_numbers
from fedlore.models.own.bent import Bent
from fedlore.models.own.linear import Linear
from fedlore.models.own.members import NumberMember, input_signs, keeps_signs
from fedlore.models.regressor import PersonalRegressor

from ..bundle.certificate.test_shapes import stump
from .test_shapes import SCHEMA, K, wild

BINS = Bins(-6.0, 6.0, K)


def random_known(seed):
    """One or two shapes, an expert who bends as they say or another way, and often a range."""
    pick = random.Random(seed)
    bend = pick.choice(["concave", "convex"])
    sign = -1 if bend == "concave" else 1
    shapes = [FeatureShape("a", bend)]
    if pick.random() < 0.5:
        feature, effect = pick.choice("ab"), pick.choice(["raises", "lowers"])
        shapes.append(FeatureShape(feature, effect))
    told = pick.choice(["0.5 * c", f"{0.2 * sign} * a ** 2 + 0.3 * c", f"{-0.2 * sign} * a ** 2"])
    low, high = ("-4 + 0.2 * c", "3.5 + 0.1 * b * b")
    if pick.random() < 0.3:  # the end that a number is stopped at moves, too
        low, high = (low, "2.5 - 0.1 * a * a") if sign < 0 else ("-2.5 + 0.1 * a * a", high)
    text = [Formula.parse(one, SCHEMA) for one in (told, low, high)]
    return Knowledge(
        text[0] if pick.random() < 0.7 else None,
        Between(*text[1:]) if pick.random() < 0.6 else None,
        0.3,
        conflict=pick.choice(["project", "abstain"]),
        schema=SCHEMA,
        shapes=SiteShapes(tuple(shapes), SCHEMA, (-6.0, 6.0)),
    )


def learned(known, seed, signs):
    """Own models of rows that bend the wrong way as often as the right one."""
    draw = torch.Generator().manual_seed(seed)
    x = 6 * torch.rand(40, 3, generator=draw) - 3
    curve = torch.randn(3, generator=draw)
    y = x.square() @ curve / 3 + x @ torch.randn(3, generator=draw) + x[:, 0] * x[:, 1] / 2
    personal = PersonalRegressor(mlp(3, K), BINS)
    rows = replace(personal.annotate(x), y=y.clamp(-6, 6).double())
    known = known.of_number(BINS).annotate(replace(rows, said=None, sets=None), training=False)
    own = own_numbers(known, seed=seed, signs=signs)
    return tuple(one.member for one in own.candidates)


def mixed(known, members, seed):
    """Members with any weights beside an expert and a network that has none."""
    pick = random.Random(seed)
    orders = known.of_number(BINS).orders
    heard = known.prediction is not None and (orders is None or orders.hears_prediction)
    parts = [pick.random() + 0.05 for _ in range(len(members) + heard)]
    *weights, expert = [part / sum(parts) for part in parts] + ([] if heard else [0.0])
    ensemble = Ensemble(members, tuple(weights), 0.0, expert, width=1.0)
    draw = torch.Generator().manual_seed(seed)
    model = wild(lipschitz_mlp(K, Shaping(3), seed=seed), draw)
    return PersonalRegressor(model, BINS, known, ensemble=ensemble)


def random_site(seed):
    known = random_known(seed)
    signs = input_signs(known.of_number(BINS), None)
    return mixed(known, learned(known, seed, signs), seed)


def triples_of(seed, n):
    """Rows that differ in `a` alone, ascending, and how far along the middle one lies."""
    draw = torch.Generator().manual_seed(seed)
    x = 6 * torch.rand(n, 3, generator=draw) - 3
    ends = (6 * torch.rand(n, 3, generator=draw) - 3).sort(1).values
    rows = [torch.cat([ends[:, [i]], x[:, 1:]], 1) for i in range(3)]
    low, middle, high = ends.double().T
    return rows, (middle - low) / (high - low)


def count_broken(sign, numbers, share, sets):
    """Triples whose middle lies on the wrong side of the line, and how many were free to."""
    low, middle, high = (torch.as_tensor(np.asarray(one)).double() for one in numbers)
    free = ~(low.isnan() | high.isnan() | middle.isnan())
    for one, (least, most) in ((low, sets[0]), (high, sets[2])):
        free &= (one > least + 1e-6) if sign < 0 else (one < most - 1e-6)
    gap = sign * (middle - (low + share * (high - low)))
    return int((gap[free] > 1e-5).sum()), int(free.sum()), float(-gap[free].min())


def ends_of(personal, x):
    low, high = personal.annotate(x).ends
    return low.double(), high.double()


def check_site(seed, n, *, graph=False, make=random_site):
    """Python, and with `graph` onnxruntime too: triples broken, compared, and the largest bend."""
    personal = make(seed)
    (shape,) = personal.knowledge.shapes.bends
    rows, share = triples_of(seed, n)
    sets = [ends_of(personal, x) for x in rows]
    found = count_broken(shape.bend, [personal.predict(x) for x in rows], share, sets)
    if graph:
        ort = pytest.importorskip("onnxruntime")
        made = bundle_to_onnx(bundle_of(personal, "plant", schema=SCHEMA))
        session = ort.InferenceSession(made.SerializeToString())
        said = [session.run(["number"], {"rows": x.double().numpy()})[0] for x in rows]
        torch.testing.assert_close(
            torch.from_numpy(said[0]), personal.predict(rows[0]), atol=1e-5, rtol=1e-5
        )
        broken, count, _ = count_broken(shape.bend, said, share, sets)
        return found[0] + broken, found[1] + count, found[2]
    return found


def test_no_triple_of_a_mixture_is_broken(monkeypatch):
    monkeypatch.setattr(baseline, "has_trees", lambda: False)
    found = [check_site(seed, 300, graph=True) for seed in (0, 1, 4, 7)]
    assert sum(broken for broken, _, _ in found) == 0
    assert sum(count for _, count, _ in found) > 1000
    assert max(bend for _, _, bend in found) > 0.5  # they are no straight lines


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 140, 10))
def test_no_triple_of_many_mixtures_with_trees_is_broken(start):
    """100,000 triples, in Python and onnxruntime."""
    found = [check_site(seed, 2000, graph=True) for seed in range(start, start + 10)]
    assert sum(broken for broken, _, _ in found) == 0
    assert sum(count for _, count, _ in found) > 25_000


def test_members_that_were_not_told_would_break_it_and_are_refused(monkeypatch):
    monkeypatch.setattr(baseline, "has_trees", lambda: False)
    broken = 0
    for seed in range(4):
        known = random_known(seed)
        members = learned(known, seed, None)
        with pytest.raises(FedloreError, match="in the ensemble does not keep the shapes"):
            mixed(known, members, seed)
        free = mixed(replace(known, shapes=None), members, seed)
        (shape,) = known.shapes.bends
        rows, share = triples_of(seed, 300)
        sets = [ends_of(free, x) for x in rows]
        broken += count_broken(shape.bend, [free.predict(x) for x in rows], share, sets)[0]
    assert broken > 100


@pytest.mark.parametrize("effect", ["concave", "convex"])
@pytest.mark.parametrize("beside", [None, "raises", "lowers"])
def test_ridge_follows_a_curve_that_its_rows_have_and_not_its_mirror_image(effect, beside):
    """What rises ever less is concave and raises; the other three of four kinds likewise."""
    sign = -1 if effect == "concave" else 1
    draw = torch.Generator().manual_seed(3)
    x = 6 * torch.rand(200, 3, generator=draw) - 3
    way = {None: 0.0, "raises": 3.0, "lowers": -3.0}[beside]
    y = sign * 0.5 * (x[:, 0] + sign * way).square() + 0.1 * torch.randn(200, generator=draw)
    y = 4.0 * (y - y.mean()) / y.abs().max()
    shapes = [FeatureShape("a", effect), *([FeatureShape("a", beside)] if beside else [])]
    known = Knowledge(schema=SCHEMA, shapes=SiteShapes(tuple(shapes), SCHEMA, (-6.0, 6.0)))
    personal = PersonalRegressor(mlp(3, K), BINS)
    signs = input_signs(known.of_number(BINS), None)
    missed = []
    for turned in (1.0, -1.0):
        rows = replace(personal.annotate(x), y=(turned * y).clamp(-6, 6).double())
        own = own_numbers(rows, signs=signs)
        ridge = next(one for one in own.candidates if one.member.name == "ridge")
        assert type(ridge.member.body) is Bent and keeps_signs(ridge.member, signs)
        missed.append(ridge.error / float(y.var()))
    assert missed[0] < 0.03 < 0.1 < missed[1]


def knee(low, high, weight, column=0):
    """A member of one piece of a column."""
    wide = torch.tensor([weight]).double()
    ends = (torch.tensor([float(end)]) for end in (low, high))
    flat, one = torch.zeros(1).double(), torch.ones(1).double()
    body = Bent(torch.tensor([column], dtype=torch.int16), *ends, flat, one, wide[:, None], flat)
    return NumberMember("knee", body, False, False, 1.0)


def square(first, second, weight, line=0.0):
    """A member of one product of two columns of three, and of the first column."""
    weights = torch.zeros(9, 1).double()
    pairs = torch.triu_indices(3, 3).T.tolist()
    weights[3 + pairs.index([first, second])], weights[first] = weight, line
    flat, one = torch.zeros(3).double(), torch.ones(3).double()
    return NumberMember("square", Linear(flat, one, weights, flat[:1], True), False, False, 1.0)


FAR = float(torch.finfo(torch.float32).max)
CONCAVE, RAISES = FeatureShape("a", "concave"), FeatureShape("a", "raises")


@pytest.mark.parametrize(
    ("member", "shapes", "kept"),
    [
        (knee(-FAR, 1.0, 2.0), [CONCAVE], True),
        (knee(-FAR, 1.0, -2.0), [CONCAVE], False),
        (knee(1.0, FAR, -2.0), [CONCAVE], True),
        (knee(1.0, FAR, 2.0), [CONCAVE], False),
        (knee(-1.0, 1.0, 2.0), [CONCAVE], False),  # kept between two ends: an S
        (knee(-FAR, FAR, -2.0), [CONCAVE], True),
        (knee(-FAR, FAR, -2.0), [CONCAVE, RAISES], False),
        (knee(1.0, FAR, -2.0), [CONCAVE, RAISES], False),
        (knee(-FAR, 1.0, 2.0), [CONCAVE, RAISES], True),
        (knee(-1.0, 1.0, 2.0, column=1), [CONCAVE], True),
        (square(0, 0, -1.0, 3.0), [CONCAVE], True),
        (square(0, 0, 1.0), [CONCAVE], False),
        (square(0, 1, -1.0), [CONCAVE], False),
        (square(1, 1, -1.0), [CONCAVE], False),  # no product but what bends
        (square(0, 0, -1.0), [CONCAVE, RAISES], False),
    ],
)
def test_members_are_judged_alike_by_both(member, shapes, kept):
    known = Knowledge(
        schema=SCHEMA, shapes=SiteShapes(tuple(shapes), SCHEMA, (-6.0, 6.0))
    ).of_number(BINS)
    assert keeps_signs(member, input_signs(known, None)) == kept
    plain = Ensemble((knee(-FAR, FAR, 0.0),), (1.0,), 0.0, width=1.0)
    made = bundle_of(
        PersonalRegressor(lipschitz_mlp(K, Shaping(3)), BINS, known, ensemble=plain),
        "plant",
        schema=SCHEMA,
    )
    header = json.loads(made.members["bundle.json"])
    texts = {n: d.decode() for n, d in made.members.items() if n.endswith((".toml", ".csv"))}
    told, tensors = describe_ensemble(replace(plain, members=(member,)), known)
    arrays = {name: t.numpy() for name, t in tensors.items()}
    judged = curvature(read_knowledge(texts), header | {"ensemble": told}, arrays)
    assert judged.status == ("proved" if kept else "unknown")


def test_trees_neither_split_by_what_bends_nor_by_an_expert_who_does():
    shapes = SiteShapes((CONCAVE,), SCHEMA, (-6.0, 6.0))
    said = Formula.parse("1 - 0.2 * a ** 2", SCHEMA)
    known = Knowledge(said, None, 0.3, conflict="error", schema=SCHEMA, shapes=shapes)
    signs = input_signs(known.of_number(BINS), None)
    assert signs[0, 3] == 1.0  # a line through his number keeps it
    for feature, kept in ((0, False), (1, True), (3, False)):
        member = NumberMember("stump", stump(feature, 1.0, 2.0), True, False, 1.0)
        assert keeps_signs(member, signs) == kept
    for low, kept in ((FAR, True), (1.0, False)):  # a line through his number, not a knee
        member = replace(knee(-FAR, low, 2.0, column=3), hears=True)
        assert keeps_signs(member, signs) == kept


@pytest.mark.parametrize("seed", [0, 3])
def test_bundle_graph_and_certificate_keep_it(seed, tmp_path, monkeypatch):
    monkeypatch.setattr(baseline, "has_trees", lambda: False)
    pytest.importorskip("onnxruntime")
    known = replace(random_known(seed), prediction=Formula.parse("0.5 * c - a", SCHEMA), range=None)
    signs = input_signs(known.of_number(BINS), None)
    personal = mixed(known, learned(known, seed, signs), seed)
    write_bundle(bundle_of(personal, "plant", schema=SCHEMA), tmp_path / "b.lore")
    bundle = read_bundle(tmp_path / "b.lore")
    rows, _ = triples_of(seed, 50)
    torch.testing.assert_close(bundle.personal.predict(rows[0]), personal.predict(rows[0]))
    (tmp_path / "c.json").write_text(json.dumps(certify(bundle)))
    save_graph(bundle_to_onnx(bundle), tmp_path / "b.onnx")
    for file, tested in (("b.lore", None), ("b.onnx", 150)):
        lines = {line.what: line for line in check(tmp_path / "c.json", tmp_path / file)}
        assert [line for line in lines.values() if not line.holds] == []
        assert lines["curvature"].found.startswith("proved" if tested is None else "the knowledge")
        assert tested is None or lines["curvature"].rows > tested


def test_no_network_is_held_to_a_bend():
    known = replace(random_known(0), prediction=None)
    with pytest.raises(FedloreError, match="no network can be held to 'a conc|'a conv"):
        PersonalRegressor(lipschitz_mlp(K, Shaping(3)), BINS, known)
    heard = Ensemble((knee(-FAR, FAR, 0.0),), (0.5,), 0.5, width=1.0)
    with pytest.raises(FedloreError, match="no network can be held to"):
        PersonalRegressor(lipschitz_mlp(K, Shaping(3)), BINS, known, ensemble=heard)


@pytest.mark.parametrize("engine", ["local", "stacked"])
def test_only_the_recipe_with_members_takes_a_site_with_a_bend(engine):
    x = 6 * torch.rand(30, 3, generator=torch.Generator().manual_seed(2)) - 3
    known = replace(random_known(0), prediction=None, range=None)
    site = NumberClient("s1", Measured(x, x[:, 0].double()), known)
    with pytest.raises(FedloreError, match="client 's1': no network can be held to"):
        fit([site], mlp(3, K), bins=BINS, rounds=1, engine=engine)
    bare = replace(site, injected=False)
    assert fit([bare], mlp(3, K), bins=BINS, rounds=1, engine=engine).model("s1") is not None


@pytest.mark.slow
def test_the_recipe_keeps_it_without_its_network_and_tells_so(monkeypatch):
    monkeypatch.setattr(baseline, "has_trees", lambda: False)
    sites = []
    for i in range(2):
        x = 6 * torch.rand(40, 3, generator=torch.Generator().manual_seed(i)) - 3
        y = (2 - 0.4 * x[:, 0].square() + x[:, 1]).clamp(-6, 6).double()
        shapes = SiteShapes((CONCAVE,), SCHEMA, (-6.0, 6.0)) if i else None
        sites.append(NumberClient(f"s{i}", Measured(x, y), Knowledge(schema=SCHEMA, shapes=shapes)))
    space = replace(default_space(3, ordered=True, numbers=True), folds=2, finishes=(0,))
    recipe = replace(space, candidates=space.candidates[:1])
    fitted = fit(sites, bins=BINS, recipe=recipe, rounds=1, plan=Plan(epochs=1, batch=20))
    made = fitted.model("s1")
    assert made.ensemble.network == 0.0 and "the shared network" in fitted.benefit("s1").left_out
    broken, count, curved = check_site(0, 300, make=lambda _: made)
    assert broken == 0 and count > 200 and curved > 1.0
    assert "network" not in fitted.benefit("s0").left_out
