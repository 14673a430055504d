"""The server learns the sum and nothing else, whoever drops out; what does not fit is refused."""

import hashlib
import json
import logging
import weakref
from collections import deque
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedlore import ConfigError, FedloreError
from fedlore.core import tree
from fedlore.core.wire import Reply, Task
from fedlore.privacy.secagg.crypto import KEY, KeyPair, add_mask, seal, unseal
from fedlore.privacy.secagg.filter import SecureAggregation
from fedlore.privacy.secagg.fixedpoint import encode_words, summands
from fedlore.privacy.secagg.pact import (
    KEYS,
    PACT,
    Binding,
    Pact,
    least,
    make_pact,
    masked_flaw,
    pack_message,
    raw_bytes,
    survivors_of,
)

from .masked import Cohort, Given, cohort, counted, upload
from .masked import names as called

STAGES = ["keys", "train", "unmask"]


def plain(members, rows=None):
    return tree.mean((upload(name), float((rows or {}).get(name, 1))) for name in members)


def error(found, wanted):
    return max(tree.norm(tree.sub(found[k], wanted[k])) / tree.norm(wanted[k]) for k in wanted)


@pytest.mark.parametrize("stage", STAGES)
def test_below_the_threshold_the_round_is_void(stage, caplog):
    one = cohort(4, lose=lambda task, name: task.kind == stage and name in called(4)[:2])
    with caplog.at_level(logging.WARNING, "fedlore"):
        assert one.round() == []
    few = {"keys": "at least 3 sites in a round, got 2"}
    assert few.get(stage, f"2 of 4 sites came through '{stage}', 3") in caplog.text
    kinds = [kind for kind, _ in one.wire.seen]
    assert set(kinds) == set(STAGES[: STAGES.index(stage) + 1])  # nothing is asked after that


def test_a_sum_takes_two_exchanges_once_the_keys_are_known():
    asked = []
    one = cohort(4, ask=lambda task: asked.append(task.kind) or task)
    for number in range(1, 4):
        assert len(one.round(number)) == 1
    assert asked == ["keys", *["train", "unmask"] * 3]


def test_uploads_are_added_up_as_they_come():
    """The server holds one of them at a time, however many sites there are."""
    living = weakref.WeakSet()

    def count(task, reply):
        if task.kind != "train":
            return reply
        copy = deepcopy(reply)  # sites keep their own, to send it again
        living.add(copy.upload["masked"]["words"])
        held.append(len(living))
        return copy

    held, one = [], cohort(9, change=count)
    one.wire.seen = deque(maxlen=0)
    (found,) = one.round()
    assert len(found.members) == len(held) == 9 and max(held) <= 2  # the last one and this


def test_a_site_that_was_started_anew_refuses_and_then_gives_its_key():
    one = cohort(4, lose=lambda task, name: task.round == 2 and name == "site-03")
    one.round(1)
    one.round(2)  # its upload and its next key got lost
    asked = []
    one.wire.ask = lambda task: asked.append(task.kind) or task
    (reply,) = one.round(3)
    assert len(reply.members) == 4 and asked == ["keys", "train", "unmask"]
    one.put(one.halves | {"site-03": SecureAggregation().site("site-03")})
    with pytest.raises(FedloreError, match="started anew"):
        one.round(4)


def test_leaving_sites_out_does_not_lower_the_threshold():
    """Else three of ten would do, two of which help the server."""
    settings = {"run": "", "asked": 10, "threshold": 2 / 3, "weights": "equal"}
    assert make_pact(Task("train", 1), called(8), **settings).threshold == 7
    assert make_pact(Task("train", 1), called(12), **settings).threshold == 9
    with pytest.raises(FedloreError, match="6 of 10 sites have a key, 7 are needed"):
        make_pact(Task("train", 1), called(6), **settings)


def test_the_next_round_works_after_a_void_one():
    one = cohort(4, lose=lambda task, name: task.round == 1 and name < "site-02")
    assert one.round(1) == []
    (reply,) = one.round(2)
    assert error(reply.upload, plain(called(4))) < 1e-6
    (again,) = one.round(2)  # a round that is tried again: other keys, the same sum
    assert error(again.upload, reply.upload) < 1e-12


