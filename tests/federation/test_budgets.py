"""A deployed federation under differential privacy, and one under encryption."""

import pytest
from typer.testing import CliRunner

from fedlore.cli.app import app
from fedlore.core.wire import Task
from fedlore.errors import ConfigError
from fedlore.federation.coordinator.status import read_status
from fedlore.federation.remote import QuorumLost, Refusal
from fedlore.federation.settings import read_deployed
from fedlore.federation.site.folder import read_kit
from fedlore.federation.site.worker import Worker
from fedlore.federation.terms import terms_of
from fedlore.privacy.ckks.cipher import write_key
from fedlore.privacy.dp.budget import Ledger

from ..laws.test_algorithms import assert_close
from .inside import Inside, agree, audit_lines, edited, first_task, reference, small

OPEN = "secure_aggregation = false"


def with_privacy(folder, line, **settings):
    small(folder, **settings)
    text = (folder / "federation.toml").read_text()
    start = text.index(OPEN)
    end = text.index("\n", start)
    (folder / "federation.toml").write_text(text[:start] + line + text[end:])
    agree(folder)
    return folder


def noisy(folder, more="", **settings):
    return with_privacy(folder, f"dp = {{epsilon = 4, delta = 1e-5{more}}}", **settings)


def homes(folder):
    return sorted((folder / "sites").iterdir())


@pytest.mark.parametrize("where", ["distributed", "central"])
def test_a_run_spends_its_budget_and_the_next_is_refused_also_after_a_restart(
    tmp_path, monkeypatch, where
):
    folder = noisy(tmp_path / "fed", f', where = "{where}"')
    for home in homes(folder):
        edited(home / "site.toml", ("central_noise = false", "central_noise = true"))
    inside = Inside(folder, monkeypatch)
    assert [row["merged"] for row in inside.train().rows if "merged" in row] == [3, 3, 3]
    line = read_status(folder)["privacy"][0]
    assert line == "at most ε = 4 at δ = 1e-05, site level, 3 rounds, sampling 1.0"
    for home in homes(folder):
        ledger = Ledger(home / "ledger.json")
        assert [e.round for e in ledger.entries()] == [1, 2, 3]
        assert 3.9 < ledger.spent("site", 1e-5) <= 4.0
    seen = []
    for _ in range(2):
        with pytest.raises(QuorumLost, match="0 of 3 sites gave a usable answer to 'train'"):
            inside.train(notice=seen.append)
        inside.restart()
    assert {n.what for n in seen} == {"refused"}
    assert all("the privacy budget is spent: ε = " in n.detail for n in seen)


def test_a_damaged_ledger_answers_nothing(tmp_path, monkeypatch):
    folder = noisy(tmp_path / "fed")
    inside = Inside(folder, monkeypatch)
    inside.train()
    for home in homes(folder):
        path = home / "ledger.json"
        path.write_text(path.read_text().replace('"noise": ', '"noise": 1'))
    inside.restart()
    seen = []
    with pytest.raises(QuorumLost):
        inside.train(notice=seen.append)
    assert all("is damaged" in n.detail for n in seen if n.what == "refused") and seen


def test_the_same_task_gets_the_same_noise_also_after_a_restart(tmp_path):
    folder = noisy(tmp_path / "fed")
    home = homes(folder)[0]
    text, task = asked(folder)
    replies = [Worker(read_kit(home))(task, text) for _ in range(2)]
    assert_close(replies[0].upload, replies[1].upload)
    assert len(Ledger(home / "ledger.json").entries()) == 1
    assert replies[0].rows == 1


@pytest.mark.parametrize("kind", ["train", "evaluate", "finish"])
def test_row_counts_stay_at_home_whatever_is_asked(tmp_path, kind):
    folder = noisy(tmp_path / "fed")
    text, task = asked(folder, kind)
    reply = Worker(read_kit(homes(folder)[0]))(task, text)
    assert reply.rows == (1 if kind == "train" else 0)  # every site counts as one


def asked(folder, kind="train"):
    terms = terms_of(read_deployed(folder), run="x", participants=3)
    return terms.text(), first_task(terms, kind)


