"""Models: own learners, members as they are kept, mixtures, numbers from bins, doubts, effects."""

import math

import torch

from fedlore.answers import Bins, Measured, Sets
from fedlore.core.examples import Examples
from fedlore.core.scaler import Scaler
from fedlore.kernel.schema import Feature, Schema
from fedlore.models import attribution, benefit
from fedlore.models.distribution import Distribution
from fedlore.models.doubt import Doubt
from fedlore.models.own import baseline, bent, linear, members, mixture, trees
from fedlore.models.own.gaussian import GaussianLearner

from .room_core import _classes, _grid, _shares
from .values import tried

NAN, INF = math.nan, math.inf


def _rows(n: int = 40, d: int = 3) -> torch.Tensor:
    x = _grid(n, d, 9) / 2
    x[:, -1] = 1.5  # says nothing
    return x


def _target(n: int = 40) -> torch.Tensor:
    x = _rows(n)
    return (x[:, :1] - 0.5 * x[:, 1:2] + x[:, :1] * x[:, 1:2] / 4).double()


def linear_learners():
    x, y, c, at = _rows(), _target(), _classes(40, 4), _rows(5) + 0.25
    order = (y * 2 + 3).round().clamp(0, 5)
    ways = torch.tensor([1.0, -1.0, NAN])
    learners = [
        (linear.Ridge(""), y), (linear.Ridge("", quadratic=True), y),
        (linear.LogisticLearner("", 5), c), (linear.OrdinalLinear("", 6), order),
        (linear.OrdinalLinear(""), order - 2), (linear.SignedLinear(linear.Ridge(""), ways), y),
        (linear.SignedLinear(linear.Ridge(""), -ways), y),
    ]  # fmt: skip
    kept = []
    for one, target in learners:
        settings = list(one.settings)[::3]
        made = one.path(x, target, settings)
        kept.append(
            [
                one.trace(x, target, at, settings),
                [vars(m) for m in made[:2]],
                one.fit(x, target, settings[1])(at),
                one.near(settings[0]),
                made[0].outputs,
            ]
        )
    wide = linear._principal(torch.cat([_rows(5000)] * 2, 1).double(), _target(5000))
    kept += [wide[0], linear._principal(_rows(9).double(), _target(9))[0]]
    return kept  # fmt: skip


def _signs(*rows):
    """Of each input its direction and the ends of its turn; none is concave or convex."""
    return torch.tensor([*rows, [0.0] * len(rows[0])])


def parts_of_linear_learners():
    place = torch.tensor([-40.0, -0.5, 0.0, 0.5, 1.7, 2.5, 60.0])
    ends = torch.tensor([-INF, -3.0, 0.0, 3.0, INF])
    signs = _signs([1.0, -1.0, 0.0, NAN], [NAN, NAN, 2.0, NAN], [NAN, NAN, 3.0, NAN])
    weight = [[1.0, -1.0, 5.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, -1.0, 5.0, 1.0], [-1.0, -1, 0, 0]]
    ways = torch.tensor([1.0, -1.0, 0.0, NAN])
    return [
        [linear.log_masses(place, w, 4) for w in (0.3, 2.0)], linear.plain_ways(signs),
        linear.log_between(ends[:-1], ends[1:]), linear.log_between(ends[1:2], ends[2:3] - 2),
        [linear.weights_keep(torch.tensor(w), ways) for w in weight],
        linear.weights_keep(ways[:2], ways), linear.products(_grid(3, 3)),
        linear.standardise(_rows(9)), linear._density(ends, torch.zeros(5)),
        [f(torch.cat([_rows(9).double(), torch.ones(9, 1)], 1), _target(9)[:, 0] - 0.5,
           _target(9)[:, 0] + 0.5, *more, torch.tensor([0.1, 0.2, 0.0, 0.3, 0.7]).double())
         for f, more in ((linear._slopes, ()), (linear._loss, (torch.ones(5),)))],
    ]  # fmt: skip


def waves_of_a_gaussian_process():
    learner = GaussianLearner("")
    made = learner.fit(_rows(24, 2), _target(24), 0.5)
    return [made.outputs, made.frequency.shape, learner.near(0.3), made.keeps(torch.zeros(3, 2)),
            (made(_rows(24, 2)) - _target(24)).abs().max() < 0.5]  # fmt: skip