def test_thresholds():
    assert [least(n, 2 / 3) for n in (3, 4, 5, 6, 9, 10, 50)] == [3, 3, 4, 5, 7, 7, 34]
    assert [least(n, 0.5) for n in (3, 4, 10)] == [3, 3, 6]  # a sum of two tells each the other
    assert least(7, 1.0) == 7
    with pytest.raises(ConfigError, match="threshold must lie"):
        SecureAggregation(threshold=0.4)
    with pytest.raises(ConfigError, match="weights must be"):
        SecureAggregation(weights="rows")


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_sites_are_refused(n):
    with pytest.raises(FedloreError, match=f"at least 3 sites in a round, got {n}"):
        cohort(n).round()


def words(reply):
    return reply.upload["masked"]["words"].numpy().view(np.uint64)


def test_a_masked_upload_looks_like_noise():
    """χ² over the 256 values of a byte; beyond 8.5 deviations by chance once in 10^9 or less."""
    n, size = 5, 40_000
    zeros = {name: {"model": {"w": torch.zeros(size)}} for name in called(n)}
    one = Cohort(Given(zeros))
    one.round()
    assert len(one.seen("train")) == n
    for reply in one.seen("train").values():
        assert not noticed(words(reply).view(np.uint8))
        high = words(reply).view(np.uint8).reshape(-1, 8)[:, 7]  # where plain words are 0 or 255
        assert not noticed(high)
    pact = SecureAggregation().pact(Task("train", 1), called(n))
    plain_words = pact.numbers.encode(upload("a", size=size), 1)[1]
    assert noticed(plain_words.view(np.uint8))  # the test can fail


def noticed(data) -> bool:
    counts = np.bincount(data, minlength=256)
    expected = len(data) / 256
    statistic = float(((counts - expected) ** 2 / expected).sum())
    # Wilson and Hilferty: (χ²/255)^(1/3) is close to normal; 6.2 deviations: 3e-10 on one side
    spread = (2 / (9 * 255)) ** 0.5
    return abs((statistic / 255) ** (1 / 3) - (1 - spread**2)) / spread > 6.2


def test_two_runs_with_one_seed_mask_differently_and_agree():
    """The run's seed is public: it must not say anything about masks."""
    one, two = cohort(4), cohort(4)
    (a,), (b,) = one.round(), two.round()
    assert all(torch.equal(t, b.upload["model"][n]) for n, t in a.upload["model"].items())
    for site in called(4):
        x, y = words(one.seen("train")[site]), words(two.seen("train")[site])
        assert (x == y).mean() < 0.01
        assert one.seen("keys")[site].upload["next"]["public"].tolist() != (
            two.seen("keys")[site].upload["next"]["public"].tolist()
        )
    pairs = [words(one.seen("train")[s]) - words(two.seen("train")[s]) for s in called(4)]
    assert not noticed(np.concatenate(pairs).view(np.uint8))


@pytest.mark.parametrize("touched", [["site-01"], ["site-01", "site-03"]], ids=["one", "two"])
def test_another_input_changes_nothing_that_the_server_sees_but_the_sum(touched):
    """With the same entropy all but the masked words of those who changed are the same bytes.

    Two sites that exchange their inputs leave even the sum as it was: the server cannot know.
    """
    seen = []
    for changed in (False, True):
        one = cohort(5, filter=SecureAggregation(entropy=counted(7)))
        if changed:
            given = one.given.uploads
            values = [given[site] for site in touched]
            moved = values[::-1] if len(values) > 1 else [upload("another")]
            given.update(zip(touched, moved, strict=True))
        (reply,) = one.round()
        seen.append((one, reply))
    (one, a), (two, b) = seen
    for (kind, x), (_, y) in zip(one.wire.seen, two.wire.seen, strict=True):
        assert x.client == y.client and x.rows == y.rows and x.metrics == y.metrics
        if kind != "train" or x.client not in touched:
            assert all(
                torch.equal(t, y.upload[k][n]) for k, v in x.upload.items() for n, t in v.items()
            )
        else:
            assert not torch.equal(x.upload["masked"]["words"], y.upload["masked"]["words"])
            rest = [("masked", "layout"), ("sealed", "boxes"), ("sealed", "promises")]
            assert all(torch.equal(x.upload[k][n], y.upload[k][n]) for k, n in rest)
    same = [torch.equal(t, b.upload["model"][n]) for n, t in a.upload["model"].items()]
    assert all(same) if len(touched) > 1 else not any(same)


