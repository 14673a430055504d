"""signed = true from the command line: training, export and serving refuse drafts."""

import shutil

import pytest

from fedlore import read_bundle, write_bundle
from fedlore.bundle.knowledge import SIGNATURE, check_signature
from fedlore.bundle.store import open_members
from fedlore.knowledge.signing import check_signed, make_key, sign_file

from .spoken import refused, typed
from .tasks import write_federation, write_rows

pytest.importorskip("cryptography")
WORDS = "coke and coal"


def sign(path):
    key = path.parent / "studio" / "key.pem"
    if not key.exists():
        make_key(key, WORDS)
    return sign_file(path, key=key, passphrase=WORDS, signer="Ann")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A federation of signed sites that has run, and one of its bundles."""
    folder = tmp_path_factory.mktemp("signed")
    config = write_federation(folder, "classes", "FLwKM", "FL+mask")
    config.write_text(config.read_text().replace("[run]\n", "[run]\nsigned = true\n"))
    assert "is a draft: nobody has signed it" in refused("run", config, "--out", folder / "out")
    for path in (folder / "sites").glob("*/knowledge.toml"):
        sign(path)
    typed("run", config, "--out", folder / "out")
    typed("export", folder / "out", "--client", "east", "--out", folder / "east.lore")
    return folder


def test_a_run_of_signed_sites_exports_who_signed(world):
    made = read_bundle(world / "east.lore")
    assert check_signature(made.members)["signer"] == "Ann" and made.policies.signed
    typed("certify", world / "east.lore", "--out", world / "c.json")


def test_update_keeps_the_signature_under_another_trust_and_marks_a_draft(world, tmp_path):
    said = typed("update", world / "east.lore", "--trust", "0.1", "--out", tmp_path / "t.lore")
    assert "rules signed by Ann" in said
    assert check_signature(read_bundle(tmp_path / "t.lore").members)["signer"] == "Ann"
    site = tmp_path / "site"
    site.mkdir()
    for path in (world / "sites/east").glob("*.*"):
        (site / path.name).write_bytes(path.read_bytes())
    (site / "predict.csv").write_text("age,then\n< 5,low\n[5..7],mid\n> 7,top\n")
    draft = tmp_path / "draft.lore"
    said = typed("update", world / "east.lore", site / "knowledge.toml", "--out", draft)
    assert "the new rules are a draft" in said
    assert SIGNATURE not in read_bundle(draft).members
    assert "'east' is a draft" in refused("serve", draft, "--port", "0")
    assert "'east' is a draft" in refused("export", draft, "--out", tmp_path / "e.lore")


def test_a_site_that_wants_signed_rules_serves_no_older_bundle_without(world, tmp_path):
    old = read_bundle(world / "east.lore")
    members = {name: data for name, data in old.members.items() if name != SIGNATURE}
    members["bundle.json"] = members["bundle.json"].replace(b'"signed": true', b'"signed": false')
    write_bundle(open_members(members), tmp_path / "east.lore")
    where = 'name = "east"\naddress = "localhost:1"\nsigned = true\n'
    (tmp_path / "site.toml").write_text(where)
    assert "is a draft" in refused("serve", tmp_path / "east.lore", "--port", "0")
    (tmp_path / "site.toml").write_text(where + f'signers = ["{"00" * 32}"]\n')
    write_bundle(old, tmp_path / "east.lore")
    assert "not named here" in refused("serve", tmp_path / "east.lore", "--port", "0")


def test_tune_leaves_files_signed(world):
    typed("tune", world / "federation.toml", "--folds", "2", "--write")
    for path in (world / "sites").glob("*/knowledge.toml"):
        assert "reliance" in path.read_text() and check_signed(path).signer == "Ann"


def test_calibrate_does_not_write_over_a_signed_file(world, tmp_path):
    known = tmp_path / "knowledge.toml"
    text = (world / "sites/east/knowledge.toml").read_text()
    soft = 'formula = "age"\nedges = [4.0, 7.0]\nspread = 2.0'
    known.write_text(text.replace('table = "predict.csv"', soft))
    (tmp_path / "range.csv").write_bytes((world / "sites/east/range.csv").read_bytes())
    sign(known)
    rows = write_rows(tmp_path / "rows.csv", "classes", 7)
    other = tmp_path / "other" / "knowledge.toml"
    shutil.copytree(tmp_path, other.parent)
    before = other.read_bytes()
    assert "is signed and is not written over" in refused(
        "calibrate", known, "--data", rows, "--out", other
    )
    assert other.read_bytes() == before
    said = typed("calibrate", known, "--data", rows, "--out", tmp_path / "n" / "knowledge.toml")
    assert "knowledge.toml is a draft" in said and check_signed(known).signer == "Ann"
