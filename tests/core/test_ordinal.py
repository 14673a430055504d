"""A head for ordered classes: what it hears, where it starts, and what may stay at home."""

import pytest
import torch
from torch import nn

from fedlore import ConfigError, FedPer
from fedlore.core.ordinal import (
    PLACES_HEARD,
    Ordered,
    Ordinal,
    find_places,
    heard_numbers,
    lay_between,
    ordered_mlp,
    with_ordinal_head,
)


def still(**options) -> Ordered:
    """A model of 8 classes whose network says nothing."""
    model = ordered_mlp(2, 8, hidden=(), options=Ordinal(**options))
    assert all(bool((p == 0).all()) for p in model.parameters())
    return model


X = torch.zeros(2, 2)
ALLOWED = torch.tensor([[0, 0, 1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1]]).bool()
PRIOR = torch.tensor([[0, 0, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]]).float()


def test_places_by_hand():
    middle, told = find_places(PRIOR, ALLOWED, like=X[:, 0], classes=8)
    assert middle.tolist() == [3.5, 6.5]
    assert told.tolist() == [2.0, 6.5]  # a silent expert stands in the middle of the range
    assert heard_numbers(middle, told, 8).tolist() == [[0.0, -0.75, -1.5], [1.5, 1.5, 0.0]]


@pytest.mark.parametrize(
    ("start", "wanted"), [("none", [3.5, 3.5]), ("middle", [3.5, 6.5]), ("expert", [2.0, 6.5])]
)
def test_an_untrained_model_stands_where_it_starts(start, wanted):
    place, width = still(start=start).normal(X, PRIOR, ALLOWED)
    assert place.tolist() == wanted and width.tolist() == pytest.approx([0.7, 0.7])


def test_a_shift_is_told_in_units_and_a_width_as_a_logarithm():
    for start, unit in (("none", 2.0), ("middle", 1.0)):
        model = still(start=start)
        before = model.normal(X, PRIOR, ALLOWED)[0]
        with torch.no_grad():
            model.own.shift.fill_(0.5)
            model.own.width.fill_(1.0)
        place, width = model.normal(X, PRIOR, ALLOWED)
        assert (place - before).tolist() == [0.5 * unit] * 2
        assert width[0].item() == pytest.approx(0.7 * 2.718281828, rel=1e-6)


def test_shift_and_width_can_stay_at_home():
    names = [n for n, _ in ordered_mlp(3, 5).named_parameters()]
    for private in (("own",), ()):  # they are the last layer, too
        sent = FedPer(private=private).send({"model": {n: torch.zeros(1) for n in names}})
        assert set(names) - set(sent["model"]) == {"own.shift", "own.width"}


def test_whether_it_is_told_anything_depends_on_start_and_ears():
    assert not still(hears=False).hears
    assert still(hears=False, start="middle").hears and still().hears
    assert ordered_mlp(2, 8).head[0].in_features == 2 + PLACES_HEARD
    assert ordered_mlp(2, 8, options=Ordinal(hears=False)).head[0].in_features == 2


def test_any_trunk_carries_it():
    trunk = nn.Sequential(nn.Conv1d(1, 3, 2), nn.Tanh(), nn.Flatten())
    model = with_ordinal_head(trunk, 9, 5, hidden=(4,))
    assert model(torch.randn(6, 1, 4)).shape == (6, 5)
    assert model.line is not None and bool((model.line.weight == 0).all())


def test_an_experts_number_becomes_a_row_with_that_mean():
    rows = lay_between(torch.tensor([-3.0, 0.0, 1.3, 2.5, 6.9, 99.0]), 8)
    assert torch.allclose(rows.sum(1), torch.ones(6))
    middle, told = find_places(rows, None, like=rows[:, 0], classes=8)
    assert told.tolist() == pytest.approx([0.0, 0.0, 1.3, 2.5, 6.9, 7.0])
    assert rows[2].argmax() == 1 and rows[4].argmax() == 7


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": "end"}, "start must be one of none, middle, expert, got 'end'"),
        ({"bell": "round"}, "bell must be one of logistic, normal, got 'round'"),
        ({"width": 0.0}, "width must be positive and finite, got 0.0"),
        ({"reach": 0.0}, "reach must be positive and finite, got 0.0"),
    ],
)
def test_what_makes_no_sense_is_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        Ordinal(**options)


def test_one_class_has_no_order():
    with pytest.raises(ConfigError, match="at least 2, got 1"):
        ordered_mlp(3, 1)
