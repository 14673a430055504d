"""Uploads that the server adds and cannot read."""

import json
import logging
import stat
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedlore.core import tree
from fedlore.core.wire import Reply, Task
from fedlore.errors import ConfigError, FedloreError
from fedlore.privacy.ckks import cipher as he
from fedlore.privacy.ckks.filter import Ckks
from fedlore.privacy.secagg.pact import pack_message

KEY = he.new_key()
SENT = {"model": {"w": torch.zeros(60, 70), "b": torch.zeros(7)}}  # 4207 numbers: 2 ciphertexts
TASK = Task("train", 1, SENT)


def ckks(sites=3, **changes):
    return Ckks(sites, **({"key": KEY} | changes))


def upload(seed, size=1e-3):
    g = torch.Generator().manual_seed(seed)
    return {
        k: {n: size * torch.randn(t.shape, generator=g) for n, t in b.items()}
        for k, b in SENT.items()
    }


class Sites:
    """Three sites with fixed uploads; what passes by can be looked at and changed."""

    def __init__(self, filter, changed=lambda task, reply: reply, rows=(10, 20, 30), size=1e-3):
        self.halves = {f"s{i}": filter.site(f"s{i}") for i in range(len(rows))}
        self.rows, self.changed, self.size = rows, changed, size
        self.seen = []

    def clients(self):
        return list(self.halves)

    def exchange(self, task, to):
        for name in to:
            i = int(name[1:])
            half = self.halves[name]
            if task.kind == "decrypt":
                try:
                    reply = half.answer(task)
                except FedloreError as error:
                    self.seen.append((task, str(error)))
                    continue
            else:
                reply = Reply(name, task.round, upload(i, self.size), self.rows[i])
                reply = half.outbound(task, reply)
            reply = self.changed(task, reply)
            self.seen.append((task, reply))
            yield reply


def ask(filter, task=TASK, to=None, **kwargs):
    sites = Sites(filter, **kwargs)
    return list(filter.over(sites).exchange(task, to or sites.clients())), sites


def plain_mean(weights, size=1e-3):
    return tree.mean((upload(i, size), float(w)) for i, w in enumerate(weights) if w)


def flat(payload):
    found = [bundle[n].double().reshape(-1) for bundle in payload.values() for n in sorted(bundle)]
    return torch.cat(found)


def error(found, wanted):
    return float((flat(found) - flat(wanted)).norm() / flat(wanted).norm())


@pytest.mark.parametrize("size", [1e-4, 1.0, 100.0])
@pytest.mark.parametrize("weights", ["equal", "size"])
def test_the_sum_of_ciphertexts_is_the_sum(weights, size):
    filter = ckks(weights=weights)
    (reply,), sites = ask(filter, size=size)
    wanted = plain_mean((1, 1, 1) if weights == "equal" else (10, 20, 30), size)
    assert error(reply.upload, wanted) < 1e-5
    assert reply.names == ("s0", "s1", "s2") and reply.rows == (3 if weights == "equal" else 60)
    assert 0 <= max(filter.losses.values()) < 1e-5
    assert all(r.rows == 0 for _, r in sites.seen)


def test_the_server_sees_bytes_and_never_the_key():
    _, sites = ask(ckks())
    for task, reply in sites.seen:
        if task.kind == "train":
            assert {n: t.dtype for n, t in reply.upload["ckks"].items()} == {
                "cipher": torch.uint8,
                "lengths": torch.int64,
                "about": torch.uint8,
            }
    assert repr(KEY) not in repr(ckks()) and "key" not in repr(ckks())
    assert Ckks(3).over(sites) is not None  # the server's half is made without one


def test_a_ciphertext_looks_like_noise_and_is_new_for_each_site():
    _, sites = ask(ckks(), size=0.0)
    one, two, _ = (r.upload["ckks"]["cipher"] for t, r in sites.seen if t.kind == "train")
    words = one[1000:61_000].reshape(-1, 8)  # of 60 bits: one byte in eight is half empty
    half = (words < 16).double().mean(0)
    full = words[:, half < 0.5]
    assert full.shape[1] == 7
    counts = torch.bincount(full.reshape(-1).long(), minlength=256).double()
    expected = counts.sum() / 256
    assert float(((counts - expected) ** 2 / expected).sum()) < 400  # chi-square, 255: p < 1e-7
    assert float((one == two).double().mean()) < 0.05


