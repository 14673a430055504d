"""Privacy: what noise costs, budgets and their sentences, words that masks are added to, graphs."""

import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from fedlore.core.aggregate import Mean, Median
from fedlore.privacy import settings
from fedlore.privacy.dp import budget, noise
from fedlore.privacy.secagg import fixedpoint, graph

from .values import tried

INF, DELTA = math.inf, 1e-5
ONE = noise.Release


def _bits(count: int) -> bytes:
    return bytes((i * i * 7 + 3 * i) % 256 for i in range(count))


def noise_from_bits():
    payload = {"w": {"a": torch.ones(2, 2), "b": torch.ones(3).double()}}
    words = [b"\x00" * 8, b"\xff" * 8, b"\x00\x08" + b"\x00" * 6]
    return [
        [noise.uniform(n, _bits) for n in (0, 1, 4)], [noise.gaussian(n, _bits) for n in (0, 1, 5)],
        [noise.uniform(1, lambda n, w=w: w) for w in words],
        [noise.with_noise(payload, s, _bits) for s in (0.0, 0.5)],
    ]  # fmt: skip


def what_noise_costs():
    some = [
        [],
        [ONE(1.0, 0)],
        [ONE(1.0)],
        [ONE(2.0, 4)],
        [ONE(1.0), ONE(2.0, 3)],
        [ONE(0.0)],
        [ONE(1e3)],
        [ONE(0.04, 1, 0.5)],
        [ONE(1.0, 3, 0.2), ONE(1.0, 2, 0.2)],
        [ONE(0.3, 50)],
    ]
    odd = [
        {"noise": -0.1},
        {"noise": math.nan},
        {"noise": 0.0},
        {"noise": 1.0, "steps": -1},
        {"noise": 1.0, "steps": True},
        {"noise": 1.0, "steps": 0},
        {"noise": 1.0, "sample": 0.0},
        {"noise": 1.0, "sample": 1.1},
        {"noise": 1.0, "sample": 1e-9},
    ]
    return [
        [[noise.epsilon_of(r, d) for d in (1e-5, 1e-2)] for r in some],
        [noise.affordable(r, e, DELTA) for r in some for e in (0.5, 4.0, 5.0)],
        [noise.affordable([ONE(1.0)], noise.epsilon_of([ONE(1.0)], DELTA) * f, DELTA)
         for f in (0.99, 1 - 1e-7, 1.0)],
        [noise._upwards(n) for n in (1, 2, 7, 8, 9, 11, 100)], [noise._join(r) for r in some],
        [tried(noise.noise_for, *a) for a in ((4.0, DELTA, 10), (0.5, DELTA, 1), (INF, DELTA, 3),
         (4.0, DELTA, 0), (0.0, DELTA, 1), (4.0, 0.0, 1), (4.0, 1.0, 1), (2.0, DELTA, 3, 0.3))],
        [tried(ONE, **o) for o in odd], sorted([ONE(2.0), ONE(1.0, 3), ONE(1.0, 2)]),
        [noise._log_normal(x) for x in (-60.0, -36.0, -1.0, 0.0, 3.0)],
        [noise._gaussian_delta(s, e) for s in (0.1, 1.0, 9.0) for e in (0.0, 1.0, 800.0)],
        [tried(f, x) for f in (noise.check_delta, noise.check_epsilon)
         for x in (-1.0, 0.0, 1e-9, 0.999, 1.0, INF)],
        noise._least(lambda s: 3.0 / s, 1.5, 8.0, close=1e-4),
    ]  # fmt: skip