def trees_of_a_site():
    x, y, c, at = _rows(), _target(), _classes(40, 4), _rows(6) + 0.25
    steps = trees.BoostedTrees("", rows=40)
    few = [trees.Boosting(0.1, 4, 5, n) for n in (2, 5)]
    learners = [
        (trees.ExtraTrees("", trees=4, fewer=3), y, [1, 3]),
        (trees.ExtraTrees("", 5, trees=4, fewer=3), c, [1, 3]), (steps, y, few),
        (trees.BoostedTrees("", 5, rows=40), c, few), (trees.BoostedTrees("", 5), c * 0 + 2, few),
        (trees.BoostedTrees("", 4), c % 2 + 1, few),
        (trees.BoostedTrees("", signs=(1.0, -1.0, NAN), rows=40), y, few),
    ]  # fmt: skip
    signs = _signs([1.0, -1.0, 0.0], [NAN] * 3, [NAN] * 3)
    turned = _signs([1.0, -1.0, 0.0], [0.0, NAN, NAN], [0.5, NAN, NAN])
    kept = []
    for one, target, settings in learners:
        made, said = one.fit(x, target, settings[1]), one.trace(x, target, at, settings)
        # what a library draws may differ between its versions: that both agree may not
        near = [(made(at) - s).abs().max() < 1e-4 for s in said]
        kept.append([made.outputs, said.shape, made(at).shape, near[1:] if target is not c else 0,
                     [made.keeps(s) for s in (signs, turned)] if one.signs else 0])  # fmt: skip
    return [*kept, steps.near(steps.settings[0]), trees._longest(few), trees._shape(few[0])]


def _grown(arrays):
    return tuple(torch.tensor(a).numpy() for a in arrays)


def trees_as_tables():
    one = [1, -1, -1], [2, -1, -1], [0, -1, -1], [0.1, 0.0, 0.0], [0.0, 1.0, 3.0]
    other = [2, -1, 3, -1, -1], [1, -1, 4, -1, -1], [1, -1, 0, -1, -1], [1.0, 0.0, -0.5, 0.0,
        0.0], \
        [0.0, 5.0, 0.0, 7.0, 9.0]  # fmt: skip
    x, kept = _rows(9), []
    signs = _signs([1.0, -1.0, 0.0], [NAN] * 3, [NAN] * 3)
    turned = _signs([1.0, -1.0, 0.0], [0.0, NAN, NAN], [0.5, NAN, NAN])
    for said, base, scale, outputs in (
        ([one], [0.5], [2.0], None), ([one, other], [0.5], [2.0], None),
        ([one, other], [0.0, 1.0], [1.0, 3.0], [1, 0]), ([one], [0.5], [-2.0], None),
    ):  # fmt: skip
        made = trees.grow_tables([_grown(tree) for tree in said], base, scale, outputs)
        keeps = [made.keeps(s) for s in (signs, -signs, turned, signs * 0)]
        kept.append([vars(made), made(x), made.outputs, keeps])
    split = torch.tensor([-1.0, 0.0, 0.25, 0.5, 1.0]).double()
    ways = trees.ways_of_splits(turned, torch.tensor([0, 0, 0, 0, 0]), split)
    return [*kept, ways, trees._rounded_down(split.numpy() / 3), trees.level_of(_target()),
            trees.level_of(torch.ones(3, 1)), trees.bound_signs((1.0, NAN, -1.0), 2),
            trees.bound_signs((), 2), trees.labels(_target(4), None)]  # fmt: skip


def learners_that_turn():
    signs = _signs([1.0, -1.0, 0.0, NAN], [0.0, NAN, 1.0, NAN], [0.5, NAN, 1.0, NAN])
    cut = bent.cut_inputs(signs)
    x = torch.cat([_rows(), _grid(40, 1)], 1)
    kept = [vars(cut), cut(x[:5]), cut(x[:5, :2]), [cut.count(x[:, :i]) for i in (1, 2, 4)]]
    learner = bent.TurningLearner(linear.SignedLinear(linear.Ridge("r"), cut.way), cut)
    made = learner.fit(x, _target(), 0.1)
    looser = bent.Bent(**(vars(made) | {"weight": -made.weight}))
    return [*kept, vars(made), made(x[:5]), made.ways(signs), made.keeps(signs), made.outputs,
            looser.keeps(signs), learner.trace(x, _target(), x[:4], [0.1, 1.0]), learner.name,
            bent.cut_inputs(signs[:, 1:2])]  # fmt: skip


