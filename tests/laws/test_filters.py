"""What every filter must do for every algorithm: without noise, the server gets the plain mean."""

import math
from dataclasses import dataclass, field, replace

import pytest
import torch

from fedlore import ConfigError, FedloreError, federate
from fedlore.algorithms import check_fit
from fedlore.core import tree
from fedlore.core.exact import Basis
from fedlore.core.foresight import Exact
from fedlore.core.wire import Task
from fedlore.engine import Local
from fedlore.engine.exact import solve_together
from fedlore.privacy.ckks.cipher import new_key
from fedlore.privacy.ckks.filter import Ckks
from fedlore.privacy.dp.filter import Noising
from fedlore.privacy.dp.ledger import Ledger
from fedlore.privacy.dp.settings import Dp, check_dp
from fedlore.privacy.filters import Filtered, guarded
from fedlore.privacy.secagg.filter import SecureAggregation

from ..engine.federation import FEATURES, federation
from .lists import ALGORITHMS, ENGINES, names, recipe_for

KEY = new_key()


def silent(where):
    """Differential privacy without noise, and with room for every upload."""
    dp = Dp(epsilon=math.inf, delta=1e-5, clip=1e6, noise=0.0, where=where)
    return Noising(dp, 0.0, 1, lambda site: Ledger())


#: By name: how to make it for these weights, and the error it may make.
FILTERS = {
    "secure aggregation": (lambda weights: SecureAggregation(weights=weights), 1e-6),
    "ckks": (lambda weights: Ckks(50, weights, KEY), 1e-5),
    "dp": (lambda weights: silent("distributed"), 1e-6),
    "dp at the server": (lambda weights: silent("central"), 1e-6),
}

#: Stages at which a site can get lost; in the last of each nothing but a share or a vote is.
STAGES = ("keys", "shares", "boxes", "train", "unmask")
LOSSES = [("secure aggregation", stage) for stage in STAGES]
LOSSES += [("ckks", "train"), ("ckks", "decrypt"), ("dp", "train"), ("dp at the server", "train")]

each_filter = pytest.mark.parametrize("filter", FILTERS)
each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=names(ALGORITHMS))
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=names(ENGINES))
each_weight = pytest.mark.parametrize("weights", ["equal", "size"])


@dataclass
class Tap:
    """A transport that keeps replies, and loses those it is told to lose."""

    inner: object
    lose: dict = field(default_factory=dict)  # stage -> sites
    kept: dict = field(default_factory=dict)

    def clients(self):
        return self.inner.clients()

    def exchange(self, task, to):
        for reply in self.inner.exchange(task, to):
            self.kept[reply.client] = reply
            if reply.client not in self.lose.get(task.kind, ()):
                yield reply


def recipe_with(algorithm, weights="equal", filter=None, **settings):
    recipe = recipe_for(algorithm, **settings)
    name, exact = type(algorithm).__name__, algorithm.facts.mean
    try:
        check_fit(algorithm, recipe.plan, weights=weights)
        if isinstance(filter, Noising):
            check_dp(filter.dp, algorithm=name, exact=exact, weights=weights)
    except ConfigError as error:
        pytest.skip(str(error))
    return replace(recipe, weights=weights)


def distance(found, wanted):
    """The larger of the relative errors of the bundles."""
    assert {k: set(b) for k, b in found.items()} == {k: set(b) for k, b in wanted.items()}
    gaps = [tree.norm(tree.sub(found[k], b)) / (tree.norm(b) or 1.0) for k, b in wanted.items()]
    return max(gaps, default=0.0)


def check_means(filter, algorithm, weights, *, sites, lose=None, double=True):
    """One exchange through the filter against the mean of what the clients had answered."""
    made, tolerance = FILTERS[filter]
    one = made(weights)
    recipe = recipe_with(algorithm, weights, one, double=double, epochs=1)
    sizes = [8 + (7 * i) % 23 for i in range(sites)]
    clients = federation(sizes)
    inside = Tap(Local(clients, recipe))
    halves = {c.id: [one.site(c.id)] for c in clients}
    wire = Tap(Filtered(inside, halves, hides=one.hides), lose or {})
    initial = {name: p.detach().clone() for name, p in recipe.model.named_parameters()}
    task = Task("train", 1, algorithm.send(algorithm.init(initial)), recipe.seed)
    replies = list(one.over(wire).exchange(task, inside.clients()))
    members = [name for reply in replies for name in reply.names]
    weighed = {n: float(r.rows if weights == "size" else 1) for n, r in inside.kept.items()}
    plain = tree.mean((inside.kept[n].upload, weighed[n]) for n in sorted(members))
    found = tree.mean(
        (r.upload, float(r.rows if weights == "size" else len(r.names))) for r in replies
    )
    assert distance(found, plain) < tolerance
    return members


@pytest.mark.parametrize("double", [True, False], ids=["float64", "float32"])
@each_weight
@each_algorithm
@each_filter
def test_the_mean_is_the_plain_one(filter, algorithm, weights, double):
    assert len(check_means(filter, algorithm, weights, sites=3, double=double)) == 3


@each_algorithm
@pytest.mark.parametrize(("filter", "stage"), LOSSES)
def test_the_mean_is_that_of_the_survivors(filter, algorithm, stage):
    lose = {stage: ["site-1", "site-3"]}
    members = check_means(filter, algorithm, "equal", sites=7, lose=lose)
    assert len(members) == (7 if stage in ("unmask", "decrypt") else 5)


