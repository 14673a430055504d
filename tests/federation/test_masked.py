"""A deployed federation under secure aggregation: the same sums, and nothing else on the wire."""

import shutil
from dataclasses import replace

import pytest
import torch

from fedlore import FedloreError
from fedlore.core.wire import Task
from fedlore.federation.coordinator import training as coordinator
from fedlore.federation.coordinator.status import read_status
from fedlore.federation.coordinator.uploads import Judged
from fedlore.federation.journal import read_state
from fedlore.federation.norms import UsualNorm
from fedlore.federation.remote import QuorumLost, Refusal
from fedlore.federation.settings import read_deployed
from fedlore.federation.site import worker as worker_module
from fedlore.federation.site.consent import accept_terms
from fedlore.federation.site.folder import read_kit
from fedlore.federation.site.worker import Worker
from fedlore.federation.terms import terms_of

from ..laws.test_algorithms import assert_close
from .inside import Inside, around, audit_lines, edited, reference, small

FIXED = {"rtol": 1e-6, "atol": 1e-6}  # what fixed point and float32 may lose
HIDDEN = ("secure_aggregation = false", "secure_aggregation = true")


def masked(folder, **settings):
    small(folder, **settings)
    edited(folder / "federation.toml", HIDDEN)
    for home in (folder / "sites").iterdir():
        edited(home / "site.toml", HIDDEN)
    return folder


@pytest.fixture
def folder(tmp_path):
    return masked(tmp_path / "fed", sites=4)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "scaffnew", "ditto"])
def test_equals_the_run_in_one_process(tmp_path, monkeypatch, algorithm):
    folder = masked(tmp_path / "fed", algorithm=algorithm)
    run, local = Inside(folder, monkeypatch).train(), reference(folder)
    assert_close(run.state, local.state, **FIXED)
    assert run.accepted == local.accepted
    merged = [row["merged"] for row in run.rows if "merged" in row]
    assert merged == [3, 3, 3]


def test_by_size_the_rows_count_and_stay_hidden(folder, monkeypatch):
    edited(folder / "federation.toml", ("rounds = 3", 'rounds = 3\nweights = "size"'))
    rows = (folder / "sites" / "plant-1" / "train.csv").read_text().splitlines()
    (folder / "sites" / "plant-1" / "train.csv").write_text("\n".join(rows[:11]) + "\n")
    seen = []
    inside = Inside(folder, monkeypatch)
    for name in inside.keys:
        inside.wrap[name] = watched(seen)
    run = inside.train()
    assert_close(run.state, reference(folder).state, **FIXED)
    assert seen and {reply.rows for _, reply in seen} == {0}


def watched(seen):
    return around(after=lambda task, reply: seen.append((task, reply)) or reply)


def test_no_plain_upload_is_in_any_message(folder, monkeypatch):
    """The site's own store holds its upload in the clear; not a row of its bytes travels."""
    inside = Inside(folder, monkeypatch)
    inside.train()
    wire = b"\n".join(inside.wire)
    for home in (folder / "sites").iterdir():
        (path,) = (home / "state").glob("reply-*")
        upload = read_state(path)[1]["model"]
        for t in upload.values():
            assert t.dtype == torch.float32
            if t.abs().max() > 0:
                assert t.numpy().tobytes()[:16] not in wire


def failing(kind, times, rounds=(2,)):
    """A site that breaks down at one stage, so many times."""
    left = [times]

    def before(task):
        if task.kind == kind and task.round in rounds and left[0]:
            left[0] -= 1
            raise RuntimeError("the power is gone")

    return around(before)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stage", ["keys", "train", "unmask"])
def test_a_site_that_breaks_down_is_done_without(folder, monkeypatch, stage):
    edited(folder / "federation.toml", ("rounds = 3", "rounds = 2"))
    inside = Inside(folder, monkeypatch)
    inside.wrap["plant-2"] = failing(stage, 1, rounds=(1,))
    run = inside.train()
    merged = [row["merged"] for row in run.rows if "merged" in row]
    assert merged == ([4, 4] if stage == "unmask" else [3, 4])
    assert run.accepted["plant-2"] == 2


