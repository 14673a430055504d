"""A federation at one moment: who stands how, and what the files say."""

import json
import subprocess
from types import SimpleNamespace

import pytest

from fedlore.federation.coordinator.status import Presence, Sighting
from fedlore.federation.pages.coordinator import _costs as costs
from fedlore.federation.pages.coordinator import say_bytes, say_seconds
from fedlore.federation.pages.overview import SPENT, STATES, Watcher, tell_state
from fedlore.privacy.dp.budget import BudgetSpent, Ledger, LedgerEntry

from .stage import KINDS, NOW, stage, write_status


def look(folder, now=NOW):
    return Watcher(folder, lambda: now).look()


def states(folder, now=NOW):
    return [site.state for site in look(folder, now).sites]


def test_every_kind_of_site_is_told_by_its_word(tmp_path):
    assert states(stage(tmp_path, list(KINDS))) == list(KINDS)


def test_slow_is_told_from_dead_by_one_look(tmp_path):
    """Both were asked an hour ago: one beats, one was stopped, one has hung up."""
    folder = stage(tmp_path, ["training"] * 3)
    records = json.loads((folder / "status.json").read_text())["sites"]
    for record in records.values():
        record["asked"]["at"] = NOW - 3600
    write_status(folder, sites=records)
    presence = Presence(lambda: NOW)
    presence.sites = {
        "plant-01": Sighting(heard=NOW - 4.9, lines=1),
        "plant-02": Sighting(heard=NOW - 10.1, lines=1),
        "plant-03": Sighting(heard=NOW - 2.5, lines=0, alone=NOW - 2.1),
    }
    presence.write(folder / "presence.json", ready=True)
    assert states(folder) == ["training", "lost", "lost"]
    assert [round(site.since) for site in look(folder).sites] == [3600] * 3


def test_a_site_that_came_back_or_left_or_never_came(tmp_path):
    folder = stage(tmp_path, ["training"] * 3)
    presence = Presence(lambda: NOW)
    presence.sites["plant-01"] = Sighting(heard=NOW, lines=1)
    presence.sites["plant-02"] = Sighting(heard=NOW - 60, left=True)
    presence.write(folder / "presence.json", ready=True)
    assert states(folder) == ["training", "left", "absent"]


def test_without_a_server_nothing_is_claimed_of_sites(tmp_path):
    folder = stage(tmp_path, ["training", "sent"])
    seen = look(folder, NOW + 60)
    assert seen.server == "down" and [s.state for s in seen.sites] == ["unknown"] * 2


def test_a_training_that_was_killed_is_not_called_running(tmp_path):
    folder = stage(tmp_path, ["sent", "training"])
    gone = subprocess.Popen(["true"])
    gone.wait()
    write_status(folder)
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps(status | {"pid": gone.pid}))
    seen = look(folder)
    assert seen.state == "died" and [s.state for s in seen.sites] == ["waiting", "waiting"]
    (folder / "status.json").write_text(json.dumps(status | {"pid": gone.pid, "host": "another"}))
    assert look(folder).state == "running"


def test_before_anything_was_trained_there_is_something_to_see(tmp_path):
    folder = stage(tmp_path, ["training"])
    for name in ("status.json", "presence.json", "rounds.jsonl"):
        (folder / name).unlink()
    seen = look(folder)
    assert (seen.server, seen.state, seen.sites, seen.history) == ("down", "none", (), ())


def test_rounds_of_another_run_and_a_line_cut_off_are_left_out(tmp_path):
    folder = stage(tmp_path, ["sent"], rounds=3)
    with open(folder / "rounds.jsonl", "a") as file:
        file.write('{"round": 9, "run": "other", "seconds": 1}\n{"rou')
    assert [row["round"] for row in look(folder).history] == [1, 2, 3]


def test_scores_are_those_of_the_journal_and_read_once_for_a_round(tmp_path, monkeypatch):
    folder = stage(tmp_path, ["sent", "training"], rounds=3)
    watcher = Watcher(folder, lambda: NOW)
    first = watcher.look()
    assert [row["round"] for row in first.scores] == [1, 1, 3, 3]
    assert first.sites[0].scores == {"ta": first.scores[2]["ta"], "nll": 2 / 3}
    monkeypatch.setattr("fedlore.federation.journal.read_state", None)  # nothing is read again
    assert watcher.look().scores == first.scores


@pytest.mark.parametrize(
    ("last", "underway", "asking", "word"),
    [
        ("asked", True, True, "training"),
        ("asked", False, False, "waiting"),  # the training was stopped meanwhile
        ("reply", True, True, "sent"),
        ("reply", True, False, "waiting"),
        ("silent", True, False, "late"),
        ("", True, True, "waiting"),
    ],
)
def test_the_word_follows_from_what_came_last(last, underway, asking, word):
    assert tell_state({"last": last}, "here", underway=underway, asking=asking) == word
    assert tell_state({"last": last}, "lost", underway=underway, asking=asking) == "lost"
    assert word in STATES


def test_a_spent_budget_is_known_by_the_words_of_the_ledger():
    ledger, entry = Ledger(), LedgerEntry("run", 1, "site", 1.0, 1, 1.0)
    with pytest.raises(BudgetSpent, match=f"^{SPENT}"):
        ledger.spend(entry, epsilon=0.01, delta=1e-5)


def test_what_rounds_cost_is_said_of_the_last_and_of_the_worst():
    history = [{"seconds": s, "bytes": b} for s, b in ((2, 10), (50, 2_000), (7, 300), (4, 30))]
    seconds, sizes = costs(SimpleNamespace(history=history))
    assert seconds.caption == f"The last {say_seconds(4)}, the longest {say_seconds(50)}."
    assert sizes.caption == f"The last {say_bytes(30)}, the largest {say_bytes(2_000)}."
    assert seconds.front == [(1.0, 2.0), (2.0, 50.0), (3.0, 7.0), (4.0, 4.0)]
    assert costs(SimpleNamespace(history=[])) == []
