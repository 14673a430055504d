"""Quorum, deadline, late replies and sites that come back, over a post of paper."""

import threading
import time
from dataclasses import dataclass, field

import pytest

from fedlore.core.wire import Reply, Task
from fedlore.federation.remote import Letter, LinkLost, QuorumLost, Remote, attend, plain_text


@dataclass
class Paper:
    """A post whose sites answer as told, some polls later."""

    delay: dict = field(default_factory=dict)  # site -> polls until the answer
    wrong: dict = field(default_factory=dict)  # site -> what comes in place of a reply
    here: dict = field(default_factory=dict)  # site -> since when
    asked: list = field(default_factory=list)
    polls: int = 0
    due: dict = field(default_factory=dict)

    def online(self):
        return dict(self.here)

    def push(self, task, to, ttl):
        names = []
        for site in to:
            names.append(f"m{len(self.asked)}")
            self.asked.append((task.round, site))
            self.due[names[-1]] = (self.polls + self.delay.get(site, 0), site, task.round)
        return names

    def wait(self, seconds):
        time.sleep(seconds)

    def pull(self, about):
        self.polls += 1
        ready = [m for m in about if m in self.due and self.due[m][0] < self.polls]
        letters = []
        for message in ready:
            _, site, round = self.due.pop(message)
            if site in self.wrong:
                letters.append(Letter(message, **self.wrong[site]))
            else:
                letters.append(Letter(message, Reply(site, round), size=10))
        return letters


def remote(post, **settings):
    notices = []
    settings = {"deadline": 0.3, "grace": 0.02, "poll": 0.005, "look": 0.05, "quorum": 2} | settings
    return Remote(post, ["a", "b", "c"], watch=notices.append, **settings), notices


def everyone():
    return {"a": "1", "b": "1", "c": "1"}


def names(replies):
    return sorted(reply.client for reply in replies)


def test_all_who_answer_are_heard():
    transport, notices = remote(Paper(here=everyone()))
    assert names(transport.exchange(Task("train", 1), "abc")) == ["a", "b", "c"]
    assert [n.what for n in notices] == ["reply"] * 3 and notices[0].size == 10


def test_a_site_that_is_away_is_not_waited_for_once_there_is_a_quorum():
    transport, notices = remote(Paper(here={"a": "1", "b": "1"}), deadline=60.0)
    assert names(transport.exchange(Task("train", 1), "abc")) == ["a", "b"]
    assert notices[-1].what == "silent" and notices[-1].site == "c"


def test_a_slow_site_is_waited_for_until_the_deadline_and_its_answer_then_dropped():
    post = Paper(here=everyone(), delay={"c": 10_000})
    transport, notices = remote(post)
    assert names(transport.exchange(Task("train", 1), "abc")) == ["a", "b"]
    post.due = {m: (0, s, r) for m, (_, s, r) in post.due.items()}
    post.delay = {"a": 2, "b": 2, "c": 2}
    assert names(transport.exchange(Task("train", 2), "abc")) == ["a", "b", "c"]
    late = [n for n in notices if n.what == "late"]
    assert [(n.site, n.round) for n in late] == [("c", 1)]


def test_too_few_answers_end_the_exchange_with_the_numbers():
    transport, _ = remote(Paper(here={"a": "1"}))
    with pytest.raises(QuorumLost, match="round 4: 1 of 3 sites .* the quorum is 2"):
        list(transport.exchange(Task("train", 4), "abc"))


def test_a_quorum_that_cannot_come_is_not_waited_for():
    wrong = {s: {"wrong": "refused", "detail": "policy"} for s in "ab"}
    transport, notices = remote(Paper(here=everyone(), wrong=wrong), deadline=600.0)
    with pytest.raises(QuorumLost):
        list(transport.exchange(Task("train", 1), "abc"))
    assert {(n.site, n.detail) for n in notices if n.what == "refused"} == {
        ("a", "policy"),
        ("b", "policy"),
    }


def test_a_site_may_take_longer_to_settle_than_a_round_waits():
    """Models of its own are made once, by each for itself."""
    post = Paper(here=everyone(), delay={"c": 40})
    transport, notices = remote(post, deadline=0.1)
    assert names(transport.exchange(Task("ensemble", 4), "abc")) == ["a", "b", "c"]
    assert names(transport.exchange(Task("train", 5), "abc")) == ["a", "b"]
    gone = Paper(here=everyone(), delay={"c": 100_000})
    transport, notices = remote(gone, deadline=0.02)
    assert names(transport.exchange(Task("ensemble", 4), "abc")) == ["a", "b"]
    assert [n.site for n in notices if n.what == "silent"] == ["c"]


def test_scores_need_no_quorum():
    transport, _ = remote(Paper(here={"a": "1"}))
    assert names(transport.exchange(Task("evaluate", 4), "abc")) == ["a"]


