"""Coke: the simulator's coals, plants and experts; limits, verdicts and whole plans of blends."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from fedlore import Knowledge
from fedlore.core.rng import stream
from fedlore_coke import coal, experts, plants, starter
from fedlore_coke.blend import (
    change,
    check,
    feature_limit,
    graders,
    judge,
    limits,
    mixing,
    model_limit,
    order_for,
    page,
    search,
    sides,
    words,
)
from fedlore_coke.blend import plan as _plan_of
from fedlore_coke.blend import reasons as why
from fedlore_coke.blend import tests as blend_tests
from fedlore_coke.blend.coals import Coals
from fedlore_coke.blend.plan import Scenarios, lean_order, read_scenarios, scenario_costs
from tests.coke.blend import doubters, world

from .values import drawn, tried

LOTS = [(0.3, 0.3, 0.4), (0.5, 0.5, 0.0), (1.0, 0.0, 0.0), (0.25, 0.25, 0.5), (0.6, 0.6, -0.2)]


def coals_of_the_market():
    names, table = coal.market(3)
    some = {name: values[::9] for name, values in table.items()}
    draw = stream(1, "golden")
    lots = coal.deliveries(some, 6, draw)
    cycles = torch.rand(2, 7, generator=draw, dtype=torch.float64)
    day = torch.linspace(0, 364, 6).double()
    shares = [coal.proportions(day, cycles[:, :c], draw, steady=s, swing=w, fewest=f)
              for c, s, w, f in ((7, 2, 0.6, 3), (7, 5, 0.0, 7), (4, 1, 0.3, 1))]  # fmt: skip
    return [len(names), names[::9], some, lots, shares, coal.blend_coals(lots, shares[0])]


def plants_and_their_rows():
    made = plants.coking_plants(2, rows=(5, 6, 7, 8), test_rows=4)
    odd = [{"rows": (1, 2, 3)}, {"rows": (1, 1, 1, 0)}, {"rows": (1, 1, 1, 1)}, {"test_rows": 0},
           {"unseen": 0.0}, {"slack": 0.9}, {"blur": -0.1}, {"blur": 6.1}, {"unseen": 1e-3},
           {"slack": 1.0}, {"slack": float("inf")}, {"blur": 6.0}]  # fmt: skip
    return [
        [[p.id, p.train.x, p.train.y, p.test_coke, p.kinds, p.law.practice, p.law.expert.constant,
          p.knowledge.trust, p.law.mean(p.test.x), p.law.chance(p.test.x, 45.0),
          p.knowledge.annotate(p.train).prior.argmax(1),
              p.knowledge.annotate(p.train).allowed.sum(1),
          p.measured_train.place] for p in made],
        [p.knowledge.annotate(p.train).prior.argmax(1) for p in
         plants.coking_plants(2, rows=(5, 6, 7, 8), test_rows=4, blur=3.0, slack=2.0)],
        [isinstance(tried(lambda o=o: [p.train.x[:1] for p in plants.coking_plants(
            0, **{"rows": (1, 1, 1, 1), "test_rows": 1} | o)]), list) for o in odd],
    ]  # fmt: skip


def what_experts_work_out():
    low = torch.tensor([f.low for f in experts.COKE.features])
    high = torch.tensor([f.high for f in experts.COKE.features])
    x = low + torch.linspace(0, 1, 9).unsqueeze(1) ** torch.linspace(0.5, 2, 17) * (high - low)
    kept = [experts.strength(x.double()), experts.grade(torch.linspace(28, 72, 23))]
    for equation in (experts.kobe, experts.refit, experts.arch):
        expert = experts.Expert(equation, 1.5)
        seen = x[:, equation.columns]
        law = experts.PlantLaw(expert, -2.0, 3.0)
        kept += [
            expert(seen),
            experts.ExpertVerdict(expert, 2.0).csr(seen),
            expert.text,
            experts.Bounds(expert, 3.0)(seen).sum(1),
            law.mean(x),
            law.chance(x, 50.0),
            law.bake(x, stream(2, "golden")),
            [f(seen) for f in experts.Bounds(expert, 2.0).sides],
        ]
    return kept  # fmt: skip


def a_starting_folder():
    with tempfile.TemporaryDirectory() as folder:
        written = starter.write_starter(folder, seed=1)
        files = sorted(p for p in Path(folder).rglob("*") if p.is_file())
        text = {p.relative_to(folder).as_posix(): p.read_text() for p in files}
        again = tried(starter.write_starter, folder)
    lines = {name: body.splitlines() for name, body in text.items()}
    rows = {name: [len(body), *body[:3]] for name, body in lines.items() if name.endswith(".csv")}
    rules = [body for name, body in lines.items() if name.endswith(("predict.csv", "range.csv"))]
    known = [text[f"sites/plant-{i}/knowledge.toml"] for i in (1, 2)]
    return [written, again, rows, rules, known]


def conditions_of_rules():
    inf = float("inf")
    return [starter._condition(*ends) for ends in ((-inf, 2.0), (1.0, inf), (1.5, 2.5))]


def _limits(**more) -> limits.BlendLimits:
    said = {"low": np.zeros(3), "high": np.array([0.6, 0.5, 1.0])} | more
    return limits.BlendLimits(**said)


def limits_of_blends():
    every = [
        _limits(),
        _limits(coals=2),
        _limits(lots=4),
        _limits(lots=10, coals=2),
        _limits(low=np.array([0.1, 0.0, 0.2])),
        _limits(low=np.full(3, 0.3), lots=5),
    ]
    weights = np.array([[1.0, 1, 1], [5, 1, 0], [0, 0, 1], [0, 1, 0], [1, 2, 7], [9, 0, 1]])
    price = np.array([50.0, 80.0, 120.0])
    shares = np.array([*LOTS, (0.4, 0.2, 0.4), (0.601, 0, 0.399), (0.6, 0, 0.4), (0, 0.5, 0.5)])
    cut = np.array([[0.0, 0.0, 1.0]]), np.array([0.45])
    kept = []
    for one in every:
        kept.append([
            one.holds(shares), limits.lattice(one, one.lots or 5), limits.fit_lots(weights, one),
            [None if (w := limits.cheapest(price, one, **more)) is None else w
             for more in ({}, {"cuts": cut}, {"near": (np.array([0.2, 0.2, 0.6]), 0.1)},
                          {"near": (np.array([0.0, 2.0, 0.0]), 0.1)})],
            limits.sparse(one, 4, np.random.default_rng(3)), search.list_trades(shares[5], one),
        ])  # fmt: skip
    return kept


def numbers_of_blends():
    wide = limits.BlendLimits(np.zeros(5), np.ones(5), coals=3)
    specks = np.array([[0.5, 0.49999999, 1e-8], [0.7, 0.3, 0.0], [0.2, 0.2, 0.6000001]])
    return [
        [limits.lattice_size(c, p, m) for c in (1, 3, 5) for p in (1, 4, 10) for m in (None, 1, 2)],
        [limits._compositions(7, size) for size in (1, 2, 3, 4, 5)], limits.lattice(wide, 4),
        limits.sparse(wide, 6, np.random.default_rng(1)), [limits.tidy(w, _limits())
            for w in specks],
        [limits.distinct_blends(np.array(LOTS), np.arange(5.0)[::-1], n) for n in (1, 3, 9)],
        [tried(lambda o=o: limits.limits_of(world.three(stock=np.array([10.0, 20, 30])), **o))
         for o in ({"tonnes": 0.0}, {"tonnes": 40.0}, {"most_coals": 0}, {"most_coals": 1},
                   {"lots": 5.0}, {"lots": 7.0}, {"lots": 0.0}, {"lots": 100.0}, {"lots": 150.0})],
        limits._round_shares(np.array([[0.33, 0.33, 0.34], [0.6, 0.15, 0.25]]), _limits(), 5),
    ]  # fmt: skip


def rules_of_mixing():
    ones = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    table = {name: np.linspace(low, high, 5)[1:4] for name, (low, high) in _ranges().items()}
    mix = mixing.Mix.of(ones, table)
    rules = [
        mixing.Additive("St_d"), mixing.AsCharged("Mt"), mixing.Weighted("Fe2O3", "Ad"),
        mixing.Weighted("V9_V13", "inerts", rest=True), mixing.AshFree("Vdaf"),
        mixing.Spread("Ro_sd"), mixing.Log("MF"), mixing.Thinned("G", 8.0), mixing.Basicity(),
        mixing.Thinned("Y", 2.0), mixing.BasicityOfIndices(), mixing.Fixed(3.0),
        mixing.Stiffened("logMF", 0.03), mixing.UNMEASURED,
    ]  # fmt: skip
    bare = {**table, "MF": -table["MF"], "Ad": np.full(3, 150.0)}
    return [
        [[str(rule), rule.needs, tried(rule, mix)] for rule in rules],
        [tried(rule, mixing.Mix.of(ones, bare)) for rule in rules],
        [tried(rule, mixing.Mix.of(ones, {n: v for n, v in table.items() if n != "Mt"}))
         for rule in rules],
    ]  # fmt: skip


def _ranges() -> dict[str, tuple[float, float]]:
    from tests.coke.blend.test_mixing import RANGES

    return RANGES | {"logMF": (0.5, 4.5)}


def targets_as_they_are_written():
    names = ("poor", "fair", "good", "best")
    texts = (
        "grade>=1",
        "grade>good",
        "grade<=fair, grade>=fair",
        "grade=2",
        "grade==best",
        "grade<poor",
        "grade>=4",
        "grade>=3",
        "q>=1",
        "grade>=none",
        "grade",
        "grade>2,grade<2",
    )
    numbers = (
        "csr>=60",
        "csr>60",
        "csr<60",
        "csr=60",
        "csr>=80",
        "csr>80",
        "csr>x",
        "csr<=1e400",
        "grade>=1",
    )
    asked = ("cri<=30 by cri.lore at 0.8", "Ad<=11", "a<=1 by b.lore", "a<=1 by b.lore at x")
    return [
        [tried(graders.class_target, t, names) for t in texts],
        [tried(graders.number_target, t, "csr", lower=20.0, upper=80.0) for t in numbers],
        [tried(sides.parse_limit, t) for t in asked], [tried(graders.check_promise, p)
         for p in ("safe", "expected", "bold")],
        [[judge.say_chance(p), judge.equal(p)] for p in (0, 1e-9, 4.9e-4, 5e-4, 0.5, 0.9995, 1.0)],
        judge.logit(np.array([0.0, 0.5, 1.0])),
    ]  # fmt: skip


KNOWN = Knowledge(range=world.by_ash)


def _orders():
    """Orders of lots alone: what is best among them no solver's version can change."""
    stock = np.array([30.0, 60.0, 20.0])
    three, lots = world.three(), {"lots": 10.0}
    yield order_for(world.ladder(), world.GRADES, three, "grade>=good", confidence=0.6, **lots)
    yield order_for(
        world.ladder(KNOWN),
        world.GRADES,
        world.three(stock=stock),
        "grade>=fair",
        confidence=0.6,
        worst_case=True,
        tonnes=50.0,
        lots=5.0,
        most_coals=2,
    )
    yield order_for(
        world.wild(3),
        world.GRADES,
        world.offer(2),
        "grade<=fair",
        confidence=0.4,
        lots=12.5,
        scope=False,
    )
    own = replace(world.GRADES, label="hardness")
    first = order_for(world.ladder(), world.GRADES, three, "grade=good", confidence=0.3, **lots)
    also = (
        model_limit(world.wild(3), own, three, "hardness>=fair", confidence=0.1),
        feature_limit(first.recipe, "ash<=12"),
    )
    yield replace(first, also=also)
    yield order_for(
        doubters.foreseen(count=14),
        doubters.STEPS,
        world.offer(3, 4),
        "grade>=Q13",
        confidence=0.5,
        lots=20.0,
    )
    yield order_for(doubters.numbers(), doubters.CSR, world.offer(3, 4), "csr>=55",
                    confidence=0.5, lots=20.0, promise="expected")  # fmt: skip