def test_a_void_round_is_tried_again_with_new_masks_and_the_same_uploads(folder, monkeypatch):
    trained, sent = [], []
    real = worker_module.answer

    def counted(site, recipe, task, memory, desk):
        trained.append((task.kind, task.round, site.id))
        return real(site, recipe, task, memory, desk)

    monkeypatch.setattr(worker_module, "answer", counted)
    inside = Inside(folder, monkeypatch)
    monkeypatch.setattr(coordinator, "ATTEMPTS", 2)
    for name in ("plant-2", "plant-3"):
        inside.wrap[name] = failing("unmask", 1)
    inside.wrap["plant-1"] = watched(sent)
    run = inside.train()
    assert_close(run.state, reference(folder).state, **FIXED)
    assert len([t for t in trained if t[:2] == ("train", 2)]) == 4  # nobody trained twice
    words = [
        reply.upload["masked"]["words"]
        for task, reply in sent
        if (task.kind, task.round) == ("train", 2)
    ]
    assert len(words) == 2 and (words[0] == words[1]).float().mean() < 0.01


def test_below_the_threshold_the_run_ends_and_says_so(folder, monkeypatch):
    inside = Inside(folder, monkeypatch)
    for name in ("plant-2", "plant-3"):
        inside.wrap[name] = failing("train", 9)
    with pytest.raises(QuorumLost, match=r"2 of 4 sites .* 'train' .* quorum is 3.*--resume"):
        inside.train()
    assert read_status(folder)["state"] == "stopped"
    inside.wrap.clear()
    assert_close(inside.train(resume=True).state, reference(folder).state, **FIXED)


def test_two_sites_are_too_few(tmp_path, monkeypatch):
    folder = masked(tmp_path / "fed", sites=2)
    with pytest.raises(FedloreError, match="at least 3 sites in a round, got 2 of 2"):
        Inside(folder, monkeypatch).train()
    assert not (folder / "journal").exists()


def test_an_upload_beyond_the_bound_stays_at_home(folder, monkeypatch):
    edited(folder / "federation.toml", ("largest = 1000.0", "largest = 1e-6"))
    told = []
    with pytest.raises(QuorumLost):
        Inside(folder, monkeypatch).train(notice=told.append)
    refused = {n.detail for n in told if n.what == "refused"}
    assert refused == {"this site's upload is longer than the agreed 1e-06 (largest)"}


def spoiled(change):
    def after(task, reply):
        return replace(reply, **change(reply)) if task.kind == "train" else reply

    return around(after=after)


def cut(reply):
    bundle = reply.upload["masked"]
    return {"upload": reply.upload | {"masked": bundle | {"words": bundle["words"][:-1]}}}


def test_what_is_no_masked_upload_is_rejected_and_its_masks_are_taken_away(folder, monkeypatch):
    edited(folder / "federation.toml", ("rounds = 3", "rounds = 1"))
    inside = Inside(folder, monkeypatch)
    inside.wrap["plant-2"] = spoiled(cut)
    run, without = inside.train(), reference(folder, lost="plant-2")
    assert_close(run.state, without.state, **FIXED)
    assert run.accepted == without.accepted
    site = read_status(folder)["sites"]["plant-2"]
    assert site["counts"]["rejected"] == 1 and "of another kind or number" in site["note"]


def test_a_poisoned_sum_is_not_merged(folder, monkeypatch):
    """A site that does not keep the bound: the sum shows it, and the round is void."""

    def loud(reply):
        words = reply.upload["masked"]["words"].clone()
        words[1] += 2**58
        return {"upload": reply.upload | {"masked": reply.upload["masked"] | {"words": words}}}

    inside = Inside(folder, monkeypatch)
    inside.wrap["plant-2"] = spoiled(loud)
    with pytest.raises(QuorumLost, match="round 1: the sum of 4 sites cannot be used: norm"):
        inside.train()


def test_nothing_at_all_is_void():
    class Silent:
        def clients(self):
            return ["a"]

        def exchange(self, task, to):
            return []

    judged = Judged(Silent(), lambda task, reply: None, UsualNorm(30.0), 1, print)
    with pytest.raises(QuorumLost, match="gave no sum"):
        list(judged.exchange(Task("train", 3), ["a"]))
    assert list(judged.exchange(Task("finish", 4), ["a"])) == []


def home_of(folder, name="plant-1"):
    return folder / "sites" / name


def test_the_audit_log_tells_whose_sum_was_read(folder, monkeypatch):
    Inside(folder, monkeypatch).train()
    lines = audit_lines(home_of(folder))
    assert [x["kind"] for x in lines][:3] == ["keys", "moments", "unmask"]
    last = [x for x in lines if x["kind"] == "unmask"][-1]
    assert last["survivors"] == ["plant-1", "plant-2", "plant-3", "plant-4"]


