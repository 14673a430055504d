"""Laws of mixing: a coal with itself, order, mass balance, and the simulator's own blends."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlore.errors import FedloreError
from fedlore_coke.blend import Coals, Mix, read_mixing, recipe_for
from fedlore_coke.blend.mixing import (
    ACID,
    BASICITY,
    Additive,
    AsCharged,
    AshFree,
    Basicity,
    BasicityOfIndices,
    Fixed,
    Log,
    Spread,
    Stiffened,
    Thinned,
    Weighted,
)
from fedlore_coke.coal import BASIC as MEAN_OXIDES
from fedlore_coke.coal import OXIDES, blend_coals, market
from fedlore_coke.experts import COKE
from fedlore_coke.plants import ORDER

RANGES = {
    "Mt": (4, 14), "Ad": (5, 16), "Vdaf": (10, 43), "St_d": (0.3, 3), "Ro": (0.65, 1.75),
    "Ro_sd": (0.02, 0.2), "V9_V13": (0, 100), "inerts": (8, 55), "MF": (1, 40000), "G": (20, 103),
    "Y": (4, 35), "MBI": (0.3, 6), **{oxide: (0.1, 60) for oxide in (*BASICITY, *ACID)},
}  # fmt: skip
RULES = [
    Additive("St_d"), AsCharged("Mt"), Weighted("Fe2O3", "Ad"),
    Weighted("V9_V13", "inerts", rest=True), AshFree("Vdaf"), Spread("Ro_sd"), Log("MF"),
    Thinned("G", 8.0), Thinned("Y", 2.0), Basicity(), BasicityOfIndices(),
]  # fmt: skip
MEANS = [r for r in RULES if isinstance(r, Additive | AsCharged | Weighted | AshFree | Log)]
each = pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{type(r).__name__}-{r.needs[0]}")


@st.composite
def stocks(draw, least=1, most=6):
    """Properties of a few coals, and shares of them."""
    c = draw(st.integers(least, most))
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    coals = {name: random.uniform(low, high, c) for name, (low, high) in RANGES.items()}
    weights = np.array(draw(st.lists(st.floats(0.01, 1), min_size=c, max_size=c)))
    return coals, weights / weights.sum()


def mixed(rule, coals, shares):
    return float(rule(Mix.of(np.atleast_2d(shares), coals))[0])


@each
@given(stocks())
@settings(max_examples=25, deadline=None)
def test_a_coal_with_itself_stays_as_it_is(rule, stock):
    coals, shares = stock
    same = {name: np.full(len(shares), values[0]) for name, values in coals.items()}
    alone = mixed(rule, {n: v[:1] for n, v in same.items()}, [1.0])
    assert mixed(rule, same, shares) == pytest.approx(alone, rel=1e-9)


@each
@given(stocks(most=1))
@settings(max_examples=10, deadline=None)
def test_one_coal_alone_is_itself(rule, stock):
    coals, shares = stock
    if not isinstance(rule, Basicity):  # an index has no column of its own
        assert mixed(rule, coals, shares) == pytest.approx(coals[rule.column][0], rel=1e-9)


@each
@given(stocks(least=2), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_the_order_of_coals_does_not_matter(rule, stock, random):
    coals, shares = stock
    order = list(range(len(shares)))
    random.shuffle(order)
    other = mixed(rule, {n: v[order] for n, v in coals.items()}, shares[order])
    assert other == pytest.approx(mixed(rule, coals, shares), rel=1e-9)


@each
@given(stocks(), st.floats(0.0, 1.0))
@settings(max_examples=25, deadline=None)
def test_a_heap_may_be_split_in_two(rule, stock, part):
    coals, shares = stock
    split = np.r_[shares, shares[0] * part]
    split[0] = shares[0] * (1 - part)
    twice = {name: np.r_[values, values[0]] for name, values in coals.items()}
    assert mixed(rule, twice, split) == pytest.approx(mixed(rule, coals, shares), rel=1e-9)


@pytest.mark.parametrize("rule", MEANS, ids=lambda r: type(r).__name__)
@given(stocks())
@settings(max_examples=25, deadline=None)
def test_means_lie_between_the_coals(rule, stock):
    coals, shares = stock
    values = coals[rule.column]
    found = mixed(rule, coals, shares)
    assert values.min() * (1 - 1e-9) <= found <= values.max() * (1 + 1e-9)


@given(stocks())
@settings(max_examples=50, deadline=None)
def test_mass_is_kept(stock):
    """Water, ash and sulphur of the blend are those of its coals, in kg per kg as charged."""
    coals, shares = stock
    water = mixed(AsCharged("Mt"), coals, shares)
    assert water == pytest.approx(float(shares @ coals["Mt"]))
    solid = shares * (1 - coals["Mt"] / 100)
    for name in ("Ad", "St_d"):
        in_blend = (1 - water / 100) * mixed(Additive(name), coals, shares)
        assert in_blend == pytest.approx(float(solid @ coals[name]))
    iron = (
        (1 - water / 100)
        * mixed(Additive("Ad"), coals, shares)
        * mixed(Weighted("Fe2O3", "Ad"), coals, shares)
    )
    assert iron == pytest.approx(float(solid @ (coals["Ad"] * coals["Fe2O3"])))


@given(stocks(least=2))
@settings(max_examples=50, deadline=None)
def test_mixing_widens_reflectance_and_thins_caking(stock):
    coals, shares = stock
    dry = Mix.of(shares[None], coals).dry[0]
    within = float(dry @ coals["Ro_sd"] ** 2) ** 0.5
    assert mixed(Spread("Ro_sd"), coals, shares) >= within * (1 - 1e-9)
    assert mixed(Thinned("G", 8.0), coals, shares) <= float(dry @ coals["G"]) + 1e-9


def test_numbers_one_can_redo():
    pairs = {
        "Ro": (1.0, 1.4), "Ro_sd": (0.0, 0.0), "MF": (10.0, 1000.0), "G": (20.0, 90.0),
        "inerts": (20.0, 50.0), "logMF": (3.0, 1.0), "Ad": (5.0, 15.0), "Fe2O3": (4.0, 8.0),
    }  # fmt: skip
    coals = {name: np.array(values) for name, values in pairs.items()}
    half = [0.5, 0.5]
    assert mixed(Spread("Ro_sd"), coals, half) == pytest.approx(0.2)
    assert mixed(Log("MF"), coals, half) == pytest.approx(100.0)
    assert mixed(Weighted("Fe2O3", "Ad"), coals, half) == pytest.approx(7.0)  # (20 + 120) / 20
    # the mean G is 55; half of it falls short by 45, the mean itself by 10 of 45
    assert mixed(Thinned("G", 9.0), coals, half) == pytest.approx(55 - 9 * (0.5 - 10 / 45))
    assert mixed(Stiffened("logMF", 0.1), coals, half) == pytest.approx(2.0 - 0.1 * 5)
    assert mixed(Fixed(7.0), coals, half) == 7.0


def test_the_simulated_plants_blend_alike():
    """The rules, written from the literature, against the simulator's own blending."""
    _, table = market(3)
    draw = np.random.default_rng(0)
    shares = draw.dirichlet(np.full(8, 0.7), size=400)
    chosen = [i for i in range(60) if 55 <= float(table["caking"][i])][:8]
    part = {name: values[chosen] for name, values in table.items()}
    lots = {name: values.expand(len(shares), -1) for name, values in part.items()}
    theirs = blend_coals(lots, torch.from_numpy(shares))
    source = dict(zip(COKE.names, ORDER, strict=True))
    own = {n: part[s].numpy() for n, s in source.items() if s in part}
    basic = part["basic"].numpy()
    own |= {
        o: basic * mean / sum(m for m, _ in MEAN_OXIDES.values())
        for o, (mean, _) in MEAN_OXIDES.items()
    }
    own |= {"SiO2": 0.6 * (OXIDES - basic), "Al2O3": 0.4 * (OXIDES - basic)}
    edges = torch.tensor([[1.4], [0.9]], dtype=torch.float64)
    upper, lower = torch.special.ndtr((edges - part["ro"]) / part["ro_sd"])
    own["V9_V13"] = (100 * (upper - lower)).numpy()
    recipe = recipe_for(
        COKE, Coals(tuple(map(str, chosen)), np.ones(8), own),
        fixed={"Mt": 10.0, "coking_time": 20.0}, rules={"logMF": Stiffened("logMF", 0.03)},
    )  # fmt: skip
    ours = recipe.features(shares)
    caking = ours[:, COKE.column("G")] >= 66  # among leaner blends the rules differ by design
    assert caking.sum() > 200
    for name, s in source.items():
        if name not in ("Mt", "coking_time"):
            there = theirs[s].numpy()[caking]
            assert ours[caking, COKE.column(name)] == pytest.approx(there, rel=1e-6, abs=1e-6), name


