"""Sites that lack columns: simulated coke, concrete and housing, against dropping them for all.

    python -m studies.columns --sets coke,concrete,california --seeds 5200-5219 --out FOLDER
    python -m studies.columns --summary FOLDER
    python -m studies.columns --foresight --seeds 5100-5119
    python -m studies.columns --worth --sets coke,concrete,california --seeds 5200-5209
    python -m studies.columns --guess --seeds 0-119

Plants 1 and 3 of the simulated coke lack logMF, b and P; of the other tables two columns, drawn
with each seed, are away at sites 2 and 4. An `own` expert says without the absent columns what he
can: at the plants his equation with a year's average in their place, and a range that is wider by
the most that they moved it in that year. `filled` arms put an expectation in place of the mean,
from sums over the rows that have the column (`pooled`: as they are, `within`: less each site's
means). `equals`: logMF at plants 1 and 3 is another measure, within 0.15 of it; the ranges are
wider by what that moves them. `pair`: plants 2 and 4 without the others. `even`:
every site counts the same in sums for the one-shot model. `worth`: what each plant tells that a
column is worth to it, and what it is on 3,000 other rows. The intervals are those of 90 % that
the models state.
Each job of a set, seed and arm is one line of results, written when it is done, never run again.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from torch import Tensor

from fedlore import Bins, Client, Examples, Knowledge, Measured
from fedlore.core import one_shot
from fedlore.core.metrics import accuracy, decide
from fedlore.core.nets import mlp
from fedlore.core.rng import stream
from fedlore.engine import NumberClient
from fedlore.engine.lore import stacking
from fedlore.experiments import (
    LOCAL_BEST,
    LORE,
    Drawing,
    compare,
    interval,
    pair_interval,
    train_approach,
)
from fedlore.kernel.schema import Feature, Schema, name_columns
from fedlore.knowledge import Formula, FormulaRange, GradedFormula
from fedlore.knowledge.scope import count_inputs
from fedlore.knowledge.views import Mask, reread_rows
from fedlore.models.own.limits import remembering
from fedlore_coke.demo import Demo
from fedlore_coke.experts import BOUND, COKE, EDGES, grade
from fedlore_coke.plants import Plant, coking_plants
from fedlore_lab.paper.number_sets import SOURCES, load_numbers, sites
from fedlore_lab.paper.number_study import NumberStudy

from .seeds import parse_seeds

GONE, LACKING, ERROR = ("logMF", "b", "P"), ("plant-1", "plant-3"), 0.15
WITHOUT = ("site-2", "site-4")
#: By set the arms; those of `DEVELOPMENT` choose between fillings, on seeds of their own.
ARMS = {
    "coke": (
        "all",
        "all own",
        "absent",
        "absent own",
        "dropped own",
        "alone own",
        "equals",
        "pair",
        "worth",
        "even own",
    ),
    "concrete": ("all", "absent", "dropped", "alone"),
    "california": ("all", "absent", "dropped", "alone"),
}
DEVELOPMENT = {
    "coke": ("absent own", "pooled own", "within own"),
    "concrete": ("absent", "pooled", "within"),
    "california": ("absent", "pooled", "within"),
}
Rows = dict[str, list[Tensor]]  # of each site its training and its test rows, (n, d)


def holed(schema: Schema, gone: Sequence[int]) -> Schema:
    """The same where some columns may be missing."""
    features = [
        replace(f, missing="mean") if place in gone else f
        for place, f in enumerate(schema.features)
    ]
    return replace(schema, features=tuple(features))


def blank(x: Tensor, gone: Sequence[int]) -> Tensor:
    """Rows without some columns."""
    x = x.clone()
    x[:, list(gone)] = torch.nan
    return x


def filled(rows: Rows, gone: Sequence[int], lacking: Sequence[str], how: str) -> Rows:
    """What is expected of the absent columns in their place, and a sign of them behind all."""
    kept = [c for c in range(next(iter(rows.values()))[0].shape[1]) if c not in gone]
    there = {name: train.double() for name, (train, _) in rows.items() if name not in lacking}
    means = {name: x.mean(0) for name, x in there.items()}
    every = torch.cat(list(there.values()))
    centred = torch.cat([x - (means[name] if how == "within" else every.mean(0))
                         for name, x in there.items()])  # fmt: skip
    spread = centred[:, kept].std(0).clamp(min=1e-9)
    z, wanted = centred[:, kept] / spread, centred[:, list(gone)]
    found = torch.linalg.solve(z.T @ z + torch.eye(len(kept)).double(), z.T @ wanted)
    least, most = every[:, list(gone)].aminmax(dim=0)
    told: Rows = {}
    for name, parts in rows.items():
        middle = parts[0].double().mean(0) if how == "within" else every.mean(0)
        told[name] = []
        for x in parts:
            signs = torch.full((len(x), len(gone)), float(name in lacking))
            if name in lacking:
                said = every[:, list(gone)].mean(0)
                said = said + (x.double() - middle)[:, kept] / spread @ found
                x = x.clone()
                x[:, list(gone)] = said.clamp(least, most).float()
            told[name].append(torch.cat([x, signs], 1))
    return told


def foresight(seeds: Sequence[int]) -> str:
    """How well the other plants' rows foresee what a plant lacks: shares of its variance.

    Less its own mean, which no filling has to get right; 0 is no better than that mean, 1 exact.
    """
    gone = [COKE.column(name) for name in GONE]
    found: dict[str, list[Tensor]] = {name: [] for name in LACKING}
    for seed in seeds:
        plants = coking_plants(seed, rows=Demo().rows, test_rows=300)
        rows = {p.id: [p.train.x, p.test.x] for p in plants}
        told = filled(rows, gone, LACKING, "within")
        for name in LACKING:
            real, said = (r[name][1][:, gone].double() for r in (rows, told))
            off = (real - real.mean(0)) - (said - said.mean(0))
            found[name].append(1 - off.square().mean(0) / real.var(0))
    return "\n".join(
        f"{name}: " + ", ".join(f"{column} {share:.2f}" for column, share in
                                zip(GONE, torch.stack(parts).mean(0).tolist(), strict=True))
        for name, parts in found.items()
    )  # fmt: skip


def worth(seeds: Sequence[int]) -> str:
    """What the columns are worth where rows are plenty: accuracy of 12,000 rows with and without.

    The better of a ridge on squares and products and of boosted trees on the measured CSR, chosen
    on the test rows, which flatters both sides alike. So much no method can be expected to recover.
    """
    absent = {COKE.column(name) for name in GONE}
    every = range(len(COKE.features))
    gaps: dict[str, list[float]] = {name: [] for name in LACKING}
    for seed in seeds:
        for plant in coking_plants(seed, rows=(12_000,) * 4, test_rows=6_000):
            if plant.id in LACKING:
                whole = _own_accuracy(plant, list(every))
                gaps[plant.id].append(whole - _own_accuracy(plant, sorted({*every} - absent)))
    shown = [f"{name}: {interval(values)}" for name, values in gaps.items()]
    both = [sum(pair) / len(pair) for pair in zip(*gaps.values(), strict=True)]
    return "\n".join((*shown, f"both: {interval(both)}"))


def numbers_worth(name: str, seeds: Sequence[int]) -> str:
    """How much more boosted trees miss without a seed's two columns, with the rows of all sites.

    In five folds of the whole table: no method that has the rows of one site can do as well.
    """
    table = load_numbers(name)
    rows = torch.randperm(len(table.y), generator=stream(0, "worth"))[:4_000]
    x, y = table.x[rows].numpy(), table.y[rows].numpy()
    found = []
    for seed in seeds:
        gone = _gone(name, seed, x.shape[1])
        kept = [c for c in range(x.shape[1]) if c not in gone]
        trees = HistGradientBoostingRegressor(max_iter=150, random_state=0)
        folds = KFold(5, shuffle=True, random_state=seed)
        off = [((cross_val_predict(trees, x[:, some], y, cv=folds) - y) ** 2).mean() ** 0.5
               for some in (slice(None), kept)]  # fmt: skip
        found.append(100 * (off[1] / off[0] - 1))
    few = sum(one <= 3 for one in found)
    mean, middle = interval(found), sorted(found)[len(found) // 2]
    return (f"{name}: RMSE {mean.mean:.0f} ± {mean.half:.0f} % higher, "
            f"{middle:.0f} % in the middle; 3 % or less in {few} of {len(found)}")  # fmt: skip


def _gone(name: str, seed: int, width: int) -> list[int]:
    draw = stream(seed, "absent columns", name)
    return torch.randperm(width, generator=draw)[:2].sort().values.tolist()


def _own_accuracy(plant: Plant, columns: list[int]) -> float:
    products = make_pipeline(
        StandardScaler(), PolynomialFeatures(2), StandardScaler(), RidgeCV([0.1, 1.0, 10.0, 100.0])
    )
    trees = HistGradientBoostingRegressor(max_iter=400, learning_rate=0.06, random_state=0)
    x, rows, found = plant.train.x[:, columns].numpy(), plant.test.x[:, columns].numpy(), []
    for model in (products, trees):
        said = torch.from_numpy(model.fit(x, plant.train_coke.csr.numpy()).predict(rows))
        found.append(100.0 * (grade(said) == plant.test.y).double().mean().item())
    return max(found)


def signed(schema: Schema, count: int) -> Schema:
    """A schema with so many signs behind."""
    signs = tuple(Feature(f"sign_{i}") for i in range(count))
    return replace(schema, features=(*schema.features, *signs))


@cache
def year_of(seed: int) -> tuple[Plant, ...]:
    """A year of other charges of the same plants: what their suppliers' sheets say."""
    return coking_plants(seed, rows=(365,) * 4, test_rows=1)


