"""Protocols as data: what ships, and what is refused."""

from pathlib import Path

import pytest

from fedlore.errors import ConfigError
from fedlore.experiments import settings_fingerprint
from fedlore_lab.paper.protocol import SHIPPED, level, read_protocol

from .small import protocol


def test_fair_gives_every_approach_the_same_local_steps():
    fair = read_protocol("fair")
    for setup in (fair.covtype, fair.fmnist):
        assert setup.alone == 0 and not setup.tuned
        assert setup.shares == (0.01, 0.05, 0.1, 0.3)
        assert setup.rounds_at(0.01) == 60 and setup.rounds_at(0.1) == 20
        assert "oracle" in setup.ranges and "conformal99" in setup.ranges


def test_paper_has_the_budgets_of_its_authors():
    paper = read_protocol("paper")
    assert paper.covtype.rounds_at(0.01) == 10 and paper.fmnist.rounds_at(0.01) == 200
    assert (paper.covtype.alone, paper.fmnist.alone) == (1, 2)
    assert (paper.covtype.classes_each, paper.fmnist.classes_each) == (5, 6)
    assert paper.covtype.tuned and paper.covtype.ranges == ("oracle",)
    plan = paper.covtype.plan
    assert (plan.epochs, plan.batch, plan.lr, plan.momentum, plan.decay) == (5, 32, 0.1, 0.9, 5e-4)


def test_a_checkout_shows_the_shipped_protocols_in_configs():
    folder = Path(__file__).parents[2] / "configs"
    if not folder.exists():
        pytest.skip("not a checkout")
    assert folder.resolve() == SHIPPED.resolve()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("test_rows", "test_row", r"\[covtype\] unknown key 'test_row'; did you mean 'test_rows'"),
        ("conformal90", "conformal", "a range must be oracle or conformal with a percent"),
        ("20 = 3", "2.5 = 6", "rounds"),
        ("20 = 3", "20 = 0", "rounds must map percents to rounds, got '20' = 0"),
        ("sees = 16", "sees = 0", "sees must be at least 1, got 0"),
        ("test_rows = 150", "trust = 1.3", "trust must lie between 0 and 1, got 1.3"),
        ("test_rows = 150", "stray = -1", "stray must be at least 0, got -1"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path, old, new, message):
    with pytest.raises(ConfigError, match=message):
        read_protocol(protocol(tmp_path, **{old: new}))


def test_an_unknown_protocol_lists_the_known_ones():
    with pytest.raises(ConfigError, match="unknown protocol 'unfair'; known: fair, paper"):
        read_protocol("unfair")


def test_a_share_without_rounds_is_refused():
    with pytest.raises(ConfigError, match="no rounds for 2 %"):
        read_protocol("fair").covtype.rounds_at(0.02)


def test_levels_of_ranges():
    assert level("oracle") is None and level("conformal99") == 0.99
    with pytest.raises(ConfigError):
        level("conformal100")


def test_fingerprints_follow_every_setting(tmp_path):
    one = read_protocol(protocol(tmp_path)).covtype
    other = read_protocol(protocol(tmp_path, **{"sees = 16": "sees = 15"})).covtype
    assert settings_fingerprint(one) == settings_fingerprint(
        read_protocol(protocol(tmp_path)).covtype
    )
    assert settings_fingerprint(one) != settings_fingerprint(other)
