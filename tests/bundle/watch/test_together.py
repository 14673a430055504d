"""Evidence of several sites: sums of stakes, what a hand finds, and how often they cry wolf."""

import math

import numpy as np
import pytest
import torch

from fedlore.bundle.watch import open_record, watch_rows
from fedlore.bundle.watch.record import read_record
from fedlore.bundle.watch.together import (
    join_evidence,
    say_together,
    share_evidence,
    shared_questions,
)
from fedlore.core.betting import bet_on_order
from fedlore.errors import FedloreError

from ..making import bundle, rows
from .test_watch import labels

FEATURES = ("ash", "s")


def added(parts):
    return {key: torch.stack([part[key] for part in parts]).sum(0) for key in ("plain", "log")}


def test_a_site_lets_its_stakes_out_as_they_are_now(tmp_path):
    one, x = bundle(), rows(80)
    record = open_record(tmp_path / "a.watch", one)
    told = watch_rows(record, one, x, labels(x, right=0.2))
    found = share_evidence(read_record(tmp_path / "a.watch"), FEATURES)
    by_name = dict(zip(shared_questions(FEATURES), found["log"].tolist(), strict=True))
    ash = next(j for j in told.judgements if j.question.name == "input ash")
    assert by_name["input ash"] == pytest.approx(float(ash.course.capital[-1]))
    rules = [j.course.capital for j in told.judgements if j.question.kind == "rule"]
    mean = np.mean([np.exp(c[-1]) if len(c) else 1.0 for c in rules])
    assert by_name["the rules"] == pytest.approx(min(math.log(mean), math.log(2**20)))
    assert torch.allclose(found["plain"].log(), found["log"])
    assert not any("high ash" in name for name in by_name)  # no rule is named


def test_who_watches_nothing_has_never_bet():
    found = share_evidence(None, FEATURES)
    assert found["plain"].tolist() == [1.0] * 6 and found["log"].tolist() == [0.0] * 6


def test_a_loud_site_tells_no_more_than_was_agreed(tmp_path):
    one, x = bundle(), rows(400)
    record = open_record(tmp_path / "a.watch", one)
    watch_rows(record, one, x, labels(x, right=0.0))
    assert float(share_evidence(record, FEATURES)["plain"].max()) <= 2.0**20 * (1 + 1e-12)


def test_mean_and_product_are_those_of_a_hand():
    parts = []
    for stake in (8.0, 2.0, 1.0, 1.0):
        part = share_evidence(None, FEATURES)
        part["plain"][4], part["log"][4] = stake, math.log(stake)
        parts.append(part)
    found = join_evidence(added(parts), FEATURES, 4)
    ash = next(one for one in found if one.question == "input ash")
    assert (ash.mean, ash.product) == pytest.approx((3.0, 16.0))
    assert ash.needed == pytest.approx(2 / (0.05 * 0.25 / 2))
    assert not ash.alarm and "no alarm; most evidence: input ash" in say_together(found, 4)[0]
    for part in parts:
        part["log"][4] = math.log(8.0)  # weak at each, the same at all
    loud = join_evidence(added(parts), FEATURES, 4)
    assert [one.question for one in loud if one.alarm] == ["input ash"]
    assert "input ash: no longer as before" in say_together(loud, 4)[0]
    with pytest.raises(FedloreError, match="other than 7 questions"):
        join_evidence(added(parts), (*FEATURES, "third"), 4)


def test_sites_without_a_change_hardly_ever_cry_wolf_together():
    """Four sites, 60 rows, 150 years: for one question at 5 % in all."""
    wolf = 0
    for seed in range(150):
        draw = np.random.default_rng(seed)
        logs = [
            bet_on_order(draw.normal(size=60), draw.normal(size=50), draw.random(60)).capital[-1]
            for _ in range(4)
        ]
        wolf += np.exp(logs).mean() >= 40 or np.exp(np.sum(logs)) >= 40
    assert wolf / 150 <= 0.05
