"""Plans for simulated plants judged by the law of nature: what was promised, and what came true.

python -m studies.decisions --seeds 240-279 --out results/decisions.jsonl
python -m studies.decisions --summary results/decisions.jsonl --figure docs/img/decisions.png

Each drawing has four plants, and each plant a stock of the coals it has always bought and of four
new ones. A planner looks for the cheapest blend that reaches a grade with a confidence, for six
grades around the plant's level and four confidences. The law then says how likely the grade
really was, and what the cheapest blend as likely as that costs among all that any planner looked
at: what the plan costs over that is the price of not knowing the law.

All planners look at the same random blends and then search around their best ones in the same
way; it is shorter than that of `fedlore blend`, so that thousands of plans fit into minutes.
Seeds 100 to 119 decided the settings; seeds 240 to 279 decided nothing.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from fedlore.core.history import Row, read_rows, write_rows
from fedlore.core.nets import mlp
from fedlore.core.one_shot import OneShotModel
from fedlore.core.rng import key, stream
from fedlore.core.scaler import from_moments
from fedlore.core.tree import mean
from fedlore.engine import Client
from fedlore.engine.lore import Agreement, InProcess, SiteRows, default_space
from fedlore.engine.one_shot import bend_sums, solve_sums
from fedlore.experiments import LORE, LORE_1, Approach, Drawing, train_approach
from fedlore.models.classifier import Personal
from fedlore.models.ensemble import Ensemble, OneShotMember
from fedlore_coke.blend.coals import Array, Coals
from fedlore_coke.blend.graders import BlendTarget, ClassGrader
from fedlore_coke.blend.limits import BlendLimits, limits_of, sparse
from fedlore_coke.blend.mixing import MixingRecipe, Stiffened, recipe_for, rows_of
from fedlore_coke.coal import BASIC, CLASS_PRICE, COLUMNS, LARGEST, OXIDES, CoalTable, market
from fedlore_coke.demo import Demo
from fedlore_coke.experts import COKE, LOWEST, STEP, grade
from fedlore_coke.plants import PROFILES, Plant, coking_plants

from .decision_figures import EQUATION, draw_figure, summary
from .seeds import parse_seeds

CONFIDENCES = (0.5, 0.8, 0.9, 0.95)
BELOW, ABOVE = 2, 3  # grades around the plant's level that are wanted
RANDOM = 1200  # sparse blends for each coal
KEPT, TRADES, ROUNDS = 10, 150, 5  # blends that are searched around, how, and how often

_Chance = Callable[[torch.Tensor], Array]  # rows (n, 17) -> P of each target, (n, t)
_Found = tuple[Array, float] | None  # a blend and what is promised of it


def plant_stock(plant: Plant, seed: int, *, new: int = 4) -> Coals:
    """The coals a plant has always bought, and some of the same classes that it never had."""
    names, table = market(seed)
    draw = stream(seed, "plant stock", plant.id)
    profile = next(p for p in PROFILES if p.id == plant.id)
    had = {round(v, 9) for v in plant.coals["ro"].tolist()}
    other = [
        i
        for i, name in enumerate(names)
        if name in profile.coals and round(float(table["ro"][i]), 9) not in had
    ]
    chosen = [other[i] for i in torch.randperm(len(other), generator=draw)[:new].tolist()]
    coals = {name: torch.cat([values, table[name][chosen]]) for name, values in plant.coals.items()}
    kinds = [*plant.kinds, *(names[i] for i in chosen)]
    luck = torch.rand(2, len(kinds), generator=draw, dtype=torch.float64).numpy()
    properties = properties_of(coals)
    properties["Mt"] = profile.moisture - 2.0 + 4.0 * luck[1]
    price = list_price(kinds, properties) + 60.0 * (luck[0] - 0.5)
    most = np.array([LARGEST[kind] for kind in kinds]) / 100.0
    titles = tuple(f"{kind.replace('/', '')}-{i}" for i, kind in enumerate(kinds))
    return Coals(titles, np.round(price), properties, most=most)


def list_price(kinds: Sequence[str], properties: dict[str, Array]) -> Array:
    """The price per tonne of coals by class, ash and sulphur, before any luck, (c,)."""
    level = np.array([float(CLASS_PRICE[kind]) for kind in kinds])
    return level - 18.0 * (properties["Ad"] - 10.0) - 90.0 * (properties["St_d"] - 0.8)


def properties_of(coals: CoalTable) -> dict[str, Array]:
    """What a list of coals says of each: the columns of a schema, and ash oxides, (c,) each."""
    made: dict[str, Array] = {name: coals[own].numpy() for name, own in COLUMNS.items()}
    edges = torch.tensor([[1.4], [0.9]], dtype=torch.float64)
    upper, lower = torch.special.ndtr((edges - coals["ro"]) / coals["ro_sd"])
    made["V9_V13"] = (100.0 * (upper - lower)).numpy()
    basic, typical = coals["basic"].numpy(), sum(amount for amount, _ in BASIC.values())
    made |= {oxide: basic * amount / typical for oxide, (amount, _) in BASIC.items()}
    return made | {"SiO2": 0.65 * (OXIDES - basic), "Al2O3": 0.35 * (OXIDES - basic)}


def planners(plants: Sequence[Plant], seed: int, *, mixtures: bool) -> dict[str, list[_Chance]]:
    """Who plans: for each plant what its model promises of rows."""
    demo = Demo()
    clients = [Client(p.id, p.train, p.knowledge) for p in plants]

    def model(hears: bool) -> torch.nn.Module:
        return mlp(17, 20, hidden=demo.hidden, hears=hears, seed=seed)

    def trained(approach: Approach) -> list[Personal]:
        drawing = Drawing(clients, model, demo.plan, demo.rounds, seed, ordered=True)
        found = train_approach(approach, drawing)
        return [found.model(p.id) for p in plants]

    found = {"lore 1, raw": [_raw(p, own) for p, own in zip(plants, trained(LORE_1), strict=True)]}
    if mixtures:
        both = zip(plants, trained(LORE), strict=True)
        found["mixture, raw"] = [_raw(p, own) for p, own in both]
    sure = one_round(clients)
    for promise in ("expected", "safe"):
        graders = [ClassGrader(own, COKE, promise) for own in sure]
        both = zip(plants, graders, strict=True)
        found[promise] = [_promised(p, grader) for p, grader in both]
    found[EQUATION] = [_equation(p) for p in plants]
    return found


def one_round(clients: Sequence[Client]) -> list[Personal]:
    """The member that plans are promised by, alone: the same in any mixture with these rows."""
    scaler = from_moments(mean(({"m": c.sums()}, 1.0) for c in clients)["m"])
    space = default_space(17, ordered=True)
    common = Agreement(17, 20, space, scaler=scaler, ordered=True)
    sites = [SiteRows(client, common) for client in clients]
    with InProcess(sites, common) as process, torch.no_grad():
        groups = space.one_shots[0].basis.groups(19)
        straight = solve_sums(process, groups)
        link, found = bend_sums(process, groups, straight, len(space.links))
    one_shot = space.one_shots[link]
    rows = {site.id: site.one_shot_rows(one_shot) for site in sites}
    net = mlp(17, 20, hidden=())
    made = []
    for client in clients:
        member = OneShotMember(
            OneShotModel(one_shot, found, rows[client.id].home(found), 20), scaler
        )
        ensemble = Ensemble((member,), (1.0,), 0.0)
        made.append(Personal(net, client.knowledge, scaler=scaler, ensemble=ensemble))
    return made


def targets(plant: Plant) -> list[BlendTarget]:
    """Grades around the level that the plant works for."""
    level = next(p.level for p in PROFILES if p.id == plant.id)
    middle = int(grade(torch.tensor([level]))[0])
    every = range(middle - BELOW, middle + ABOVE + 1)
    return [BlendTarget(COKE.classes[at], float(at), 19.0) for at in every]


def _promised(plant: Plant, grader: ClassGrader) -> _Chance:
    wanted = targets(plant)
    return lambda x: grader.look(x, wanted)[0]


def _raw(plant: Plant, personal: Personal) -> _Chance:
    lows = [int(target.low) for target in targets(plant)]

    def chance(x: torch.Tensor) -> Array:
        above = personal.predict_proba(x).double().flip(1).cumsum(1).flip(1)
        return above[:, lows].numpy()

    return chance


def _equation(plant: Plant) -> _Chance:
    """Buying by the expert's equation: he says yes or no, whatever confidence is asked for."""
    edges = torch.tensor([_edge(target) for target in targets(plant)])
    expert = plant.law.expert
    seen = list(expert.equation.columns)
    return lambda x: (expert(x[:, seen]).unsqueeze(1) >= edges).double().numpy()


