"""The doctor names what is wrong with a site, and the commands what they did."""

import datetime
import shutil
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

from fedlore import FedloreError
from fedlore.cli.app import app
from fedlore.core.store import hold_lock
from fedlore.federation.coordinator.server import serve_federation
from fedlore.federation.flower.node import Signing, Unsigned, read_signer
from fedlore.federation.kits.certificates import new_authority, raw_key
from fedlore.federation.kits.kit import enrolled_keys, unpack
from fedlore.federation.processes import free_port
from fedlore.federation.settings import read_deployed
from fedlore.federation.site import doctor
from fedlore.federation.site.doctor import examine
from fedlore.federation.site.session import join_federation
from fedlore_coke.starter import make_trial

from .inside import edited


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doctor") / "fed"
    make_trial(folder, sites=1, address=f"127.0.0.1:{free_port()}", rounds=2, test_rows=20)
    return folder


@pytest.fixture
def home(made, tmp_path):
    return shutil.copytree(made / "sites" / "plant-1", tmp_path / "plant-1")


def found(home):
    return {check.name: check for check in examine(home)}


def test_all_is_well_but_for_a_server_that_does_not_run(home):
    checks = found(home)
    assert {name for name, check in checks.items() if not check.fine} == {"coordinator", "clock"}
    assert "is fedlore server running there" in checks["coordinator"].detail
    assert checks["data"].detail.startswith("40 rows to learn from, 20 to score on")
    assert "no errors" in checks["knowledge"].detail and "trust 0.3" in checks["knowledge"].detail


@pytest.mark.parametrize(
    ("file", "old", "new", "name", "says"),
    [
        ("train.csv", "\n", "\nx", "data", "is not a number"),
        ("train.csv", "Ro,", "Rr,", "data", "the column 'Ro' is missing"),
        ("knowledge.toml", "253*Ro", "253*Rx", "knowledge", "Rx"),
        ("knowledge.toml", 'name = "Mt"', 'name = "Mm"', "data", "'Mm' is here only"),
        ("terms.json", '"version": "', '"version": "9.', "versions", "install the same"),
        (
            "site.toml",
            "secure_aggregation = false",
            "secure_aggregation = true",
            "policy",
            "refuse",
        ),
        ("site.toml", "max_parameters = 10000000", "max_parameters = 9", "policy", "parameters"),
        ("site.toml", '# columns = ["Ro"]', 'columns = ["Rp"]', "policy", "unknown feature 'Rp'"),
    ],
)
def test_what_is_wrong_is_named(home, file, old, new, name, says):
    edited(home / file, (old, new))
    check = found(home)[name]
    assert not check.fine and says in check.detail


@pytest.mark.parametrize(("off", "fine"), [(3, True), (-200, True), (9, False), (-400, False)])
def test_a_clock_is_let_in_as_far_as_the_gate_does(home, monkeypatch, off, fine):
    there = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=off)
    monkeypatch.setattr(doctor, "_ask", lambda kit: there)
    check = found(home)["clock"]
    assert check.fine == fine
    assert fine or "set it" in check.detail and f"{off:+d} s off" in check.detail
    key = ec.generate_private_key(ec.SECP384R1())
    now = datetime.datetime.now(datetime.UTC)
    signed = SimpleNamespace(request=SimpleNamespace(headers={}))
    Signing(key, "visit").intercept(signed, lambda context: None)
    at = now - datetime.timedelta(seconds=off)
    if fine:
        assert read_signer(signed.request.headers, [raw_key(key.public_key())], now=at)
    else:
        word = "ahead of" if off > 0 else "behind"
        with pytest.raises(Unsigned, match=f"the site's clock is .* s {word} the coordinator's"):
            read_signer(signed.request.headers, [raw_key(key.public_key())], now=at)


def test_keys_and_certificates_are_looked_at(home, tmp_path):
    (home / "site.key").chmod(0o640)
    new_authority(tmp_path, "old", days=-3)
    shutil.copy(tmp_path / "ca.crt", home / "ca.crt")
    checks = found(home)
    assert "chmod 600" in checks["private key"].detail
    assert "expired" in checks["certificate"].detail


def test_a_site_with_spoiled_data_does_not_even_join(home):
    edited(home / "train.csv", ("\n", "\nx"))
    with pytest.raises(FedloreError, match="is not a number"):
        join_federation(home, stop=None, say=print)


def test_two_processes_cannot_share_a_folder(tmp_path):
    with hold_lock(tmp_path / "lock", "this site"):
        with pytest.raises(FedloreError, match="this site is running already"):
            with hold_lock(tmp_path / "lock", "this site"):
                pass


def test_without_tls_only_loopback_is_served(made, tmp_path):
    folder = tmp_path / "fed"
    folder.mkdir()
    text = (made / "federation.toml").read_text()
    (folder / "federation.toml").write_text(text.replace("127.0.0.1:", "10.1.2.3:", 1))
    with pytest.raises(FedloreError, match="--insecure is for trials on one machine"):
        serve_federation(folder, insecure=True, stop=None, say=print)


def test_the_commands_make_and_revoke_kits(made, tmp_path):
    run, folder = CliRunner().invoke, tmp_path / "fed"
    schema = made / "sites" / "plant-1" / "knowledge.toml"
    options = ["--address", "h.example:9300", "--schema", str(schema), "--name", "coke"]
    assert run(app, ["federation", "init", str(folder), *options]).exit_code == 0
    assert read_deployed(folder).schema.names[5] == "Ro"
    at = ["--dir", str(folder)]
    said = run(app, ["federation", "add-site", "north", *at]).output
    assert "it contains no secret" in said and "federation enrol north site.pub" in said
    assert list(enrolled_keys(folder)) == []
    home = unpack(folder / "kits" / "north.zip")
    enrolling = ["federation", "enrol", "north", str(home / "site.pub"), *at]
    assert "Site north is enrolled." in run(app, enrolling).output
    assert run(app, ["federation", "renew", "north", *at]).exit_code == 0
    unpack(folder / "kits" / "north.zip")
    assert run(app, enrolling).exit_code == 0
    assert run(app, ["federation", "renew", *at]).exit_code == 0
    assert list(enrolled_keys(folder)) == ["north"]
    assert run(app, ["federation", "remove-site", "north", *at]).exit_code == 0
    assert list(enrolled_keys(folder)) == []


def test_the_doctor_command_fails_where_a_check_does(home):
    result = CliRunner().invoke(app, ["doctor", str(home)])
    assert result.exit_code == 1
    assert "FAIL  coordinator:" in result.output and "ok    data:" in result.output