def _blends_of(order) -> np.ndarray:
    return limits.lattice(order.limits, 20 if order.lots == 5.0 else round(100 / order.lots))[::5]


def _told(found) -> list:
    return [words.as_json(found), words.plan_summary(found), page.blend_tables(found)]


def whole_plans_in_lots():
    return [_told(_plan_of(order, seed=1)) for order in _orders()]


def pages_of_plans():
    kept = []
    for order in list(_orders())[1:2]:
        found = replace(_plan_of(order, seed=1), costs={"list": 80.0, "strike": 90.5}, tests=3)
        with tempfile.TemporaryDirectory() as folder:
            page.write_plan(found, Path(folder), facts={"coals": "3 of a.csv"})
            text = (Path(folder) / "plan.md").read_text()
            html = (Path(folder) / "plan.html").read_text()
        kept += [text, [html.count(word) for word in ("<svg", "<table", "<tr", "<h2", "<h3")]]
        for plot in page._plots(found):
            kept.append(drawn(plot))
    return kept


def verdicts_on_blends():
    kept = []
    for order in _orders():
        shares = _blends_of(order)
        seen, goals = order.judge(shares), [
            order.goal, replace(order.goal, worst_case=True, confidence=0.3),
            replace(order.goal, scope=False, confidence=1.0),
        ]  # fmt: skip
        x = mixing.rows_of(order.recipe.features(shares[:2]))
        kept.append([
            vars(seen), [[seen.good(goal), seen.lack(goal)] for goal in goals], order.goal,
            order.judge.targets, order.judge.scope, vars(order.judge(shares[:0])),
            [check(order, w) for w in (*shares[:4], shares[0] * 1.01, shares[0] * np.nan)],
            order.grader.tell(x[:1]), order.grader.weigh(x[:1], order.target),
            order.recipe.table, order.recipe.without,
            [limit.tell(shares[0]) for limit in order.also],
        ])  # fmt: skip
    return kept


