"""Core: scalings, losses, ordered classes, scores, the one-shot model, bets, cuts, centres."""

import math

import torch

from fedlore.core import aggregate, conformal, inject, lipschitz, metrics, one_shot, ordinal, scaler
from fedlore.core import statistics as st
from fedlore.core.examples import Examples

from .values import tried

NAN, INF = math.nan, math.inf


def _grid(n: int, d: int, size: int = 5) -> torch.Tensor:
    """Whole numbers around 0 in which there are ties."""
    i, j = torch.arange(n).unsqueeze(1), torch.arange(d)
    return ((i * (2 * j + 3) + i * i // 3 + j) % size - size // 2).float()


def _classes(n: int, k: int) -> torch.Tensor:
    return (torch.arange(n) * 7 // 3) % k


def _shares(n: int, k: int) -> torch.Tensor:
    """Probabilities with ties and zeros."""
    rows = (_grid(n, k) + 2).double()
    rows[rows.sum(1) == 0] = 1.0
    return rows / rows.sum(1, keepdim=True)


def _inputs() -> scaler.Inputs:
    one = scaler.Input
    return scaler.Inputs(
        (
            one(),
            one(missing=True, stand="mean", fill=9.0),
            one(missing=True, stand="median", fill=2.0, low=-2.0, high=2.0),
            one(levels=2, other=True, missing=True, fill=NAN),
            one(levels=3),
            one(missing=True, fill=7.0),
        )
    )


def _holes() -> torch.Tensor:
    x = _grid(12, 6)
    x[:, 3], x[:, 4] = _classes(12, 3).float(), _classes(12, 4).float()
    x[::3, 1], x[1::3, 2], x[2::5, 3], x[4::4, 5] = NAN, NAN, NAN, NAN
    return x


def encoded_rows_and_their_sums():
    inputs, x = _inputs(), _holes()
    wide = inputs.encode(x)
    found = inputs.moments(x)
    made = scaler.from_moments(found, inputs)
    longer = torch.cat([x, _grid(12, 1)], 1)
    nobody = torch.where(torch.arange(6) == 1, NAN, x)
    small = scaler.Inputs(inputs.features[:2])
    return [
        wide, inputs.decode(wide), inputs.decode(x), inputs.flags, inputs.width, inputs.fills,
        {n: t for n, t in found.items() if n != "histograms"},
        found["histograms"][0].nonzero(), found["histograms"][0][found["histograms"][0] > 0],
        made.tensors(), made(x), made.encode(wide), made.widen(2).tensors(),
        scaler.from_moments(inputs.moments(nobody), inputs).tensors(),
        inputs.moments(longer)["sum"], scaler.Scaler.read(made.tensors(), inputs)(x),
        inputs.without_fills().fills, inputs.with_fills(range(6)).fills,
        [f.low for f in inputs.join(inputs).features], inputs.join(inputs).fills,
        scaler.leave_unscaled(inputs).tensors(), scaler.Scaler.of(_grid(4, 2)).tensors(),
        small.encode(x[:, :2]), small.decode(small.encode(x[:, :2])),
        tried(inputs.encode, x[:, :5]), tried(inputs.encode, x[0]), scaler.moments(x[:, :1]),
    ]  # fmt: skip


def medians_of_histograms():
    one = scaler.Input(missing=True, stand="median", low=-2.0, high=2.0)
    kept = []
    for values in ([], [NAN], [0.0], [-2.0, 2.0], [-9.0, 1.0, 1.0, 30.0], [0.5] * 3 + [1.5] * 3):
        counts = scaler._histogram(torch.tensor(values), one)
        kept.append([counts.sum(), scaler._median(counts, -2.0, 2.0)])
    return kept, scaler._median(torch.tensor([1.0, 0.0, 0.0, 1.0]), 0.0, 4.0)


def injected_knowledge():
    f, prior = _grid(9, 3), _shares(9, 3).float()
    prior[::4] = 0.0
    allowed = _grid(9, 3) >= -1
    allowed[:, 1] = True
    each = torch.linspace(0, 1, 9)
    y, target = _classes(9, 3).unsqueeze(1), _shares(9, 3).float()
    hard = torch.zeros(9, 3).scatter_(1, y, 1.0)
    wall = torch.zeros(9, 3).masked_fill(~allowed, -INF)
    odds = inject.odds_of(prior, y, 0.4)
    return [
        [inject.inject(f, p, a, t) for p in (None, prior) for a in (None, allowed)
         for t in (0.0, 0.3, 1.0, each, each.unsqueeze(1))],
        inject.fill_trust(None, 0.2), inject.fill_trust(torch.tensor([NAN, 0.0, 1.0]), 0.2),
        inject.guard(torch.tensor([NAN, INF, -INF, 1.0])), odds,
        inject.odds_of(prior, None, 0.4), inject.odds_of(torch.tensor([[1.0, 0.0]]), None, 1.0),
        inject.pair_of(hard, odds, wall), inject.pair_of(hard), inject.pair_of(hard, None, wall),
        inject.slope(f, hard), inject.slope(f, target, wall=wall, plain=0.25),
        inject.slope(f, hard, pair=inject.pair_of(hard, odds, wall), plain=0.5),
        inject.slope(f, target, odds=inject.odds_of(prior, None, 0.4), wall=wall),
        inject.slope(f.T, target.T, odds=inject.odds_of(prior, None, 0.4).T, dim=0),
        inject.slope(f.unsqueeze(0), hard.unsqueeze(0), plain=1.0),
    ]  # fmt: skip


def lessons():
    x, y, prior = _grid(9, 2), _classes(9, 3), _shares(9, 3).float()
    allowed = _grid(9, 3) >= 0
    allowed[:, 1] = True
    soft = Examples(x, y, prior, allowed | (y.unsqueeze(1) == torch.arange(3)), _shares(9, 3))
    hard = Examples(x, y, prior, allowed)
    kept = []
    for data, more in [
        (hard, {}), (hard, {"outside": "drop"}), (hard, {"outside": "widen", "trust": 0.3}),
        (hard, {"outside": "widen", "floor": 0.5}), (hard, {"outside": "widen", "heard": False}),
        (soft, {"trust": 0.4}), (soft, {"trust": 0.0}), (soft, {"trust": 1.0}),
        (soft, {"floor": 1.0}), (soft, {"floor": -0.1}), (Examples(x), {}),
        (Examples(x, y * 0, None, torch.zeros(9, 3).bool()), {"outside": "drop"}),
        (Examples(x, y), {"trust": 0.5}),
    ]:  # fmt: skip
        kept.append(tried(inject.teach, data, 3, **more))
    taught = inject.teach(soft, 3, trust=0.4, floor=0.1)
    f = _grid(9, 3) * 2
    kept.append([taught.loss(f), taught.error(f), taught.error(f, 0.5), len(taught)])
    kept.append([[len(part) for part in taught.batches(size)] for size in (1, 4, 9, 10)])
    told = inject.teach(hard, 3, trust=0.4, outside="widen")
    kept.append([told.loss(f), inject.teach(Examples(x, y), 3).loss(f), told[1:3].pair])
    return kept


def places_and_widths_of_ordered_classes():
    place = torch.tensor([-1e20, -3.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5, 9.0, 1e20])
    prior, allowed = _shares(6, 4), _grid(6, 4) >= -1
    prior[0] = 0.0
    allowed[:, 2] = True
    like = torch.zeros(6)
    stated = torch.stack([_grid(6, 1)[:, 0], _grid(6, 1)[:, 0] - 1, _grid(6, 1)[:, 0] + 1], 1)
    stated[1], stated[3, 2] = NAN, NAN
    kept = [[f(place, torch.full_like(place, w), k) for w in (1e-6, 0.5, 3.0, 1e9) for k in (2, 4)]
            for f in (ordinal.log_cells, ordinal.normal_cells)]  # fmt: skip
    for p in (None, prior):
        for a in (None, allowed):
            for s in (None, stated):
                kept.append(ordinal.find_places(p, a, like=like, classes=4, stated=s))
    middle, expert = kept[-1]
    for around in ("middle", "expert"):
        for a, s in ((None, None), (allowed, None), (allowed, stated)):
            link = ordinal.Link(around, 0.5)
            bend = ordinal.make_bend(link, middle, expert, a, classes=4, stated=s)
            kept += [vars(bend), ordinal.bend_place(like + 0.5, bend)]
    kept += [ordinal.bend_place(like, None), ordinal.heard_numbers(middle, expert, 4)]
    kept += [ordinal.lay_between(torch.linspace(-1, 4, 11), 4)]
    kept += [ordinal.place_among(torch.linspace(0, 60, 13), (10.0, 20.0, 40.0))]
    return kept


def ordered_networks():
    x, prior, allowed = _grid(6, 2), _shares(6, 4).float(), _grid(6, 4) >= -2
    kept = []
    for options in (
        None, ordinal.Ordinal(start="middle"), ordinal.Ordinal(start="expert", hears=False),
        ordinal.Ordinal(linear=False, reach=0.5), ordinal.Ordinal(hears=False, width=1.5),
    ):  # fmt: skip
        for hidden in ((3,), ()):
            model = ordinal.ordered_mlp(2, 4, hidden=hidden, options=options, seed=1)
            parts = dict(model.named_parameters())
            kept.append([{n: t.shape for n, t in parts.items()}, model.hears, model.extra_repr()])
            with torch.no_grad():
                for i, (name, t) in enumerate(sorted(parts.items())):
                    zero = name.startswith(("line", "own")) and bool((t == 0).all())
                    t.copy_((torch.arange(t.numel()) % 3 - 1).view(t.shape) / (i + 2))
                    kept[-1].append(zero)
                kept[-1] += [model.normal(x, prior, allowed), model(x, prior, allowed), model(x)]
    said = ordinal.Ordinal(start="none", reach=None)
    return [*kept, said.unit(8), ordinal.Ordinal(start="middle").unit(8)]


def settings_of_core_that_are_taken_and_refused():
    pairs = [(ordinal.Link, {"share": s}) for s in (-1.0, 0.0, 1e-9, 1.0, INF, NAN)] + [
        (ordinal.Ordinal, {n: s}) for n in ("width", "reach") for s in (0.0, 1e-9, 2.0, INF)
    ]
    pairs += [(lipschitz.Shaping, {"features": f}) for f in (0, 1)]
    pairs += [
        (lipschitz.Shaping, {"features": 1, n: s})
        for n in ("slope", "width")
        for s in (0.0, 1e-9, INF)
    ] + [(ordinal.Link, {"around": "here"}), (ordinal.Ordinal, {"start": "here"})]
    pairs += [(one_shot.Basis, {"curves": c}) for c in (-1, 0, 1)]
    pairs += [(one_shot.Basis, {"terms": "cubes"}), (one_shot.OneShot, {"start": "here"})]
    pairs += [(aggregate.Trimmed, {"share": s}) for s in (-0.1, 0.0, 0.49, 0.5)]
    pairs += [(aggregate.aggregate_of, {"choice": c}) for c in ("mean", "median", "mode")]
    pairs += [(conformal.check_level, {"level": s}) for s in (0.0, 1e-9, 0.999, 1.0)]
    pairs += [
        (metrics.check_metric, {"metric": m, "numbers": n})
        for m in ("", "mae", "accuracy", "best")
        for n in (True, False)
    ]
    pairs += [(ordinal.ordered_mlp, {"features": 1, "classes": 1})]
    pairs += [
        (
            lambda classes: lipschitz.lipschitz_mlp(classes, lipschitz.Shaping(1)).unit,
            {"classes": k},
        )
        for k in (1, 2)
    ]
    return [tried(make, **said) for make, said in pairs]  # fmt: skip


def shaped_networks():
    kept = []
    x = _grid(7, 2)
    ways = torch.tensor([1.0, -1.0])
    for start, hears in (("none", True), ("middle", False), ("expert", True)):
        model = lipschitz.lipschitz_mlp(
            4, lipschitz.Shaping(2, hears=hears, start=start, slope=0.5), hidden=(5, 4), seed=2
        )
        with torch.no_grad():
            for i, t in enumerate(model.parameters()):
                t.copy_((torch.arange(t.numel()) % 5 - 2).view(t.shape) / (i % 3 + 1))
        signs = torch.full((7, 8), NAN)
        signs[:, :2], signs[:, 6:] = ways, torch.tensor([1.0, NAN])
        signs[3:, 2:6] = torch.tensor([-1.0, 0.0, -1.0, 1.0])
        rows = Examples(x, None, _shares(7, 4), _grid(7, 4) >= -2, signs=signs)
        scale = scaler.Scaler(torch.tensor([1.0, -1.0]), torch.tensor([2.0, 0.5]))
        for some in (None, scale):
            laid = lipschitz.lay_shapes(model, rows, some)
            kept += [laid.x, model.normal(laid.x), model(laid.x)]
        again = lipschitz.lay_shapes(model, laid)
        kept += [torch.equal(again.x, laid.x), model.normal(x), model.normal(x.unsqueeze(2))]
        bare = lipschitz.lay_shapes(model, Examples(x))
        kept += [bare.x, lipschitz.lay_shapes(model, Examples(x[:0])).x.shape]
        kept += [
            tried(model.normal, x[:, :1]),
            tried(lipschitz.lay_shapes, torch.nn.Linear(2, 4), rows),
        ]
    kept += [tried(lipschitz.lay_shapes, torch.nn.Linear(2, 4), Examples(x, signs=signs * 0))]
    kept += [[lipschitz.tame(_grid(3, 4) / 2, place) for place in (0, 1)]]
    kept += [lipschitz.columns_of_features(6, inputs) for inputs in (None, _inputs())]
    kept += [lipschitz.Sorted()(_grid(3, 5)), lipschitz.Sorted()(_grid(3, 4))]
    kept += [
        lipschitz._cut(_grid(7, 2), torch.full((7, 2), s), *ends)
        for s in (-1.0, 0.0, 1.0)
        for ends in [
            (torch.full((7, 2), a), torch.full((7, 2), b))
            for a, b in ((-1.0, 1.0), (1.0, 2.0), (-2.0, -1.0), (NAN, NAN))
        ]
    ]
    return kept  # fmt: skip


def scores_of_classes():
    p, y = _shares(40, 4), _classes(40, 4)
    logs = p.clamp(min=1e-12).log()
    few = torch.tensor([0, 0, 2, -1, 2, 1]), torch.tensor([0, 2, 2, 0, 0, 1])
    counts = metrics.count_pairs(*few, 4)
    nobody = metrics.count_pairs(torch.tensor([-1]), torch.tensor([0]), 2)
    one = metrics.count_pairs(torch.tensor([1, 1]), torch.tensor([1, 1]), 2)
    prior = _shares(40, 4)
    exact = torch.tensor([[0.5, 0.0, 0.5], [0.0, 0.5, 0.5], [0.25, 0.25, 0.5], [0.0, 0.0, 1.0]])
    return [
        [metrics.row_costs(m, logs, y) for m in metrics.CLASS_METRICS],
        [metrics.row_costs(m, p[:, 0], p[:, 1]) for m in metrics.NUMBER_METRICS],
        metrics.accuracy(*few), metrics.nll(logs, y),
        [metrics.violation(few[0], torch.tensor([m] * 6).bool()) for m in ([1, 0, 0, 0], [0, 1,
         1, 1])],
        metrics.find_median(exact.log()), metrics.decide(logs), metrics.decide(logs, prior),
        metrics.decide(logs, prior, torch.zeros(40, 1)), metrics.decide(exact.log(), exact),
        counts, [metrics.per_class(c) for c in (counts, nobody, one)],
        [[f(c) for f in (metrics.macro_f1, metrics.balanced_accuracy, metrics.grade_error,
                         metrics.quadratic_kappa)] for c in (counts, nobody, one)],
        [metrics.class_scores(*few, 4, ordered=o) for o in (True, False)],
        metrics.class_scores(torch.tensor([-1]), torch.tensor([0]), 2, ordered=True),
    ]  # fmt: skip


def calibration_of_classes():
    p, y = _shares(60, 4), _classes(60, 4)
    low, high = _grid(9, 3).sort(1).values[:, :2], _grid(9, 3).sort(1).values[:, 1:]
    parts = metrics.reliability(p, y, bins=4)
    texts = ["", "0.4 0.2 8", "0.4 0.2", "0 1 1; 1 0 2", "1.1 0 1", "0 -0.1 1", "0 0 0", "a b c"]
    return [
        [metrics.reliability(p[:n], y[:n], bins=b) for n in (0, 1, 3, 19, 20, 60)
         for b in (None, 1, 4)],
        len(metrics.reliability(p.repeat(4, 1), y.repeat(4))),
        metrics.calibration_error(p, y), metrics.calibration_interval(p, y),
        metrics.brier(p, y), metrics.ranked_score(p, y),
        [metrics.class_reliability(p, y, ordered=o) for o in (True, False)],
        metrics.held_shares(low, high, _grid(9, 1)[:, 0], (0.5, 0.9)),
        [metrics.merge_bins(parts * 3, bins=b) for b in (1, 2, 5, 15)], metrics.merge_bins([]),
        [[f(some) for f in (metrics.bins_error, metrics.write_bins)] for some in (parts, [])],
        metrics.bins_interval(parts), [tried(metrics.read_bins, text) for text in texts],
    ]  # fmt: skip


def _one_shot_rows(n: int, start: str, link, basis, flags=()):
    shot = one_shot.OneShot(basis, start=start, link=link, flags=flags)
    prior, allowed = _shares(n, 4), _grid(n, 4) >= -1
    allowed[:, 1] = True
    x = _grid(n, 2)
    features, first, bend = shot.rows(x, prior, allowed, classes=4)
    rows = one_shot.OneShotRows(features, _classes(n, 4).double() - first, first, bend)
    return shot, x, prior, allowed, rows


def the_one_shot_model():
    kept = []
    for start, link, basis, flags in [
        ("none", None, one_shot.Basis("linear"), ()),
        ("middle", None, one_shot.Basis("squares", curves=1), ()),
        ("expert", ordinal.Link("expert", 0.7), one_shot.Basis("quadratic", curves=2), ()),
        ("middle", ordinal.Link(), one_shot.Basis(curves=3), (1,)),
    ]:
        shot, x, prior, allowed, rows = _one_shot_rows(30, start, link, basis, flags)
        groups = shot.groups(2)
        sums = rows.sums()
        found = one_shot.solve(sums, groups)
        home = rows.home(found)
        model = one_shot.OneShotModel(shot, found, home, 4)
        later = model.update(x[:4], _classes(4, 4), prior[:4], allowed[:4], weight=2.0)
        kept.append(
            [basis.counts(4), basis.places, basis.groups(4), groups, rows.features[:3],
             sums["free"], sums["cross"], sums["energy"], one_shot.unpack_gram(sums,
                 len(groups)).diagonal(),
             found.prior, found.noise, found.mean, found.covariance.diagonal(), home.level,
             home.rows, home.middle, model.normal(x[:5], prior[:5], allowed[:5]),
             model.logits(x[:3], prior[:3], allowed[:3]), model.leave_out(rows)[0][:6],
             model.leave_out(rows)[1][:6], model.out_of_fold_logits(rows)[:2],
             [t[:3] for t in model.slopes(x, prior, allowed)],
             later.normal(x[:4], prior[:4], allowed[:4]),
             later.home.rows, later.home.level, one_shot.squared_error(sums, found.mean),
             rows.sums(found.mean)["cross"], one_shot.sum_shapes(len(groups))]
        )  # fmt: skip
    return kept


def sums_of_the_one_shot_model_at_their_edges():
    rows = _one_shot_rows(3, "none", None, one_shot.Basis("linear"))[-1]
    sums = rows.sums()
    spoilt = sums | {"energy": sums["energy"] * 0.0}
    groups = torch.tensor([0, 0, 1, 1])
    return [
        tried(one_shot.sum_rows, rows.features, rows.target[:2]),
        tried(one_shot.sum_rows, rows.features[:0], rows.target[:0]),
        tried(one_shot.sum_rows, rows.features, rows.target, None, torch.zeros(3)),
        tried(one_shot.unpack_gram, sums, 3), tried(one_shot.solve, spoilt, groups),
        [tried(lambda f=f: one_shot.solve(sums | {"free": torch.tensor(f)}, groups).prior)
         for f in (0.0, 1e-3, 1.0)],
        tried(one_shot.solve, sums, torch.tensor([0, -1, -1, 0])),
    ]  # fmt: skip


def bets_and_shares():
    faults = [0, 0, 1, 0, 1, 1, 1, 0.5, 0, 1]
    numbers, before = [1.0, 2.0, 2.0, 5.0, 5.0, 6.0], [0.0, 2.0, 2.0, 3.0]
    draws = torch.tensor([0.0, 0.25, 0.5, 0.75, 0.9, 0.1]).numpy()
    return [
        st.bet_on_rate(faults, 0.05), st.bet_on_rate([], 0.05), st.bet_on_rate(faults, 0.3).most,
        st.rank_numbers(numbers, before, draws), st.rank_numbers(numbers, [], draws),
        [st.bet_on_order(numbers, before, draws, falls=f) for f in (True, False)],
        [st.wilson(r, n) for r in (0.0, 0.3, 1.0) for n in (1, 40)], st.wilson(0.5, 10, wide=1.0),
        [st.exact_share(r, 12, miss=m) for r in (0, 1, 7, 12) for m in (0.05, 0.2)],
        [st.at_most(c, 9, s) for c in (0, 4, 9) for s in (0.1, 0.7)],
        st.bet_on_rate([], 0.05).most, st.find_share(lambda p: p < 0.3),
    ]  # fmt: skip


def cuts_and_what_they_promise():
    scores = torch.tensor([0.1, 0.2, 0.2, 0.3, 0.5, 0.6, 0.7, 0.9, INF, 0.4])
    whole = torch.cat([torch.linspace(0, 0.9, 95), torch.full((5,), INF)])
    p, y = _shares(8, 4), _classes(8, 4)
    ends = torch.stack([_grid(8, 1)[:, 0], _grid(8, 1)[:, 0] + _grid(8, 1)[:, 0].abs()], 1)
    said = [conformal.CoveragePromise.of(some, level, whose)
            for some in (whole, whole.clamp(max=1.0)) for level in (0.8, 0.95, 0.96)
            for whose in ("kept", "unseen")]  # fmt: skip
    return [
        [tried(conformal.least_rows, s) for s in (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)],
        [tried(conformal.find_cut, scores, s) for s in (0.1, 0.5, 0.8, 0.9, 0.91)],
        [tried(conformal.held_band, n, 0.9) for n in (8, 9, 50)],
        [[one, one.holds, one.sentence()] for one in said],
        [conformal.list_promises(whole[:n], "kept") for n in (3, 4, 9, 19, 95)],
        conformal.class_misses(p, y), conformal.half_width(ends),
        conformal.number_misses(ends[:, 0], ends, ends[:, 1] + 1.0, low=ends[:, 0],
                                high=ends[:, 1] + torch.arange(8) % 2),
    ]  # fmt: skip


def centres_of_uploads():
    uploads = [({"w": {"a": _grid(3, 2, 7) * i, "b": torch.tensor([float(i * i)])}}, float(i))
               for i in range(1, 7)]  # fmt: skip
    kinds = (aggregate.Mean(), aggregate.Median(), aggregate.Trimmed(), aggregate.Trimmed(0.4),
             aggregate.Trimmed(1 / 3), aggregate.Trimmed(0.0))  # fmt: skip
    kept = [kind(uploads[:n]) for kind in kinds for n in (1, 2, 3, 5, 6)]
    return kept, [tried(aggregate.refuse_individuals, kind, hidden_by="it") for kind in kinds]


def rows_and_their_places():
    x, y = _grid(7, 1), _classes(7, 3)
    rows = Examples(x, y)
    bad = torch.tensor([[0.0], [NAN], [INF]])
    checks = [
        (Examples(x[:0]), {}), (Examples(bad), {}), (Examples(bad[:2]), {"holes": [0]}),
        (Examples(bad), {"holes": [0]}), (Examples(x, y), {"classes": 3}),
        (Examples(x, y), {"classes": 2}), (Examples(x, y - 1), {}), (Examples(x, y), {}),
    ]  # fmt: skip
    made = [
        {"x": x[:, 0]}, {"x": x.long()}, {"x": x, "y": y[:3]}, {"x": x, "y": y.int()},
        {"x": x, "y": y.unsqueeze(1)}, {"x": x.numpy(), "y": y.int().numpy()}, {"x": [[1.0]]},
        {"x": x, "prior": _shares(6, 3)},
    ]  # fmt: skip
    numbers = x[:, 0].double() * 3
    some = torch.where(torch.arange(7) < 2, numbers, NAN)
    return [
        [tried(one.check, **said) for one, said in checks], [tried(Examples, **m) for m in made],
        rows.aim, rows.place_numbers(numbers).aim, rows.place_numbers(some).place,
        rows.place_numbers(numbers, (0.0, 3.0)).place, rows.place_numbers(numbers, (0.0,)).place,
        [tried(lambda: Examples(x).aim), tried(rows.place_numbers, numbers[:3])],
        [len(part) for s in (0.0, 0.3, 0.5, 1.0) for part in rows.split(s, torch.Generator())],
        Examples.join([rows, rows[2:4]]), Examples.join([rows, Examples(x)]),
    ]  # fmt: skip