def test_lists_of_survivors_must_hold_the_threshold_and_the_site_itself():
    short, absent = ["site-00", "site-01"], ["site-01", "site-02", "site-03"]
    for survivors in (short, absent, ["site-00"] * 4, ["site-00", "x", "y"]):
        one = cohort(4, ask=lying(survivors))
        with pytest.raises(FedloreError, match="survivors"):
            one.round()


def test_a_site_answers_no_list_with_a_stranger_on_it():
    """As many names as the cohort has, this site's own among them, and enough without the other."""
    asked = []

    def ask(task):
        if task.kind == "unmask":
            asked.append(task)
            lie = lying(["site-00", "site-01", "site-02", "x"])(task)
            with pytest.raises(FedloreError, match="are not of the cohort"):
                one.halves["site-00"].answer(lie.for_client("site-00"))
        return task

    one = cohort(4, ask=ask)
    one.round()
    assert asked


def lying(survivors):
    """A server that names other sites than those it should."""

    def ask(task):
        if task.kind != "unmask":
            return task
        named = {"names": pack_message(json.dumps(survivors).encode())}
        return replace(task, sent=task.sent | {"survivors": named})

    return ask


def test_a_site_answers_once():
    one = cohort(5)
    *_, task = tasks(one)
    half = one.halves["site-00"]
    first = half.answer(task.for_client("site-00"))
    assert set(first.upload) == {"shares"} and set(first.upload["shares"]) == set(called(5))
    assert {len(t) for t in first.upload["shares"].values()} == {16}  # of its own seed alone
    assert_same(half.answer(task.for_client("site-00")), first)  # the very same question again
    fewer = lying(called(5)[:4])(task)
    with pytest.raises(FedloreError, match="answered once"):
        half.answer(fewer.for_client("site-00"))


def test_what_hides_a_site_from_all_others_never_leaves():
    """Of those in the sum their seeds, also with those who are not; of these nothing."""
    one = cohort(5, lose=lambda task, name: task.kind == "train" and name == "site-04")
    one.round()
    for reply in one.seen("unmask").values():
        assert set(reply.upload["shares"]) == set(called(4))
        assert {len(t) for t in reply.upload["shares"].values()} == {32}  # two seeds of each


def test_secrets_go_when_they_are_used():
    one = cohort(4)
    one.round()
    for half in one.halves.values():
        assert half._session.own.private == b"" and half._session.shares == {}


def tasks(one):
    """All tasks of a round, caught on their way."""
    caught = []
    again = cohort(len(one.given.uploads), ask=lambda t: caught.append(t) or t)
    again.put(one.halves)
    again.round(9)
    return caught


def assert_same(a, b):
    assert a.upload.keys() == b.upload.keys()
    for key, bundle in a.upload.items():
        assert all(torch.equal(t, b.upload[key][n]) for n, t in bundle.items())


def test_nothing_is_answered_out_of_order_or_from_another_round_or_run():
    one = cohort(4)
    _, train, unmask = tasks(one)
    fresh = SecureAggregation().site("site-00")
    with pytest.raises(FedloreError, match="has sent nothing masked"):
        fresh.answer(unmask.for_client("site-00"))
    with pytest.raises(FedloreError, match="without a readable pact"):
        fresh.outbound(train.question(), Reply("site-00", 9, upload("site-00")))
    with pytest.raises(FedloreError, match="not the one that it holds"):  # of before its restart
        fresh.outbound(train, Reply("site-00", 9, upload("site-00")))
    with pytest.raises(FedloreError, match="parameters"):
        fresh.outbound(replace(train, round=8), Reply("site-00", 8, upload("site-00")))
    with pytest.raises(FedloreError, match="parameters"):
        fresh.outbound(replace(train, trial="x"), Reply("site-00", 9, upload("site-00")))
    with pytest.raises(FedloreError, match="parameters"):
        other = SecureAggregation(run="another").site("site-00")
        other.outbound(train, Reply("site-00", 9, upload("site-00")))
    assert len(one.round(10)) == 1
    with pytest.raises(FedloreError, match="not the one that it holds"):  # a key is good once
        one.halves["site-00"].outbound(train, Reply("site-00", 9, upload("site-00")))


def test_two_uploads_never_go_under_one_mask():
    one = cohort(4)
    _, train, _ = tasks(one)
    half = one.halves["site-00"]
    first = half.outbound(train, Reply("site-00", 9, upload("site-00"), 1))
    assert_same(half.outbound(train, Reply("site-00", 9, upload("site-00"), 1)), first)
    with pytest.raises(FedloreError, match="another upload was masked"):
        half.outbound(train, Reply("site-00", 9, upload("other"), 1))


