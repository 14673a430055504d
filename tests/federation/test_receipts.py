"""Books that were cut, rewritten or put back are noticed: the coordinator has a receipt of them."""

import json
import shutil
from dataclasses import replace

import pytest

from fedlore.core.wire import Task
from fedlore.errors import FedloreError
from fedlore.federation.kits.certificates import raw_key
from fedlore.federation.kits.kit import enrolled_keys, init, renew_authority, renew_server
from fedlore.federation.kits.receipts import (
    RECEIPTS,
    Receipts,
    SiteBooks,
    name_key,
    read_roll,
    sign_roll,
)
from fedlore.federation.remote import QuorumLost, Refusal
from fedlore.federation.settings import read_deployed
from fedlore.federation.site.audit import AuditLog, HeldReceipts
from fedlore.federation.site.folder import read_kit
from fedlore.federation.site.worker import Worker
from fedlore.federation.terms import terms_of

from .inside import Inside, audit_lines, edited, small
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
    assert lines == [
        "site 'north': its privacy ledger has 1 lines and had 2: it was cut or put back"
    ]
    again = Receipts(tmp_path, {"north": b"key", "south": b"new"}, lines.append)
    assert SiteBooks.read(again.of("north")) == SiteBooks(7, "a", 2, "b")
    assert again.of("south") == ""
    renewed = Receipts(tmp_path, {"north": b"another key"}, lines.append)
    assert renewed.of("north") == ""  # a new kit has new books


def test_questions_that_were_put_back_are_noticed(folder, monkeypatch):
    """Else three more models of every round would be answered, and a second sum be opened."""
    trained(folder, monkeypatch)
    path = home_of(folder) / "state" / "asked"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:1]) + "\n")
    (why,) = refusals(folder, monkeypatch)
    assert f"list of questions has 1 lines and does not hold line {len(lines)}" in why


def test_a_coordinator_that_forgets_is_not_believed(folder, monkeypatch):
    """A site holds the receipt itself: the log alone cannot be put back, whatever is told."""
    trained(folder, monkeypatch)
    path = home_of(folder) / "audit.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-3]) + "\n")  # of its last answer it has no receipt yet
    (folder / RECEIPTS).unlink()
    (why,) = refusals(folder, monkeypatch)
    assert "audit log" in why and "it was cut, rewritten or put back" in why


def test_a_site_and_the_coordinator_who_forget_together_are_noticed_by_the_others(
    folder, monkeypatch, tmp_path
):
    home = home_of(folder)
    before = shutil.copytree(home, tmp_path / "before")
    trained(folder, monkeypatch)
    shutil.rmtree(home)
    shutil.copytree(before, home)  # all of it, the receipts it held too
    kept = json.loads((folder / RECEIPTS).read_text())
    own = name_key(raw_key(enrolled_keys(folder)["plant-1"]))
    (folder / RECEIPTS).write_text(json.dumps({k: v for k, v in kept.items() if k != own}))
    assert trained(folder, monkeypatch).round == 2
    for other in PLANTS[1:]:
        text = (home_of(folder, other) / "audit.jsonl").read_text()
        noticed = [
            e["reason"] for e in map(json.loads, text.splitlines()) if e["event"] == "noticed"
        ]
        assert f"the books of site {own} are not in it any more" in noticed
        assert any(f"site {own} went back: audit log has" in reason for reason in noticed)
        assert len(noticed) == len(set(noticed))


def test_only_the_coordinator_signs_receipts(folder, tmp_path):
    books, ca = {"0123": SiteBooks(7, "a").text()}, (folder / "ca.crt").read_bytes()
    signed = sign_roll(folder, books, 5.0)
    assert read_roll(signed, ca) == (5.0, books)
    told = json.loads(signed)
    changed = told | {"roll": told["roll"].replace("0123", "0124")}
    with pytest.raises(FedloreError, match="signature of the receipt .* is wrong"):
        read_roll(json.dumps(changed), ca)
    init(tmp_path / "other", name="o", address="h:1", schema=read_deployed(folder).schema)
    with pytest.raises(FedloreError, match="no authority of ours vouches for"):
        read_roll(sign_roll(tmp_path / "other", books, 5.0), ca)
    for text in ("{}", "[]", "x", json.dumps(books), json.dumps(told | {"by": "x"})):
        with pytest.raises(FedloreError, match="cannot be read"):
            read_roll(text, ca)
    renew_authority(folder)  # with overlap, and then with a server of the new one
    assert read_roll(sign_roll(folder, books, 5.0), ca) == (5.0, books)
    with_both = (folder / "ca.crt").read_bytes()
    renew_server(folder)
    assert read_roll(sign_roll(folder, books, 5.0), with_both) == (5.0, books)


