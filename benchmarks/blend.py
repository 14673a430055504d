"""The blend planner: time for 20 coals, and the gap to brute force on 3-coal grids.

    OMP_NUM_THREADS=1 python benchmarks/blend.py --out benchmarks/results/blend.csv

Coals are simulated (fedlore_coke.coal), the models are a random network alone and the same behind
an expert's range, so that plans end on slopes and on steps. Nothing is trained: the planner sees a
model as it is. Brute force looks at every point of a grid in 1 % steps (5,151 blends of 3 coals);
for 20 coals in lots of 5 % and at most 3 of them it looks at all there are.
"""

import argparse
import resource
import statistics
import time
from dataclasses import replace
from functools import reduce

import numpy as np
import scipy
import torch
from setting import machine, write_csv

from fedlore.core.nets import mlp
from fedlore.core.one_shot import OneShotModel, solve
from fedlore.core.rng import key
from fedlore.core.scaler import Scaler, from_moments
from fedlore.core.tree import add, mean
from fedlore.engine import Client
from fedlore.engine.lore import default_space
from fedlore.engine.one_shot import one_shot_rows
from fedlore.knowledge import Knowledge, Mask
from fedlore.models.classifier import Personal
from fedlore.models.ensemble import Ensemble, OneShotMember
from fedlore_coke.blend import Coals, Order, check, feature_limit, model_limit, order_for, plan
from fedlore_coke.blend.judge import Goal, Judge
from fedlore_coke.blend.limits import lattice
from fedlore_coke.blend.tests import propose_test
from fedlore_coke.coal import BASIC, COLUMNS, market
from fedlore_coke.experts import COKE, Bounds, Expert, ExpertVerdict, refit
from fedlore_coke.plants import coking_plants


def coals(count: int, seed: int) -> Coals:
    """So many of the market's coals, with prices that follow quality and some luck."""
    kinds, table = market(seed)
    draw = np.random.default_rng(key(seed, "benchmark", "coals"))
    chosen = draw.choice(len(kinds), count, replace=False)
    own = {name: table[source].numpy()[chosen] for name, source in COLUMNS.items()}
    basic = table["basic"].numpy()[chosen]
    typical = sum(amount for amount, _ in BASIC.values())
    own |= {oxide: basic * amount / typical for oxide, (amount, _) in BASIC.items()}
    own |= {"SiO2": 0.65 * (95.4 - basic), "Al2O3": 0.35 * (95.4 - basic)}
    own["V9_V13"] = np.clip(100 - 150 * np.abs(own["Ro"] - 1.15), 0, 100)
    rank = 900 - 900 * (own["Ro"] - 1.2) ** 2 + 40 * (own["logMF"] - 2.8) - 15 * (own["Ad"] - 10)
    price = np.round(rank + 90 * draw.standard_normal(count), 1)
    names = tuple(f"{kinds[i]}-{i}" for i in chosen)
    return Coals(names, np.maximum(price, 100.0), own)


def model(seed: int, *, ranged: bool) -> Personal:
    """A random network on standardised features, alone or behind an expert's equation."""
    torch.manual_seed(key(seed, "benchmark", "model") % 2**31)
    middle = torch.tensor([(f.low + f.high) / 2 for f in COKE.features], dtype=torch.float64)
    width = torch.tensor([(f.high - f.low) / 6 for f in COKE.features], dtype=torch.float64)
    net = mlp(17, 20, hidden=(128, 128), seed=seed)
    with torch.no_grad():
        for values in net.parameters():
            values.mul_(2.0)  # opinions strong enough to differ
    seen = refit.columns
    expert = Expert(refit, 0.0)
    known = Knowledge(Mask(seen, ExpertVerdict(expert)), Mask(seen, Bounds(expert, 6.0)), 0.3)
    return Personal(net, known if ranged else None, scaler=Scaler(middle, width))


