"""A filter of another package in a deployed federation."""

import sys

import pytest
from typer.testing import CliRunner

from fedlore.cli.app import app
from fedlore.errors import ConfigError
from fedlore.federation.coordinator.status import read_status
from fedlore.federation.remote import QuorumLost, Refusal
from fedlore.federation.site.doctor import examine
from fedlore.federation.site.folder import read_kit
from fedlore.federation.site.worker import Worker

from ..laws.test_algorithms import assert_close
from ..privacy.plugged import install
from .inside import Inside, around, edited, reference
from .test_budgets import asked, homes, with_privacy


def allow(home, names='"veil"'):
    edited(home / "site.toml", ("filters = []", f"filters = [{names}]"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "installed").mkdir()
    install(tmp_path / "installed", monkeypatch, veil="veiled:Veil")
    made = with_privacy(tmp_path / "fed", "filters.veil = {size = 4.0}")
    first, *others = homes(made)
    found = CliRunner().invoke(app, ["federation", "key", str(first), "--filter", "veil"])
    assert found.exit_code == 0, found.output
    for home in others:
        (home / "veil.key").write_bytes((first / "veil.key").read_bytes())
    monkeypatch.delitem(sys.modules, "veiled")
    return made


@pytest.mark.slow
def test_training_equals_the_run_in_one_process(folder, monkeypatch):
    for home in homes(folder):
        allow(home)
    inside = Inside(folder, monkeypatch)
    assert_close(inside.train().state, reference(folder).state, rtol=1e-4, atol=1e-5)
    assert read_status(folder)["privacy"] == ["veils of size 4 over 3 rounds"]
    log = (homes(folder)[0] / "audit.jsonl").read_text().splitlines()
    told = [row for row in log if '"kind": "unveil"' in row]
    assert '"survivors": ["plant-1", "plant-2", "plant-3"]' in told[0]


def test_a_site_loads_nothing_that_its_policy_does_not_name(folder):
    home = homes(folder)[0]
    text, task = asked(folder)
    (home / "terms.json").write_text(text)
    sys.modules.pop("veiled", None)  # the coordinator's side has loaded it
    for names in ("", '"mist"'):
        if names:
            allow(home, names)
        with pytest.raises(Refusal, match="policy: filter 'veil' of another package is not all"):
            Worker(read_kit(home))(task, text)
        checks = {check.name: check for check in examine(home)}
        assert not checks["policy"].fine
        assert "filter 'veil' of another package" in checks["policy"].detail
    assert "veiled" not in sys.modules


def test_what_one_site_sends_is_judged_by_the_filter(folder, monkeypatch):
    for home in homes(folder):
        allow(home)

    def plain(task, reply):
        if task.kind == "train":
            reply.upload["model"] = reply.upload.pop("veiled")
        return reply

    inside = Inside(folder, monkeypatch)
    inside.wrap["plant-2"] = around(after=plain)
    with pytest.raises(QuorumLost):  # the veil needs all three
        inside.train()
    assert "no veil" in read_status(folder)["sites"]["plant-2"]["note"]


def test_doctor_tells_what_a_filter_says_of_the_folder(folder):
    home = homes(folder)[0]
    allow(home)
    (home / "veil.key").unlink()
    (home / "terms.json").write_text(asked(folder)[0])
    policy = next(check for check in examine(home) if check.name == "policy")
    assert policy.fine and policy.detail.endswith("; there is no veil.key")


def test_the_file_of_a_secret_can_be_named(folder):
    home = homes(folder)[0]
    allow(home)
    text = (home / "site.toml").read_text()
    (home / "site.toml").write_text(text + '[secrets]\nckks = "a.key"\nveil = "b.key"\n')
    place = read_kit(home).place()
    assert place.path("ckks", "ckks.key") == home / "a.key"
    assert place.path("veil", "veil.key") == home / "b.key"
    assert place.path("more", "more.key") == home / "more.key"
    edited(home / "site.toml", ("veil = ", "vail = "))
    with pytest.raises(ConfigError, match="secrets: unknown filter 'vail'; did you mean 'veil'"):
        read_kit(home)