def test_a_site_that_comes_back_is_asked_again():
    class Returning(Paper):
        def online(self):
            if self.polls > 3:
                self.here["c"], self.delay = "2", {}
            return dict(self.here)

    post = Returning(here=everyone(), delay={"c": 10_000})
    transport, _ = remote(post, deadline=30.0, quorum=3)
    assert names(transport.exchange(Task("train", 1), "abc")) == ["a", "b", "c"]
    assert post.asked.count((1, "c")) == 2


def test_a_site_that_hangs_up_for_a_moment_is_waited_for_though_there_is_a_quorum():
    """A broken connection is made again: the site goes, comes, and is asked anew."""

    class Reconnecting(Paper):
        looks = 0

        def online(self):
            self.looks += 1
            if self.looks > 9:
                self.delay = {}
                return everyone() | {"c": "2"}
            return {"a": "1", "b": "1"} if self.looks > 6 else everyone()

    post = Reconnecting(here=everyone(), delay={"c": 1_000_000})
    transport, _ = remote(post, deadline=60.0, grace=10.0, look=0.01)
    assert names(transport.exchange(Task("train", 1), "abc")) == ["a", "b", "c"]
    assert post.asked.count((1, "c")) == 2


def test_a_message_that_got_lost_with_its_node_is_no_answer():
    post = Paper(here=everyone(), wrong={"c": {"wrong": "lost"}})
    transport, notices = remote(post)
    assert names(transport.exchange(Task("train", 1), "abc")) == ["a", "b"]
    assert [n.what for n in notices if n.site == "c"] == ["silent"]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"wrong": "malformed (KeyError)"}, "malformed"),
        ({"reply": Reply("c", 7)}, "answer to round 7 was given to round 1"),
        ({}, "an empty reply"),
    ],
)
def test_replies_that_cannot_be_read_are_rejected(wrong, reason):
    transport, notices = remote(Paper(here=everyone(), wrong={"c": wrong}))
    assert names(transport.exchange(Task("train", 1), "abc")) == ["a", "b"]
    assert [reason in n.detail for n in notices if n.what == "rejected"] == [True]


def test_a_filter_needs_as_many_answers_to_a_task_of_its_own_as_it_says():
    """A quorum is waited for, but what the filter can do without does not void a round."""
    own = Task("a filter's own", 1)
    transport, notices = remote(Paper(here={"a": "1", "b": "1"}), quorum=3, needed=2)
    assert names(transport.exchange(own, "abc")) == ["a", "b"]
    assert [n.site for n in notices if n.what == "silent"] == ["c"]
    assert notices[-1].seconds > 0.25  # until the deadline: it might have come back
    with pytest.raises(QuorumLost, match="the quorum is 3"):
        list(transport.exchange(Task("train", 1), "abc"))
    transport, _ = remote(Paper(here={"a": "1"}), quorum=3, needed=2)
    with pytest.raises(QuorumLost, match="the quorum is 2"):
        list(transport.exchange(own, "abc"))


def test_what_others_say_is_one_short_line():
    assert plain_text("a\x1b[2J\nb\u202e") == "a\\x1b[2J\\nb\\u202e"
    assert len(plain_text("x" * 100_000)) == 503
    assert plain_text("at least 3, ε = 4") == "at least 3, ε = 4"


def test_a_site_that_stalls_twice_is_left_out_named_and_asked_again_once_it_is_started_again():
    post = Paper(here=everyone(), delay={"c": 10**6})
    transport, notices = remote(post, deadline=0.05)
    for round in (1, 2, 3):
        assert names(transport.exchange(Task("train", round), "abc")) == ["a", "b"]
    assert (2, "c") in post.asked and (3, "c") not in post.asked
    silent = [n for n in notices if n.what == "silent"]
    assert [n.site for n in silent] == ["c", "c"] and "left out" in silent[1].detail
    list(transport.exchange(Task("unmask", 3), "abc"))  # of a filter: no other training
    assert post.asked[-1] == (3, "b")
    post.here["c"] = "2"
    list(transport.exchange(Task("train", 4), "abc"))
    assert (4, "c") in post.asked
    list(transport.exchange(Task("train", 1, trial="0/0/3"), "abc"))  # another training
    assert (1, "c") in post.asked[-3:]


def test_who_stalls_is_waited_for_where_there_is_no_quorum_otherwise():
    post = Paper(here=everyone(), delay={"c": 10**6})
    transport, _ = remote(post, deadline=0.05, quorum=3)
    for round in (1, 2, 3):
        with pytest.raises(QuorumLost):
            list(transport.exchange(Task("train", round), "abc"))
    assert (3, "c") in post.asked


def test_a_site_says_once_that_it_cannot_reach_its_coordinator():
    said, stop = [], threading.Event()

    class Gone:
        def enter(self):
            if len(said) == 2:
                stop.set()
            raise LinkLost("nobody answers" if len(said) < 1 or stop.is_set() else "it is full")

        def leave(self):
            raise LinkLost("gone")

    stop.wait = lambda seconds: stop.is_set()
    attend(Gone(), stop, on_lost=said.append)
    assert said[:2] == ["nobody answers", "it is full"]
