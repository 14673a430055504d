"""A head for ordered classes: what it hears, where it starts, and what may stay at home."""

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedlore import ConfigError, FedPer
from fedlore.core.ordinal import (
    PLACES_HEARD,
    Ordered,
    Ordinal,
    find_places,
    heard_numbers,
    lay_between,
    log_cells,
    normal_cells,
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


K = 20
PLACES = (-300.0, -40.0, -3.0, -0.5, 0.0, 0.49, 0.5, 3.2, 9.0, 19.3, 60.0, 400.0)
WIDTHS = (0.01, 0.05, 0.3, 0.7, 3.0, 30.0, 200.0)
BELLS = {"logistic": log_cells, "normal": normal_cells}


each_bell = pytest.mark.parametrize("bell", BELLS)


def tail(bell, z):
    """The share above z."""
    if bell == "normal":
        return mpmath.erfc(z / mpmath.sqrt(2)) / 2
    return 1 / (1 + mpmath.exp(z * mpmath.pi / mpmath.sqrt(3)))


def reference(bell, place, width, c):
    """log of the share of class c, in as many digits as it takes."""
    low = None if c == 0 else (c - mpmath.mpf("0.5") - place) / width
    high = None if c == K - 1 else (c + mpmath.mpf("0.5") - place) / width
    if low is not None and low > 0:
        share = tail(bell, low) - (0 if high is None else tail(bell, high))
    elif high is not None and high < 0:
        share = tail(bell, -high) - (0 if low is None else tail(bell, -low))
    else:
        share = 1 - (0 if low is None else tail(bell, -low))
        share -= 0 if high is None else tail(bell, high)
    return mpmath.log(share)


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-12), (torch.float32, 3e-5)])
@each_bell
def test_values_have_many_right_digits_everywhere(bell, dtype, limit):
    if (bell, dtype) == ("normal", torch.float32):
        limit = 2e-4  # worst where it is ten times as wide as all classes
    with mpmath.workdps(80):
        for width in WIDTHS:
            for place in PLACES:
                m, s = torch.tensor(place, dtype=dtype), torch.tensor(width, dtype=dtype)
                found = BELLS[bell](m, s, K)
                at, wide = mpmath.mpf(m.item()), mpmath.mpf(s.item())
                for c in (0, 1, 10, 18, 19):
                    value = float(reference(bell, at, wide, c))
                    assert found[c].item() == pytest.approx(value, rel=limit, abs=limit)


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-12), (torch.float32, 3e-5)])
def test_slopes_have_many_right_digits_everywhere(dtype, limit):
    bell, step = "logistic", mpmath.mpf(10) ** -25
    with mpmath.workdps(80):
        for width in WIDTHS:
            for place in PLACES:
                m = torch.tensor(place, dtype=dtype, requires_grad=True)
                s = torch.tensor(width, dtype=dtype, requires_grad=True)
                found = log_cells(m, s, K)
                at, wide = mpmath.mpf(m.item()), mpmath.mpf(s.item())
                for c in (0, 1, 10, 18, 19):
                    slopes = torch.autograd.grad(found[c], (m, s), retain_graph=True)
                    up, down = (reference(bell, at + e, wide, c) for e in (step, -step))
                    by_place = float((up - down) / (2 * step))
                    up, down = (reference(bell, at, wide + e, c) for e in (step, -step))
                    by_width = float((up - down) / (2 * step))
                    # in widths: a slope is 1 / width large
                    close = {"rel": limit, "abs": 2 * limit / width}
                    assert slopes[0].item() == pytest.approx(by_place, **close)
                    assert slopes[1].item() == pytest.approx(by_width, **close)


@given(
    st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), st.sampled_from(sorted(BELLS)),
    st.sampled_from((torch.float32, torch.float64)), st.integers(2, 40),
)  # fmt: skip
def test_nothing_is_ever_infinite(place, width, bell, dtype, classes):
    m = torch.tensor([place], dtype=dtype, requires_grad=True)
    s = torch.tensor([width], dtype=dtype, requires_grad=True)
    found = BELLS[bell](m, s, classes)
    assert found.isfinite().all() and (found <= 1e-6).all()
    for c in range(classes if bell == "logistic" else 0):  # through the other nobody trains
        slopes = torch.autograd.grad(found[0, c], (m, s), retain_graph=True)
        assert all(t.isfinite().all() for t in slopes)


@given(st.floats(-30, 50), st.floats(0.05, 20), st.sampled_from(sorted(BELLS)), st.integers(2, 30))
def test_the_shares_are_a_distribution(place, width, bell, classes):
    m, s = (torch.tensor(t).double() for t in (place, width))
    assert float(BELLS[bell](m, s, classes).exp().sum()) == pytest.approx(1.0, abs=1e-12)


@given(
    st.floats(-40, 60), st.floats(1e-3, 30), st.floats(0.05, 20), st.sampled_from(sorted(BELLS))
)  # fmt: skip
def test_a_higher_place_raises_every_class_against_those_below(place, by, width, bell):
    """The likelihood ratio order, which no mask and no renormalising can undo."""
    s = torch.tensor(width).double()
    one, two = (BELLS[bell](torch.tensor(p).double(), s, K) for p in (place, place + by))
    assert ((two - one).diff() > -1e-9 * (1 + two.abs()[1:] + one.abs()[1:])).all()


def test_it_can_be_mapped_and_differentiated_by_torch_func():
    places, width = torch.tensor([0.3, 2.0, 5.5]).double(), torch.tensor(0.8).double()
    mapped = torch.func.vmap(lambda m: log_cells(m, width, 6))(places)
    torch.testing.assert_close(mapped, log_cells(places, width, 6))
    slope = torch.func.vmap(torch.func.grad(lambda m: log_cells(m, width, 6)[2]))(places)
    assert slope[0] > 0 > slope[2]
