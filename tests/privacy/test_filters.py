"""The order of filters, whose task is whose, and what is hidden where."""

from dataclasses import replace
from typing import ClassVar

import torch

from fedlore.core.wire import Reply, Task
from fedlore.privacy.filters import SiteFilters, apply_halves, guard_transport, half_for


class Noting:
    """A filter that multiplies by a factor at the site, undoes it at the server, and notes it."""

    hides: ClassVar[bool] = False

    def __init__(self, name, factor, notes, kinds=()):
        self.name, self.factor, self.notes, self.kinds = name, factor, notes, frozenset(kinds)

    def site(self, name):
        return self

    def answer(self, task):
        self.notes.append(f"{self.name} answers {task.kind}")
        return Reply("a", task.round)

    def outbound(self, task, reply):
        self.notes.append(f"{self.name} out")
        return replace(reply, upload=scaled(reply.upload, self.factor))

    def over(self, transport):
        return Undone(transport, self)


class Undone:
    def __init__(self, transport, filter):
        self.transport, self.filter = transport, filter

    def clients(self):
        return self.transport.clients()

    def exchange(self, task, to):
        for reply in self.transport.exchange(task, to):
            self.filter.notes.append(f"{self.filter.name} in")
            yield replace(reply, upload=scaled(reply.upload, 1 / self.filter.factor))


class Sites:
    def __init__(self, *names):
        self.names = names
        self.asked = []

    def clients(self):
        return list(self.names)

    def exchange(self, task, to):
        self.asked.append((task.kind, list(to)))
        for name in to:
            yield Reply(name, task.round, {"model": {"w": torch.ones(1)}}, rows=5)


def scaled(upload, by):
    return {k: {n: t * by for n, t in b.items()} for k, b in upload.items()}


def test_what_a_site_does_last_is_undone_first():
    notes = []
    filters = [Noting("noise", 2.0, notes), Noting("masks", 8.0, notes)]
    (reply,) = guard_transport(Sites("a"), filters).exchange(Task("train", 1), ["a"])
    assert notes == ["noise out", "masks out", "masks in", "noise in"]
    assert reply.upload["model"]["w"] == 1.0


def test_without_filters_a_transport_is_itself():
    sites = Sites("a")
    assert guard_transport(sites, [], local=False) is sites


def test_sites_elsewhere_apply_their_halves_themselves():
    notes = []
    (reply,) = guard_transport(Sites("a"), [Noting("masks", 8.0, notes)], local=False).exchange(
        Task("train", 1), ["a"]
    )
    assert notes == ["masks in"] and reply.upload["model"]["w"] == 1 / 8


def test_clients_never_see_a_filters_own_tasks():
    notes, sites = [], Sites("a", "b")
    masks = Noting("masks", 8.0, notes, kinds=["keys"])
    inside = SiteFilters(sites, {"a": [masks], "b": [masks]})
    assert len(list(inside.exchange(Task("keys", 1), ["a", "b"]))) == 2
    assert notes == ["masks answers keys"] * 2 and sites.asked == []
    assert list(inside.exchange(Task("keys", 1), [])) == []
    list(inside.exchange(Task("train", 1), ["b"]))
    assert sites.asked == [("train", ["b"])]


def test_the_half_for_a_task_is_the_one_that_names_its_kind():
    one, two = Noting("one", 1.0, [], kinds=["keys"]), Noting("two", 1.0, [], kinds=["unmask"])
    assert half_for([one, two], Task("unmask", 1)) is two
    assert half_for([one, two], Task("train", 1)) is None


def test_only_sums_are_filtered_and_row_counts_go_with_what_hides():
    notes = []
    half, reply = Noting("masks", 8.0, notes), Reply("a", 1, {}, rows=5, metrics={"ta": 0.5})
    assert apply_halves([half], Task("evaluate", 1), reply) is reply
    assert apply_halves([half], Task("evaluate", 1), reply, hides=True) == replace(reply, rows=0)
    assert notes == []
    apply_halves([half], Task("moments", 0), reply)
    assert notes == ["masks out"]