def what_members_see():
    bins, x = Bins(-3.0, 3.0, 6), _rows(6)
    sets = Sets.of(
        torch.tensor([-3.0, -1.0, 0.0, 1.0, NAN, -2.0])[:, None].double(),
        torch.tensor([3.0, -1.0, 2.0, 1.5, NAN, 0.0])[:, None].double(),
    )
    said = torch.tensor([0.0, NAN, 1.0, 1.0, NAN, -2.0]).double()
    prior, allowed = _shares(6, 4), _grid(6, 4) >= -1
    prior[1] = 0.0
    allowed[:, 1] = True
    stated = torch.stack([said, said - 1, torch.where(said > 0, NAN, said + 1)], 1)
    numbers = [Measured(x, cut=bins, said=s, sets=w) for s in (None, said) for w in (None, sets)]
    orders = [
        Examples(x, None, p, a, stated=s)
        for p in (None, prior)
        for a in (None, allowed)
        for s in (None, stated)
    ]
    seen = [members.see_numbers(k) for k in numbers] + [members.see_order(k, 4) for k in orders]
    seen += [members.see_classes(k) for k in orders[::2]]
    out = torch.tensor([9.0, NAN, -INF, 1.25, 0.5, INF]).double()
    lost = torch.tensor([[1.0, NAN, 0.0, 1.0, NAN, 0.0]])
    return [
        [vars(s) for s in seen], [members.within(out, k) for k in numbers],
        vars(seen[1].withhold(lost)), seen[0].inputs(hears=True), vars(seen[0][:2]),
        members.mask_logits(torch.tensor([[NAN, INF, 0.0, -INF]] * 6), allowed),
        members.smooth_votes(prior),
    ]  # fmt: skip


def members_and_how_they_are_kept():
    x, y, bins = _rows(12), _target(12), Bins(-3.0, 3.0, 6)
    both = torch.cat([x, members.see_numbers(Measured(x, cut=bins)).heard], 1)
    ridge = linear.Ridge("").fit(x, y, 0.1)
    made = [
        members.NumberMember("n", linear.Ridge("", quadratic=True).fit(both, y, 0.1), True, True,
            0.5),
        members.OrderMember("o", ridge, False, False, 2.0, 4),
        members.OrderMember("p", linear.Ridge("").fit(both, y, 0.1), True, True, 0.5, 4),
        members.ClassMember("c", linear.LogisticLearner("", 4).fit(x, _classes(12, 4), 0.1),
                            False, False, 2.0),
    ]  # fmt: skip
    known, number = Examples(x, None, _shares(12, 4), _grid(12, 4) >= -2), Measured(x, cut=bins)
    said, tensors = members.write_own_members(made)
    read = members.read_own_members(said, tensors, columns=3, heard=3)
    signs = _signs([1.0, -1.0, 0.0, 1.0, 0.0, 0.0], [NAN] * 6, [NAN] * 6)
    lost = signs.clone()
    lost[0, 3] = NAN
    return [
        made[0].number(number), [m.log_probs(known) for m in made[1:]], said,
        [m.with_temperature(4.0).log_probs(known)[:2] for m in made[1:]], read[0].number(number),
        [[members.keeps_signs(m, s) for m in made] for s in (signs, lost, signs * 0)],
        *_odd_members(said, tensors),
    ]  # fmt: skip


