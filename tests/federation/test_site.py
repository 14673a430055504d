"""A site's policy wins, its memory follows what was accepted, and its books are honest."""

import json
import math
import shutil
from dataclasses import replace

import pytest
import torch

from fedlore import FedloreError
from fedlore.core.wire import Reply, Task
from fedlore.federation import journal
from fedlore.federation.remote import Refusal
from fedlore.federation.settings import read_deployed
from fedlore.federation.site import worker as worker_module
from fedlore.federation.site.audit import AuditLog, Questions, read_audit
from fedlore.federation.site.consent import accept_terms
from fedlore.federation.site.folder import KEEP, Store, read_kit
from fedlore.federation.site.worker import Worker
from fedlore.federation.terms import fedlore_version, read_terms, terms_of
from fedlore.privacy import Dp, Privacy

from ..laws.test_algorithms import assert_close
from .inside import edited, first_task, small

NAME = "plant-1"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return small(tmp_path_factory.mktemp("site") / "fed", algorithm="scaffold")


@pytest.fixture
def home(made, tmp_path):
    return shutil.copytree(made / "sites" / NAME, tmp_path / NAME)


@pytest.fixture
def terms(made):
    return terms_of(read_deployed(made), run="run-1", participants=3)


def private(epsilon=None, hidden=False):
    dp = None if epsilon is None else Dp(epsilon, 1e-5)
    return Privacy(secure_aggregation=hidden, dp=dp)


def test_terms_come_back_from_their_text(terms):
    scaled = replace(terms, shift=(0.1, 1 / 3), spread=(2.0, 3.0))
    assert read_terms(scaled.text()) == scaled
    with pytest.raises(FedloreError):
        read_terms("[]")


def test_only_allowed_metrics_leave(home, terms):
    edited(
        home / "site.toml",
        ('metrics = ["ta", "nll", "pov", "rmse", "mae", "r2"]', 'metrics = ["ta"]'),
    )
    reply = Worker(read_kit(home))(first_task(terms, kind="evaluate"), terms.text())
    assert set(reply.metrics) == {"ta"}


def test_a_score_that_is_not_finite_stays_at_home_and_the_others_leave(home, terms, monkeypatch):
    """nll is infinite where a test row has a label that the site's range rules out."""
    said, usual = [], worker_module.answer

    def ruled_out(*asked):
        reply, memory = usual(*asked)
        return replace(reply, metrics=dict(reply.metrics) | {"nll": math.inf}), memory

    monkeypatch.setattr(worker_module, "answer", ruled_out)
    worker = Worker(read_kit(home), said.append)
    reply = worker(first_task(terms, kind="evaluate"), terms.text())
    assert set(reply.metrics) == {"ta", "pov"}
    assert any("not reported: nll is not finite" in line for line in said)


def test_a_task_that_is_sent_again_gets_the_very_same_reply(home, terms, monkeypatch):
    worker, task = Worker(read_kit(home)), first_task(terms)
    first = worker(task, terms.text())
    monkeypatch.setattr(worker_module, "answer", None)  # whoever calls it fails
    again = Worker(read_kit(home))(task, terms.text())
    assert replace(again, upload={}, books="") == replace(first, upload={}, books="")
    assert_close(again.upload, first.upload)
    with pytest.raises(TypeError):
        worker(replace(task, sums=not task.sums), terms.text())  # another question


def test_memory_follows_what_the_coordinator_accepted(home, terms):
    """Round 1 counts or not: what round 2 starts from differs, and both can be had again."""
    task = first_task(terms)
    worker = Worker(read_kit(home))
    worker(task, terms.text())
    second = in_round(2, task, terms)
    counted = worker(replace(second, accepted={NAME: 1}), terms.text())
    void = Worker(read_kit(home))(second, terms.text())
    assert not torch.equal(counted.upload["control"][b0(counted)], void.upload["control"][b0(void)])
    back = Worker(read_kit(home))(replace(second, accepted={NAME: 1}), terms.text())
    assert_close(back.upload, counted.upload)


def in_round(round, task, terms):
    return replace(task, round=round, rate=terms.plan.rate(round, terms.rounds))


def b0(reply):
    return next(iter(reply.upload["control"]))


def test_memory_that_is_lost_is_said_to_be_lost(home, terms):
    worker, task = Worker(read_kit(home)), first_task(terms)
    with pytest.raises(Refusal, match="memory of round 2 is lost: start a new run"):
        worker(replace(in_round(3, task, terms), accepted={NAME: 2}), terms.text())


def test_old_versions_and_other_runs_are_cleared_away(tmp_path):
    for run in ("one", "two"):
        store = Store(tmp_path, run)
        for round in range(1, 10):
            reply = Reply(NAME, round, {"model": {"w": torch.ones(1)}})
            store.commit(Task("train", round), round - 1, {"c": {"w": torch.ones(1)}}, reply)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == KEEP + 1 + 1 and all(
        n.split("-")[1] == names[0].split("-")[1] for n in names
    )
    assert_close(store.settle(8), {"c": {"w": torch.ones(1)}})