def test_tasks_of_the_protocol_need_terms_that_have_it(folder):
    worker = Worker(read_kit(home_of(folder)))
    agreed = read_deployed(folder)
    terms = terms_of(agreed, run="x", participants=4)
    open_terms = replace(terms, privacy=replace(terms.privacy, secure_aggregation=False))
    with pytest.raises(Refusal, match="secure aggregation is demanded"):
        worker(Task("moments", 0), open_terms.text())
    edited(home_of(folder) / "site.toml", HIDDEN[::-1])
    accept_terms(read_kit(home_of(folder)), open_terms)
    with pytest.raises(Refusal, match="belongs to a defence that these terms do not have"):
        Worker(read_kit(home_of(folder)))(Task("keys", 1), open_terms.text())
    accept_terms(read_kit(home_of(folder)), terms)
    with pytest.raises(Refusal, match="'moments' came without a readable pact"):
        worker(Task("moments", 0), terms.text())
    with pytest.raises(Refusal, match="list of survivors"):
        worker(Task("unmask", 1), terms.text())


def test_a_site_may_ask_for_more_survivors_than_the_threshold(folder, monkeypatch):
    edited(home_of(folder) / "site.toml", ("min_participants = 2", "min_participants = 4"))
    inside = Inside(folder, monkeypatch)
    inside.wrap["plant-2"] = failing("train", 1)
    told = []
    with pytest.raises(QuorumLost):
        inside.train(notice=told.append)
    assert "policy: at least 4 participants, 3 are left" in {n.detail for n in told}


def test_a_sum_of_fewer_than_the_terms_promise_is_not_unmasked(folder, monkeypatch):
    """Sites add noise for as many as the terms say: fewer would carry too little of it."""
    edited(folder / "federation.toml", ("quorum = 0.5", "quorum = 1.0"))
    lax = coordinator.Remote
    monkeypatch.setattr(
        coordinator, "Remote", lambda mail, sites, least, *rest: lax(mail, sites, 3, *rest)
    )
    inside = Inside(folder, monkeypatch)
    inside.wrap["plant-2"] = failing("train", 1)
    told = []
    with pytest.raises(QuorumLost):
        inside.train(notice=told.append)
    assert "the terms need 4 answers in a round, 3 are left" in {n.detail for n in told}


def introduce(folder):
    """Everybody gives everybody its identity, past the coordinator."""
    homes = sorted((folder / "sites").iterdir())
    for home in homes:
        (home / "peers").mkdir()
        for other in homes:
            if other != home:
                shutil.copy(other / "identity.pub", home / "peers" / f"{other.name}.pub")


def test_sites_that_know_each_other_notice_swapped_keys(folder, monkeypatch):
    edited(folder / "federation.toml", ("rounds = 3", "rounds = 1"))
    inside = Inside(folder, monkeypatch)
    first = inside.train()  # makes the identities
    assert_close(first.state, reference(folder).state, **FIXED)
    assert (home_of(folder) / "identity.key").stat().st_mode & 0o077 == 0
    introduce(folder)
    inside.restart()
    assert inside.train().accepted == first.accepted

    def swap(task, reply):
        if task.kind != "keys":
            return reply
        other = reply.upload["next"]["public"].clone()
        other[:32] = torch.arange(32, dtype=torch.uint8)
        return replace(reply, upload={"next": {"public": other}})

    inside.wrap["plant-2"] = around(after=swap)
    told = []
    with pytest.raises(QuorumLost):
        inside.train(notice=told.append)
    details = " ".join(n.detail for n in told)
    assert "the keys of 'plant-2' in this round are not signed by the identity" in details
    inside.wrap.clear()
    (home_of(folder) / "peers" / "plant-3.pub").unlink()
    inside.restart()
    run = inside.train(notice=told.append)  # plant-1 does without, three are enough
    assert run.accepted == {"plant-2": 1, "plant-3": 1, "plant-4": 1}
    assert "no identity of 'plant-3'" in " ".join(n.detail for n in told)


def test_spoiled_identities_are_named(folder):
    home = home_of(folder)
    (home / "peers").mkdir()
    (home / "peers" / "plant-2.pub").write_text("nothing")
    terms = terms_of(read_deployed(folder), run="x", participants=4)
    with pytest.raises(Refusal, match="is not a public key"):
        Worker(read_kit(home))(Task("keys", 1), terms.text())
    shutil.copy(home / "site.pub", home / "peers" / "plant-2.pub")
    with pytest.raises(Refusal, match="plant-2.pub' must be another site's identity.pub"):
        Worker(read_kit(home))(Task("keys", 1), terms.text())
    (home / "identity.key").write_bytes((home / "site.key").read_bytes())
    with pytest.raises(Refusal, match="must be an Ed25519 key"):
        Worker(read_kit(home))(Task("keys", 1), terms.text())