def knowledge_of(plant: Plant, seed: int, schema: Schema, *, own: bool, wider: float) -> Knowledge:
    """The plant's expert as formulas over names; an own one says it without what is absent."""
    text, bound = plant.law.expert.text, BOUND + wider
    if own:
        year = next(p.train.x.double() for p in year_of(seed) if p.id == plant.id)
        whole = Formula.parse(text, COKE)(year.float())
        for name in GONE:
            middle = float(year[:, COKE.column(name)].mean())
            text = re.sub(rf"\b{name}\b", f"{middle:.4g}", text)
        moved = whole - Formula.parse(text, COKE)(year.float())
        bound += float(moved.abs().max())
    said, low, high = (Formula.parse(f"{text}{more}", schema) for more in
                       ("", f" - {bound:.6g}", f" + {bound:.6g}"))  # fmt: skip
    limits = FormulaRange(low, high, EDGES)
    return Knowledge(GradedFormula(said, EDGES), limits, Demo().trust, outside="widen",
                     schema=schema)  # fmt: skip


def coke(seed: int, arm: str) -> list[dict[str, Any]]:
    """The plants of one arm, each scored on its test rows."""
    demo, gone = Demo(), [COKE.column(name) for name in GONE]
    many = 3_000 if arm == "worth" else demo.test_rows
    plants = coking_plants(seed, rows=demo.rows, test_rows=many)
    rows = {p.id: [p.train.x, p.test.x] for p in plants}
    kind, own = arm.split(" ")[0], arm.endswith("own")
    schema = COKE
    if kind in ("absent", "alone", "worth", "even"):
        schema = holed(COKE, gone)
    if kind in ("absent", "alone", "even"):
        rows |= {name: [blank(x, gone) for x in rows[name]] for name in LACKING}
    if kind == "equals":
        for name in LACKING:
            draw = stream(seed, "another measure", name)
            for x in rows[name]:
                error = ERROR * (2.0 * torch.rand(len(x), generator=draw) - 1.0)
                x[:, COKE.column("logMF")] += error
    if kind in ("pooled", "within"):
        rows, schema = filled(rows, gone, LACKING, kind), signed(COKE, len(gone))
    wider = {"plant-3": 7.8 * ERROR} if kind == "equals" else {}
    known = {
        p.id: knowledge_of(p, seed, schema, wider=wider.get(p.id, 0.0),
                           own=own and (p.id in LACKING or kind == "dropped"))
        for p in plants
    }  # fmt: skip
    if kind == "dropped":
        kept = [c for c in range(len(COKE.names)) if c not in gone]
        schema = replace(COKE, features=tuple(COKE.features[c] for c in kept))
        rows = {name: [x[:, kept] for x in parts] for name, parts in rows.items()}
        known = {p.id: knowledge_of(p, seed, schema, own=True, wider=0.0) for p in plants}
    clients = [
        Client(p.id, Examples(rows[p.id][0], p.train.y), known[p.id],
               test=Examples(rows[p.id][1], p.test.y))
        for p in plants
    ]  # fmt: skip
    width = count_inputs(schema)
    drawing = Drawing(
        clients, lambda hears: mlp(width, 20, hidden=demo.hidden, hears=hears, seed=seed),
        demo.plan, demo.rounds, seed, ordered=True,
    )  # fmt: skip
    if kind == "alone":
        lacking = [client for client in clients if client.id in LACKING]
        return [dict(row) for row in compare(replace(drawing, clients=lacking), [LOCAL_BEST])]
    if kind == "pair":
        clients = [client for client in clients if client.id not in LACKING]
        drawing = replace(drawing, clients=clients)
    with remembering(), even_sums(demo.rows if kind == "even" else ()):
        fitted = train_approach(LORE, drawing)
        if kind == "worth":
            return told_and_true(drawing, {c.id: fitted.benefit(c.id).columns for c in clients})
    return [score_classes(client, fitted.model(client.id)) for client in clients]