@pytest.mark.slow
@each_weight
@each_algorithm
@each_filter
def test_fifty_sites_with_losses_everywhere(filter, algorithm, weights):
    lose = {stage: [f"site-{3 * i + k}" for k in range(3)] for i, stage in enumerate(STAGES)}
    members = check_means(filter, algorithm, weights, sites=50, lose=lose, double=False)
    assert len(members) == (38 if filter == "secure aggregation" else 47)


@each_engine
@each_filter
def test_sums_of_rows_come_to_the_plain_sums_or_are_refused(filter, engine):
    made, tolerance = FILTERS[filter]
    exact = Exact(Basis("quadratic"))
    recipe = replace(recipe_for(ALGORITHMS[0]), exact=exact)
    groups = exact.basis.groups(exact.columns(FEATURES))
    plain = solve_together(engine(federation(), recipe), groups)
    hidden = guarded(engine(federation(), recipe), [made("size")])
    if filter.startswith("dp"):  # no noise was promised for them
        with pytest.raises(FedloreError, match="sums of rows are exact and no budget covers"):
            solve_together(hidden, groups)
        return
    found = solve_together(hidden, groups)
    assert distance({"p": found.bundle()}, {"p": plain.bundle()}) < tolerance


@each_engine
def test_sums_of_rows_bear_the_loss_of_a_site(engine):
    """Under masks as without: the posterior is that of the sites whose sums arrived."""
    exact = Exact(Basis("linear"))
    recipe = replace(recipe_for(ALGORITHMS[0]), exact=exact)
    groups = exact.basis.groups(exact.columns(FEATURES))
    clients = federation([9, 12, 15, 18, 21])
    plain = solve_together(engine(clients[:-1], recipe), groups)
    one = SecureAggregation()
    halves = {c.id: [one.site(c.id)] for c in clients}
    wire = Tap(Filtered(engine(clients, recipe), halves, hides=True), {"gram": ["site-4"]})
    found = solve_together(one.over(wire), groups)
    assert distance({"p": found.bundle()}, {"p": plain.bundle()}) < 1e-6


@each_engine
def test_sums_of_rows_that_nobody_agreed_to_are_not_given(engine):
    recipe = recipe_for(ALGORITHMS[0])
    with pytest.raises(ConfigError, match="the recipe has no model of one round"):
        solve_together(engine(federation(), recipe), torch.zeros(1).long())


@each_algorithm
@each_engine
@each_filter
def test_a_training_ends_where_the_plain_one_does(filter, engine, algorithm):
    made, tolerance = FILTERS[filter]
    recipe = recipe_with(algorithm, filter=made("equal"))
    plain = federate(engine(federation(), recipe), recipe, 3)
    hidden = federate(guarded(engine(federation(), recipe), [made("equal")]), recipe, 3)
    assert hidden.accepted == plain.accepted and hidden.rows == plain.rows
    assert distance(hidden.state, plain.state) < tolerance


@each_filter
def test_a_client_that_is_not_asked_is_not_needed(filter):
    made, tolerance = FILTERS[filter]
    recipe = recipe_for(ALGORITHMS[0])
    clients = federation([9, 12, 15, 18, 21, 24])
    plain = federate(Local(clients, recipe), recipe, 3, sample=0.5)
    hidden = federate(guarded(Local(clients, recipe), [made("equal")]), recipe, 3, sample=0.5)
    assert hidden.accepted == plain.accepted
    assert distance(hidden.state, plain.state) < tolerance


@each_filter
def test_single_row_counts_do_not_reach_the_loop(filter):
    one = FILTERS[filter][0]("equal")
    recipe = recipe_for(ALGORITHMS[0])
    tap = Tap(guarded(Local(federation(), recipe), [one]))
    federate(tap, replace(recipe, plan=replace(recipe.plan, finish=1)), 2, evaluate=1)
    seen = {r.rows for r in tap.kept.values() if not r.members}
    assert seen <= {0, 1} and torch.tensor([r.rows for r in tap.kept.values()]).max() <= 3


@each_weight
@pytest.mark.parametrize("kind", ["train", "moments"])
@each_filter
def test_a_filter_finds_no_flaw_in_what_its_own_half_sends(filter, kind, weights):
    """And what hides finds one in an upload that does not, in rows, and in another model's."""
    one = FILTERS[filter][0](weights)
    if kind == "moments" and isinstance(one, Noising):
        pytest.skip("no budget covers sums of features")
    recipe = recipe_for(ALGORITHMS[0])
    inside = Tap(Local(federation(), recipe))
    sent = {"model": {name: p.detach() for name, p in recipe.model.named_parameters()}}
    wire = Tap(Filtered(inside, {n: [one.site(n)] for n in inside.clients()}, hides=one.hides))
    asked = []

    class Judge:
        def clients(self):
            return wire.clients()

        def exchange(self, task, to):
            for reply in wire.exchange(task, to):
                plain = inside.kept[reply.client] if task.kind == kind else reply
                like = plain.upload if task.kind == kind else {}
                asked.append(task.kind)
                assert one.flaw(task, reply, like) is None
                if one.hides:
                    assert one.flaw(task, replace(reply, rows=5), like) is not None
                if one.hides and task.kind == kind:
                    assert one.flaw(task, plain, like) is not None
                    assert one.flaw(task, replace(reply, upload={}), like) is not None
                yield reply

    assert list(one.over(Judge()).exchange(Task(kind, 1, sent), inside.clients()))
    assert kind in asked and (set(asked) == {kind}) == (not one.hides)