def test_unknown_tasks_and_unreadable_terms_are_refused(home, terms):
    worker = Worker(read_kit(home))
    with pytest.raises(Refusal, match="unknown task 'upload_rows'"):
        worker(Task("upload_rows", 1), terms.text())
    with pytest.raises(Refusal, match=f"do not fit fedlore {fedlore_version()}"):
        worker(Task("train", 1), '{"surprise": 1}')


APART = "this site runs fedlore {}, the coordinator {}: install the same version on both sides"


@pytest.mark.parametrize("change", [{"surprise": 1}, {"rounds": "many"}])
def test_terms_of_another_version_that_cannot_be_read_name_both(home, terms, change):
    text = json.dumps(json.loads(terms.text()) | {"version": "0.9.0"} | change)
    for task in (first_task(terms), Task("a_new_kind", 1)):
        with pytest.raises(Refusal, match=APART.format(fedlore_version(), "0.9.0")):
            Worker(read_kit(home))(task, text)


def test_a_task_of_another_version_is_refused_for_the_version(home, terms):
    other = replace(terms, version="0.9.0")
    with pytest.raises(Refusal, match=APART.format(fedlore_version(), "0.9.0")):
        Worker(read_kit(home))(Task("a_new_kind", 1), other.text())


@pytest.mark.parametrize("version", [None, 3, "0.9 \x1b[31m", "9" * 41, ["0.9"]])
def test_a_version_that_is_none_is_not_repeated(home, terms, version):
    text = json.dumps(json.loads(terms.text()) | {"version": version, "surprise": 1})
    with pytest.raises(Refusal, match=f"do not fit fedlore {fedlore_version()} at this site"):
        Worker(read_kit(home))(Task("train", 1), text)


def test_a_kit_whose_terms_are_of_another_version_says_what_to_do(home, terms):
    text = json.dumps(json.loads(terms.text()) | {"version": "0.9.0", "surprise": 1})
    (home / "terms.json").write_text(text)
    words = f"written by fedlore 0.9.0 and does not fit {fedlore_version()} .*renew {NAME}"
    with pytest.raises(FedloreError, match=words):
        read_kit(home).terms()


def test_another_schema_is_refused(home, terms):
    features = (replace(terms.schema.features[0], name="Other"), *terms.schema.features[1:])
    other = replace(terms, schema=replace(terms.schema, features=features))
    accept_terms(read_kit(home), other)
    told = []
    with pytest.raises(Refusal, match="does not fit the federation's schema"):
        Worker(read_kit(home), told.append)(first_task(other), other.text())
    assert "differ in features" in told[0]


def test_the_audit_log_tells_what_was_asked_and_sent(home, terms):
    Worker(read_kit(home))(first_task(terms), terms.text())
    (line,) = (home / "audit.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert (found["event"], found["kind"], found["round"]) == ("answered", "train", 1)
    assert (found["run"], found["federation"]) == ("run-1", "coke")
    assert len(found["model"]) == 64 and found["time"].startswith("20")
    assert found["sent"]["model"]["tensors"]["body.1.0.weight"] == [6, 17]
    assert found["sent"]["model"]["norm"] > 0


def test_a_changed_or_missing_audit_line_is_noticed(tmp_path):
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    for n in range(4):
        log.write(event="answered", n=n)
    lines = path.read_text().splitlines(keepends=True)
    read_audit(path)
    for bad in (
        lines[:1] + lines[2:],
        [lines[0], lines[1].replace('"n": 1', '"n": 7'), *lines[2:]],
    ):
        path.write_text("".join(bad))
        with pytest.raises(FedloreError, match="does not follow from the line before"):
            AuditLog(path)


def test_an_audit_line_cut_by_a_crash_is_dropped(tmp_path):
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    log.write(event="answered")
    log.write(event="answered")
    path.write_text(path.read_text()[:-30])
    AuditLog(path).write(event="refused")
    assert [json.loads(x)["event"] for x in path.read_text().splitlines()] == [
        "answered",
        "refused",
    ]
    read_audit(path)


@pytest.mark.parametrize("fails", ["audit", "questions", "store"])
def test_on_a_full_disk_nothing_leaves_and_the_owner_is_told(home, terms, monkeypatch, fails):
    """Its log may lie on that disk, so it is said on the screen."""
    told = []
    worker = Worker(read_kit(home), told.append)
    full = OSError(28, "No space left on device")

    def fail(*_, **__):
        raise full

    if fails == "store":
        monkeypatch.setattr(journal, "write_whole", fail)
    else:
        where = {"audit": AuditLog, "questions": Questions}[fails]
        monkeypatch.setattr(where, "write" if fails == "audit" else "allow", fail)
    with pytest.raises((Refusal, OSError, FedloreError)):
        worker(first_task(terms), terms.text())
    assert any("No space left on device" in line for line in told)
    monkeypatch.undo()
    assert worker(first_task(terms), terms.text()).rows > 0  # once there is room it goes on
