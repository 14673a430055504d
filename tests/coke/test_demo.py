"""The demo's numbers: deterministic, and told as they are."""

import math
from dataclasses import replace

import pytest

from fedlore import Plan
from fedlore.experiments.intervals import interval, pair_interval
from fedlore_coke.demo import Demo, margins, means, run_demo, verdict

pytestmark = pytest.mark.usefixtures("short_recipe")
SMALL = Demo(rounds=2, hidden=(8,), plan=Plan(epochs=1), rows=(10, 11, 12, 13), test_rows=30)


@pytest.mark.slow
def test_the_demo_is_deterministic_under_its_seed():
    rows = run_demo(SMALL, seed=1)
    assert rows == run_demo(SMALL, seed=1)
    assert rows != run_demo(SMALL, seed=2)
    assert len(rows) == 32
    assert {"approach", "client", "seed", "ta", "pov"} <= set(rows[0])


def rows_of(**ta) -> list[dict]:
    """Two seeds, one client, the given accuracies (and 0.01 more in the second seed)."""
    pov = {"ML": 0.1, "FL": 0.05}
    return [
        {"approach": a, "client": "p", "seed": s, "ta": v + 0.01 * s, "pov": pov.get(a, 0.0)}
        for a, v in ta.items()
        for s in (0, 1)
    ]


EVEN = {"local best": 0.58, "ML": 0.5, "P-KM": 0.4, "MLwKM": 0.45, "FL": 0.55, "FLwKM": 0.5}
EVEN |= {"FL+mask": 0.6}


def test_the_verdict_says_what_helped_and_what_did_not():
    said = verdict(rows_of(**EVEN, lore=0.7))
    assert said.startswith(
        "On its own, a site's best model is right on 58.5 % of its test rows; with the federation "
        "(lore) 70.5 % (+12.0"
    )
    assert "ML, P-KM, MLwKM, FL and FLwKM do worse than a site on its own" in said
    assert "Federation of the same network moved accuracy by +5.0 points" in said
    assert "knowledge helped FL+mask (+5.0) and lore (+15.0)" in said
    assert "knowledge did not help MLwKM (-5.0) and FLwKM (-5.0)" in said
    assert "no prediction left the range, without it 10.0 % (ML) and 5.0 % (FL) did" in said


def test_margins_are_paired_by_seed():
    gaps = margins(rows_of(**EVEN, lore=0.7))
    assert math.isclose(gaps["ML"].mean, 0.2) and gaps["ML"].half < 1e-9


def test_means_are_over_clients_within_a_seed():
    rows = rows_of(ML=0.5) + [dict(r, client="q", ta=r["ta"] + 0.2) for r in rows_of(ML=0.5)]
    assert means(rows, "ta")["ML"] == pytest.approx([0.6, 0.61])


def test_intervals_by_hand():
    # sd of 1, 2, 3 is 1; t with 2 degrees of freedom is 4.303; 4.303 / sqrt(3)
    assert interval([1.0, 2.0, 3.0]).half == pytest.approx(2.4843, abs=1e-3)
    assert math.isnan(interval([1.0]).half)
    assert pair_interval([2.0, 4.0], [1.0, 3.0]).low == 1.0


def test_the_long_tail_of_the_t_table_is_close():
    wide = interval([0.0, 1.0] * 50)
    assert wide.half == pytest.approx(1.98422 * math.sqrt(100 / 99 * 0.25) / 10, rel=1e-3)


@pytest.mark.slow
def test_settings_of_the_demo_reach_the_plants():
    assert run_demo(replace(SMALL, blur=4.0), seed=1) != run_demo(SMALL, seed=1)
