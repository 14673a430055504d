"""A training over kits and messages: the same bits as in one process, whatever goes wrong."""

import errno
import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedlore import FedloreError, Knowledge
from fedlore.engine import Run
from fedlore.federation import terms
from fedlore.federation.coordinator import training as coordinator
from fedlore.federation.coordinator.status import line_reports, read_status
from fedlore.federation.household import local_sites
from fedlore.federation.journal import Journal, read_state
from fedlore.federation.remote import LinkLost, Notice, QuorumLost
from fedlore.federation.site.folder import read_kit
from fedlore.federation.site.worker import Worker
from fedlore.federation.terms import fedlore_version

from ..laws.test_algorithms import assert_close
from .inside import Crash, Inside, around, edited, reference, small


@pytest.fixture
def inside(folder, monkeypatch):
    return Inside(folder, monkeypatch)


@pytest.fixture
def folder(tmp_path):
    return small(tmp_path / "fed")


def crash_after(round):
    def done(run, seconds):
        if run.round == round:
            raise Crash

    return done


@pytest.mark.sampled(3)
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "scaffnew", "ditto"])
def test_equals_the_run_in_one_process(tmp_path, monkeypatch, algorithm):
    folder = small(tmp_path / "fed", algorithm=algorithm)
    run, local = Inside(folder, monkeypatch).train(), reference(folder)
    assert_close(run.state, local.state)
    assert run.rows == local.rows
    about, shared = read_state(folder / "shared.weights")
    assert about["round"] == 3 and torch.equal(
        shared["model"]["body.1.0.bias"], local.state["model"]["body.1.0.bias"]
    )
    for site in ("plant-1", "plant-2", "plant-3"):
        assert read_state(folder / "sites" / site / "personal.weights")[0]["round"] == 3


@pytest.mark.sampled(3)
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
@pytest.mark.parametrize("round", [1, 2])
def test_a_crash_and_a_resume_change_nothing(tmp_path, monkeypatch, algorithm, round):
    folder = small(tmp_path / "fed", algorithm=algorithm)
    inside = Inside(folder, monkeypatch)
    with pytest.raises(Crash):
        inside.train(round=crash_after(round))
    inside.restart()
    run, local = inside.train(resume=True), reference(folder)
    assert_close(run.state, local.state)
    assert run.rows == local.rows


@pytest.mark.parametrize("harm", [lambda b: b[:-40], lambda b: b[:100] + b"x" + b[101:]])
def test_a_damaged_journal_costs_one_round_and_no_bits(tmp_path, monkeypatch, harm):
    folder = small(tmp_path / "fed", algorithm="scaffold")
    inside = Inside(folder, monkeypatch)
    with pytest.raises(Crash):
        inside.train(round=crash_after(2))
    newest = Journal(folder / "journal").files()[0]
    newest.write_bytes(harm(newest.read_bytes()))
    said = []
    run = inside.train(resume=True, line=said.append)
    assert "damaged" in said[0] and "after round 1" in said[1]
    assert_close(run.state, reference(folder).state)


def test_a_lost_server_is_waited_for(folder, inside):
    whole, lost = inside.run, []

    @contextmanager
    def breaking():
        with whole() as grid:
            push = grid.push_messages

            def failing(messages):
                if messages[0].metadata.group_id == "2" and not lost:
                    lost.append("now")
                    raise LinkLost("gone")
                return push(messages)

            grid.push_messages = failing
            yield grid

    inside.run = breaking
    assert_close(inside.train().state, reference(folder).state)
    assert lost


def test_a_quorum_is_enough_and_a_site_that_comes_back_takes_part_again(folder, inside):
    inside.absent.add("plant-2")

    def back(run, seconds):
        if run.round == 2:
            inside.absent.clear()

    run = inside.train(round=back)
    merged = [row["merged"] for row in run.rows if "merged" in row]
    assert merged == [2, 2, 3]
    assert run.accepted == {"plant-1": 3, "plant-2": 3, "plant-3": 3}


def test_without_a_quorum_the_run_ends_and_says_how_to_go_on(folder, inside):
    with pytest.raises(Crash):
        inside.train(round=crash_after(1))
    inside.absent |= {"plant-1", "plant-2"}
    with pytest.raises(QuorumLost, match=r"round 2: 1 of 3 .* quorum is 2.*round 1: .*--resume"):
        inside.train(resume=True)
    assert read_status(folder)["state"] == "stopped"
    inside.absent.clear()
    assert_close(inside.train(resume=True).state, reference(folder).state)


def spoiled(change):
    """A site that sends something else than it worked out."""

    def after(task, reply):
        return replace(reply, upload=change(reply.upload)) if task.kind == "train" else reply

    return around(after=after)


