"""A site's own page: what was asked, what left, what was refused, and the budget."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedlore.errors import FedloreError
from fedlore.federation.pages.app import watch_folder
from fedlore.federation.pages.site import SiteWatcher, measure_site, say_budget, show_site

from ..inside import small


def test_what_left_is_counted_from_the_audit_log(trained):
    seen = SiteWatcher(trained / "sites" / "plant-1").look()
    assert seen.counts["train"] == {"answered": 3}
    lines = [
        json.loads(x) for x in (trained / "sites/plant-1/audit.jsonl").read_text().splitlines()
    ]
    tensors = [line["sent"]["model"]["tensors"] for line in lines if line["kind"] == "train"]
    assert seen.values > 0 and len(seen.events) == len(lines)
    first = next(event for event in seen.events if event.kind == "train")
    assert f"in {len(tensors[0])} tensors, norm" in first.left
    assert seen.questions == len(lines) and seen.most == 20_000 and not seen.joined


def test_what_was_refused_is_said_with_its_reason(trained):
    seen = SiteWatcher(trained / "sites" / "plant-3").look()
    assert set(seen.counts["train"]) == {"refused"} and seen.values == 0
    assert seen.events[0].reason == "policy: at least 4 participants, this federation has 3"
    page = show_site(seen)
    assert "at least 4 participants, this federation has 3" in page and "refused" in page


def test_the_budget_is_that_of_the_ledger(trained):
    budget = SiteWatcher(trained / "sites" / "plant-1").look().budget
    assert budget.answers == 3 and 0 < budget.spent <= budget.allowed == 40
    assert say_budget(budget).startswith(f"ε = {budget.spent:.3g} of 40 at δ = 0.001, site level")
    assert SiteWatcher(trained / "sites" / "plant-3").look().budget.spent == 0


def test_answers_without_noise_are_bounded_by_no_budget(trained):
    home = trained / "sites" / "plant-1"
    path, before = home / "audit.jsonl", (home / "audit.jsonl").read_text()
    assert "unbounded" not in say_budget(SiteWatcher(home).look().budget)
    bare = {"event": "answered", "kind": "moments", "time": "2026-01-02T03:04:05", "noised": False}
    path.write_text(json.dumps(bare) + "\n" + before)
    said = say_budget(SiteWatcher(home).look().budget)
    assert said.endswith("; unbounded before 2026-01-02T03:04: answers left without noise")
    path.write_text(before)


def test_a_ledger_that_was_touched_counts_as_spent(trained, tmp_path):
    home = trained / "sites" / "plant-2"
    path, before = home / "ledger.json", (home / "ledger.json").read_text()
    watcher = SiteWatcher(home)
    assert watcher.look().budget.trouble == ""
    path.write_text(before.replace('"round": 1', '"round": 7'))
    seen = watcher.look()
    assert "is damaged" in seen.budget.trouble
    assert "The privacy budget is spent, or nearly so" in show_site(seen)
    assert watch_folder(home).look().budget.spent == float("inf")
    path.write_text(before)


def test_what_is_new_in_a_growing_log_is_added_and_a_half_line_waited_for(trained):
    home = trained / "sites" / "plant-1"
    watcher, path = SiteWatcher(home), home / "audit.jsonl"
    before, text = watcher.look(), path.read_text()
    line = json.dumps({"event": "refused", "kind": "vote", "round": 3, "reason": "no\nsecret"})
    path.write_text(text + line[:20])
    assert watcher.look().counts == before.counts
    path.write_text(text + line + "\n")
    now = watcher.look()
    assert now.counts["vote"] == {"refused": 1} and now.events[0].reason == "no"
    path.write_text(text)  # mended after a crash: counted anew, nothing twice
    assert watcher.look().counts == before.counts


def test_terms_that_wait_and_terms_that_were_never_agreed_to_are_said(trained):
    home = trained / "sites" / "plant-2"
    (home / "terms.offered.json").write_text("{}")
    assert "Other terms than the accepted ones" in show_site(SiteWatcher(home).look())
    (home / "terms.offered.json").unlink()


def test_measures_are_read_by_prometheus(trained):
    text = measure_site(SiteWatcher(trained / "sites" / "plant-1").look()).decode()
    found = {
        (s.name, *sorted(s.labels.values())): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }
    assert found["fedlore_tasks_total", "answered", "train"] == 3
    assert found["fedlore_privacy_epsilon_allowed",] == 40
    assert found["fedlore_joined",] == 0


def test_a_site_that_left_nothing_behind_has_a_page(tmp_path):
    home = small(tmp_path / "fed") / "sites" / "plant-1"
    seen = SiteWatcher(home).look()
    assert (seen.counts, seen.values, seen.last, seen.budget) == ({}, 0, None, None)
    assert "never" in show_site(seen)
    (home / "site.toml").write_text("name = 3")
    with pytest.raises(FedloreError, match="site.toml"):
        SiteWatcher(home).look()