def _odd_members(said, tensors) -> list:
    """The same with one value changed at a time: which are refused."""
    said_otherwise = {
        "name": ("", "n" * 100, "n" * 101), "hears": (1,), "width": (0, True, INF, 1),
        "kind": ("sets",), "body": ("none",), "odd": (1,), "classes": (1, 2, 1 << 16, 65537),
        "quadratic": (False,),
    }  # fmt: skip
    kept = []
    for i, one in enumerate(said):
        own = {f"0{n[1:]}": t for n, t in tensors.items() if n.startswith(f"{i}.")}
        for name, values in said_otherwise.items():
            odd = [
                tried(members.read_own_members, [one | {name: v}], own, columns=3, heard=3)
                for v in values
            ]
            kept.append([isinstance(found, str) for found in odd])  # fmt: skip
    bodies = {
        "trees": {"feature": torch.tensor([0, -1, -1]).short(), "threshold": torch.zeros(3),
                  "child": torch.tensor([1, 0, 1]).int(), "roots": torch.tensor([0]).int(),
                  "values": torch.ones(2, 1), "output": torch.tensor([0]).short(),
                  "base": torch.zeros(1).double(), "scale": torch.ones(1).double()},
        "bent": {"column": torch.tensor([0, 2]).short(), "low": torch.tensor([0.0, 1.0]),
                 "high": torch.tensor([0.0, 2.0]), **{n: torch.ones(2).double() for n in
                 ("mean", "scale")}, "weight": torch.ones(2, 1).double(),
                 "constant": torch.ones(1).double()},
        "waves": {"column": torch.arange(3).short(), "low": -torch.ones(3),
                  "high": torch.ones(3),
                  "mean": torch.ones(3).double(), "scale": torch.ones(3).double(),
                  "frequency": torch.ones(3, 2).double(), "weight": torch.ones(7, 1).double(),
                  "constant": torch.ones(1).double()},
        "linear": {n: torch.ones(s).double() for n, s in
                   (("mean", 3), ("scale", 3), ("weight", (3, 1)), ("constant", 1))},
    }  # fmt: skip
    for body, own in bodies.items():
        member = {"kind": "number", "body": body, "name": "n", "hears": False, "over": False,
                  "width": 1.0}  # fmt: skip
        found = []
        for name, tensor in own.items():
            for odd in (
                tensor,
                tensor - 1,
                tensor + 1,
                tensor + 2,
                tensor * 0,
                tensor[:-1],
                tensor.flatten(),
                tensor.float(),
                tensor / 0,
                -tensor,
                tensor[None],
            ):
                parts = {f"0.{n}": odd if n == name else t for n, t in own.items()}
                found.append(
                    isinstance(
                        tried(members.read_own_members, [member], parts, columns=3, heard=0), list
                    )
                )
        kept.append("".join("ny"[one] for one in found))
        less = {f"0.{n}": t for n, t in list(own.items())[1:]}
        more = {f"{i}.{n}": t for i in "01" for n, t in own.items()}
        kept += [
            tried(members.read_own_members, [member], p, columns=3, heard=0) for p in (less, more)
        ]
    return kept  # fmt: skip


def mixtures_and_their_weights():
    parts, prior = torch.stack([_shares(6, 4), _shares(6, 4).flip(0)]), _shares(6, 4)
    prior[0] = 0.0
    each = torch.linspace(0, 1, 6)
    y = _classes(6, 4)
    logs = [p.clamp(min=1e-3).log() for p in parts]
    numbers = [_target(12)[:, 0], _target(12)[:, 0].flip(0), torch.zeros(12)]
    odd = [
        ((), 0.0),
        ((1.0,), 0.0),
        ((0.5, 0.5), 0.0),
        ((0.5, 0.4), 0.1),
        ((0.5, 0.5), 1e-8),
        ((1.5, -0.5), 0.0),
        ((0.5, 0.5), 1e-10),
        ((0.0, 0.0), 1.0),
    ]
    bins = Bins(-3.0, 3.0, 6)
    body = linear.Ridge("").fit(_rows(), _target(), 0.1)
    one = members.NumberMember("n", body, False, False, 0.5)
    rows = Measured(_rows(6), cut=bins, said=torch.tensor([0.0, NAN, 1.0, 1.0, 2.0, NAN]).double())
    return [
        [mixture.mix(parts, w, p, t) for w in ((1.0, 3.0), (0.0, 0.0)) for p in (None, prior)
         for t in (0.0, 0.4, each)],
        [tried(mixture._check, 2, *o) for o in odd], tried(mixture._check, 0, (), 0.0),
        [tried(mixture.start_weights, *n) for n in ((0, 0), (1, 0), (0, 2), (2, 1), (1, 3))],
        [mixture.class_weights(logs, y, mixture.start_weights(1, 1), strength=s) for s in (0, 1,
         30)],
        [mixture.number_weights(numbers, _target(12)[:, 0] * 0.9 + 0.1, mixture.start_weights(1, 2),
                                strength=s) for s in (0, 1, 30)],
        [tried(mixture.class_weights, logs, y, mixture.start_weights(1, 1), strength=s)
         for s in (-1.0, NAN)],
        tried(mixture.class_weights, logs, y, mixture.start_weights(1, 2)),
        tried(mixture.number_weights, [n[:0] for n in numbers], y[:0], mixture.start_weights(1, 2)),
        tried(mixture.number_weights, [n / 0 for n in numbers], numbers[0], numbers[0][:3]),
        [mixture.onto_simplex(torch.tensor(p)) for p in ([0.2, 0.3], [1.0, 1.0, 0.0], [-1.0, 5.0])],
        mixture.scale_weights((1.0, 3.0), 0.8),
        [[mixture.NumberMixture((one,), (1 - e,), e, w).probabilities(rows) for w in (0.5, 1e-9)]
         for e in (0.0, 0.25)],
        tried(mixture.NumberMixture((one,), (1.0,)).probabilities, rows),
        mixture.NumberMixture((one, one), (0.25, 0.25), 0.5).number(rows),
    ]  # fmt: skip