def scaled(by):
    return lambda upload: {k: {n: t * by for n, t in b.items()} for k, b in upload.items()}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (scaled(float("nan")), "not finite"),
        (scaled(float("inf")), "not finite"),
        (scaled(1e9), "above 1000"),
        (lambda upload: {}, "names, shapes"),
        (lambda u: {"model": {n: t[:1] for n, t in u["model"].items()}}, "names, shapes"),
        (lambda u: {"model": {n: t.double() for n, t in u["model"].items()}}, "names, shapes"),
    ],
    ids=["nan", "inf", "huge", "empty", "cut", "double"],
)
def test_a_bad_upload_does_not_touch_the_model(folder, inside, change, reason):
    inside.wrap["plant-2"] = spoiled(change)
    run, without = inside.train(), reference(folder, lost="plant-2")
    assert_close(run.state, without.state)
    assert run.accepted == without.accepted == {"plant-1": 3, "plant-3": 3}
    site = read_status(folder)["sites"]["plant-2"]
    assert site["counts"]["rejected"] == 3 and reason in site["note"]


def test_a_refusal_is_told_at_both_ends(folder, monkeypatch):
    home = folder / "sites" / "plant-3"
    edited(home / "site.toml", ("min_participants = 2", "min_participants = 4"))
    told = []
    Inside(folder, monkeypatch).train(notice=told.append)
    reasons = {n.detail for n in told if n.what == "refused"}
    assert reasons == {"policy: at least 4 participants, this federation has 3"}
    assert "at least 4 participants" in (home / "audit.jsonl").read_text()


def test_what_a_training_writes_is_its_owner_s_alone(folder, monkeypatch):
    before = os.umask(0o022)
    try:
        Inside(folder, monkeypatch).train()
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    written = [*(folder / "journal").iterdir(), folder / "shared.weights", folder / "scores.jsonl"]
    written += [home / "personal.weights" for home in local_sites(folder)]
    assert {path.name for path in written if path.stat().st_mode & 0o077} == set()


def test_a_line_for_each_round_has_one_time_of_each_site():
    """Whatever trials of lore came before it."""
    said = []
    reports = line_reports(3, said.append)
    for round in range(100):
        for site in ("a", "b"):
            reports.notice(Notice("reply", site, round, "train", seconds=float(round)))
    reports.round(Run({}, 1, rows=[{"merged": 2, "asked": 2}]), 3.0)
    assert said == ["round 1/3: 2 of 2 sites merged in 3.0 s (a 99.0 s, b 99.0 s)"]


def test_resuming_needs_a_journal_and_the_same_agreement(folder, inside):
    inside.train()
    edited(folder / "federation.toml", ("seed = 0", "seed = 1"))
    with pytest.raises(FedloreError, match="has changed since round 3"):
        inside.train(resume=True)
    for path in Journal(folder / "journal").files():
        path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(FedloreError, match="damaged.*no round before"):
        inside.train(resume=True)


def test_resuming_needs_the_same_version(folder, inside, monkeypatch):
    inside.train()
    monkeypatch.setattr(terms, "fedlore_version", lambda: "0.9.0")
    with pytest.raises(FedloreError) as found:
        inside.train(resume=True)
    assert str(found.value) == (
        f"round 3 was trained with fedlore {fedlore_version()}, this is 0.9.0: finish the run with "
        f"fedlore {fedlore_version()} on all sides, or start anew with fedlore train, without "
        "--resume"
    )


def test_a_new_training_starts_from_nothing(tmp_path, monkeypatch):
    folder = small(tmp_path / "fed", algorithm="scaffold")
    inside = Inside(folder, monkeypatch)
    assert_close(inside.train().state, inside.train().state)
    assert len(list((folder / "journals").iterdir())) == 1


def test_a_full_disk_ends_the_run_with_the_last_round_safe(folder, inside, monkeypatch):
    real = os.replace

    def full(source, target):
        if str(target).endswith("round-000002.journal"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FedloreError, match=r"round-000002.journal': No space left.*safe"):
        inside.train()
    monkeypatch.setattr(os, "replace", real)
    assert Journal(folder / "journal").last()[0].run.round == 1
    assert_close(inside.train(resume=True).state, reference(folder).state)


def test_nothing_of_a_site_travels_but_its_uploads(folder, monkeypatch):
    """Canaries in formulas, λ and rows: none of them is in any message."""
    home = folder / "sites" / "plant-1"
    edited(home / "knowledge.toml", ("trust = 0.3", "trust = 0.31415926"))
    edited(home / "knowledge.toml", ("253*Ro", "253.27182818*Ro"))
    rows = (home / "train.csv").read_text().splitlines()
    cells = [cell for cell in rows[1].split(",")[:-1] if len(cell) > 5]
    inside = Inside(folder, monkeypatch)
    inside.train()
    wire = b"\n".join(inside.wire)
    assert len(inside.wire) > 50
    formula = Knowledge.read(home / "knowledge.toml")
    assert formula.trust == 0.31415926
    secrets = [b"0.31415926", b"253.27182818", b"knowledge.toml", b"train.csv", str(home).encode()]
    for secret in secrets + [cell.encode() for cell in cells]:
        assert secret not in wire
    numbers = [0.31415926, 253.27182818, *map(float, cells)]
    for number in numbers:
        for kind in (np.float32, np.float64):
            assert kind(number).tobytes() not in wire