@contextmanager
def even_sums(rows: Sequence[int]) -> Iterator[None]:
    """Inside, every site counts the same in sums for the one-shot model, however many its rows."""
    if not rows:
        yield
        return
    usual, mean = one_shot.sum_rows, sum(rows) / len(rows)

    def sums(features: Tensor, target: Tensor, *more: Any) -> tuple[Any, Any]:
        home, found = usual(features, target, *more)
        even = {n: t * mean / len(target) for n, t in found.items() if n != "free"}
        return home, found | even

    def leave_out(
        found: Any, home: Any, features: Tensor, target: Tensor, bend: Any = None
    ) -> tuple[Tensor, Tensor]:
        """As there, of rows that count for more or less than one in the weights."""
        phi = features.double() - home.middle
        z = home.level + phi @ found.mean
        place, slope = one_shot.bend_place(z, bend)
        slope = slope.clamp(min=one_shot.FLATTEST)
        own, level = ((phi @ found.covariance) * phi).sum(1), found.noise / home.rows
        pull = mean / len(target) * own + level
        kept = (1.0 - slope.square() * pull / found.noise).clamp(min=1e-6)
        z = z - slope * pull * (target.double() - place) / (found.noise * kept)
        place, slope = one_shot.bend_place(z, bend)
        return place, found.noise + slope.square() * (own + level) / kept

    with patch.object(one_shot, "sum_rows", sums), patch.object(one_shot, "leave_out", leave_out):
        yield


