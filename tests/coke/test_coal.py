"""The simulated coals and blends keep the rules they are made by."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore.core.rng import stream
from fedlore_coke.coal import COAL_KINDS, blend_coals, deliveries, market, proportions

COKING = ("JM", "JM24", "FM", "1/3JM")


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a, b]))[0, 1])


def pair(**changes: tuple[float, float]) -> dict[str, torch.Tensor]:
    """Two coals on one day, alike but for the changes."""
    values = {"ash": 10.0, "volatile": 28.0, "sulphur": 1.0, "phosphorus": 0.04, "ro": 1.1}
    values |= {"ro_sd": 0.08, "inerts": 25.0, "fluidity": 3.0, "caking": 80.0, "layer": 17.0}
    values |= {"dilatation": 60.0, "shrinkage": 28.0, "swelling": 7.5, "basic": 11.0}
    both = {name: (value, value) for name, value in values.items()} | changes
    return {name: torch.tensor([v], dtype=torch.float64) for name, v in both.items()}


HALVES = torch.tensor([[0.5, 0.5]], dtype=torch.float64)


@given(st.integers(0, 10_000))
def test_every_coal_is_of_its_class(seed: int) -> None:
    names, coals = market(seed)
    assert 30 <= len(names) <= 60
    for i, name in enumerate(names):
        kind = COAL_KINDS[name]
        limits = {"volatile": kind.volatile, "caking": kind.caking}
        limits |= {"layer": kind.layer, "dilatation": kind.dilatation}
        for what, (low, high) in limits.items():
            assert low <= float(coals[what][i]) <= high, (name, what)


def test_coking_coals_are_like_those_on_the_market() -> None:
    found: dict[str, list[float]] = {}
    for seed in range(20):
        names, coals = market(seed)
        rows = [i for i, name in enumerate(names) if name in COKING]
        t = {name: values[rows] for name, values in coals.items()}
        for a, b in (("volatile", "ro"), ("volatile", "fluidity"), ("ro", "fluidity")):
            found.setdefault(f"{a}-{b}", []).append(correlation(t[a], t[b]))
        found.setdefault("inerts-fluidity", []).append(correlation(t["inerts"], t["fluidity"]))
        found.setdefault("fluidity", []).append(float(t["fluidity"].mean()))
        found.setdefault("ratio", []).append(float((t["basic"] / (95.4 - t["basic"])).mean()))
    mean = {name: sum(values) / len(values) for name, values in found.items()}
    assert -0.95 < mean["volatile-ro"] < -0.75  # 27 traded coals: -0.84
    assert 0.4 < mean["volatile-fluidity"] < 0.9  # 0.82
    assert -0.85 < mean["ro-fluidity"] < -0.4  # -0.75
    assert -0.9 < mean["inerts-fluidity"] < -0.7  # vitrinite with log MF: 0.82
    assert abs(mean["fluidity"] - 2.84) < 0.3
    assert abs(mean["ratio"] - 0.137) < 0.015
    assert max(found["volatile-ro"]) < -0.6 and min(found["volatile-fluidity"]) > 0.1
    assert max(found["ro-fluidity"]) < -0.1


def test_reflectance_of_a_blend_is_a_mixture() -> None:
    t = blend_coals(pair(ro=(1.0, 1.4), ro_sd=(0.06, 0.08)), HALVES)
    assert math.isclose(float(t["ro"]), 1.2)
    assert math.isclose(float(t["ro_sd"]), math.sqrt((0.0036 + 0.0064) / 2 + 0.04))


def test_oxides_are_weighed_by_ash() -> None:
    t = blend_coals(pair(ash=(5.0, 15.0), basic=(8.0, 16.0), volatile=(0.0, 0.0)), HALVES)
    basic = (5 * 8 + 15 * 16) / 20
    assert math.isclose(float(t["mbi"]), 100 * 10 * basic / (95.4 - basic) / 100)


def test_volatile_matter_is_additive_on_dry_coal() -> None:
    t = blend_coals(pair(ash=(6.0, 14.0), volatile=(20.0, 36.0)), HALVES)
    assert math.isclose(float(t["volatile"]), (20 * 0.94 + 36 * 0.86) / 2 / 0.9)


def test_middle_rank_vitrinite_is_counted() -> None:
    inside = blend_coals(pair(ro=(1.15, 1.15)), HALVES)
    half = blend_coals(pair(ro=(0.9, 0.9)), HALVES)
    assert float(inside["v9_v13"]) > 99.0
    assert math.isclose(float(half["v9_v13"]), 50.0, abs_tol=1e-3)


def test_inerts_and_lean_coals_cost_more_than_their_share() -> None:
    stiff = blend_coals(pair(inerts=(30.0, 50.0)), HALVES)
    assert math.isclose(float(stiff["fluidity"]), 3.0 - 0.03 * 10)
    lean = blend_coals(pair(caking=(20.0, 90.0)), HALVES)
    assert math.isclose(float(lean["caking"]), 55.0 - 8.0 * 0.5)
    assert float(blend_coals(pair(caking=(70.0, 90.0)), HALVES)["caking"]) == 80.0


@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(3, 7))
def test_a_blend_has_few_coals_and_is_whole(seed: int, steady: int, fewest: int) -> None:
    day = torch.arange(50, dtype=torch.float64)
    cycles = torch.rand(2, 9, generator=stream(seed, "cycles"), dtype=torch.float64)
    share = proportions(day, cycles, stream(seed, "day"), steady=steady, swing=0.5, fewest=fewest)
    assert torch.allclose(share.sum(1), torch.ones(50, dtype=torch.float64))
    used = (share > 0).sum(1)
    assert int(used.min()) >= fewest and int(used.max()) <= 7


def test_shares_drift_slowly() -> None:
    cycles = torch.tensor([[0.0], [0.0]], dtype=torch.float64).expand(2, 3).clone()
    cycles[1] = torch.tensor([0.0, 0.5, 0.25])
    day = torch.tensor([22.5, 22.5 + 45.0], dtype=torch.float64).repeat_interleave(2000)
    share = proportions(day, cycles, stream(1), steady=5, swing=0.5, fewest=3)
    peak, trough = share[:2000].mean(0), share[2000:].mean(0)
    assert peak[0] > trough[0] + 0.2 and peak[1] < trough[1] - 0.2


def test_deliveries_vary_around_the_coal() -> None:
    _, coals = market(0)
    lots = deliveries(coals, 2000, stream(0, "lots"))
    assert lots["ro"].shape == (2000, len(coals["ro"]))
    assert float((lots["ro"].mean(0) - coals["ro"]).abs().max()) < 0.01
    assert torch.equal(lots["phosphorus"][0], coals["phosphorus"])
