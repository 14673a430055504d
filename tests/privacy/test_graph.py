"""Large cohorts: neighbours by a public coin, of whom enough must agree about who survived."""

import math
import os
import random
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fedlore import FedloreError
from fedlore.core.wire import Task
from fedlore.privacy.secagg import graph as graphs
from fedlore.privacy.secagg import server
from fedlore.privacy.secagg.filter import SecureAggregation
from fedlore.privacy.secagg.graph import Graph, _connected, degree, draw_edges, share_graph
from fedlore.privacy.secagg.pact import raw_all

from .bounds import exposure, void
from .masked import Cohort, Given, counted, upload
from .test_lies import Stopped
from .test_secagg import error, lying

PAGE = Path(__file__).parents[2] / "docs" / "explain" / "masks.md"


def names(n):
    return [f"site-{i:03d}" for i in range(n)]


def cohort(n, **wire):
    uploads = {name: upload(name, size=20) for name in names(n)}
    entropy = counted(5) if n < 100 else os.urandom  # which can be had again, but takes its time
    return Cohort(Given(uploads), SecureAggregation(entropy=entropy), wire)


@pytest.fixture
def sparse(monkeypatch):
    """About twelve neighbours among sixty, half of which must last."""
    monkeypatch.setattr(graphs, "DENSE", 20)
    monkeypatch.setattr(graphs, "LASTING", 0.5)
    monkeypatch.setattr(graphs, "degree", lambda sites: 12)
    return 60


def uploads(n):
    """A cohort of which all have uploaded and none has answered, and the question."""
    one = cohort(n)
    one.wire.inner = stopped = Stopped(one.wire.inner)
    assert one.round() == []
    return one, stopped.kept


def made(n, coin=b"x"):
    pact = SecureAggregation().pact(Task("train", 1), names(n))
    return share_graph(pact, {name: coin * 32 for name in names(n)})


def test_up_to_a_hundred_sites_all_are_neighbours():
    assert made(100).near("site-007") == [s for s in names(100) if s != "site-007"]
    assert made(100).least("site-007") == 67 and made(100).whole and not made(101).whole


def test_neighbours_are_mutual_few_and_drawn_anew_with_every_key():
    one, two = made(400), made(400, b"y")
    near = {site: set(one.near(site)) for site in names(400)}
    assert all(site in near[other] for site, some in near.items() for other in some)
    sizes = [len(some) for some in near.values()]
    assert abs(np.mean(sizes) - degree(400)) < 3 and degree(400) == 88
    assert one.edges.tobytes() != two.edges.tobytes()
    assert one.edges.tobytes() == made(400).edges.tobytes()  # the same keys, the same neighbours


def test_the_sum_is_right_whoever_drops_out():
    gone, shy = {"site-004", "site-050", "site-103"}, {"site-000", "site-077"}
    lost = {"train": gone, "unmask": shy}
    one = cohort(104, lose=lambda task, name: name in lost.get(task.kind, ()))
    (reply,) = one.round()
    lasted = [s for s in names(104) if s not in gone]
    assert list(reply.members) == lasted
    wanted = torch.stack([upload(s, size=20)["model"]["w"] for s in lasted]).double().mean(0)
    assert error({"m": {"w": reply.upload["model"]["w"].double()}}, {"m": {"w": wanted}}) < 1e-6
    boxes = one.seen("train")["site-007"].upload["sealed"]["boxes"]
    near = len(made_of(one).near("site-007"))
    assert len(boxes) == near * (16 * (near + 1) + 28)


def made_of(one):
    return one.halves["site-007"]._session.graph


def test_a_coordinator_does_not_choose_neighbours(monkeypatch, sparse):
    assert len(cohort(sparse).round()) == 1
    other = lambda pact, keys: share_graph(pact, keys | {pact.cohort[0]: bytes(32)})  # noqa: E731
    monkeypatch.setattr(server, "share_graph", other)
    with suppress(FedloreError):  # void, or boxes that do not open
        assert cohort(sparse).round() == []


def test_a_graph_in_pieces_is_refused_on_both_sides(monkeypatch, caplog, sparse):
    monkeypatch.setattr(graphs, "degree", lambda sites: 1)
    assert cohort(sparse).round() == [] and "not all connected" in caplog.text
    whole = lambda pact, keys: Graph(pact, ~np.eye(sparse, dtype=bool))  # noqa: E731
    monkeypatch.setattr(server, "share_graph", whole)  # one who goes on in spite of it
    with pytest.raises(FedloreError, match="not all connected"):
        cohort(sparse).round()


def test_too_few_survivors_around_a_site_are_refused(sparse):
    one, task = uploads(sparse)
    graph = made_of(one)
    lost = set(graph.near("site-007")[1:])
    few = [s for s in names(sparse) if s not in lost]
    assert len(few) >= one.halves["site-007"]._session.pact.threshold
    for site in ("site-007", graph.near("site-007")[0]):
        with pytest.raises(FedloreError, match="survivors around 'site-0.*below its threshold"):
            one.halves[site].answer(lying(few)(task).for_client(site))