@pytest.mark.parametrize(
    "change",
    [
        {"threshold": 2},
        {"bits": 30},
        {"weights": "size"},
        {"cohort": ("site-00", "site-01")},
        {"cohort": tuple(called(5))},
        {"cohort": ("site-00", "site-01", "site-02", "site-09")},  # as many, one of them another
        {"cohort": ("site-00", "site-00", "site-01", "site-02")},
        {"cohort": ("site-01", "site-02", "site-03")},
        {"kind": "evaluate"},
        {"round": 7},
        {"round": "1"},
        {"run": "another"},
        {"trial": "another"},
        {"extra": 1},
    ],
    ids=str,
)
def test_other_parameters_than_agreed_are_refused(change):
    def ask(task):
        if task.kind != "train":
            return task
        pact = json.loads(raw_bytes(task.sent[PACT]["pact"])) | change
        sent = {PACT: {"pact": pack_message(json.dumps(pact).encode())}}
        return replace(task, sent=task.sent | sent)

    wanted = "parameters|at least 3|readable|does not name|directory"
    with pytest.raises(FedloreError, match=wanted):
        cohort(4, ask=ask).round()


def tampered(kind, spoil):
    def change(task, reply):
        if task.kind != kind or reply.client != "site-01":
            return reply
        return replace(reply, upload=spoil(reply.upload))

    return change


def flipped(bundle, name):
    def spoil(upload):
        t = upload[bundle][name].clone()
        t[len(t) // 2] ^= 1
        return upload | {bundle: upload[bundle] | {name: t}}

    return spoil


def test_a_tampered_box_is_refused_by_its_recipient():
    one = cohort(4, change=tampered("train", flipped("sealed", "boxes")))
    with pytest.raises(FedloreError, match="tampered with or belongs elsewhere"):
        one.round()


def test_a_replayed_box_of_an_earlier_round_is_refused():
    kept = {}

    def change(task, reply):
        if task.kind != "train":
            return reply
        old = kept.setdefault(reply.client, reply.upload["sealed"])
        return replace(reply, upload=reply.upload | {"sealed": old})

    one = cohort(4, change=change)
    assert len(one.round(1)) == 1
    with pytest.raises(FedloreError, match="tampered with or belongs elsewhere"):
        one.round(2)


def test_sites_that_were_told_different_keys_open_nothing_for_each_other():
    """What is derived is bound to all keys, so one swapped key parts those who were told."""
    one = cohort(5)
    _, train, unmask = tasks(one)
    half = SecureAggregation(entropy=counted(3)).site("site-00")
    other = pack_message(KeyPair.fresh(counted(9)).public)
    keys = train.sent[KEYS] | {"site-04": other, "site-00": half._announce()["public"]}
    told = replace(train, sent=train.sent | {KEYS: keys})
    half.outbound(told, Reply("site-00", 9, upload("site-00")))
    with pytest.raises(FedloreError, match="tampered with or belongs elsewhere"):
        half.answer(unmask.for_client("site-00"))


def test_a_round_is_bound_to_its_pact_and_to_every_key():
    pact = Pact("run", "", "train", 3, ("a", "b", "c"), 3, 40, "equal", "")
    keys = {site: site.encode() * 32 for site in pact.cohort}
    bound = {Binding.of(pact, keys), Binding.of(replace(pact, round=4), keys)}
    bound |= {Binding.of(pact, keys | {site: b"x" * 32}) for site in pact.cohort}
    assert len(bound) == 5 and Binding.of(pact, dict(keys)) in bound


def no_bytes(bundle, name):
    return {bundle: {name: torch.zeros(2, 40, dtype=torch.uint8)}}


@pytest.mark.parametrize(
    ("kind", "lose", "spoil", "says"),
    [
        ("unmask", None, flipped("shares", "site-00"), "shares of 'site-00'"),
        ("unmask", "site-03", flipped("shares", "site-00"), "shares of 'site-00'"),
        ("unmask", "site-03", lambda u: {}, "3 shares of 'site-00', 4 are needed"),
        ("unmask", "site-03", lambda u: no_bytes("shares", "site-00"), "3 shares of 'site-00'"),
        ("keys", None, lambda u: {}, "gave no key"),
        ("keys", None, lambda u: no_bytes("next", "public"), "gave no key"),
        ("train", None, lambda u: {k: u[k] for k in ("masked", "next")}, "gave no shares"),
        ("train", None, lambda u: u | no_bytes("sealed", "boxes"), "gave no shares"),
        ("train", None, lambda u: {}, "sent no masked upload"),
        (
            "train",
            None,
            lambda u: u | {"masked": u["masked"] | {"layout": pack_message(b"x")}},
            "layout",
        ),
        (
            "train",
            None,
            lambda u: u | {"masked": u["masked"] | {"words": u["masked"]["words"][:-1]}},
            "do not fit their layout",
        ),
    ],
)
def test_what_a_site_spoils_voids_the_round_or_leaves_it_out(kind, lose, spoil, says, caplog):
    n = 5
    one = cohort(
        n,
        change=tampered(kind, spoil),
        lose=lambda task, name: (task.kind, name) == ("train", lose),
    )
    with caplog.at_level(logging.WARNING, "fedlore"):
        replies = one.round()
    assert says in caplog.text
    if kind == "unmask":
        assert replies == []
    else:
        (reply,) = replies
        lasted = [s for s in called(n) if s != "site-01"]
        assert list(reply.members) == lasted and error(reply.upload, plain(lasted)) < 1e-6


def test_a_site_with_other_tensors_is_left_out(caplog):
    one = cohort(5)
    one.given.uploads["site-02"] = {"model": {"w": torch.zeros(7)}}
    (reply,) = one.round()
    assert "site-02' has other tensors" in caplog.text and "site-02" not in reply.members
    assert error(reply.upload, plain(reply.members)) < 1e-6


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2.0**21])
def test_a_value_that_does_not_fit_ends_at_the_site(value):
    one = cohort(4)
    one.given.uploads["site-01"]["model"]["w"][5] = value
    with pytest.raises(FedloreError, match="the upload holds a value"):
        one.round()
    assert "site-01" not in one.seen("train")