def doubting(seed: int) -> Personal:
    """The one-shot model of a simulated plant, which knows its ignorance and a range."""
    plants = coking_plants(seed, test_rows=1)
    clients = [Client(p.id, p.train, p.knowledge) for p in plants]
    scaler = from_moments(mean(({"m": c.sums()}, 1.0) for c in clients)["m"])
    one_shot = default_space(17, ordered=True).one_shot
    rows = {c.id: one_shot_rows(c, one_shot, scaler, classes=20) for c in clients}
    total = reduce(add, (one.sums() for one in rows.values()))
    found = solve(total, one_shot.basis.groups(one_shot.columns(17)))
    member = OneShotMember(OneShotModel(one_shot, found, rows["plant-2"].home(found), 20), scaler)
    ensemble = Ensemble((member,), (1.0,), 0.0)
    return Personal(mlp(17, 20, hidden=()), clients[1].knowledge, scaler=scaler, ensemble=ensemble)


def trials(seeds: int) -> list[dict[str, object]]:
    """Whole plans for 20 coals by a model that doubts itself, and the test that is worth most."""
    rows = []
    for seed in range(seeds):
        offer, personal = coals(20, seed), doubting(seed)
        order = order_for(
            personal, COKE, offer, "grade>=CSR54", confidence=0.9,
            fixed={"Mt": 10.0, "coking_time": 20.0},
        )  # fmt: skip
        wall, busy = time.perf_counter(), time.process_time()
        found = plan(order, seed=seed)
        middle = time.process_time()
        if found.blend is not None:
            propose_test(order, found, seed=seed)
        wall, busy = time.perf_counter() - wall, time.process_time() - busy
        rows.append({
            "case": "20 coals and a trial", "model": "one-round", "seed": seed, "coals": 20,
            "target": order.target.text, "confidence": order.confidence,
            "cost": "" if found.blend is None else round(found.blend.cost, 3),
            "brute_force": "", "gap_percent": "", "checked": found.blend is not None,
            "seconds": round(wall, 1), "cpu_seconds": round(busy, 1),
            "trial_cpu_seconds": round(time.process_time() - middle, 1),
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def limited(seeds: int) -> list[dict[str, object]]:
    """Whole plans for 20 coals that keep two more limits: a feature, and a second model."""
    rows = []
    for seed in range(seeds):
        offer, personal = coals(20, seed), doubting(seed)
        fixed = {"Mt": 10.0, "coking_time": 20.0}
        order = order_for(personal, COKE, offer, "grade>=CSR50", confidence=0.9, fixed=fixed)
        side = model_limit(personal, COKE, offer, "grade<=CSR60", confidence=0.9, fixed=fixed)
        order = replace(order, also=(feature_limit(order.recipe, "Ad<=11"), side))
        wall, busy = time.perf_counter(), time.process_time()
        found = plan(order, seed=seed)
        wall, busy = time.perf_counter() - wall, time.process_time() - busy
        rows.append({
            "case": "20 coals and two more limits", "model": "one-round", "seed": seed,
            "coals": 20, "target": order.target.text, "confidence": order.confidence,
            "cost": "" if found.blend is None else round(found.blend.cost, 3),
            "brute_force": "", "gap_percent": "", "checked": found.blend is not None,
            "seconds": round(wall, 1), "cpu_seconds": round(busy, 1),
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def reachable(order_of, parts: int) -> tuple[Order, float]:
    """The hardest target that a few blends of the grid reach, and the cheapest of these."""
    order = order_of("grade>=1", 0.5)
    grid = lattice(order.limits, parts)
    everything = [order.grader.target(f"grade>={at}") for at in range(1, 20)]
    seen = Judge(order.recipe, order.grader, tuple(everything))(grid)
    cost = grid @ order.coals.price
    for place in reversed(range(len(everything))):
        for confidence in (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3):
            good = seen.good(Goal(place, confidence, False, order.scope))
            if 0.01 < good.mean() < 0.5:
                return order_of(f"grade>={place + 1}", confidence), float(cost[good].min())
    raise SystemExit("no interesting target")


def gaps(seeds: int) -> list[dict[str, object]]:
    """Plans for 3 coals against all blends in 1 % steps."""
    rows = []
    for seed in range(seeds):
        for ranged in (False, True):
            offer, personal = coals(3, seed), model(seed, ranged=ranged)

            def order_of(target, confidence, offer=offer, personal=personal):
                return order_for(
                    personal, COKE, offer, target, confidence=confidence,
                    fixed={"Mt": 10.0, "coking_time": 20.0}, scope=False,
                )  # fmt: skip

            order, best = reachable(order_of, 100)
            found = plan(order, seed=seed, compare=False)
            assert found.blend is not None
            shares = np.array([found.blend.shares.get(name, 0.0) for name in offer.names])
            gap = 100 * (found.blend.cost / best - 1)
            rows.append({
                "case": "3 coals, 1 % grid", "model": "range" if ranged else "network",
                "seed": seed, "coals": 3, "target": order.target.text,
                "confidence": order.confidence, "cost": round(found.blend.cost, 3),
                "brute_force": round(best, 3), "gap_percent": round(gap, 4),
                "checked": not check(order, shares), "seconds": "",
            })  # fmt: skip
    return rows


def twenty(seeds: int) -> list[dict[str, object]]:
    """Whole plans for 20 coals: free shares (timed), and lots against all that there are."""
    rows = []
    for seed in range(seeds):
        offer, personal = coals(20, seed), model(seed, ranged=True)
        for case, lots, most in (("20 coals", None, None), ("20 coals, 3 in lots of 5 %", 5.0, 3)):

            def order_of(target, confidence, lots=lots, most=most, offer=offer, personal=personal):
                return order_for(
                    personal, COKE, offer, target, confidence=confidence, lots=lots,
                    most_coals=most, fixed={"Mt": 10.0, "coking_time": 20.0},
                )  # fmt: skip

            # the same target for both, one that some blend in lots reaches
            order, best = reachable(lambda t, c: order_of(t, c, 5.0, 3), 20)
            if lots is None:
                order = order_of(f"grade>={int(order.target.low)}", order.confidence)
            wall, busy = time.perf_counter(), time.process_time()
            found = plan(order, seed=seed)
            wall, busy = time.perf_counter() - wall, time.process_time() - busy
            assert found.blend is not None
            shares = np.array([found.blend.shares.get(name, 0.0) for name in offer.names])
            rows.append({
                "case": case, "model": "range", "seed": seed, "coals": 20,
                "target": order.target.text, "confidence": order.confidence,
                "cost": round(found.blend.cost, 3), "brute_force": round(best, 3),
                "gap_percent": round(100 * (found.blend.cost / best - 1), 4),
                "checked": not check(order, shares), "seconds": round(wall, 1),
                "cpu_seconds": round(busy, 1),
            })  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--twenty", type=int, default=3, help="seeds with 20 coals")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", help="CSV file to write")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    small = gaps(options.seeds)
    large = twenty(options.twenty) + trials(options.twenty) + limited(options.twenty)
    worst = max(float(row["gap_percent"]) for row in small)
    print(f"3 coals: {len(small)} plans, largest gap {worst:+.3f} %, mean "
          f"{statistics.mean(float(row['gap_percent']) for row in small):+.3f} %")  # fmt: skip
    slowest = max((float(row["seconds"]) for row in large), default=0.0)
    peak = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(f"20 coals: {len(large)} plans, slowest {slowest:.1f} s; {peak} MB at most")
    rows = [
        {
            "cpu_seconds": "",
            "trial_cpu_seconds": "",
            **row,
            "peak_mb": peak,
            "scipy": scipy.__version__,
            **machine(),
        }
        for row in (*small, *large)
    ]
    if options.out and rows:
        write_csv(rows, options.out)


if __name__ == "__main__":
    main()