def _edge(target: BlendTarget) -> float:
    return LOWEST + STEP * target.low


@dataclass(frozen=True, eq=False)
class Yard:
    """One plant's stock, and all blends of it that were looked at."""

    plant: Plant
    coals: Coals
    recipe: MixingRecipe
    limits: BlendLimits
    pool: Array  # (n, c) random blends inside the scope
    seen: list[Array]  # further ones

    @staticmethod
    def of(plant: Plant, seed: int) -> "Yard":
        coals = plant_stock(plant, seed)
        hours = next(p.hours for p in PROFILES if p.id == plant.id)
        rules = {"logMF": Stiffened("logMF", 0.03)}
        recipe = recipe_for(COKE, coals, fixed={"coking_time": hours}, rules=rules)
        limits = limits_of(coals)
        draw = np.random.default_rng(key(seed, "decisions", plant.id))
        pool = sparse(limits, RANDOM * len(coals), draw)
        yard = Yard(plant, coals, recipe, limits, pool, [])
        return replace(yard, pool=yard.inside(pool)[0])

    def inside(self, shares: Array) -> tuple[Array, torch.Tensor]:
        """The blends that lie in the scope, and their rows."""
        values = self.recipe.features(shares)
        low, high = (np.array([getattr(f, end) for f in COKE.features]) for end in ("low", "high"))
        kept = ((values >= low) & (values <= high)).all(1)
        return shares[kept], rows_of(values[kept])

    def rows(self, shares: Array) -> torch.Tensor:
        return rows_of(self.recipe.features(shares))

    def near(self, shares: Array, draw: np.random.Generator) -> tuple[Array, torch.Tensor]:
        """Blends one and two trades away from some, inside limits and scope, and their rows."""
        made = []
        for trades in (1, 2):
            blends = shares[draw.integers(0, len(shares), TRADES)].copy()
            at = np.arange(TRADES)
            for _ in range(trades):
                give, take = draw.integers(0, len(self.coals), (2, TRADES))
                most = np.minimum(blends[at, give], self.limits.high[take] - blends[at, take])
                size = np.minimum(most, 2.0 ** -draw.uniform(1.0, 11.0, TRADES))
                size = np.where(give == take, 0.0, np.maximum(size, 0.0))
                np.add.at(blends, (at, give), -size)
                np.add.at(blends, (at, take), size)
            made.append(blends)
        both = np.concatenate(made)
        return self.inside(both[self.limits.holds(both)])