@pytest.mark.parametrize(
    ("weights", "more", "says"),
    [("equal", 1, "weights of 4 sites add up to 5"), ("size", -1000, "weights add up to -996")],
)
def test_a_lying_weight_is_noticed_in_the_sum(weights, more, says, caplog):
    def lie(task, reply):
        if task.kind == "train" and reply.client == "site-01":
            reply.upload["masked"]["words"][0] += more
        return reply

    assert cohort(4, filter=SecureAggregation(weights=weights), change=lie).round() == []
    assert says in caplog.text


def test_steps_by_a_public_coin_are_compared():
    same = {name: {"steps": 7, "nll": 0.3} for name in called(4)}
    (reply,) = cohort(4, metrics=same).round()
    assert reply.metrics == {"steps": 7}
    with pytest.raises(FedloreError, match="'site-02' took 8, 'site-00' took 7"):
        cohort(4, metrics=same | {"site-02": {"steps": 8}}).round()


class Signed:
    """Identities for tests: a signature is a hash of the name and of every byte of the message."""

    def __init__(self, name):
        self.name = name

    def sign(self, message):
        return hashlib.sha256(self.name.encode() + message).digest()

    def check(self, site, message, signature):
        if signature != hashlib.sha256(site.encode() + message).digest():
            raise FedloreError(f"the keys of '{site}' are not signed by it")


def signing(run="", **wire):
    """Sites that know each other."""
    one = cohort(4, filter=SecureAggregation(run=run), **wire)
    one.put({n: SecureAggregation(identity=Signed(n), run=run).site(n) for n in called(4)})
    return one


def test_keys_that_a_server_swaps_are_noticed_where_sites_know_each_other():
    def swap(task, reply):
        if task.kind != "keys" or reply.client != "site-01":
            return reply
        own = KeyPair.fresh(counted(1)).public
        signature = raw_bytes(reply.upload["next"]["public"])[KEY:]
        return replace(reply, upload={"next": {"public": pack_message(own + signature)}})

    assert len(signing().round()) == 1
    with pytest.raises(FedloreError, match="'site-01' are not signed by it"):
        signing(change=swap).round()


def test_keys_that_were_signed_for_another_run_are_refused():
    one, two = signing("first"), signing("second")
    assert len(one.round(1)) == 1
    two.server._keys["site-01"] = one.server._keys["site-01"]
    with pytest.raises(FedloreError, match="'site-01' are not signed by it"):
        two.round(1)