def budgets_and_their_sentences():
    dp = budget.Dp(4.0, DELTA)
    odd = [
        {},
        {"level": "row"},
        {"where": "home"},
        {"clip": 0.0},
        {"clip": INF},
        {"sums": 0.0},
        {"sums": 1.0},
        {"noise": -1.0},
        {"noise": 0.0},
        {"noise": 0.0, "epsilon": INF},
        {"noise": INF},
        {"epsilon": 0.0},
        {"delta": 1.0},
    ]
    about = {"algorithm": "FedAvg", "exact": False, "weights": "equal"}
    kinds = [
        {},
        {"weights": "rows"},
        {"exact": True},
        {"aggregate": Mean()},
        {"aggregate": Median()},
    ]
    record = budget.Dp(4.0, DELTA, level="record")
    upload = {"w": {"a": torch.tensor([3.0, 4.0])}, "v": {"a": torch.tensor([12.0])}}
    spent = budget.Ledger()
    for i, level in enumerate(("site", "record", "site")):
        spent.spend(
            budget.LedgerEntry("r", i, level, 2.0, 2, 0.5 if level == "record" else 1.0),
            epsilon=INF,
            delta=DELTA,
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.json"
        here = budget.Ledger(path)
        here.spend(spent.entries()[0], epsilon=9.0, delta=DELTA)
        text, marks = path.read_text(), budget.read_marks(path)
        changed = [
            text.replace(*pair)
            for pair in (
                ("2.0", "3.0"),
                ('"count": 1', '"count": 2'),
                ('"format": 2', '"format": 1'),
                ('"steps": 2', '"steps": 1'),
                ("{", "["),
            )
        ]
        read = [
            settings.read_spending(p, privacy, most=most, delta=DELTA)
            for p in (path, Path(folder) / "none")
            for most in (None, 1.0)
            for privacy in (None, settings.Privacy(dp=dp))
        ]
        refused = []
        for one in changed:
            path.write_text(one)
            refused.append(tried(budget.Ledger, path))
    return [
        [tried(lambda o=o: replace(dp, **o).clip) for o in odd], text, marks, read, refused,
        [tried(budget.check_dp, d, **about | k) for d in (dp, record) for k in kinds],
        [budget.clip_upload(upload, b) for b in (1.0, 13.0, 14.0)],
        tried(budget.clip_upload, {"w": {"a": torch.tensor([math.nan])}}, 1.0),
        [budget.spent_line(d, [spent, here], sample=0.5) for d in (dp, record)],
        [budget.planned_line(d, 3.0, 10) for d in (dp, record)],
        [budget.bare_line(d, 3.0, 4, 10) for d in (dp, record, replace(dp, where="central"))],
        [dp.bound(k) for k in ("gram", "train")], replace(dp, noise=2.0).multiplier(3),
        [tried(spent.spend, spent.entries()[0], epsilon=e, delta=DELTA) for e in (0.1, 50.0)],
        [spent.spent(level, DELTA) for level in ("site", "record")],
    ]  # fmt: skip


def privacy_as_it_is_asked_for():
    dp = budget.Dp(4.0, DELTA)
    asked = [
        {},
        {"threshold": 0.5},
        {"threshold": 0.5, "secure_aggregation": True},
        {"encryption": "none"},
        {"encryption": "ckks"},
        {"dp": dp},
        {"secure_aggregation": True, "encryption": "ckks"},
        {"filters": {"dp": {}}},
        {"dp": replace(dp, where="central"), "secure_aggregation": True},
        {"dp": replace(dp, level="record", scores=False), "secure_aggregation": True},
    ]
    kept = []
    for one in asked:
        kept.append(
            tried(
                lambda o=one: [
                    getattr(settings.Privacy(**o), name)
                    for name in (
                        "epsilon",
                        "sums_alone",
                        "delta",
                        "noise_at",
                        "scores",
                        "spends",
                        "plugged",
                    )
                ]
            )
        )
        if isinstance(kept[-1], list):
            said = settings.Privacy(**one)
            kept.append([[d.name for d in said.defences()], said.needs(7), said.records(3) is None])
    return kept, [settings.privacy_table(s) for s in (True, False)]  # fmt: skip


def uploads_as_words():
    upload = {"w": {"b": torch.tensor([[0.5, -1.25]]), "a": torch.tensor([1e-3, -7.5]).double()},
              "v": {"h": torch.tensor([2.0]).half()}}  # fmt: skip
    kept = []
    for sites in (1, 2, 3, 50, 64):
        point = fixedpoint.FixedPoint(sites)
        layout, words = point.encode(upload, 3)
        kept.append(
            [
                point.head,
                point.bits,
                point.rest,
                layout,
                [int(w) for w in words],
                point.decode(words + words, layout),
                fixedpoint.encode_words(layout),
            ]
        )
    top = 2.0**point.head
    sizes = [("float32", fixedpoint.LARGEST_WORD), ("float64", top)]
    odd = [
        tried(lambda v=v: point.encode({"w": {"a": v}}, 1)[1].size)
        for v in (
            torch.tensor([math.nan]),
            torch.tensor([INF]),
            torch.tensor([1]),
            torch.zeros(0),
            *(
                torch.tensor([size * f], dtype=getattr(torch, kind))
                for kind, size in sizes
                for f in (1.0, 0.999, -1.0)
            ),
        )
    ]
    odd += [tried(point.encode, upload, w) for w in (0, 2**point.head)]
    odd += [tried(point.decode, words[1:], layout), tried(point.decode, words * 0, layout)]
    return kept, odd, tried(fixedpoint.read_summands, [["a", "int64", [1]]])  # fmt: skip


def graphs_of_sums():
    near = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], bool)
    edges = graph.draw_edges(bytes(range(32)), 9, 4.0)
    return [
        [graph.degree(n) for n in (3, 100, 101, 1000)], [graph.threshold_of(n) for n in (1, 7,
         25, 100)],
        edges, graph.draw_edges(bytes(32), 3, 9.0), graph._connected(near),
        graph._connected(near | ~np.eye(4, dtype=bool)), graph._connected(edges),
    ]  # fmt: skip
