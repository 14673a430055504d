"""fit with a budget or with encryption, in one call."""

import logging

import pytest
import torch

from fedlore import Plan, Scaffold
from fedlore.core.nets import mlp
from fedlore.core.scaler import Scaler
from fedlore.engine import fit
from fedlore.errors import ConfigError, FedloreError
from fedlore.privacy import Dp, Privacy
from fedlore.privacy.dp.budget import BudgetSpent, LedgerDamaged

from ..engine.federation import CLASSES, FEATURES, federation

KNOWN = Scaler(torch.zeros(FEATURES).double(), torch.ones(FEATURES).double())
ONE = Plan(epochs=1, batch=8, lr=0.05)


def fitted(dp=None, *, rounds=3, **settings):
    settings = {"plan": ONE, "scale": KNOWN, "engine": "local"} | settings
    privacy = settings.pop("privacy", None) or Privacy(dp=dp)
    return fit(federation(), mlp(FEATURES, CLASSES), rounds=rounds, privacy=privacy, **settings)


def test_a_budget_is_reported_and_outlives_the_run(tmp_path):
    found = fitted(Dp(8, 1e-5), ledgers=tmp_path)
    assert found.privacy[0] == "ε = 8 at δ = 1e-05, site level, 3 rounds, sampling 1.0"
    assert found.privacy[1].startswith("the coordinator sees single uploads, for which its own")
    assert [row["privacy"] for row in found.history if "privacy" in row] == list(found.privacy)
    with pytest.raises(BudgetSpent, match="after 3 answers"):
        fitted(Dp(8, 1e-5), rounds=1, ledgers=tmp_path)
    assert "4 rounds" in fitted(Dp(100, 1e-5, noise=1.0), rounds=1, ledgers=tmp_path).privacy[0]
    path = tmp_path / "site-1.json"
    path.write_text(path.read_text()[:-1])
    with pytest.raises(LedgerDamaged):
        fitted(Dp(100, 1e-5, noise=1.0), rounds=1, ledgers=tmp_path)


def test_noise_under_masks_leaves_nothing_open():
    found = fitted(privacy=Privacy(secure_aggregation=True, dp=Dp(8, 1e-5)))
    assert found.privacy == ("ε = 8 at δ = 1e-05, site level, 3 rounds, sampling 1.0",)
    assert [row["merged"] for row in found.history if "merged" in row] == [3, 3, 3]


def test_noise_under_encryption():
    found = fitted(privacy=Privacy(encryption="ckks", dp=Dp(8, 1e-5)))
    assert [line[:4] for line in found.privacy] == ["ε = ", "CKKS"]


def test_record_level_trains_one_by_one_and_reports(caplog):
    with caplog.at_level(logging.WARNING):
        found = fitted(Dp(8, 1e-5, level="record"), engine="auto")
    assert "one by one: record level differential privacy" in caplog.text
    # of 20, 33 and 47 rows in batches of 8, the smallest site spends most
    assert found.privacy[0].startswith("ε = 8 at δ = 1e-05, record level, 3 rounds, sampling 0.")
    assert len(found.privacy) == 1


def test_the_range_holds_under_noise():
    found = fitted(Dp(1, 1e-5, level="record", clip=1.0), rounds=1)
    client = federation()[0]
    model = found.model("site-0")
    logits = model.model(client.test.x, client.test.prior, client.test.allowed)
    from fedlore.core.inject import guard, inject

    probabilities = inject(guard(logits), client.test.prior, client.test.allowed, 0.3).exp()
    assert (probabilities[~client.test.allowed] == 0).all()


def test_what_has_no_guarantee_is_refused():
    dp = Dp(8, 1e-5)
    with pytest.raises(FedloreError, match="set scale = false"):
        fitted(dp, scale=True)
    with pytest.raises(ConfigError, match="Scaffold keeps sums"):
        fitted(dp, algorithm=Scaffold(), plan=Plan(epochs=1, momentum=0.0))
    with pytest.raises(ConfigError, match="weights must be equal"):
        fitted(dp, weights="size")
    with pytest.raises(ConfigError, match="aggregate must be mean"):
        fitted(dp, aggregate="median")
    with pytest.raises(ConfigError, match="at least 2 sites in a round, got 1"):
        fitted(privacy=Privacy(encryption="ckks"), sample=0.3)
