"""What init writes is what the leak audit recommends, and it trains."""

import pytest

from fedlore.algorithms import FedPer
from fedlore.algorithms.catalog import make
from fedlore.federation.kits.kit import init
from fedlore.federation.settings import read_deployed
from fedlore_coke.experts import COKE
from fedlore_coke.starter import make_trial

from .inside import Inside, edited


def test_init_writes_the_recommended_setting(tmp_path):
    init(tmp_path, name="coke", address="h:1", schema=COKE)
    agreed = read_deployed(tmp_path)
    assert agreed.privacy.secure_aggregation
    assert agreed.recipe == "lore" and agreed.schema.ordered
    assert len(agreed.offered().candidates) > 1 and agreed.offered().one_shot is not None
    assert agreed.model.hears and agreed.plan.plain == 0.5
    assert make(agreed.algorithm.name, **agreed.algorithm.settings) == FedPer(("first", "last"))


def test_the_ends_of_the_network_are_in_no_message(tmp_path, monkeypatch):
    pytest.importorskip("cryptography")
    folder = tmp_path / "fed"
    make_trial(folder, sites=3, address="127.0.0.1:9", rounds=2, test_rows=20)
    edited(
        folder / "federation.toml",
        ("hidden = [64, 64]", "hidden = [6, 5]"),
        ("epochs = 5", "epochs = 1"),
    )
    federation = Inside(folder, monkeypatch)
    assert federation.train().round == 2
    sent = b"".join(federation.wire)
    assert b"head.2.weight" in sent
    assert b"head.0." not in sent and b"head.4." not in sent