def test_features_are_scaled_by_declared_bounds_and_sums_are_refused(tmp_path, monkeypatch):
    folder = noisy(tmp_path / "fed")
    inside = Inside(folder, monkeypatch)
    seen = []
    inside.train(notice=seen.append)
    assert {n.kind for n in seen} == {"train", "evaluate"}
    text, _ = asked(folder)
    with pytest.raises(Refusal, match="scale by the schema's declared bounds"):
        inside.workers["plant-1"](Task("moments", 0), text)
    lines = (folder / "federation.toml").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("low = "))
    (folder / "federation.toml").write_text("\n".join(lines[:first] + lines[first + 1 :]))
    with pytest.raises(ConfigError, match="has no declared bounds"):
        read_deployed(folder)


@pytest.mark.parametrize("scores", [True, False])
def test_scores_can_be_kept_at_home(tmp_path, monkeypatch, scores):
    folder = noisy(tmp_path / "fed", f", scores = {str(scores).lower()}")
    assert any("ta" in row for row in Inside(folder, monkeypatch).train().rows) == scores


@pytest.mark.slow
def test_record_level_is_trained_at_the_sites(tmp_path, monkeypatch):
    folder = noisy(tmp_path / "fed", ', level = "record"')
    assert Inside(folder, monkeypatch).train().round == 3
    for home in homes(folder):
        assert [e.level for e in Ledger(home / "ledger.json").entries()] == ["record"] * 3
        assert 3.8 < Ledger(home / "ledger.json").spent("record", 1e-5) <= 4.0
    assert read_status(folder)["privacy"] == ["at most ε = 4 at δ = 1e-05, record level, 3 rounds"]


def test_a_site_that_demands_a_smaller_budget_stays_away(tmp_path):
    folder = noisy(tmp_path / "fed")
    home = homes(folder)[0]
    edited(home / "site.toml", ("# max_epsilon = 3.0", "max_epsilon = 3.0"))
    text, task = asked(folder)
    with pytest.raises(Refusal, match="with a budget of at most 3.0, this run has 4.0"):
        Worker(read_kit(home))(task, text)


def encrypted(folder, **settings):
    with_privacy(folder, 'encryption = "ckks"', **settings)
    first, *others = homes(folder)
    write_key(first / "ckks.key")
    for home in others:
        (home / "ckks.key").write_bytes((first / "ckks.key").read_bytes())
    return folder


@pytest.mark.sampled(2)
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
def test_encrypted_training_equals_the_run_in_one_process(tmp_path, monkeypatch, algorithm):
    folder = encrypted(tmp_path / "fed", algorithm=algorithm)
    inside = Inside(folder, monkeypatch)
    assert_close(inside.train().state, reference(folder).state, rtol=1e-5, atol=1e-6)
    (line,) = read_status(folder)["privacy"]
    assert line.startswith("CKKS: degree 8192") and float(line.split()[-2]) < 1e-5
    told = [row for row in audit_lines(homes(folder)[0]) if row["kind"] == "decrypt"]
    assert told and told[0]["survivors"] == ["plant-1", "plant-2", "plant-3"]
    assert (homes(folder)[0] / "ckks.key").read_bytes()[100:200] not in b"".join(inside.wire)


def test_sites_without_the_key_refuse(tmp_path):
    folder = encrypted(tmp_path / "fed")
    home = homes(folder)[0]
    text, task = asked(folder)
    (home / "ckks.key").write_bytes(b"no key")
    with pytest.raises(Refusal, match="no CKKS key of this version, or it is damaged"):
        Worker(read_kit(home))(task, text)
    (home / "ckks.key").unlink()
    with pytest.raises(Refusal, match="cannot read the CKKS key"):
        Worker(read_kit(home))(task, text)


def test_a_sum_of_fewer_than_the_policy_demands_is_not_decrypted(tmp_path, monkeypatch):
    folder = encrypted(tmp_path / "fed")
    for home in homes(folder):
        edited(home / "site.toml", ("min_participants = 2", "min_participants = 3"))
    inside = Inside(folder, monkeypatch)
    inside.absent = {"plant-2"}
    seen = []
    with pytest.raises(QuorumLost):
        inside.train(notice=seen.append)
    assert any("policy: at least 3 participants, 2 are left" in n.detail for n in seen)


def test_one_site_makes_the_key(tmp_path):
    folder = with_privacy(tmp_path / "fed", 'encryption = "ckks"')
    home = homes(folder)[0]
    found = CliRunner().invoke(app, ["federation", "key", str(home)])
    assert found.exit_code == 0 and "never to the coordinator" in found.output
    assert (home / "ckks.key").stat().st_mode & 0o777 == 0o600
    assert CliRunner().invoke(app, ["federation", "key", str(home)]).exit_code != 0