def numbers_from_bins():
    bins, p = Bins(-2.0, 2.0, 4), _shares(8, 4)
    lower = torch.tensor(
        [
            [-2.0, NAN],
            [-1.5, 0.5],
            [-2.0, 1.0],
            [0.0, NAN],
            [-1.0, -1.0],
            [-2.0, 2.0],
            [-2.0, 0.0],
            [-2.0, 1.5],
        ]
    ).double()
    upper = torch.tensor(
        [
            [2.0, NAN],
            [0.0, 2.0],
            [-1.0, 1.0],
            [0.0, NAN],
            [2.0, -1.0],
            [-2.0, 2.0],
            [-1.0, 2.0],
            [1.0, 2.0],
        ]
    ).double()
    sets = Sets.of(lower, upper)
    ends = bins.pieces(sets)
    inside = torch.where((~ends[0].isnan()).any(2), p + 0.1, 0.0)
    said = torch.tensor([0.0, NAN, 1.0, 0.0, -1.0, 2.0, 0.0, 1.75]).double()
    weights = [0.0, 0.5, 1.0, torch.linspace(0, 1, 8).double()]
    made = [Distribution.spread(p, bins)] + [
        Distribution.spread(inside, bins, sets, said=s, weight=w)
        for s in (None, said)
        for w in weights[:1] + weights[1:] * (s is not None)
    ]
    kept = []
    for found in made:
        kept.append(
            [
                vars(found),
                found.expected(),
                found.mean(),
                found.mode(),
                found.classes,
                [found.cdf(v) for v in (said.nan_to_num(), torch.full((8,), -1.0))],
                [found.quantile(q) for q in (0.0, 0.05, 0.25, 0.5, 0.75, 1.0)],
                [found.middle(ordered=o) for o in (True, False)],
                found.interval(0.5),
                vars(found.region(0.8)),
                len(found),
            ]
        )
    bad = [
        (p[:, :3], bins, None, None),
        (p, bins, sets, None),
        (p * 0, bins, None, None),
        (inside, bins, sets, said + 0.25),
        (p[0], bins, None, None),
    ]
    kept += [tried(lambda a=a: Distribution.spread(*a[:3], said=a[3], weight=0.5)) for a in bad]
    kept += [tried(made[0].quantile, q) for q in (-0.1, 1.1)]
    return kept + [tried(made[0].interval, q) for q in (0.0, 1e-9, 1.0)]  # fmt: skip


def judged_outputs_and_folds():
    x, y = _rows(30), _classes(30, 4)
    known = Examples(x, y, _shares(30, 4), (_grid(30, 4) >= -1) | (y[:, None] == torch.arange(4)))
    place = y.double() + _grid(30, 1)[:, 0] / 2
    judged = baseline.judge_places(place, known, 4)
    rows = Measured(x, _target(30)[:, 0], cut=Bins(-3.0, 3.0, 6))
    number = baseline._judge_number(rows, _target(30) + 0.5, slice(None))
    named = [
        f.name
        for f in (
            *baseline._class_families(4, 1, 30, "x "),
            *baseline._number_families(members.see_numbers(rows), 0, None),
            *baseline._order_families(members.see_order(known, 4), 4, 0, None),
        )
    ]
    signs = _signs([0.0] * 6, [NAN] * 6, [NAN] * 6)
    return [
        [tried(baseline.folds, n, seed=1, site="a") for n in (1, 4, 5, 9)], judged.width,
         judged.error,
        judged.held[:4], [number.width, number.error, number.held[:4]], named,
        [[m.words for m in baseline._heard_modes((baseline.HEARING, baseline.OVER,
         baseline.ALONE), s)]
         for s in (None, signs, signs.masked_fill(torch.arange(6) == 3, NAN),
                   signs.masked_fill(torch.arange(6) > 2, NAN))],
        [[m.words for m in baseline._modes(k, over=o)] for k in (known, Examples(x, y))
         for o in (True, False)],
        [baseline.kind_of_learner(name, said) for name in ("ridge, alone", "extra trees, alone")
         for said in (number.held, judged.held)], baseline._terms(members.see_numbers(rows)),
        baseline._nll(torch.tensor([[-1.0, -INF]]), torch.tensor([1])),
        baseline._wrong(torch.tensor([[-1.0, -2.0]] * 2), torch.tensor([1, 0])),
        tried(baseline._labels, Examples(x)),
    ]  # fmt: skip


