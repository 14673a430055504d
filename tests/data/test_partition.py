"""Partitions: every row has one owner, and the same seed gives the same owners."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedlore.data import by_class, by_value, dirichlet, iid, stratify
from fedlore.data.partition import class_owners
from fedlore.errors import FedloreError

labels = st.lists(st.integers(0, 6), min_size=1, max_size=120).map(torch.tensor)
seeds = st.integers(0, 2**31)


def assert_shared_out(parts: list[Tensor], rows: int) -> None:
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(rows))
    assert all(torch.equal(part, part.sort().values) for part in parts)


@given(labels, st.integers(1, 8), st.integers(1, 7), seeds)
def test_by_class_gives_every_row_one_owner_who_holds_its_class(y, clients, each, seed):
    kinds = len(y.unique())
    if each > kinds or clients * each < kinds:
        with pytest.raises(FedloreError):
            by_class(y, clients, each, seed=seed)
        return
    parts = by_class(y, clients, each, seed=seed)
    assert len(parts) == clients
    assert_shared_out(parts, len(y))
    owned = class_owners(y, clients, each, seed=seed)
    assert (owned.sum(1) == each).all()
    assert owned[:, y.unique()].any(0).all()
    for held, part in zip(owned, parts, strict=True):
        assert held[y[part]].all()


def test_by_class_follows_its_seed_and_makes_unequal_clients():
    y = torch.arange(7).repeat_interleave(torch.tensor([300, 400, 50, 10, 20, 30, 40]))
    once, again = by_class(y, 5, 5, seed=3), by_class(y, 5, 5, seed=3)
    other = by_class(y, 5, 5, seed=4)
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(once, other, strict=True))
    assert len({len(part) for part in once}) > 1


def test_owners_of_train_and_test_labels_are_the_same():
    train, test = torch.arange(10).repeat(6), torch.arange(10).repeat(3)
    a, b = (class_owners(y, 5, 5, seed=1) for y in (train, test))
    assert torch.equal(a, b)


@given(labels, st.integers(1, 8), st.floats(0.05, 50.0), seeds)
def test_dirichlet_shares_out_every_row(y, clients, concentration, seed):
    parts = dirichlet(y, clients, concentration=concentration, seed=seed)
    assert len(parts) == clients
    assert_shared_out(parts, len(y))
    again = dirichlet(y, clients, concentration=concentration, seed=seed)
    assert all(torch.equal(a, b) for a, b in zip(parts, again, strict=True))


def test_small_concentration_makes_clients_less_alike():
    y = torch.arange(5).repeat(400)

    def spread(concentration: float) -> float:
        parts = dirichlet(y, 4, concentration=concentration, seed=0)
        shares = torch.stack([y[part].bincount(minlength=5) / 400 for part in parts])
        return float(shares.std())

    assert spread(0.1) > 3 * spread(100.0)


@given(st.integers(1, 100), st.integers(1, 9), seeds)
def test_iid_deals_evenly(rows, clients, seed):
    parts = iid(rows, clients, seed=seed)
    assert_shared_out(parts, rows)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=40))
def test_by_value_has_one_client_for_each_value(values):
    parts = by_value(values)
    assert list(parts) == sorted(set(values))
    assert_shared_out(list(parts.values()), len(values))
    for name, rows in parts.items():
        assert {values[row] for row in rows.tolist()} == {name}


@given(labels, st.floats(0.0, 1.0), seeds)
def test_stratified_takes_the_same_share_of_every_class(y, share, seed):
    part, rest = stratify(y, share, seed=seed)
    assert_shared_out([part, rest] if len(part) else [rest], len(y))
    assert len(part) == round(share * len(y))
    for label in y.unique():
        taken = int((y[part] == label).sum())
        assert abs(taken - share * int((y == label).sum())) < 1 + 1e-9
    assert torch.equal(part, stratify(y, share, seed=seed)[0])


def test_splits_of_different_names_differ():
    y = torch.arange(3).repeat(50)
    a, b = (stratify(y, 0.5, seed=0, of=name)[0] for name in ("client-1", "client-2"))
    assert not torch.equal(a, b)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda y: by_class(y, 2, 2, seed=0), "2 clients with 2 classes each cannot hold 5"),
        (lambda y: by_class(y, 3, 6, seed=0), "classes_each must lie in 1 to 5, got 6"),
        (lambda y: by_class(y[:0], 3, 2, seed=0), "no rows"),
        (lambda y: dirichlet(y, 2, concentration=0.0, seed=0), "concentration must be positive"),
        (lambda y: iid(3, 0, seed=0), "clients must be at least 1, got 0"),
        (lambda y: stratify(y, 1.5, seed=0), r"share must lie in \[0, 1\], got 1.5"),
    ],
)
def test_impossible_partitions_are_refused(call, message):
    with pytest.raises(FedloreError, match=message):
        call(torch.arange(5))