GUESSED = (40, 60, 80, 110)  # rows of the sites in the guessing game
PAIRS = tuple(combinations(range(len(GUESSED)), 2))


def guesses(seeds: Sequence[int], *, alike: bool, even: bool, simulated: int = 150) -> float:
    """How often the pair of sites without the last of five columns is named from products with it.

    The guesser knows all rows' numbers and distributions, simulates every pair, and takes the
    likeliest by a normal over the sums; chance is one of six.
    """
    right = 0
    for place, seed in enumerate(seeds):
        draw = stream(seed, "guess", str(alike))
        base = 0.5 * torch.randn(5, 5, generator=draw) + torch.eye(5)
        worlds = [base + (0.0 if alike else 0.35) * torch.randn(5, 5, generator=draw)
                  for _ in GUESSED]  # fmt: skip
        weights = torch.randn(5, generator=draw)

        def rows(worlds: Any = worlds, weights: Any = weights, draw: Any = draw) -> list[Tensor]:
            found = []
            for n, world in zip(GUESSED, worlds, strict=True):
                x = torch.randn(n, 5, generator=draw) @ world.T
                y = x @ weights + torch.randn(n, generator=draw)
                each = torch.cat([x, y[:, None]], 1).double()
                found.append(each - each.mean(0))
            return found

        def sums(drawn: Sequence[Tensor], pair: tuple[int, int]) -> Tensor:
            there = [x for at, x in enumerate(drawn) if at not in pair]
            spread = torch.stack([x[:, 4].var(correction=0) for x in there]).mean().sqrt()
            each = [(x[:, 4:5] / spread * x).sum(0) / (len(x) if even else 1.0) for x in there]
            return torch.stack(each).sum(0)

        truth = PAIRS[place % len(PAIRS)]
        seen, drawn = sums(rows(), truth), [rows() for _ in range(simulated)]
        fits = []
        for pair in PAIRS:
            every = torch.stack([sums(one, pair) for one in drawn])
            normal = torch.distributions.MultivariateNormal(every.mean(0), torch.cov(every.T))
            fits.append(float(normal.log_prob(seen)))
        right += PAIRS[fits.index(max(fits))] == truth
    return right / len(seeds)