def test_a_site_that_does_not_answer_is_left_out():
    (reply,), _ = ask(ckks(), to=["s0", "s2"])
    assert reply.members == ("s0", "s2")
    assert error(reply.upload, plain_mean((1, 0, 1))) < 1e-5
    assert ask(ckks(), to=["s1"])[0] == []  # the sum of one is that one


def test_the_same_question_gets_the_same_ciphertext_and_the_same_answer():
    filter = ckks()
    sites = Sites(filter)
    server = filter.over(sites)
    (one,), (two,) = (list(server.exchange(TASK, ["s0", "s1", "s2"])) for _ in range(2))
    assert error(one.upload, two.upload) == 0.0


def test_a_second_sum_in_the_same_round_is_not_decrypted():
    filter = ckks()
    sites = Sites(filter)
    server = filter.over(sites)
    assert list(server.exchange(TASK, ["s0", "s1", "s2"]))
    assert list(server.exchange(TASK, ["s0", "s1"])) == []
    assert any("another sum was decrypted already" in str(r) for _, r in sites.seen)


def half_and_sum(members=("s0", "s1"), count=2, round=1, key=None):
    """A half that has uploaded, and a task to decrypt the sum of `count` uploads."""
    filter = ckks()
    half, other = filter.site("s0"), ckks(key=key or KEY).site("s1")
    one = half.outbound(TASK, Reply("s0", 1, upload(0), 10)).upload["ckks"]
    two = other.outbound(TASK, Reply("s1", 1, upload(1), 10)).upload["ckks"]
    context, p = he.context(), filter.parameters("train")
    total = he.parse_ciphers(context, one, 4207, p)
    if count == 2:
        total = he.add_ciphers(total, he.parse_ciphers(context, two, 4207, p))
    about = json.dumps({"kind": "train", "members": list(members)}).encode()
    bundle = he.frame_ciphers(v.serialize() for v in total) | {"about": pack_message(about)}
    return half, Task("decrypt", round, {"ckks": bundle})


def test_a_sum_that_is_one_is_answered():
    half, task = half_and_sum()
    reply = half.answer(task)
    assert reply.upload["sum"]["values"].shape == (4207,)
    assert half.answer(task) is reply


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"members": ("s0",)}, "a sum of 1 sites is not decrypted: at least 2"),
        ({"members": ("s0", "s0")}, "a sum of 1 sites is not decrypted"),
        ({"members": ("s1", "s2")}, "this site among them"),
        ({"count": 1}, "is not the sum of 2 uploads"),
        ({"members": ("s0", "s1", "s2")}, "is not the sum of 3 uploads"),
        ({"round": 2}, "round 2: this site has sent nothing that is in this sum"),
        ({"key": he.new_key()}, "is not the sum of 2 uploads under this site's key"),
    ],
    ids=("one", "twice", "without", "count", "three", "round", "key"),
)
def test_what_is_no_sum_of_this_round_is_not_decrypted(changes, rule):
    half, task = half_and_sum(**changes)
    with pytest.raises(FedloreError, match=rule):
        half.answer(task)


def test_decrypted_numbers_are_flooded():
    """The exact result of a decryption would give the secret key away (Li and Micciancio 2021)."""
    half, task = half_and_sum()
    twin, _ = half_and_sum()
    twin._last = half._last
    answers = []
    for _ in range(2):
        half._last.answer = None
        answers.append(half.answer(task).upload["sum"]["values"])
    apart = (answers[0] - answers[1]).numpy()
    assert abs(apart.std() / (np.sqrt(2) * he.FLOOD) - 1) < 0.1


def flipped(bundle, place):
    data = bundle["cipher"].clone()
    data[place] ^= 255
    return {"cipher": data}


def longer(bundle):
    data = torch.cat([bundle["cipher"], torch.zeros(300_000).byte()])
    return {"cipher": data, "lengths": bundle["lengths"] + torch.tensor([0, 300_000])}


def other_scale(bundle):
    return he.encrypt(he.key_context(KEY), np.zeros(4207), 1.0, he.Parameters(50))