def relaxations_and_shortages():
    order = next(_orders())
    fit = [
        {},
        {"least": np.array([0.5, 0.4, 0.2])},
        {"most": np.full(3, 0.3)},
        {"stock": np.array([10.0, 20, 30])},
        {"stock": np.array([5.0, 200, 300]), "least": np.array([0.2, 0, 0])},
        {"least": np.array([0.1, 0.1, 0.1])},
        {"most": np.array([0.45, 0.45, 0.5])},
        {"most": np.array([0.44, 0.43, 0.42])},
        {"least": np.array([0.33, 0.33, 0.0]), "most": np.array([0.38, 0.38, 0.28])},
    ]
    kept = []
    for more in fit:
        for coals in (None, 2):
            asked = replace(order, coals=world.three(**more), tonnes=100.0, most_coals=coals)
            kept.append(why.shortage(asked))
    full = replace(
        order,
        coals=world.three(
            stock=np.array([50.0, 90.0, 30.0]),
            least=np.array([0.1, 0, 0]),
            most=np.array([1.0, 0.4, 1.0]),
        ),
        tonnes=100.0,
        most_coals=2,
        worst_case=True,
    )
    for shares in ((0.1, 0.4, 0.5), (0.5, 0.2, 0.3), (0.101, 0.399, 0.5)):
        kept += [
            [what, more, goal, vars(limit)]
            for what, more, goal, limit in why.relaxations(full, np.array(shares))
        ]
    return kept  # fmt: skip