def told_and_true(drawing: Drawing, told: Any) -> list[dict[str, Any]]:
    """What each plant tells of its columns, and what its own models lose on rows to come."""

    def scores(clients: Any) -> dict[str, float]:
        rows = compare(replace(drawing, clients=clients), [LOCAL_BEST])
        return {str(row["client"]): float(row["ta"]) for row in rows}

    found, whole = [], scores(drawing.clients)
    for name in GONE:
        at = COKE.column(name)
        less = scores([replace(c.without(at), test=Examples(blank(c.test.x, [at]), c.test.y))
                       for c in drawing.clients])  # fmt: skip
        for client, lines in told.items():
            line = next(one for one in lines if one.name == name)
            true = {"column": name, "true": whole[client] - less[client]}
            three = {"value": line.value, "low": line.low, "high": line.high}
            found.append({"client": f"{client} {name}"} | true | three)
    return found


@torch.no_grad()
def score_classes(client: Client, model: Any) -> dict[str, Any]:
    """How often it is right, and how often the smallest set of 90 % holds the grade.

    `even` is the share where the set's last grade is in it only as often as 90 % asks for: what is
    left of the difference to 90 % is the model's own, not that of whole grades.
    """
    test = client.test
    assert test is not None and test.y is not None
    known = reread_rows(model.knowledge.prediction, test)
    log_probs = model.log_probs(known)
    p = log_probs.exp().double()
    order = p.sort(1, descending=True)
    before = order.values.cumsum(1) - order.values
    place = (order.indices == test.y[:, None]).double().argmax(1)
    inside = before[torch.arange(len(p)), place] < 0.9
    claimed = (order.values * (before < 0.9)).sum(1).mean()
    even = ((0.9 - before) / order.values.clamp(min=1e-12)).clamp(0.0, 1.0)
    said = p.gather(1, test.y[:, None]).clamp(min=1e-4)
    right = accuracy(decide(log_probs, known.prior, known.signs), test.y)
    return {"client": client.id, "ta": right, "nll": float(-said.log().mean()),
            "coverage": float(inside.double().mean()), "claimed": float(claimed),
            "even": float(even[torch.arange(len(p)), place].mean())}  # fmt: skip


