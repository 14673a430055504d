"""The paper's tasks: who holds what, what the experts see, what the ranges promise."""

import pytest
import torch

from fedlore_lab.paper.protocol import read_protocol
from fedlore_lab.paper.tasks import experts, know, share_out

from .small import protocol, small_task, some_rows


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