def test_a_canary_that_is_sent_is_found(folder, inside):
    """The test above can fail: a site that uploads a secret is caught by the same search."""
    inside.wrap["plant-1"] = spoiled(
        lambda u: {"model": {n: t * 0 + 253.27182818 for n, t in u["model"].items()}}
    )
    inside.train()
    assert np.float32(253.27182818).tobytes() in b"\n".join(inside.wire)


def test_the_coordinator_never_opens_a_sites_folder(folder, inside):
    """Sites answer from another place, so any path under sites/ is the coordinator's doing."""
    elsewhere = folder.parent / "elsewhere"
    shutil.move(folder / "sites", elsewhere)
    inside.workers = {h.name: Worker(read_kit(h)) for h in sorted(elsewhere.iterdir())}
    opened, watching = [], [True]

    def hook(event, arguments):
        if watching[0] and event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            opened.append(os.fsdecode(arguments[0]))

    sys.addaudithook(hook)
    asking = []

    def blind(task):
        watching[0] = False
        asking.append(task)

    def seeing(task, reply):
        watching[0] = True
        return reply

    inside.wrap = dict.fromkeys(inside.workers, around(blind, seeing))
    inside.train()
    watching[0] = False
    assert any("journal" in path for path in opened) and asking
    assert not [path for path in opened if "elsewhere" in path or f"{os.sep}sites" in path]


def test_a_site_in_trouble_does_not_say_more_than_it_may(folder, monkeypatch):
    edited(folder / "sites" / "plant-1" / "train.csv", ("\n", "\nsecret-cell,"))
    told = []
    Inside(folder, monkeypatch).train(notice=told.append)
    texts = {n.detail for n in told if n.site == "plant-1"}
    assert len(texts) == 1 and "data or knowledge does not fit" in texts.pop()
    assert "secret-cell" not in " ".join(n.detail for n in told)


def test_void_rounds_do_not_add_up_over_a_training(tmp_path, monkeypatch):
    folder = small(tmp_path / "fed")
    edited(folder / "federation.toml", ("quorum = 0.5", "quorum = 1.0"))
    inside = Inside(folder, monkeypatch)
    monkeypatch.setattr(coordinator, "ATTEMPTS", 2)
    failed = set()

    def once_a_round(task):
        if task.kind == "train" and task.round not in failed:
            failed.add(task.round)
            raise RuntimeError("once")

    inside.wrap["plant-2"] = around(once_a_round)
    run = inside.train()
    assert (run.round, failed) == (3, {1, 2, 3})
    assert_close(run.state, reference(folder).state)


def crash_at(monkeypatch, name, *, after):
    """The coordinator ends as it writes this file."""
    real, left = os.replace, [1]

    def replace_file(source, target):
        hit = str(target).endswith(name) and left and left.pop()
        if hit and not after:
            raise Crash
        real(source, target)
        if hit:
            raise Crash

    monkeypatch.setattr(os, "replace", replace_file)


WRITTEN = ["start.journal", "scaler.weights", "round-000000.journal", "round-000001.journal"]
WRITTEN += ["round-000003.journal", "shared.weights"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", WRITTEN)
def test_a_coordinator_that_is_killed_at_any_moment_resumes(
    folder, inside, monkeypatch, name, after
):
    crash_at(monkeypatch, name, after=after)
    with pytest.raises(Crash):
        inside.train()
    inside.restart()
    lines = []
    assert_close(inside.train(resume=True, line=lines.append).state, reference(folder).state)
    anew = (name, after) == ("start.journal", False)  # nobody had been asked anything
    assert ("nothing is journalled yet" in lines[0]) == anew != lines[0].startswith("resuming run")


def test_a_training_that_never_had_a_quorum_resumes_as_it_was_told_to(folder, inside):
    inside.absent |= {"plant-1", "plant-2", "plant-3"}
    with pytest.raises(QuorumLost, match=r"holds round 0: .* fedlore train --resume"):
        inside.train()
    began = Journal(folder / "journal").begun()["run"]
    inside.absent.clear()
    lines = []
    assert_close(inside.train(resume=True, line=lines.append).state, reference(folder).state)
    assert lines[0] == f"resuming run {began} after round 0"


def test_false_starts_never_erase_a_finished_journal(folder, inside, monkeypatch):
    inside.train()
    finished = Journal(folder / "journal").begun()["run"]
    kept = {p.name: p.read_bytes() for p in (folder / "journal").iterdir()}
    for name in ("start.journal", "round-000000.journal", "start.journal"):
        crash_at(monkeypatch, name, after=True)
        with pytest.raises(Crash):
            inside.train()
    inside.train()
    home = folder / "journals" / finished
    assert {p.name: p.read_bytes() for p in home.iterdir()} == kept and len(kept) == 5
    assert len(list((folder / "journals").iterdir())) == 4
    assert {p.stat().st_mode & 0o077 for p in home.iterdir()} == {0}
