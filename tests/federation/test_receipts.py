"""Books that were cut, rewritten or put back are noticed: the coordinator has a receipt of them."""

import json
import shutil

import pytest

from fedlore.federation.books import SiteBooks
from fedlore.federation.receipts import RECEIPTS, Receipts
from fedlore.federation.remote import QuorumLost
from fedlore.federation.site.audit import AuditLog

from .inside import Inside, edited, small
from .test_masked import home_of

PLANTS = ("plant-1", "plant-2", "plant-3")
DP = '# dp = {epsilon = 4, delta = 1e-5, level = "site"}'


@pytest.fixture
def folder(tmp_path):
    folder = small(tmp_path / "fed", rounds=2)
    edited(folder / "federation.toml", ("quorum = 0.5", "quorum = 1.0"))
    return folder


def trained(folder, monkeypatch, **reports):
    inside = Inside(folder, monkeypatch)
    return inside.train(**reports)


def refusals(folder, monkeypatch):
    told = []
    with pytest.raises(QuorumLost):
        trained(folder, monkeypatch, notice=told.append)
    return {n.detail for n in told if (n.what, n.site) == ("refused", "plant-1")}


def test_every_answer_leaves_a_receipt(folder, monkeypatch):
    trained(folder, monkeypatch)
    kept = json.loads((folder / RECEIPTS).read_text())
    lines = {h: len((home_of(folder, h) / "audit.jsonl").read_text().splitlines()) for h in PLANTS}
    assert sorted(SiteBooks.read(text).audit for text in kept.values()) == sorted(lines.values())
    trained(folder, monkeypatch)  # and so it goes on


def test_a_log_that_was_cut_is_noticed(folder, monkeypatch):
    trained(folder, monkeypatch)
    path = home_of(folder) / "audit.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1]) + "\n")  # the chain itself is whole
    (why,) = refusals(folder, monkeypatch)
    assert f"audit log has {len(lines) - 1} lines and does not hold line {len(lines)}" in why
    assert "it was cut, rewritten or put back" in why


def test_a_log_that_was_written_anew_is_noticed(folder, monkeypatch):
    trained(folder, monkeypatch)
    before = (home_of(folder) / "audit.jsonl").read_text().splitlines()
    (home_of(folder) / "audit.jsonl").unlink()
    forged = AuditLog(home_of(folder) / "audit.jsonl")
    for _ in range(len(before) + 5):
        forged.write(event="nothing happened")
    (why,) = refusals(folder, monkeypatch)
    assert "does not hold line" in why


def test_an_old_ledger_put_back_restores_no_budget(folder, monkeypatch):
    private = 'dp = {epsilon = 40, delta = 1e-5, level = "site", scores = false}'
    edited(folder / "federation.toml", (DP, private), ("scale = true", "scale = false"))
    run = trained(folder, monkeypatch)
    assert run.round == 2
    ledger = home_of(folder) / "ledger.json"
    full = ledger.read_text()
    old = json.loads(full)
    old["entries"].pop()
    old |= {"count": len(old["entries"]), "last": old["entries"][-1]["hash"]}
    ledger.write_text(json.dumps(old))  # a whole ledger, as it was an answer ago
    (why,) = refusals(folder, monkeypatch)
    assert "privacy ledger has 1 lines and does not hold line 2" in why
    ledger.unlink()
    (why,) = refusals(folder, monkeypatch)
    assert "privacy ledger has 0 lines" in why


def test_the_coordinator_names_books_that_have_become_shorter(tmp_path):
    lines = []
    receipts = Receipts(tmp_path, {"north": b"key"}, lines.append)
    assert receipts.of("north") == ""
    receipts.keep("north", SiteBooks(7, "a", 2, "b").text())
    receipts.keep("north", SiteBooks(8, "c", 1, "b").text())
    assert lines == ["site 'north': its ledger has 1 lines and had 2: it was cut or put back"]
    again = Receipts(tmp_path, {"north": b"key", "south": b"new"}, lines.append)
    assert SiteBooks.read(again.of("north")) == SiteBooks(7, "a", 2, "b")
    assert again.of("south") == ""
    renewed = Receipts(tmp_path, {"north": b"another key"}, lines.append)
    assert renewed.of("north") == ""  # a new kit has new books


@pytest.mark.parametrize("text", ["", "{}x", "[]", '{"audit": -1}', '{"audit": "1"}', '{"x": 1}'])
def test_what_a_site_says_of_its_books_is_read_with_care(text):
    assert SiteBooks.read(text) is None


def test_a_copied_folder_goes_on_from_its_books(folder, monkeypatch, tmp_path):
    """A site that moves to another machine takes them along."""
    trained(folder, monkeypatch)
    home = home_of(folder)
    moved = shutil.copytree(home, tmp_path / "moved")
    shutil.rmtree(home)
    moved.rename(home)
    assert trained(folder, monkeypatch).round == 2