def test_a_feature_without_a_column_is_an_error_that_helps():
    coals = Coals(("a",), np.ones(1), {"Ad": np.ones(1)})
    with pytest.raises(FedloreError, match="feature 'Mt'.*no column 'Mt'.*--fix Mt="):
        recipe_for(COKE, coals)
    with pytest.raises(FedloreError, match="unknown feature 'oven'"):
        recipe_for(COKE, coals, fixed={"oven": 1.0})
    with pytest.raises(FedloreError, match="finite number, got 'warm'"):
        recipe_for(COKE, coals, fixed={"Mt": "warm"})


def test_rules_from_a_file(tmp_path):
    path = tmp_path / "mixing.toml"
    path.write_text('[rules.logMF]\nrule = "stiffened"\nloss = 0.03\n[fixed]\ncoking_time = 19.5\n')
    rules, fixed = read_mixing(path)
    assert rules == {"logMF": Stiffened("logMF", 0.03)}
    assert fixed == {"coking_time": 19.5}
    assert str(rules["logMF"]) == "additive, less 0.03 per % of inerts above 30"
    path.write_text('[rules.logMF]\nrule = "stiff"\n')
    with pytest.raises(FedloreError, match="unknown rule 'stiff'; did you mean 'stiffened'"):
        read_mixing(path)
    path.write_text('[rules.logMF]\nrule = "additive"\nlos = 1\n')
    with pytest.raises(FedloreError, match=r"\[rules.logMF\] unknown key 'los'"):
        read_mixing(path)


@pytest.mark.parametrize("rule", [*RULES, Stiffened("logMF", 0.03), Fixed(3.0)], ids=str)
def test_every_rule_can_be_told(rule):
    assert str(rule) != repr(rule)


def test_a_logarithm_needs_positive_numbers():
    with pytest.raises(FedloreError, match="'MF' must be positive, got 0"):
        mixed(Log("MF"), {"MF": np.array([0.0, 1.0])}, [0.5, 0.5])


def test_blends_are_averaged_by_dry_mass_each_by_its_own():
    """As many blends as coals: 4.5 of ash in 95 of solid, and a blend of one coal alone."""
    shares = np.array([[0.5, 0.5], [1.0, 0.0]])
    mix = Mix.of(shares, {"Mt": np.array([10.0, 0.0]), "Ash": np.array([10.0, 20.0])})
    assert mix.mean("Ash").tolist() == pytest.approx([14.5 / 0.95, 10.0])
    assert Mix.of(shares, {"Ash": np.array([10.0, 20.0])}).mean("Ash").tolist() == [15.0, 10.0]
