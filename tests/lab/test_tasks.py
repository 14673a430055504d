"""Protocols, tasks and the paper's own numbers: what its experiments are made of."""

from pathlib import Path

import pytest
import torch

from fedlore.errors import ConfigError
from fedlore.experiments import settings_fingerprint
from fedlore.report.published import BY_SHARE, POV, TA, mean_ta
from fedlore_lab.paper.tasks import SHIPPED, experts, know, level, read_protocol, share_out

from .small import protocol, small_task, some_rows


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


@pytest.fixture(scope="module")
def setup(tmp_path_factory):
    return read_protocol(protocol(tmp_path_factory.mktemp("protocol"))).covtype


@pytest.fixture(scope="module")
def sites(setup):
    return share_out(setup, some_rows(), None, seed=1)


@pytest.fixture(scope="module")
def known(setup, sites):
    """Clients with each kind of range."""
    found = {}
    for kind in ("oracle", "conformal90"):
        made = experts(small_task(), setup, sites, honest=kind != "oracle", seed=1)
        found[kind] = [
            know(setup, s, e, kind=kind, share=0.5, seed=1)
            for s, e in zip(sites, made, strict=True)
        ]
    return found


def test_every_client_holds_five_classes_and_a_tenth_to_train_on(sites):
    assert [site.id for site in sites] == [f"client-{i}" for i in range(1, 6)]
    for site in sites:
        assert site.held.sum() == 5
        assert site.held[site.train.y].all() and site.held[site.test.y].all()
        assert len(site.test) == 150


def test_an_oracle_range_is_the_label_the_expert_and_a_class_of_the_client(known, sites):
    for client, site in zip(known["oracle"], sites, strict=True):
        for rows in (client.data, client.test):
            assert rows.allowed.gather(1, rows.y.unsqueeze(1)).all()
            assert (rows.allowed | (rows.prior == 0)).all()
            assert (rows.allowed.sum(1) <= 3).all()
            told = torch.nn.functional.one_hot(rows.y, 7).bool() | (rows.prior > 0)
            assert (rows.allowed & ~told)[:, ~site.held].sum() == 0


def test_honest_ranges_hold_about_what_they_promise(known):
    held = [c.test.allowed.gather(1, c.test.y.unsqueeze(1)) for c in known["conformal90"]]
    share = float(torch.cat(held).double().mean())
    assert 0.82 < share < 1.0  # 90 % of so few rows; an oracle would hold all of them


def test_honest_experts_leave_rows_for_calibration(setup, sites):
    honest = experts(small_task(), setup, sites, honest=True, seed=1)
    oracle = experts(small_task(), setup, sites, honest=False, seed=1)
    for site, one, other in zip(sites, honest, oracle, strict=True):
        assert len(one.unseen) == round(0.2 * len(site.train)) and len(other.unseen) == 0


def test_training_rows_do_not_depend_on_the_range(known):
    for one, other in zip(known["oracle"], known["conformal90"], strict=True):
        assert torch.equal(one.data.x, other.data.x) and torch.equal(one.test.y, other.test.y)


def test_the_same_seed_makes_the_same_clients(setup, known, sites):
    again = experts(small_task(), setup, sites, honest=False, seed=1)
    for site, expert, client in zip(sites, again, known["oracle"], strict=True):
        other = know(setup, site, expert, kind="oracle", share=0.5, seed=1)
        assert torch.equal(client.test.allowed, other.test.allowed)
        assert torch.equal(client.test.prior, other.test.prior)
    moved = share_out(setup, some_rows(), None, seed=2)
    assert any(len(a.train) != len(b.train) for a, b in zip(sites, moved, strict=True))


@pytest.mark.parametrize(
    ("dataset", "means"),
    [("covtype", (77.0, 75.8, 82.4, 80.4, 85.8)), ("fmnist", (75.0, 68.4, 79.0, 80.0, 84.8))],
)
def test_means_of_the_five_approaches(dataset, means):
    found = [mean_ta(dataset, name) for name in ("ML", "P-KM", "MLwKM", "FL", "FLwKM")]
    assert found == pytest.approx(list(means))


@pytest.mark.parametrize(
    ("dataset", "means"),
    [("covtype", (85.8, 89.8, 91.2, 92.6)), ("fmnist", (84.8, 89.4, 90.4, 93.2))],
)
def test_means_by_share(dataset, means):
    found = [mean_ta(dataset, "FLwKM", share) for share in (0.01, 0.05, 0.1, 0.3)]
    assert found == pytest.approx(list(means))
    assert BY_SHARE[dataset][0.01] == TA[dataset]["FLwKM"]


def test_only_approaches_without_knowledge_leave_the_range():
    assert all(set(by_approach) <= {"ML", "FL"} for by_approach in POV.values())


def test_where_the_paper_is_silent_there_is_no_number():
    assert mean_ta("covtype", "FL", 0.3) is None
    assert mean_ta("covtype", "FLwKM", 0.02) is None
    assert mean_ta("mnist", "FL") is None