def numbers(name: str, seed: int, arm: str) -> list[dict[str, Any]]:
    """The sites of one arm; all experts are lines over columns that every site has."""
    study, source, table = NumberStudy(name), SOURCES[name], load_numbers(name)
    width = table.x.shape[1]
    gone = _gone(name, seed, width)
    kept = [c for c in range(width) if c not in gone]
    dealt = sites(table, seed=seed)
    experts = {s.id: s.knowledge["honest"] for s in sites(
        replace(table, x=table.x[:, kept], columns=tuple(table.columns[c] for c in kept)),
        seed=seed)}  # fmt: skip
    rows = {s.id: [s.train.x, s.test.x] for s in dealt}
    schema = name_columns([f"c{i}" for i in range(width)], ("low", "high"))
    seen = tuple(kept)
    if arm in ("absent", "alone"):
        schema = holed(schema, gone)
        rows |= {s: [blank(x, gone) for x in rows[s]] for s in WITHOUT}
    if arm in ("pooled", "within"):
        rows, schema = filled(rows, gone, WITHOUT, arm), signed(schema, 2)
    if arm == "dropped":
        rows = {s: [x[:, kept] for x in parts] for s, parts in rows.items()}
        schema = replace(schema, features=tuple(schema.features[c] for c in kept))
        seen = tuple(range(len(kept)))
    clients = []
    for site in dealt:
        said = experts[site.id]
        known = replace(said, prediction=Mask(seen, said.prediction), range=Mask(seen, said.range),
                        schema=schema, trust=study.trust)  # fmt: skip
        train, test = rows[site.id]
        clients.append(NumberClient(site.id, Measured(train, site.train.y), known,
                                    Measured(test, site.test.y)))  # fmt: skip
    bins, inputs = Bins(source.lower, source.upper, 50), count_inputs(schema)
    drawing = Drawing(
        clients, lambda hears: mlp(inputs, 50, hidden=study.hidden, seed=seed),
        study.plan, study.rounds, seed, bins=bins, hidden=study.hidden,
    )  # fmt: skip
    if arm == "alone":
        drawing = replace(drawing, clients=[c for c in clients if c.id in WITHOUT])
    found = compare(drawing, [LOCAL_BEST if arm == "alone" else LORE])
    names = ("client", "rmse", "coverage", "crps")
    return [{n: row[n] for n in names if n in row} | {"gone": gone} for row in found]


def compute(sets: Sequence[str], seeds: Sequence[int], arms: Sequence[str], out: Path) -> None:
    """Every job that has no line yet."""
    out.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for name in sets:
            for arm in arms or ARMS[name]:
                path = out / f"{name}-{seed}-{arm.replace(' ', '_')}.json"
                if path.exists():
                    continue
                most = stacking.MOST_COLUMNS if arm == "worth" else 0  # it takes as long again
                with patch.object(stacking, "MOST_COLUMNS", most):
                    rows = coke(seed, arm) if name == "coke" else numbers(name, seed, arm)
                path.write_text(json.dumps({"set": name, "seed": seed, "arm": arm, "rows": rows}))
                print(path.stem, flush=True)


Cells = dict[tuple[str, str], dict[int, dict[str, dict[str, float]]]]


def read_all(folder: Path) -> Cells:
    """By set and arm, by seed, by client: its scores."""
    found: Cells = {}
    texts = [p.read_text() for p in sorted(folder.glob("*.json"))]
    texts += [line for p in sorted(folder.glob("*.jsonl")) for line in p.read_text().splitlines()]
    for one in map(json.loads, texts):
        by_seed = found.setdefault((one["set"], one["arm"]), {})
        by_seed[one["seed"]] = {row["client"]: row for row in one["rows"]}
    return found