def why_a_goal_is_out_of_reach():
    kept = []
    hard = [
        ("grade>=best", 0.99, False, True),
        ("grade>=best", 0.2, True, True),
        ("grade>=good", 0.6, True, False),
        ("grade>=good", 0.7, False, True),
    ]
    for text, confidence, worst, scope in hard:
        order = order_for(
            world.ladder(KNOWN),
            world.GRADES,
            world.three(),
            text,
            lots=20.0,
            confidence=confidence,
            worst_case=worst,
            scope=scope,
        )
        also = (feature_limit(order.recipe, "ash<=5"), feature_limit(order.recipe, "rank<=0.9"))
        narrow = replace(order.recipe.schema.features[0], low=0.0, high=6.0)
        for one in (
            order,
            replace(order, also=also),
            replace(
                order,
                recipe=replace(
                    order.recipe,
                    schema=replace(world.GRADES, features=(narrow, world.GRADES.features[1])),
                ),
            ),
        ):
            kept.append(_told(_plan_of(one, compare=False)))
    return kept  # fmt: skip


def the_least_change_of_a_blend():
    kept = []
    for order in list(_orders())[:4]:
        for now in np.eye(3)[:2]:
            found = change.smallest_change(order, now)
            kept.append([change.change_words(found), change.change_values(found), found.traded])
    return kept