def find(
    yard: Yard, chance: _Chance, place: int, confidence: float, seen: Array, known: Array
) -> tuple[Array, float, Array]:
    """The cheapest blend found, what is promised of it, and the best few to start from again."""
    price = yard.coals.price
    draw = np.random.default_rng(key(place, "decisions", f"{confidence:g}"))

    def rank(said: Array, cost: Array) -> Array:
        lack = np.maximum(confidence - said, 0.0)
        return cost + np.where(lack > 0, 15.0 + 2000.0 * lack, 0.0)  # nearly good is not good

    cost = yard.pool @ price
    best = np.argpartition(rank(seen, cost), KEPT)[:KEPT]
    blends, said = yard.pool[best], seen[best]
    if len(known):
        blends = np.concatenate([blends, known])
        said = np.concatenate([said, chance(yard.rows(known))[:, place]])
    for _ in range(ROUNDS):
        more, x = yard.near(blends, draw)
        yard.seen.append(more)
        blends = np.concatenate([blends, more])
        said = np.concatenate([said, chance(x)[:, place]])
        order = np.argsort(rank(said, blends @ price), kind="stable")[:KEPT]
        blends, said = blends[order], said[order]
    good = said >= confidence
    at = int(np.where(good, blends @ price, np.inf).argmin()) if good.any() else 0
    return blends[at], float(said[at]), blends


