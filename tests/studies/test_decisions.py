"""Plans judged by the law: the law itself, stocks, the search, and the table."""

import numpy as np
import pytest
import torch

from fedlore.core.rng import stream
from fedlore.engine import Client
from fedlore_coke.coal import LARGEST
from fedlore_coke.experts import BOUND, NOISE
from fedlore_coke.plants import coking_plants
from studies.decision_figures import clustered, draw_figure, summary
from studies.decisions import (
    CONFIDENCES,
    EQUATION,
    Yard,
    _add_oracle,
    _equation,
    _plan,
    drawing,
    find,
    one_round,
    plans,
    plant_stock,
    targets,
)


@pytest.fixture(scope="module")
def plants():
    return coking_plants(100, test_rows=300)


def test_the_law_says_how_often_a_grade_is_reached(plants):
    law, x = plants[1].law, plants[1].test.x[:1].repeat(20_000, 1)
    baked = law.bake(x, stream("law"))
    mean = float(law.mean(x)[0])
    assert float(baked.mean()) == pytest.approx(mean, abs=0.03)
    for csr in (mean - 1.0, mean, mean + 1.5):
        said = float(law.chance(x[:1], csr)[0])
        assert said == pytest.approx(float((baked >= csr).double().mean()), abs=0.012)
    ends = law.chance(x[:2], mean - 2 * NOISE - 0.01), law.chance(x[:2], mean + 2 * NOISE + 0.01)
    assert (ends[0] == 1.0).all() and (ends[1] == 0.0).all()


def test_no_law_leaves_its_expert_by_more_than_the_bound(plants):
    for plant in plants:
        told = plant.law.expert(plant.test.x[:, plant.law.expert.equation.columns])
        assert ((plant.test_coke.csr - told).abs() <= BOUND).all()
        assert ((plant.law.mean(plant.test.x) - told).abs() <= BOUND - 2 * NOISE).all()


def test_a_stock_holds_what_the_plant_knows_and_some_new_coals(plants):
    plant = plants[0]
    stock = plant_stock(plant, 100)
    assert len(stock) == len(plant.kinds) + 4
    assert stock.properties["Ro"][: len(plant.kinds)].tolist() == plant.coals["ro"].tolist()
    assert not set(stock.properties["Ro"][-4:]) & set(plant.coals["ro"].tolist())
    assert stock.most[0] == LARGEST["JM"] / 100
    same, other = plant_stock(plant, 100), plant_stock(plants[1], 100)
    assert stock.price.tolist() == same.price.tolist() and len(other) != len(stock)


def test_a_search_ends_at_a_blend_that_holds_and_costs_no_less_than_the_oracle(plants):
    yard = Yard.of(plants[1], 100)
    chance = _equation(plants[1])
    seen, place = chance(yard.rows(yard.pool)), 4
    target = targets(plants[1])[place]
    none = yard.pool[:0]
    blend, said, best = find(yard, chance, place, 0.5, seen[:, place], none)
    again = find(yard, chance, place, 0.5, seen[:, place], best)[0]
    assert again @ yard.coals.price <= blend @ yard.coals.price  # what is known is a start
    assert said == 1.0 and yard.limits.holds(blend[None])[0] and len(yard.inside(blend[None])[0])
    cost = yard.pool @ yard.coals.price
    assert float(blend @ yard.coals.price) < cost[seen[:, place] >= 0.5].min()  # it went further
    rows = [{"plant": plants[1].id, "target": target.text} | _plan(yard, target, (blend, said))]
    _add_oracle(rows, [yard])
    assert rows[0]["oracle"] <= rows[0]["cost"]
    true = plants[1].law.chance(yard.rows(yard.pool), 30 + 2 * target.low).numpy()
    assert rows[0]["oracle"] <= cost[true >= rows[0]["true"]].min() + 1e-9
    never = plans(yard, lambda x: np.zeros((len(x), 6)), (0.5,))
    assert len(never) == 6 and set(never.values()) == {None}


def test_the_one_round_model_alone_is_what_promises(plants):
    clients = [Client(p.id, p.train, p.knowledge) for p in plants]
    personal = one_round(clients)[2]
    known = personal.annotate(plants[2].test.x)
    exact = personal.ensemble.members[0].log_probs(known)
    assert torch.allclose(personal.log_probs(known).exp(), exact.exp().float(), atol=1e-6)
    right = (exact.argmax(1) == plants[2].test.y).double().mean()
    assert right > 0.35  # of 20 grades


def row(planner, seed, confidence, promised, true, cost, oracle):
    return {"planner": planner, "seed": seed, "plant": "p", "target": "t", "confidence": confidence,
            "promised": promised, "true": true, "cost": cost, "oracle": oracle}  # fmt: skip


ROWS = [
    row("lore 1, raw", 1, 0.9, 0.9, 0.5, 110.0, 100.0),
    row("lore 1, raw", 2, 0.9, 0.9, 0.8, 130.0, 100.0),
    row("safe", 1, 0.9, 0.9, 0.95, 105.0, 100.0),
    row("safe", 1, 0.9, 0.92, 0.97, 103.0, 100.0),
    row("safe", 2, 0.9, 0.9, 0.6, 102.0, 100.0),
    row("safe", 2, 0.9, None, None, None, None),
    row(EQUATION, 1, 0.9, 1.0, 0.3, 90.0, 80.0),
]


def test_the_table_counts_refused_plans_and_clusters_by_drawing():
    lines = summary(ROWS)
    assert lines[2].startswith("| lore 1, raw | 0.9 | 2 | 2 | 0 | -0.250 ±")
    safe = [cell.strip() for cell in lines[3].split("|")]
    assert safe[3:6] == ["2", "3", "1"]  # drawings, plans, refused
    # drawings count alike: the mean of +0.05 and of -0.3
    assert safe[6].startswith("-0.125") and safe[7] == "+0.050"
    assert safe[8] == "33.3 %" and safe[9] == "33.3 %"
    assert safe[10].startswith("3.0") and safe[11] == "15 %"
    assert "-0.600" in lines[4]  # an equation promises what was asked for
    assert clustered(ROWS[:2], lambda r: r["cost"]).mean == 120.0


def test_the_figure_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    draw_figure(ROWS, tmp_path / "a" / "decisions.png")
    assert (tmp_path / "a" / "decisions.png").stat().st_size > 10_000


@pytest.mark.slow
def test_promises_hold_on_a_drawing_that_was_developed_on():
    rows = drawing(100)
    assert len(rows) == 4 * 6 * len(CONFIDENCES) * 4
    safe = [r for r in rows if r["planner"] == "safe" and r["confidence"] == 0.9 and r["cost"]]
    old = [
        r for r in rows if r["planner"] == "lore 1, raw" and r["confidence"] == 0.9 and r["cost"]
    ]
    assert np.mean([r["true"] for r in safe]) > 0.85 > np.mean([r["true"] for r in old])