def local_searches():
    order = order_for(world.ladder(), world.GRADES, world.offer(1), "grade>=good", confidence=0.6)
    field = search.Field(order.judge, order.goal, order.limits, order.coals.price)
    starts = np.array([[0.4, 0.3, 0.3], [0.0, 1.0, 0.0], [0.1, 0.1, 0.8]])
    seen = order.judge(starts)
    some = search.explore(order.judge, replace(order.limits, lots=4), order.coals.price, seed=0)
    pool = search.explore(order.judge, order.limits, order.coals.price, seed=0, random=5)
    risky = replace(
        field,
        goal=replace(field.goal, worst_case=True),
        judge=replace(order.judge, also=(feature_limit(order.recipe, "ash<=12"),)),
    )
    last = search.trade(field, starts[0], np.random.default_rng(0), rounds=6, doubles=20)
    return [
        field.better(starts, seen), search._pictures(field, starts, seen), len(pool.shares),
        search._pictures(risky, starts, risky.judge(starts)), some.exact, some.shares, some.cost,
        [np.round(search.descend(field, starts, rounds=r)[0] @ field.price, 2) for r in (1, 2, 8)],
        last[0] @ field.price, search.trade(field, starts[2], np.random.default_rng(0),
            doubles=0)[0],
        search._starts(field, pool.shares[::40], pool.seen[::40],
                       field.better(pool.shares[::40], pool.seen[::40]), 8),
        search._towards(starts[:1], 0.1), pool.refused, pool.shares[-1],
    ]  # fmt: skip


def scenarios_of_prices():
    coals = Coals(
        ("a", "b", "poor"),
        np.array([100.0, 110.0, 60.0]),
        {"ash": np.array([7.0, 7.0, 16.0]), "rank": np.array([1.5, 1.5, 0.8])},
    )
    order = order_for(world.ladder(), world.GRADES, coals, "grade>=good", confidence=0.6, lots=10.0)
    kept = [tried(Scenarios, {"list": coals.price}, "best")]
    for choose in ("mean", "worst"):
        said = Scenarios({"list": coals.price, "strike": np.array([150.0, 100.0, 60.0])}, choose)
        leant = lean_order(order, said)
        found = _plan_of(leant, compare=False)
        kept.append([leant.coals.price, scenario_costs(found, said), said.value(np.ones(3) / 3)])
    kept.append(scenario_costs(replace(found, blend=None), said))
    kept += [tried(read_scenarios, [], coals, "mean"), tried(read_scenarios, [], coals, "best")]
    return kept  # fmt: skip


def coals_that_are_taken_and_refused():
    two = {"names": ("a", "b"), "price": np.array([1.0, 2.0]), "properties": {}}
    column = {"x": np.array([1.0, 2.0])}
    odd = [
        {},
        {"names": ()},
        {"names": ("a", "a")},
        {"price": np.array([1.0])},
        {"price": np.array([0.0, 0.0])},
        {"price": np.array([-1.0, 0.0])},
        {"price": np.array([np.nan, 0.0])},
        {"stock": np.array([-1.0, 0.0])},
        {"stock": np.array([0.0, 1.0])},
        {"least": np.array([0.5, 1.1])},
        {"least": np.array([0.0, 1.0])},
        {"most": np.array([-0.1, 1.0])},
        {"least": np.array([0.5, 0.5]), "most": np.array([0.4, 1.0])},
        {"least": np.array([0.5, 0.5]), "most": np.array([0.5, 0.5])},
        {"properties": {"x": np.array([-1.0, 2.0])}},
        {"properties": {"x": np.zeros(3)}},
        {"scenarios": {"s": np.array([-1.0, 2.0])}},
        {"scenarios": column, "properties": column},
    ]
    kept = [tried(lambda o=o: Coals(**two | o).bounds) for o in odd]
    both = Coals(**two)
    return (
        kept
        + [tried(both.place, n) for n in ("a", "b", "c")]
        + [
            both.named(np.array([0.2, 0.8])),
            both.named(np.array([1e-10, 1.0])),
            both.shares({"b": 1.0}),
        ]
    )
    # fmt: skip


def the_test_that_is_worth_most():
    kept = []
    for count in (14, 20):
        order = order_for(
            doubters.foreseen(count=count),
            doubters.STEPS,
            world.offer(3, 4),
            "grade>=Q14",
            confidence=0.8,
            lots=20.0,
        )
        found = _plan_of(order, compare=False)
        test = blend_tests.propose_test(order, found)
        mine = order.coals.shares((found.blend or found.nearest).shares)
        kept.append([test, blend_tests._blends(order, mine, 0)[:9]])
        told = replace(found, test=test)
        kept.append([words.trial_words(told), words.as_json(told)["trial"]])
    blend_tests.check_teachable(order)
    numbers = order_for(doubters.numbers(), doubters.CSR, world.offer(3, 4), "csr>=55")
    return [*kept, tried(blend_tests.check_teachable, numbers)]
