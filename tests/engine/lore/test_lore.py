"""The recipe in one process: choosing, settling, and that engines and filters do not matter."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from fedlore import (
    Bins,
    Client,
    ConfigError,
    Dp,
    Examples,
    FedloreError,
    Knowledge,
    Measured,
    NumberClient,
    Plan,
    Privacy,
    fit,
)
from fedlore.algorithms import FedPer
from fedlore.core.nets import mlp
from fedlore.core.rng import stream
from fedlore.core.scaler import Scaler
from fedlore.core.wire import Task
from fedlore.engine import one_shot
from fedlore.engine.lore import (
    ORDERED,
    Agreement,
    Candidate,
    DoneStep,
    Progress,
    SearchSpace,
    SiteRows,
    Trial,
    default_space,
    stacking,
    train_lore,
    vote,
)
from fedlore.engine.lore import train as training_room
from fedlore.engine.lore.client import LoreClient
from fedlore.engine.lore.report import compare
from fedlore.engine.lore.space import MOST_FEATURES
from fedlore.engine.lore.train import InProcess
from fedlore.engine.one_shot import bend_sums, one_shot_rows, solve_sums
from fedlore.engine.training import Training
from fedlore.models.own import baseline
from fedlore.privacy.filters import SumWithheld

from ..federation import CLASSES, FEATURES, federation
from ..sums import Sums, posterior_of

PLAN = Plan(epochs=1, batch=16)
FEW = SearchSpace(
    candidates=(Candidate(), Candidate(True, 0.5), Candidate(True, 0.5, reread=True)),
    folds=2,
    finishes=(0, 3),
    own=False,
)
RISING = replace(default_space(FEATURES, ordered=True), candidates=ORDERED[1:4], folds=2, own=False)


@pytest.fixture(autouse=True)
def linear_members_only(monkeypatch):
    """Trees take seconds and say nothing more about the recipe."""
    monkeypatch.setattr(baseline, "has_trees", lambda: False)


def run(search_space=FEW, clients=None, **settings):
    ensemble = {
        name: settings.pop(name) for name in ("progress", "hidden", "door") if name in settings
    }
    ordered = search_space.one_shot is not None
    training = Training(plan=PLAN, **{"rounds": 3, **settings})
    return train_lore(
        clients or federation(), training, search_space=search_space, ordered=ordered, **ensemble
    )


def answers(fitted, clients=None):
    clients = clients or federation()
    return {c.id: fitted.model(c.id).log_probs(c.test).detach() for c in clients}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "search_space", [FEW, RISING, replace(FEW, own=True), replace(RISING, own=True)]
)
def test_every_site_has_a_mixture_inside_its_range(search_space):
    fitted = run(search_space)
    for client in federation():
        personal = fitted.model(client.id)
        ensemble = personal.ensemble
        assert sum((ensemble.network, ensemble.expert, *ensemble.weights)) == pytest.approx(1.0)
        found = personal.log_probs(client.test).exp()
        assert (found[~client.test.allowed] == 0).all()
        assert torch.allclose(found.sum(1), torch.ones(len(found)), atol=1e-6)


def test_the_stacked_engine_chooses_and_predicts_like_the_plain_one():
    for search_space in (FEW, RISING):
        one, many = (run(search_space, engine=engine) for engine in ("local", "stacked"))
        assert one.history[-1]["recipe"] == many.history[-1]["recipe"]
        for name, found in answers(one).items():
            assert torch.allclose(found.exp(), answers(many)[name].exp(), atol=1e-4)


def test_votes_and_models_are_the_same_under_masks(monkeypatch):
    """With the starts that trainings have where sums alone are seen: each its own."""
    real = training_room.conduct
    monkeypatch.setattr(
        training_room, "conduct", lambda *a, **said: real(*a, **(said | {"salt": ""}))
    )
    for search_space in (FEW, RISING):
        plain, masked = (
            run(search_space),
            run(search_space, privacy=Privacy(secure_aggregation=True)),
        )
        ballots = [
            {row["trial"]: row["loss"] for row in f.history if "trial" in row}
            for f in (plain, masked)
        ]
        assert ballots[0] == pytest.approx(ballots[1], rel=1e-3)
        for name, found in answers(plain).items():
            assert torch.allclose(found.exp(), answers(masked)[name].exp(), atol=1e-3)


def test_it_goes_on_after_any_step_and_any_round():
    steps: list[DoneStep] = []
    rounds = []
    whole = run(progress=Progress(on_step=steps.append))
    names = [step.name for step in steps]
    assert names[-2].endswith("/main/3") and names[-1] == "ensemble"
    # the sites' memories live in the transport: what is resumed here are trainings without any
    for done in range(len(steps) - 2):
        again = Progress(steps[:done], on_round=lambda name, _: rounds.append(name))
        found = run(progress=again)
        assert [step.name for step in again.steps] == names
        for name, said in answers(whole).items():
            assert torch.equal(said, answers(found)[name])
    assert not {name for name in rounds} - set(names)


def test_a_running_training_goes_on_where_it_was():
    kept = {}
    first = SearchSpace(candidates=(Candidate(),), folds=2, own=False)
    whole = run(first, progress=Progress(on_round=lambda n, r: kept.setdefault((n, r.round), r)))
    cut = kept["0/0/3", 2]
    found = run(first, progress=Progress(running=("0/0/3", cut)))
    for name, said in answers(whole).items():
        assert torch.equal(said, answers(found)[name])


def test_fit_needs_no_model_and_tells_what_it_brought(monkeypatch):
    fitted = fit(federation(), recipe=replace(FEW, own=True), plan=PLAN, rounds=3, evaluate=3)
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    board = [row for row in fitted.leaderboard() if row["client"] == "site-2"]
    assert [row["value"] for row in board] == sorted((r["value"] for r in board), reverse=True)
    assert {"mixture", "network", "local best"} <= {row["name"] for row in board}
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(FedloreError, match="pip install pandas"):
        fitted.leaderboard()
    assert repr(fitted).startswith("Fitted(") and len(repr(fitted)) < 100
    table = fitted.benefit("site-2")
    assert {"local best", "network", "expert", "mixture"} <= {line.name for line in table.lines}
    assert table.measure == "accuracy" and table.rows == 47
    for line in table.lines:
        assert line.low <= line.value <= line.high
    assert "aking part" in table.sentence and "47 rows" in table.sentence
    assert sum(table.weights.values()) == pytest.approx(1.0)
    assert table.plain()["gain"]["value"] == table.gain.value
    assert fitted.scores("site-2")["pov"] == 0.0
    with pytest.raises(FedloreError, match="unknown client with a table 'site-9'"):
        fitted.benefit("site-9")


def test_a_given_network_is_the_only_one_tried():
    deaf = fit(federation(), mlp(FEATURES, CLASSES, hidden=(8,)), recipe=FEW, plan=PLAN, rounds=2)
    assert deaf.recipe.model.hears is False

    def make(hears):
        return mlp(FEATURES, CLASSES, hidden=(8,), hears=hears)

    either = fit(federation(), make, recipe=FEW, plan=PLAN, rounds=2)
    assert sum(p.numel() for p in either.recipe.model.parameters()) < 500


def test_what_cannot_be_asked_for_is_named():
    with pytest.raises(ConfigError, match="recipe must be lore or a SearchSpace, got 'best'"):
        fit(federation(), recipe="best")
    with pytest.raises(ConfigError, match="leave trust at 'own'"):
        fit(federation(), recipe="lore", trust="auto")
    with pytest.raises(ConfigError, match="only recipe = lore makes one itself"):
        fit(federation())
    with pytest.raises(ConfigError, match="one fixed candidate"):
        fit(federation(), recipe="lore", privacy=Privacy(dp=Dp(8.0, 1e-3)), scale=False)


def test_a_candidate_that_cannot_be_trained_is_named_before_any_trial():
    """One hidden layer has two ends and nothing in between: only the last candidate is unfit."""
    steps, search_space = [], replace(FEW, candidates=(RISING.candidates[0], Candidate(True, 0.5)))
    with pytest.raises(ConfigError, match="every layer would be private"):
        run(
            search_space,
            algorithm=FedPer(private=("first", "last")),
            progress=Progress(on_step=lambda step: steps.append(step.name)),
            hidden=(6,),
        )
    assert steps == []


def test_a_budget_allows_one_candidate_and_no_trials():
    steps = []
    fixed = FEW.only(Candidate(True, 0.5))
    fitted = run(
        replace(fixed, own=True),
        privacy=Privacy(dp=Dp(50.0, 1e-2)),
        scale=Scaler(torch.zeros(FEATURES).double(), torch.ones(FEATURES).double()),
        progress=Progress(on_step=lambda step: steps.append(step.name)),
    )
    assert steps == ["0/main/3", "ensemble"]
    assert fitted.model("site-2").ensemble.network == pytest.approx(0.5)


def test_a_vote_counts_the_rows_that_were_held_back():
    clients = federation()
    agreement = training_room._common(clients, Training(plan=PLAN), None, FEW, None, None, (8,))
    site_rows = [SiteRows(client, agreement) for client in clients]
    for seat in site_rows:
        folds = seat.folds
        ballots = []
        for fold in range(FEW.folds):
            rest, held = seat.part(FEW.candidates[0], fold)
            assert len(rest.data) + len(held) == len(folds)
            weights = dict(agreement.model(FEW.candidates[0]).state_dict())
            ballots.append(vote(seat, Trial(0, fold, 3), weights))
        assert sum(float(b["rows"]) for b in ballots) == len(folds)
        assert all(0 <= float(b["loss"]) <= 1.02 * float(b["rows"]) for b in ballots)
    lone = SiteRows(replace(clients[0], data=clients[0].data[:1]), agreement)
    assert lone.folds is None
    weights = dict(agreement.model(FEW.candidates[0]).state_dict())
    assert float(vote(lone, Trial(0, 0, 3), weights)["rows"]) == 0.0


class Echo:
    """A transport that brings the votes of a round before once more, as a slow network does."""

    def __init__(self, inner):
        self.inner = inner

    def clients(self):
        return self.inner.clients()

    def exchange(self, task, to):
        for reply in self.inner.exchange(task, to):
            yield reply
            if task.kind == "vote":
                votes = reply.upload["vote"]
                late = {"vote": {**votes, "loss": votes["loss"] + 1.0}}
                yield replace(reply, round=reply.round - 1, upload=late)


def test_votes_of_another_round_are_not_counted():
    losses = [
        {row["trial"]: row["loss"] for row in run(door=door).history if "trial" in row}
        for door in (None, Echo)
    ]
    assert losses[0] and losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_a_site_with_one_row_takes_part_and_keeps_what_it_has():
    clients = federation()
    clients.append(Client("tiny", clients[0].data[:1], clients[0].knowledge, test=clients[0].test))
    fitted = run(RISING, clients=clients)
    assert fitted.model("tiny").ensemble is None
    assert "tiny" not in fitted.tables


def number_sites(count=3, rows=40):
    sites = []
    for i in range(count):
        g = torch.Generator().manual_seed(i)
        x = torch.rand(rows + 60, 3, generator=g)
        y = (10 + 20 * x[:, 0] + 8 * x[:, 1] * x[:, 2] + i).double()

        def expert(rows):
            return 12 + 20 * rows[:, 0].double()

        known = Knowledge(expert, trust=0.0)
        data = Measured(x, y)
        sites.append(NumberClient(f"site-{i}", data[:rows], known, test=data[rows:]))
    return sites


@pytest.mark.slow
def test_numbers_are_mixed_inside_their_bounds():
    bins = Bins(0.0, 50.0, 50)
    search_space = replace(default_space(3, numbers=True), folds=2)
    search_space = replace(
        search_space, candidates=(search_space.candidates[1], search_space.candidates[3])
    )
    found = {}
    for engine in ("local", "stacked"):
        fitted = fit(
            number_sites(),
            bins=bins,
            recipe=search_space,
            plan=PLAN,
            rounds=4,
            evaluate=4,
            engine=engine,
        )
        table = fitted.benefit("site-0")
        assert table.measure == "rmse"
        assert table.value("mixture") <= 1.2 * table.value("local best")
        personal = fitted.model("site-0")
        x = number_sites()[0].test.x
        said = personal.predict(x)
        assert ((said >= 0) & (said <= 50)).all()
        assert torch.equal(personal(x), said)
        low, high = personal.interval(x)
        assert (low <= high).all()
        assert fitted.scores("site-0")["rmse"] < 2.0
        found[engine] = said
    assert torch.allclose(found["local"], found["stacked"], atol=0.05)


@pytest.mark.parametrize("least", [0.0, 0.25])
def test_a_site_keeps_its_local_best_model_where_its_rows_show_that_it_is_better(
    monkeypatch, least
):
    """As if they did: the model is one of its own, beside the expert where he has a least trust."""

    def worse(*args, **more):
        found = compare(*args, **more)
        return replace(found, gain=replace(found.gain, high=-1.0))

    monkeypatch.setattr(stacking, "compare", worse)
    search_space = replace(default_space(3, numbers=True), folds=2, one_shot=None)
    search_space = replace(search_space, candidates=search_space.candidates[1:2])
    sites = [replace(s, knowledge=replace(s.knowledge, least_trust=least)) for s in number_sites()]
    training = Training(plan=PLAN, rounds=2, workers=1)
    fitted = train_lore(sites, training, search_space=search_space, bins=Bins(0.0, 50.0, 50))
    for site in sites:
        table, ensemble = fitted.benefit(site.id), fitted.ensembles[site.id]
        assert "It keeps its local best model" in table.sentence
        assert (ensemble.network, ensemble.expert, *ensemble.weights) == (0.0, least, 1.0 - least)
        (own,) = set(table.weights) - {"network", "expert"}
        assert table.weights[own] == 1.0 - least and own in table.sentence
        missed = fitted.model(site.id).predict(site.test.x) - site.test.y
        assert float(missed.square().mean().sqrt()) < 0.1 + 4.0 * least  # the expert is off by 4


@pytest.mark.parametrize(
    ("features", "terms", "curves"),
    [(4, "quadratic", 3), (8, "quadratic", 3), (9, "quadratic", 2), (10, "quadratic", 0)]
    + [(17, "squares", 0), (48, "squares", 0), (300, "linear", 0)],
)
def test_one_round_has_few_features_and_of_numbers_curves_where_there_is_room(
    features, terms, curves
):
    for numbers in (False, True):
        space = default_space(features, ordered=not numbers, numbers=numbers)
        basis = space.one_shot.basis
        assert (basis.terms, basis.curves) == (terms, curves * numbers)
        assert features > 48 or sum(basis.counts(features + 2)) <= MOST_FEATURES
    assert default_space(features, numbers=True, shaped=True).one_shot.basis.curves == 0


def test_one_round_sees_numbers_finer_than_their_bins():
    bins, search_space = Bins(0.0, 50.0, 5), default_space(3, numbers=True)
    common = Agreement(3, 5, search_space, bins=bins)
    site_rows = [SiteRows(site, common) for site in number_sites()]
    rows = {s.id: one_shot_rows(s.plain, search_space.one_shot, None, classes=5) for s in site_rows}
    for seat in site_rows:
        told, found = seat.measured, rows[seat.id]
        assert torch.allclose(bins.numbers(found.start + found.target), told.y, atol=1e-4)
        assert torch.allclose(bins.numbers(found.start), told.said, atol=1e-4)


def bent_clients(bent):
    """Sites whose class is one common quantity, bent into narrow ranges or free in wide ones."""
    found, wide = [], 3 if bent else 9
    for i in range(4):
        g = stream("bent sites", i)
        x = torch.randn(150, 3, generator=g)
        middle = (9.5 + 2.5 * x[:, 0]).round().clamp(3, 16)
        z = 9.5 + 3.0 * x[:, 0] + 2.5 * x[:, 1] + 0.4 * torch.randn(150, generator=g)
        place = middle + 2.0 * torch.tanh((z - middle) / 2.0) if bent else z
        allowed = (torch.arange(20) - middle[:, None]).abs() <= wide
        y = place.round().clamp(middle - wide, middle + wide).clamp(0, 19).long()
        prior = torch.nn.functional.one_hot(middle.long(), 20).float()
        found.append(Client(f"site-{i}", Examples(x, y, prior, allowed)))
    return found


@pytest.mark.parametrize("bent", [True, False])
def test_votes_bend_the_one_shot_model_where_ranges_bend_the_law(bent):
    search_space = replace(default_space(3, ordered=True), candidates=ORDERED[1:2], folds=2)
    common = Agreement(3, 20, search_space, ordered=True)
    site_rows = [SiteRows(client, common) for client in bent_clients(bent)]
    with InProcess(site_rows, common) as process:
        groups = search_space.one_shot.basis.groups(5)
        straight = solve_sums(process, groups)
        link, found = bend_sums(process, groups, straight, len(search_space.links))
    losses = [
        sum(seat.one_shot_loss(search_space.one_shots[at], one) for seat in site_rows)
        for at, one in ((0, straight), (link, found))
    ]
    assert (link > 0) is bent and losses[1] <= losses[0]
    assert losses[1] < 0.8 * losses[0] or not bent


def test_ensembles_begin_where_the_votes_of_all_sites_say():
    search_space = replace(default_space(3, ordered=True), candidates=ORDERED[1:2], folds=2)
    asked, progress = [], Progress()

    def door(transport):
        return Listening(transport, asked)

    run(search_space, bent_clients(True), progress=progress, door=door)
    (vote,) = [task for task in asked if "starts" in task.sent]
    (last,) = [task for task in asked if task.kind == "ensemble"]
    start = progress.find("start").payload["start"]["shares"]
    assert torch.equal(last.sent["start"]["shares"], start) and vote.round == last.round
    assert float(start[0, 1]) > 0.25  # the one-shot model is the better one by far


class Listening:
    """A transport that keeps the tasks that pass."""

    def __init__(self, transport, asked):
        self.transport, self.asked = transport, asked

    def clients(self):
        return self.transport.clients()

    def exchange(self, task, to):
        self.asked.append(task)
        return self.transport.exchange(task, to)


def test_a_link_that_was_never_agreed_to_is_refused():
    search_space = default_space(3, ordered=True)
    client = LoreClient(SiteRows(bent_clients(True)[0], Agreement(3, 20, search_space)), None)
    for at in (3, -1):
        sent = {"one_shot": {"mean": torch.zeros(10).double(), "link": torch.tensor(at)}}
        with pytest.raises(ConfigError, match=f"has 2 links, got number {at}"):
            client.answer(Task("gram", 1, sent))
    sent = {"one_shot": {"mean": torch.zeros(9).double(), "link": torch.tensor(1)}}
    with pytest.raises(FedloreError, match="9 weights do not fit 20 features"):
        client.answer(Task("gram", 1, sent))
    with pytest.raises(ConfigError, match="at most 6 links"):
        replace(search_space, links=search_space.links * 4)


def test_a_bare_site_is_not_shown_the_knowledge():
    clients = [client.bare() for client in federation()]
    fitted = run(clients=clients)
    assert "expert" not in {line.name for line in fitted.benefit("site-1").lines}
    assert fitted.model("site-1").predict(clients[1].test.x).shape == (len(clients[1].test),)


def test_examples_keep_their_rows_in_folds():
    clients = federation()
    seat = SiteRows(
        clients[0], training_room._common(clients, Training(), None, FEW, None, None, (8,))
    )
    counts = torch.bincount(seat.folds)
    assert int(counts.max() - counts.min()) <= 1
    assert isinstance(seat.part(FEW.candidates[2], 0)[1], Examples)


def test_flwkm_among_the_candidates_has_each_sites_own_trust_in_its_loss():
    clients = federation()
    site = replace(clients[0], knowledge=replace(clients[0].knowledge, trust=0.4))
    common = training_room._common(clients, Training(), None, FEW, None, None, (8,))
    known = SiteRows(site, common).client(Candidate(trusts=True)).knowledge
    assert (known.trust, known.trust_at_prediction) == (0.4, 0.0)
    assert SiteRows(site, common).client(Candidate()).knowledge.trust == 0.0
    search_space = replace(FEW, candidates=(Candidate(trusts=True),))
    assert run(search_space).model("site-1").knowledge.trust == 0.0  # λ is the ensemble's


def test_a_site_is_told_whether_its_mixture_means_what_it_says():
    fitted = run(RISING)
    for client in federation():
        told = fitted.benefit(client.id)
        assert sum(part.rows for part in told.diagram) == told.rows
        assert 0 <= told.probabilities["ece low"] <= told.probabilities["ece"]
        assert told.probabilities["brier"] > 0 and told.probabilities["crps"] > 0


def test_without_the_sums_behind_a_bend_the_straight_model_stays(monkeypatch):
    """A site is lost between the first sums and the weighted ones: sites open no others."""

    def gone(*_):
        raise SumWithheld("a sum with plant-4 was asked for before")

    monkeypatch.setattr(one_shot, "bend_sums", gone)
    groups = torch.zeros(2, dtype=torch.long)
    x = torch.randn(30, 2, generator=stream("straight"), dtype=torch.float64)
    rows = one_shot.OneShotRows(x, x[:, 0], torch.zeros(30).double(), None)
    found = one_shot.fit_one_shot(Sums({"a": rows}), groups, links=2, noised=False)
    straight = posterior_of({"a": rows}, groups)
    assert int(found["link"]) == 0 and torch.equal(found["mean"], straight.mean)