ODD = json.dumps({"layout": [["m", "w", "int8", [3]]]}).encode()
#: What is put in place of parts of a ciphertext.
HARM = {
    "head": lambda b: flipped(b, 30),
    "zeros": lambda b: {"cipher": torch.zeros_like(b["cipher"])},
    "short": lambda b: {"cipher": b["cipher"][:-1]},
    "long": longer,
    "fewer": lambda b: {"lengths": b["lengths"][:1]},
    "negative": lambda b: {"lengths": b["lengths"] * torch.tensor([-1, 1])},
    "scale": other_scale,
    "about": lambda b: {"about": pack_message(b"[")},
    "layout": lambda b: {"about": pack_message(ODD)},
}


def tampered(harm):
    def change(task, reply):
        if task.kind != "train" or reply.client != "s1":
            return reply
        bundle = reply.upload["ckks"]
        return replace(reply, upload=upload(1) if harm is None else {"ckks": bundle | harm(bundle)})

    return change


@pytest.mark.parametrize("how", [*HARM, "plain"])
def test_a_bad_ciphertext_is_left_out(how, caplog):
    with caplog.at_level(logging.WARNING):
        (reply,), _ = ask(ckks(), changed=tampered(HARM.get(how)))
    assert reply.members == ("s0", "s2")
    assert error(reply.upload, plain_mean((1, 0, 1))) < 1e-5
    assert "'s1'" in caplog.text


def test_a_changed_ciphertext_that_can_be_read_voids_the_round(caplog):
    with caplog.at_level(logging.WARNING):
        found, sites = ask(ckks(), changed=tampered(lambda b: flipped(b, 5000)))
    assert found == []
    assert sum("is not the sum of 3 uploads" in str(r) for _, r in sites.seen) == 3
    assert "is void: 0 sites decrypted the sum" in caplog.text


def test_a_site_with_another_key_is_left_out(caplog):
    filter = ckks()
    sites = Sites(filter)
    sites.halves["s1"] = ckks(key=he.new_key()).site("s1")
    with caplog.at_level(logging.WARNING):
        (reply,) = filter.over(sites).exchange(TASK, ["s0", "s1", "s2"])
    assert reply.members == ("s0", "s2")
    assert "'s1' has another key or other tensors" in caplog.text


def lying(task, reply):
    if task.kind == "decrypt" and reply.client == "s2":
        values = reply.upload["sum"]["values"].clone()
        values[17] += 1e-3
        return replace(reply, upload={"sum": reply.upload["sum"] | {"values": values}})
    return reply


def test_sites_that_disagree_void_the_round(caplog):
    with caplog.at_level(logging.WARNING):
        found, _ = ask(ckks(), changed=lying)
    assert found == [] and "the sites do not agree on the sum" in caplog.text


@pytest.mark.parametrize("value", [2.0**20, float("nan"), float("inf")])
def test_values_beyond_the_range_never_leave(value):
    sent = {"model": {"w": torch.tensor([0.0, value])}}
    with pytest.raises(FedloreError, match="not finite|weight times value must stay below"):
        ckks().site("s0").outbound(Task("train", 1), Reply("s0", 1, sent, 5))


def test_more_sites_than_the_scale_has_room_for_are_void(caplog):
    with caplog.at_level(logging.WARNING):
        assert ask(ckks(sites=2))[0] == []
    assert "3 sites, the scale leaves room for 2" in caplog.text


@pytest.mark.parametrize("sites", [2, 3, 10, 50, 1000])
@pytest.mark.parametrize("kind", ["train", "moments"])
def test_parameters_leave_room_for_the_largest_sum_and_far_more_noise_than_ciphertexts_have(
    sites, kind
):
    p = he.Parameters(sites, kind)
    assert np.log2(sites * p.bound) + p.bits < sum(he.MODULI[:-1]) - 1
    assert sum(he.MODULI) <= 218  # the homomorphic encryption standard's limit at degree 8192
    noise = 3.2 * np.sqrt(he.DEGREE * sites) / 2.0**p.bits
    assert he.FLOOD > 2.0 ** {"train": 38, "moments": 18}[kind] * noise


