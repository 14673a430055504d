"""A site's budget over rounds, runs, restarts and damage."""

import json
import math
import os
import threading
from contextlib import suppress

import pytest

from fedlore.errors import ConfigError, FedloreError
from fedlore.privacy.dp import budget as books
from fedlore.privacy.dp.budget import BudgetSpent, Ledger, LedgerDamaged, LedgerEntry
from fedlore.privacy.dp.noise import Release, epsilon_of, noise_for

NOISE = noise_for(3.0, 1e-5, 4)  # four rounds and not one more


def entry(round=1, run="a", noise=NOISE):
    return LedgerEntry(run, round, "site", noise, 1, 1.0)


def spend(ledger, **kwargs):
    ledger.spend(entry(**kwargs), epsilon=3.0, delta=1e-5)
    return ledger.spent("site", 1e-5)


@pytest.mark.parametrize("on_disk", [True, False])
def test_the_budget_stops_hard(tmp_path, on_disk):
    ledger = Ledger(tmp_path / "ledger.json" if on_disk else None)
    found = [spend(ledger, round=r) for r in range(1, 5)]
    assert found == sorted(found) and found[-1] <= 3.0
    assert found[2] == pytest.approx(epsilon_of([Release(NOISE, 3)], 1e-5))
    for _ in range(2):
        with pytest.raises(BudgetSpent, match=r"spent: ε = 3 of 3 .* after 4 answers"):
            spend(ledger, round=5)
    assert len(ledger.entries()) == 4
    assert ledger.spent("site", 1e-5) == found[-1]
    assert ledger.spent("record", 1e-5) == found[-1]  # who hides the site hides its records


def test_the_budget_stays_spent_after_a_restart_and_in_other_runs(tmp_path):
    for run in ("a", "b"):
        for round in (1, 2):
            spend(Ledger(tmp_path / "deep" / "ledger.json"), run=run, round=round)
    with pytest.raises(BudgetSpent):
        spend(Ledger(tmp_path / "deep" / "ledger.json"), run="c")


def test_a_budget_without_limit_bears_no_noise():
    ledger = Ledger()
    ledger.spend(entry(noise=0.0), epsilon=math.inf, delta=1e-5)
    assert ledger.spent("site", 1e-5) == math.inf


def test_what_was_told_of_the_site_was_told_of_its_records():
    """Two levels, one site: each bounds what the other may still spend."""
    ledger = Ledger()
    for round in (1, 2, 3):
        spend(ledger, round=round)
    before = ledger.spent("record", 1e-5)
    step = LedgerEntry("b", 1, "record", NOISE, 1, 1.0)
    ledger.spend(step, epsilon=3.0, delta=1e-5)
    assert ledger.spent("record", 1e-5) == pytest.approx(epsilon_of([Release(NOISE, 4)], 1e-5))
    assert before < ledger.spent("record", 1e-5) <= 3.0
    with pytest.raises(BudgetSpent, match=r"after 4 answers \(record level\)"):
        ledger.spend(step, epsilon=3.0, delta=1e-5)


def test_who_hides_a_record_does_not_hide_the_site():
    ledger = Ledger()
    ledger.spend(LedgerEntry("b", 1, "record", 50.0, 1, 0.1), epsilon=3.0, delta=1e-5)
    assert ledger.spent("site", 1e-5) == math.inf
    with pytest.raises(BudgetSpent, match=r"ε = inf of 3 .* \(site level\)"):
        spend(ledger)
    assert len(ledger.entries()) == 1


def written(change):
    """What a file holds after a change to what stands in it."""

    def harm(data):
        found = json.loads(data)
        change(found["entries"])
        return json.dumps(found).encode()

    return harm


HARM = {
    "cut": lambda data: data[:-10],
    "empty": lambda data: b"",
    "no text": lambda data: b"\xff\xfe\x00",
    "another": lambda data: b"[1, 2]",
    "less noise": written(lambda lines: lines[0].update(noise=10 * lines[0]["noise"])),
    "a line less": written(lambda lines: lines.pop()),
    "first line less": written(lambda lines: lines.pop(0)),
}


@pytest.mark.parametrize("how", HARM)
def test_a_damaged_ledger_counts_as_spent(tmp_path, how):
    path = tmp_path / "ledger.json"
    ledger = Ledger(path)
    for round in (1, 2):
        spend(ledger, round=round)
    path.write_bytes(HARM[how](path.read_bytes()))
    before = path.read_bytes()
    with pytest.raises(LedgerDamaged, match="is damaged .*answers nothing that costs privacy"):
        spend(ledger, round=3)
    with pytest.raises(LedgerDamaged):
        Ledger(path)
    assert path.read_bytes() == before


def test_the_line_that_was_changed_is_named(tmp_path):
    path = tmp_path / "ledger.json"
    ledger = Ledger(path)
    for round in (1, 2, 3):
        spend(ledger, round=round)
    found = json.loads(path.read_text())
    found["entries"][1]["hash"] = "0" * 64  # what it says adds up, but nobody wrote this
    path.write_text(json.dumps(found))
    with pytest.raises(LedgerDamaged, match="line 2 is not what was written"):
        Ledger(path)


def test_what_cannot_be_written_down_is_not_spent(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.json")
    spend(ledger)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FedloreError, match="No space left on device; nothing may leave"):
        spend(ledger, round=2)
    monkeypatch.undo()
    assert len(ledger.entries()) == 1
    assert not list(tmp_path.glob(".*.part"))


def test_two_who_spend_at_once_do_not_overspend(tmp_path, monkeypatch):
    path = tmp_path / "ledger.json"
    for round in (1, 2, 3):
        spend(Ledger(path), round=round)
    ledgers = [Ledger(path), Ledger(path)]  # as two processes have: locks belong to open files
    both, real = threading.Barrier(2), books._read

    def slowly(path):
        found = real(path)
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)  # were there no lock, both would have read before either writes
        return found

    monkeypatch.setattr(books, "_read", slowly)
    ends = []

    def last(ledger):
        try:
            ledger.spend(entry(round=4), epsilon=3.0, delta=1e-5)
            ends.append("spent")
        except BudgetSpent:
            ends.append("refused")

    threads = [threading.Thread(target=last, args=[ledger]) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.undo()
    assert sorted(ends) == ["refused", "spent"] and len(Ledger(path).entries()) == 4


def test_bad_budgets_are_refused():
    with pytest.raises(ConfigError, match="epsilon must be positive, got -1"):
        Ledger().spend(entry(), epsilon=-1, delta=1e-5)
    with pytest.raises(ConfigError, match=r"delta must lie in \(0, 1\), got 0"):
        Ledger().spend(entry(), epsilon=1, delta=0)


def test_a_ledger_of_another_format_is_not_read(tmp_path):
    path = tmp_path / "ledger.json"
    spend(Ledger(path))
    text = path.read_text()
    found = json.loads(text)
    path.write_text(json.dumps(found | {"format": found["format"] + 1}))
    with pytest.raises(LedgerDamaged, match=f"its format is {found['format'] + 1}"):
        Ledger(path).entries()
    path.write_text(text)
    assert len(Ledger(path).entries()) == 1