def summary(cells: Cells) -> str:
    """Each arm against the others, paired by seed: sites that lack columns, and the others."""
    lines = []
    for name in dict.fromkeys(which for which, _ in cells):
        lacking, key = (LACKING, "ta") if name == "coke" else (WITHOUT, "rmse")
        lines += [f"## {name}", "",
                  "| arm | sites that lack | the others | 90 % hold (lack) | even | n |",
                  "|---|---:|---:|---:|---:|---:|"]  # fmt: skip
        arms = [arm for which, arm in cells if which == name]
        scale = 100.0 if name == "coke" else 1.0
        for arm in arms:
            of = cells[name, arm]
            parts = [_mean(of, key, there) * scale for there in _groups(lacking)]
            holds, even = (100 * _mean(of, what, lambda c, some=lacking: c in some)
                           for what in ("coverage", "even"))  # fmt: skip
            lines.append(f"| {arm} | {parts[0]:.4g} | {parts[1]:.4g} | {holds:.1f} | {even:.1f} | "
                         f"{len(of)} |")  # fmt: skip
        lines += ["", "| difference | sites that lack | the others | n |", "|---|---:|---:|---:|"]
        for one in arms:
            for other in arms:
                text = _difference(cells[name, one], cells[name, other], key, lacking, name)
                if one != other and text:
                    lines.append(f"| {one} - {other} | {text} |")
        lines.append("")
    return "\n".join(lines)


def _groups(lacking: Sequence[str]) -> tuple[Callable[[str], bool], Callable[[str], bool]]:
    return (lambda c: c in lacking), (lambda c: c not in lacking)


def _mean(of: dict[int, dict[str, dict[str, float]]], key: str, there: Any) -> float:
    values = [
        row[key] for rows in of.values() for c, row in rows.items() if there(c) and key in row
    ]
    return sum(values) / len(values) if values else float("nan")


def _difference(one: Any, other: Any, key: str, lacking: Sequence[str], name: str) -> str:
    """Points of accuracy, or percent of RMSE, by seed; nothing below two seeds in common."""
    both = sorted(set(one) & set(other))
    found = []
    for there in _groups(lacking):
        pairs = [(_mean({s: one[s]}, key, there), _mean({s: other[s]}, key, there)) for s in both]
        pairs = [(a, b) for a, b in pairs if a == a and b == b]
        if len(pairs) < 2:
            found.append("-")
            continue
        if name == "coke":
            gap = pair_interval([100 * a for a, _ in pairs], [100 * b for _, b in pairs])
        else:
            gap = pair_interval([100 * a / b for a, b in pairs], [100.0] * len(pairs))
        found.append(f"{gap.mean:+.2f} ± {gap.half:.2f}")
    return "" if found == ["-", "-"] else f"{' | '.join(found)} | {len(both)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--sets", default="coke,concrete,california")
    parser.add_argument("--seeds", default="5200-5219")
    parser.add_argument("--arms", default="", help="all of the set; dev: fillings alone")
    parser.add_argument("--out", type=Path, default=Path("results/columns"))
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--foresight", action="store_true", help="of the seeds, nothing trained")
    parser.add_argument("--guess", action="store_true", help="which sites lack a column, by sums")
    parser.add_argument("--worth", action="store_true", help="of the columns, with many rows")
    asked = parser.parse_args()
    if asked.worth:
        for name in asked.sets.split(","):
            seeds = parse_seeds(asked.seeds)
            print(worth(seeds) if name == "coke" else numbers_worth(name, seeds), flush=True)
        return
    if asked.guess:
        for alike in (True, False):
            for even in (False, True):
                share = guesses(parse_seeds(asked.seeds), alike=alike, even=even)
                sites, count = (
                    "alike" if alike else "that differ",
                    "the same" if even else "by rows",
                )
                print(f"sites {sites}, each counts {count}: {100 * share:.0f} % of pairs named")
        return
    if asked.foresight:
        print(foresight(parse_seeds(asked.seeds)))
        return
    if asked.summary is not None:
        print(summary(read_all(asked.summary)))
        return
    torch.set_num_threads(1)
    sets = asked.sets.split(",")
    arms = [] if asked.arms in ("", "dev") else asked.arms.split(",")
    for name in sets:
        own = list(DEVELOPMENT[name]) if asked.arms == "dev" else arms
        compute([name], parse_seeds(asked.seeds), own, asked.out)


if __name__ == "__main__":
    main()