def the_best_of_a_site():
    x, y = _rows(30), _classes(30, 4)
    known = Examples(x, y, _shares(30, 4), (_grid(30, 4) >= -1) | (y[:, None] == torch.arange(4)))
    part = baseline.folds(30, seed=0)
    family = linear.LogisticLearner("logistic", 4)
    found = baseline.Own(tuple(baseline._try_classes([family], known, part, baseline._wrong)), part)
    best = found.local_best("", y)
    rows = Measured(x, _target(30)[:, 0], cut=Bins(-3.0, 3.0, 6))
    sight, ridge = members.see_numbers(rows), linear.Ridge("ridge", settings=(0.01, 1.0))
    tries = baseline.try_family(
        ridge,
        sight,
        lambda m: _target(30) - m.over * sight.start[:, None],
        part,
        (baseline.OVER, baseline.ALONE),
        lambda o, r: baseline._judge_number(rows, o, r),
    )
    first = baseline._try_by_first_fold(
        ridge,
        sight,
        lambda m: _target(30),
        part,
        (baseline.HEARING, baseline.ALONE),
        lambda o, r: baseline._judge_number(rows, o, r),
    )
    return [
        [[one.member.name, one.error, one.cost("log_loss", y)] for one in found.candidates],
        best.name, best.weights, best.factor, best.held[:3], best.log_probs(known)[:3],
        [[t.name, t.setting, t.judged.error] for t in (*tries, first)],
        [one.member.name for one in found.best_ways("balanced", y)],
    ]  # fmt: skip


def doubts_and_effects():
    doubt = Doubt(*(torch.tensor(v).double() for v in ([0.0, 1.5], [0.3, 0.5], [0.2, 1e-6])))
    allowed = torch.tensor([[True, True, False], [False, True, True]])
    schema = Schema((Feature("a"), Feature("b", levels=("x", "y", "z"))), ("I", "II"))

    class Model:
        def predict(self, x):
            return x[:, 0] - 2 * x[:, 1]

    class Classes(Model):
        def predict(self, x):
            return (x[:, 0] > 0).long()

        def predict_proba(self, x):
            return torch.stack([-x[:, 0], x[:, 0] + x[:, 1] / 4], 1).softmax(1)

    x = _grid(8, 2)
    gains = [
        benefit.BenefitLine("g", *v)
        for v in (
            (0.1, 0.05, 0.2),
            (-0.1, -0.2, -0.05),
            (0.1, 0.0, 0.2),
            (-0.1, -0.2, 0.0),
            (0.0, -0.1, 0.1),
        )
    ]
    effects = attribution.input_effects(Model(), x, torch.tensor([1.0, 0.5]))
    scale = Scaler(torch.tensor([0.4, 1.6]).double(), torch.ones(2).double())
    return [
        doubt.log_probs(allowed, 3), doubt.log_probs(None, 3), doubt.shift_probs(-1.5, allowed, 3),
        doubt.weigh((-1.0, 1.0), allowed, 3), effects, attribution.name_effects(effects, schema),
        attribution.input_effects(Classes(), x, torch.tensor([1.0, 0.5])),
        attribution.name_effects(torch.tensor([[0.0, 1.0, -2.0]]), None, ("p",)),
        [attribution.input_importance(m, x, y, repeats=2) for m, y in (
            (Model(), x[:, 0] - x[:, 1]), (Classes(), (x[:, 0] > 0).long()))],
        [attribution.usual_row(s, x, k) for s in (None, scale) for k in (None, schema)],
        [benefit.say_gain(g, "local best", 40, m) for g in gains for m in ("accuracy", "rmse")],
    ]  # fmt: skip