def test_an_old_key_parts_a_site_from_the_rest():
    """A site takes part under its newest key alone, so an old one of its is nobody's."""
    one = cohort(4)
    one.round(1)
    old = dict(one.server._keys)
    one.round(2)
    one.server._keys["site-01"] = old["site-01"]
    with pytest.raises(FedloreError, match="not the one that it holds"):
        one.round(3)


def test_keys_of_one_site_are_not_those_of_two():
    """Whoever holds the keys of two sites could open what is sealed for both."""
    seen = {}

    def twice(task, reply):
        if task.kind == "keys":
            seen[reply.client] = reply.upload
            if reply.client == "site-02":
                return replace(reply, upload=seen["site-01"])
        return reply

    one = cohort(4, change=twice)
    with pytest.raises(FedloreError, match="malformed, or two are the same"):
        one.round()
    assert not one.seen("train")  # whoever was asked first has refused


def test_boxes_open_with_their_key_and_their_words_only():
    draw = counted(3)
    a, b = KeyPair.fresh(draw), KeyPair.fresh(draw)
    key = a.agree(b.public, "x")
    assert key == b.agree(a.public, "x") != a.agree(b.public, "y")
    box = seal(key, b"hello", b"from a", draw)
    assert unseal(key, box, b"from a") == b"hello"
    for other in ((key, box, b"from b"), (bytes(32), box, b"from a"), (key, b"", b"from a")):
        with pytest.raises(FedloreError, match="tampered"):
            unseal(*other)
    with pytest.raises(FedloreError, match="not usable"):
        a.agree(bytes(32), "x")  # a point of small order


@pytest.mark.parametrize("size", [0, 1, 7, 1 << 15, (1 << 15) + 3, 100_000])
def test_masks_cancel_at_any_length(size):
    rng = np.random.default_rng(0)
    start = rng.integers(0, 2**63, size).astype(np.uint64)
    found = start.copy()
    add_mask(found, bytes(range(32)), +1)
    assert size == 0 or (found != start).any()
    shorter = start[: size // 2].copy()
    add_mask(shorter, bytes(range(32)), +1)
    assert (shorter == found[: size // 2]).all()  # one stream, wherever it is cut
    add_mask(found, bytes(range(32)), -1)
    assert (found == start).all()


def test_lists_are_read_with_care():
    for bad in (b"[1]", b"{}", b"x"):
        with pytest.raises(FedloreError, match="without a list"):
            survivors_of(Task("unmask", 1, {"survivors": {"names": pack_message(bad)}}))


def test_what_can_be_seen_of_a_single_masked_reply_is_looked_at():
    like = upload("a")
    layout = [["model/b", "float32", [3]], ["model/w", "float32", [300]]]
    assert encode_words(layout) == 304
    masked = {
        "words": torch.zeros(304, dtype=torch.int64),
        "layout": pack_message(json.dumps(summands(like)[0]).encode()),
    }
    whole = {"masked": masked, "sealed": {}, "next": {"public": torch.zeros(32).byte()}}

    def judge(upload, rows=0, kind="train", like=like):
        return masked_flaw(Task(kind, 1), Reply("a", 1, upload, rows), like)

    assert judge(whole) is None
    assert "none may be shown" in judge(whole, rows=12)
    for words in (masked["words"][:-1], masked["words"].float(), masked["words"][None]):
        assert "another kind or number" in judge(whole | {"masked": masked | {"words": words}})
    assert "names" in judge(whole | {"masked": masked | {"layout": pack_message(b"[]")}})
    assert "without masks" in judge({"model": like["model"]})
    assert "without masks" in judge(whole | {"more": {"w": torch.zeros(2)}})
    assert "without masks" in judge({})
    assert "without masks" in judge(whole | {"next": {"public": torch.zeros(32)}})
    assert judge({"next": {"public": torch.zeros(32).byte()}}, kind="keys") is None
    assert "bytes were asked for" in judge({"shares": {"a": torch.zeros(33)}}, kind="unmask")
    assert "none may be shown" in judge({}, rows=1, kind="unmask")
    wide = {"moments": {"sum": torch.zeros(5).double()}}  # two words for each of its numbers
    told = {"layout": pack_message(json.dumps(summands(wide)[0]).encode())}
    for length, fits in ((11, True), (6, False)):
        words = {"masked": told | {"words": torch.zeros(length, dtype=torch.int64)}}
        assert (judge(whole | words, kind="moments", like=wide) is None) == fits