@pytest.mark.parametrize("part", ["answer", "parts", "pads"])
@pytest.mark.parametrize(
    "harm", [lambda b: b[:-3], lambda b: b[:0], lambda b: 255 - b], ids=["cut", "gone", "other"]
)
def test_what_one_site_spoils_of_its_answer_leaves_a_right_sum_or_none(sparse, part, harm):
    def change(task, reply):
        if (task.kind, reply.client) != ("unmask", "site-011"):
            return reply
        locked = reply.upload["locked"]
        return replace(reply, upload={"locked": locked | {part: harm(locked[part])}})

    replies = cohort(sparse, change=change).round()
    if part != "pads":  # its answer alone stays shut; spoilt pads may shut those of neighbours
        assert len(replies) == 1
    for reply in replies:
        wanted = torch.stack([upload(s, size=20)["model"]["w"] for s in names(sparse)]).mean(0)
        assert torch.allclose(reply.upload["model"]["w"], wanted, atol=1e-6)


def told(graph, lists):
    """Who can be isolated by these lists if all answers can be read, or only those that agree."""

    def known(readable):
        def shares(dealer, without=None):
            return [
                s
                for s in graph.holders(dealer)
                if s in readable
                and dealer in lists[s]
                and (without is None or without not in lists[s])
            ]

        def opened(dealer, other):
            return len(shares(dealer, other)) >= graph.least(dealer)

        return [
            site
            for site in graph.pact.cohort
            if len(shares(site)) >= graph.least(site)
            and all(opened(site, o) or opened(o, site) for o in graph.near(site))
        ]

    agreeing = {
        s
        for s in lists
        if sum(lists.get(o) == lists[s] for o in graph.holders(s)) >= graph.least(s)
    }
    return known(set(lists)), known(agreeing), agreeing


def test_a_lie_told_to_neighbours_of_neighbours_opens_nothing(sparse):
    """Those around a site hear that it survived, those around them that it did not."""
    one, task = uploads(sparse)
    graph, session = made_of(one), one.halves["site-007"]._session
    every = frozenset(names(sparse))
    victims = {}
    for victim in names(sparse):
        around = set(graph.holders(victim))
        lists = {s: every if s in around else every - {victim} for s in every}
        victims[victim] = (lists, *told(graph, lists))
    victim = next(v for v, (_, naive, _, _) in victims.items() if v in naive)  # it would work
    lists, _, exposed, agreeing = victims[victim]
    assert exposed == [] and not agreeing & set(graph.near(victim))
    answers = {}  # what the real halves say: the coordinator reads those that agree, no others
    for site, some in lists.items():
        half = one.halves[site]
        reply = half.answer(lying(sorted(some))(task).for_client(site))
        answers[site] = raw_all(reply.upload, "locked")
    read = set()
    for some in set(lists.values()):
        asked = {s: answers[s] for s in lists if lists[s] == some}
        read |= set(server.unlock(graph, session.bound, set(some), asked))
    assert read == agreeing
    mixed = server.unlock(graph, session.bound, set(every - {victim}), answers)
    assert victim not in mixed and set(mixed) <= agreeing


