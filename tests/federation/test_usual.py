"""An upload far longer than its peers' and than those before: plain, and under masks."""

from dataclasses import replace

import pytest
import torch

from fedlore.core import tree
from fedlore.core.wire import Reply, Task
from fedlore.federation.coordinator.status import read_status
from fedlore.federation.coordinator.uploads import Judged
from fedlore.federation.norms import UsualNorm
from fedlore.federation.remote import QuorumLost
from fedlore.federation.site import worker as worker_module

from ..laws.test_algorithms import assert_close
from .inside import Inside, around, reference, small
from .test_masked import masked


class Given:
    """Uploads of these norms, round by round."""

    def __init__(self, *rounds):
        self.rounds = list(rounds)

    def clients(self):
        return sorted(self.rounds[0])

    def exchange(self, task, to):
        norms = self.rounds.pop(0)
        return [Reply(n, task.round, {"model": {"w": torch.tensor([x])}}) for n, x in norms.items()]


def judged(*rounds, quorum=2, excess=30.0):
    notices = []
    transport = Judged(Given(*rounds), None, UsualNorm(excess), quorum, notices.append)
    names = [
        sorted(r.client for r in transport.exchange(Task("train", i + 1), transport.clients()))
        for i in range(len(rounds))
    ]
    return names, notices


HONEST = {"a": 0.07, "b": 0.06, "c": 0.08}


def test_998_where_honest_ones_are_a_fourteen_thousandth():
    names, (notice,) = judged(HONEST | {"d": 998.0})
    assert names == [["a", "b", "c"]] and (notice.what, notice.site) == ("rejected", "d")
    assert notice.detail == "norm 998 is above 2.25, 30 times the usual (excess)"


def test_what_is_rejected_does_not_become_usual():
    names, notices = judged(*[HONEST | {"d": 998.0}] * 20)
    assert names == [["a", "b", "c"]] * 20 and len(notices) == 20


def test_the_rounds_before_count_where_peers_are_few():
    few = {"a": 0.07, "b": 0.06}
    names, _ = judged(few, few, {"a": 0.07, "b": 998.0}, quorum=1)
    assert names == [["a", "b"], ["a", "b"], ["a"]]
    assert judged({"a": 0.07, "b": 998.0}, quorum=1) == ([["a", "b"]], [])  # who is the odd one?


def test_norms_that_grow_slowly_or_are_nothing_are_borne():
    names, notices = judged(*[{n: x * 3.0**i for n, x in HONEST.items()} for i in range(8)])
    assert not notices and all(len(found) == 3 for found in names)
    assert not judged({"a": 0.0, "b": 0.0, "c": 1.0})[1]  # nothing to compare with


def test_below_the_quorum_the_round_is_void():
    with pytest.raises(QuorumLost, match="3 uploads are of usual size, the quorum is 4"):
        judged(HONEST | {"d": 998.0}, quorum=4)


def test_a_sum_is_compared_with_those_before():
    class Summed(Given):
        def exchange(self, task, to):
            return [replace(r, members=("a", "b", "c")) for r in super().exchange(task, to)]

    transport = Judged(Summed(*[{"all": 0.1}] * 4, {"all": 250.0}), None, UsualNorm(30.0), 3, print)
    for number in range(1, 5):
        assert len(list(transport.exchange(Task("train", number), ["a"]))) == 1
    with pytest.raises(QuorumLost, match="all cannot be used: norm 250 is above 3, 30 times"):
        list(transport.exchange(Task("train", 5), ["a"]))


def lengthened(reply):
    model = reply.upload["model"]
    return replace(reply, upload={"model": tree.scale(model, 998.0 / tree.norm(model))})


def longer(task, reply):
    return lengthened(reply) if task.kind == "train" else reply


def turned(task, reply):
    if task.kind != "train":
        return reply
    return replace(reply, upload={"model": tree.scale(reply.upload["model"], -25.0)})


@pytest.mark.parametrize("attack", [longer, turned])
def test_a_long_upload_changes_nothing(tmp_path, monkeypatch, attack):
    folder = small(tmp_path / "fed", sites=4)
    inside = Inside(folder, monkeypatch)
    inside.wrap["plant-2"] = around(after=attack)
    assert_close(inside.train().state, reference(folder, lost="plant-2").state)
    site = read_status(folder)["sites"]["plant-2"]
    assert site["counts"]["rejected"] == 3 and "8 times the usual (excess)" in site["note"]


def test_under_masks_a_site_holds_back_what_is_far_longer_than_usual(tmp_path, monkeypatch):
    folder = masked(tmp_path / "fed", sites=4, rounds=5)
    real = worker_module.answer

    def broken(site, recipe, task, memory, desk):
        reply, memory = real(site, recipe, task, memory, desk)
        odd = (task.kind, task.round, site.id) == ("train", 4, "plant-2")
        return lengthened(reply) if odd else reply, memory

    monkeypatch.setattr(worker_module, "answer", broken)
    told = []
    run = Inside(folder, monkeypatch).train(notice=told.append)
    assert [row["merged"] for row in run.rows if "merged" in row] == [4, 4, 4, 3, 4]
    refused = [n.detail for n in told if n.what == "refused"]
    assert len(refused) == 1 and "this site's upload: norm 998 is above" in refused[0]