def plans(yard: Yard, chance: _Chance, levels: Sequence[float]) -> dict[tuple[int, float], _Found]:
    """A plan for each target and confidence, None where this planner has none.

    Hardest first: what is good enough for a harder wish is a place to start from for an easier.
    """
    seen = chance(yard.rows(yard.pool))
    found: dict[tuple[int, float], _Found] = {}
    known = yard.pool[:0]
    for place in reversed(range(seen.shape[1])):
        for level in sorted(levels, reverse=True):
            blend, said, best = find(yard, chance, place, level, seen[:, place], known)
            found[place, level] = (blend, said) if said >= level else None
            known = np.concatenate([best[:2], known])[: 2 * KEPT]
    return found


def drawing(seed: int, *, mixtures: bool = False) -> list[Row]:
    """All plans of one drawing, one row each."""
    plants = coking_plants(seed, test_rows=1)
    yards = [Yard.of(plant, seed) for plant in plants]
    rows: list[Row] = []
    for name, every in planners(plants, seed, mixtures=mixtures).items():
        for yard, chance in zip(yards, every, strict=True):
            found = plans(yard, chance, (0.5,) if name == EQUATION else CONFIDENCES)
            for place, target in enumerate(targets(yard.plant)):
                for level in CONFIDENCES:
                    one = found[place, 0.5 if name == EQUATION else level]
                    where = {"seed": seed, "plant": yard.plant.id, "planner": name}
                    said = {"target": target.text, "confidence": level}
                    rows.append(where | said | _plan(yard, target, one))
    _add_oracle(rows, yards)
    return rows


def _plan(yard: Yard, target: BlendTarget, found: _Found) -> Row:
    if found is None:
        return {"promised": None, "true": None, "cost": None}
    blend, said = found
    true = float(yard.plant.law.chance(yard.rows(blend[None]), _edge(target))[0])
    return {"promised": said, "true": true, "cost": float(blend @ yard.coals.price)}


def _add_oracle(rows: Sequence[Row], yards: Sequence[Yard]) -> None:
    """To each plan the price of the cheapest blend as likely, among all that were looked at."""
    for yard in yards:
        blends = np.concatenate([yard.pool, *yard.seen])
        cost, x = blends @ yard.coals.price, yard.rows(blends)
        for target in targets(yard.plant):
            true = yard.plant.law.chance(x, _edge(target)).numpy()
            order = np.argsort(-true, kind="stable")
            cheapest = np.minimum.accumulate(cost[order])  # of all at least as likely
            for row in rows:
                mine = row["plant"] == yard.plant.id and row["target"] == target.text
                if mine and row["cost"] is not None:
                    count = int(np.searchsorted(-true[order], -float(row["true"]) + 1e-9, "right"))
                    row["oracle"] = float(cheapest[max(count - 1, 0)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="240-279")
    parser.add_argument("--mixtures", type=int, default=0, help="drawings that also train lore")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--summary", type=Path, nargs="+")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.summary:
        rows = [row for path in options.summary for row in read_rows(path)]
        print("\n".join(summary(rows)))
        if options.figure:
            draw_figure(rows, options.figure)
        return
    done = {row["seed"] for row in read_rows(options.out)} if options.out.exists() else set()
    rows = read_rows(options.out) if done else []
    seeds = parse_seeds(options.seeds)
    for seed in seeds:
        if seed not in done:
            rows += drawing(seed, mixtures=seed - seeds.start < options.mixtures)
            write_rows(rows, options.out)
            print(seed, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