def test_whatever_lists_are_told_no_site_stands_alone():
    """The lemma of the proof: an opened site keeps 2t - m - c honest neighbours at least."""
    tried = 0
    for seed in range(60):
        rng = random.Random(seed)
        n = rng.randint(24, 48)
        pact = SecureAggregation().pact(Task("train", 1), names(n))
        graph = Graph(pact, draw_edges(seed.to_bytes(32), n, rng.randint(8, 20)))
        helpers = set(rng.sample(names(n), rng.randint(0, n // 10)))
        around = {s: graph.holders(s) for s in names(n)}
        least = {s: graphs.threshold_of(len(around[s])) for s in names(n)}
        slack = {s: 2 * least[s] - len(around[s]) - len(helpers & set(around[s])) for s in names(n)}
        if min(slack[s] for s in names(n) if s not in helpers) < 1:
            continue
        tried += 1
        choices = [frozenset(names(n))]
        for _ in range(rng.randint(1, 4)):
            centre = rng.choice(names(n))
            choices.append(choices[0] - set(rng.sample(around[centre], len(around[centre]) // 3)))
        lists = {}
        for site in sorted(set(names(n)) - helpers):
            some = rng.choice(choices) | {site}
            held = [d for d in around[site] if d in some]
            if all(len(some & set(around[d])) >= least[d] for d in held):
                lists[site] = some
        check_lemma(graph, helpers, around, least, slack, lists)
    assert tried > 30


def check_lemma(graph, helpers, around, least, slack, lists):
    agree = {
        s: sum(o in helpers or lists.get(o) == lists[s] for o in around[s]) >= least[s]
        for s in lists
    }
    readable = {s for s, ok in agree.items() if ok}

    def gives(dealer, lost=None):
        honest = [s for s in around[dealer] if s in readable and dealer in lists[s]]
        if lost is not None:
            honest = [s for s in honest if lost not in lists[s]]
        return len(honest) + len(helpers & set(around[dealer])) >= least[dealer]

    for site in around:
        if site in helpers or not gives(site):
            continue
        near = [o for o in around[site] if o not in helpers and o != site]
        hidden = [o for o in near if not gives(site, o) and not gives(o, site)]
        assert 1 + len(hidden) >= slack[site]


def simulate(n, neighbours, share, lasting, bad, tries=400):
    """How often `bad` finds a site among so many graphs; the share stands in front of the rest."""
    found, marked = 0, np.arange(n) < math.floor(share * n)
    for seed in range(tries):
        edges = draw_edges(seed.to_bytes(32), n, neighbours)
        around = 1 + edges.sum(1)
        least = np.floor(lasting * around).astype(int) + 1
        found += bool(bad(edges[:, marked].sum(1), around, least)[~marked].any())
    return found / tries


@pytest.mark.parametrize("share", [0.1, 0.15, 0.2])
@pytest.mark.parametrize("neighbours", [15, 30])
def test_what_drops_out_voids_no_more_than_was_computed(share, neighbours):
    bound = math.exp(void(120, neighbours, lost=share))
    lost = lambda c, m, t: m - c < t  # noqa: E731
    seen = simulate(120, neighbours, share, graphs.LASTING, lost)
    assert seen <= bound + 3 * math.sqrt(bound / 400)


def test_helpers_reach_no_more_than_was_computed():
    shares, seen, bounds = (0.05, 0.1, 0.15), [], []
    for share in shares:
        bounds.append(math.exp(exposure(120, 40, helping=share, lasting=0.75)))
        reach = lambda c, m, t: 2 * t <= m + c + 1  # noqa: E731  (1), and (2) for single sites
        seen.append(simulate(120, 40, share, 0.75, reach))
    assert all(s <= b + 3 * math.sqrt(b / 400) for s, b in zip(seen, bounds, strict=True))
    assert bounds[0] < 1e-6 and seen[0] == 0 and bounds[2] > bounds[1] > bounds[0]
    assert simulate(120, 40, 0.35, 0.75, reach) > 0.5  # the simulation can fail


def one_in(said):
    value = said.removeprefix("1 in ").replace(",", "")
    return 10.0 ** int(value[3:]) if value.startswith("10^") else float(value)


def test_the_stated_figures_are_those_of_the_functions():
    rows = re.findall(r"^\| ([\d,]+) \| (\d+) \| 2\^-(\d+) \| 2\^-(\d+) \| (.+?) \| (.+?) \|$",
                      PAGE.read_text(encoding="utf-8"), re.M)  # fmt: skip
    assert len(rows) == 6
    for sites, near, alone, tenth, five, ten in rows:
        n = int(sites.replace(",", ""))
        k = degree(n)
        assert int(near) == k
        assert -exposure(n, k, helping=0.0) / math.log(2) >= int(alone)
        assert -exposure(n, k) / math.log(2) >= int(tenth) >= 40
        for share, said in ((0.05, five), (0.1, ten)):
            assert math.exp(void(n, k, lost=share)) <= 1 / one_in(said)


@pytest.mark.parametrize(
    ("pairs", "sites", "whole"),
    [
        ([(0, 1), (1, 2), (2, 3)], 4, True),  # a path, along which it takes several steps
        ([(0, 3), (3, 1), (1, 2)], 4, True),
        ([(0, 1), (2, 3)], 4, False),
        ([(1, 2), (2, 3)], 4, False),  # without the first
        ([(0, 1), (1, 2), (0, 2)], 4, False),
        ([], 1, True),
    ],
)
def test_a_graph_is_connected_where_everybody_is_reached(pairs, sites, whole):
    edges = np.zeros((sites, sites), bool)
    for a, b in pairs:
        edges[a, b] = edges[b, a] = True
    assert _connected(edges) is whole


def test_coins_are_tossed_for_pairs_and_fall_as_often_as_asked():
    edges = draw_edges(b"k" * 32, 400, 30.0)
    assert (edges == edges.T).all() and not edges.diagonal().any()
    assert abs(edges.sum(1).mean() - 30.0) < 1.5  # 5 times its standard deviation
    assert (edges == draw_edges(b"k" * 32, 400, 30.0)).all()
    assert (edges != draw_edges(b"l" * 32, 400, 30.0)).any()
    everybody = draw_edges(b"k" * 32, 20, 19.0)
    assert everybody.sum() == 20 * 19 and not draw_edges(b"k" * 32, 20, 0.0).any()