def test_a_roll_that_was_overtaken_on_its_way_is_no_alarm(folder):
    ca, held = (folder / "ca.crt").read_bytes(), HeldReceipts(home_of(folder), b"key")
    of = name_key(b"other")
    old, new, back = ({of: SiteBooks(n, str(n)).text()} for n in (7, 8, 6))
    assert held.take(sign_roll(folder, new, 2.0), ca) == []
    assert held.take(sign_roll(folder, old, 1.0), ca) == []
    again = HeldReceipts(home_of(folder), b"key")  # it is on the disk
    assert again.take(sign_roll(folder, old, 1.0), ca) == []
    (line,) = again.take(sign_roll(folder, back, 3.0), ca)
    assert line == f"the books of site {of} went back: audit log has 6 lines and had 8"
    with pytest.raises(FedloreError, match="cannot be read"):
        again.take(" " * 2_000_000, ca)


def test_a_task_with_a_receipt_that_nobody_signed_gets_nothing(folder):
    terms = terms_of(read_deployed(folder), run="x", participants=3)
    worker = Worker(read_kit(home_of(folder)))
    with pytest.raises(Refusal, match="cannot be read"):
        worker(Task("moments", 0, receipt=SiteBooks().text()), terms.text())
    assert worker(Task("moments", 0), terms.text()).upload


def test_a_roll_of_later_than_now_is_refused_and_one_that_was_taken_before_is_forgotten(folder):
    """Else a log that is cut would never be noticed again: no roll would be newer."""
    home, ca, now = home_of(folder), (folder / "ca.crt").read_bytes(), 1000.0
    held, of = HeldReceipts(home, b"key", lambda: now), name_key(b"other")
    books = {of: SiteBooks(8, "8").text()}
    with pytest.raises(FedloreError, match="is of 99999000 s from now"):
        held.take(sign_roll(folder, books, 1e8), ca)
    (home / RECEIPTS).write_text(json.dumps({"at": 1e8, "books": books}))
    again = HeldReceipts(home, b"key", lambda: now)
    (line,) = again.take(sign_roll(folder, {of: SiteBooks(6, "6").text()}, now), ca)
    assert "went back" in line


def test_a_roll_that_claims_a_million_lines_locks_nobody_out(folder):
    home = home_of(folder)
    worker, text = Worker(read_kit(home)), terms_of(read_deployed(folder), run="x", participants=3)
    own = name_key(raw_key(enrolled_keys(folder)["plant-1"]))
    for claim in (SiteBooks(10**6, "a"), SiteBooks(10**6, "a", signature="AAAA")):
        roll = sign_roll(folder, {own: claim.text()}, 5.0 + len(claim.signature))
        assert worker(Task("moments", 0, receipt=roll), text.text()).upload
    said = [e["reason"] for e in audit_lines(home) if e["event"] == "noticed"]
    assert said == ["the books of this site are not as this site has signed them: not believed"]


def test_the_audit_log_has_the_hash_of_each_upload_and_the_coordinator_a_signature(
    folder, monkeypatch
):
    trained(folder, monkeypatch)
    lines = [e for e in audit_lines(home_of(folder)) if e["event"] == "answered"]
    assert all(len(line["upload"]) == 64 for line in lines)
    assert len({e["upload"] for e in lines if e["kind"] == "train"}) == 2
    kept, key = json.loads((folder / RECEIPTS).read_text()), enrolled_keys(folder)["plant-1"]
    books = SiteBooks.read(kept[name_key(raw_key(key))])
    assert books.signed_by(raw_key(key)) and books.audit == len(audit_lines(home_of(folder)))
    assert not replace(books, audit=books.audit - 1).signed_by(raw_key(key))


@pytest.mark.parametrize("text", ["", "{}x", "[]", '{"audit": -1}', '{"audit": "1"}', '{"x": 1}'])
def test_what_a_site_says_of_its_books_is_read_with_care(text):
    assert SiteBooks.read(text) is None