def test_the_largest_sum_comes_out_right():
    p = he.Parameters(4)
    key, context = he.key_context(KEY), he.context()
    edge = np.full(5, 0.999 * p.bound) * np.array([1, -1, 1, -1, 0])
    total = None
    for _ in range(4):
        total = he.add_ciphers(
            total, he.parse_ciphers(context, he.encrypt(key, edge, 1.0, p), 5, p)
        )
    back = he.parse_ciphers(key, he.frame_ciphers(v.serialize() for v in total), 5, p)
    weights, values = he.decrypt(back)
    np.testing.assert_allclose(values, 4 * edge, rtol=1e-12, atol=1e-6)
    np.testing.assert_allclose(weights, [4.0])


def test_a_key_file_is_private_and_checked(tmp_path):
    path = tmp_path / "ckks.key"
    name = he.write_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert he.key_fingerprint(he.read_key(path)) == name != he.key_fingerprint(KEY)
    with pytest.raises(FedloreError, match="exists already: a new key would shut the others out"):
        he.write_key(path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(FedloreError, match="no CKKS key of this version, or it is damaged"):
        he.read_key(path)
    path.write_bytes(bytes(he.KEY_FILE + 1))
    with pytest.raises(FedloreError, match="larger than"):
        he.read_key(path)
    with pytest.raises(FedloreError, match="cannot read the CKKS key .*: No such file"):
        he.read_key(tmp_path / "none.key")
    with pytest.raises(FedloreError, match="cannot write"):
        he.write_key(tmp_path / "none" / "ckks.key")


def test_a_report_says_what_was_lost():
    filter = ckks()

    def line():
        (found,) = filter.lines(rounds=1, sample=1.0, bare=False)
        return found

    assert line().endswith("relative error not measured")
    ask(filter)
    assert line().startswith(
        "CKKS: degree 8192, moduli of 60+60+60 bits, scale 2^96, 2 ciphertexts a site, relative "
    )
    assert float(line().split()[-2]) < 1e-6


CIPHER = {"cipher": torch.uint8, "lengths": torch.int64, "about": torch.uint8}
SUM = {"weights": torch.float64, "values": torch.float64}


def judged(kind, bundle, tensors, *, like=True, **about):
    upload = {bundle: {n: torch.zeros(2, dtype=k) for n, k in tensors.items()}} if bundle else {}
    shaped = {"model": {"w": torch.zeros(3)}} if like else {}
    return Ckks(3).flaw(Task(kind, 1), Reply("a", 1, upload, **about), shaped)


def test_a_reply_holds_exactly_the_tensors_of_its_kind():
    assert judged("train", "ckks", CIPHER) is None
    assert judged("moments", "ckks", CIPHER) is None
    assert judged("decrypt", "sum", SUM) is None
    assert judged("train", "", {}, like=False) is None  # an algorithm that uploads nothing


@pytest.mark.parametrize(
    ("kind", "bundle", "tensors"),
    [
        ("train", "", {}),
        ("train", "model", {"w": torch.float32}),
        ("train", "sum", SUM),
        ("train", "ckks", {}),
        ("train", "ckks", CIPHER | {"more": torch.uint8}),
        ("train", "ckks", CIPHER | {"cipher": torch.float32}),
        ("train", "ckks", CIPHER | {"lengths": torch.int32}),
        ("moments", "ckks", CIPHER | {"about": torch.float64}),
        ("decrypt", "ckks", CIPHER),
        ("decrypt", "sum", {"values": torch.float64}),
        ("decrypt", "sum", SUM | {"weights": torch.float32}),
    ],
)
def test_other_tensors_are_flawed(kind, bundle, tensors):
    assert "something else than" in judged(kind, bundle, tensors)


def test_what_is_said_beside_a_ciphertext_must_make_sense():
    assert "none may be shown" in judged("train", "ckks", CIPHER, rows=3)
    assert "not finite" in judged("decrypt", "sum", SUM, metrics={"loss": float("nan")})


def test_bad_settings_are_refused():
    with pytest.raises(ConfigError, match="at least 2 sites in a round, got 1"):
        Ckks(1)
    with pytest.raises(ConfigError, match="weights must be equal or size, got 'rows'"):
        Ckks(3, weights="rows")
    with pytest.raises(FedloreError, match="site 'a' has no CKKS key: one site makes it"):
        Ckks(3).site("a")
    with pytest.raises(ConfigError, match="moments, gram, vote are encrypted, got 'finish'"):
        he.Parameters(3, "finish")
    with pytest.raises(FedloreError, match="came without the names"):
        ckks().site("a").answer(Task("decrypt", 1))
