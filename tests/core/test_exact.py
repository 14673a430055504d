"""Features of the one-shot model, and what its server refuses."""

from math import tanh

import pytest
import torch

from fedlore import ConfigError, FedloreError
from fedlore.core.one_shot import (
    Basis,
    OneShot,
    OneShotModel,
    OneShotRows,
    solve,
    sum_rows,
    sum_shapes,
)

ROW = torch.tensor([[1.0, 2.0, -1.0]])


def test_quadratic_features_by_hand():
    found = Basis("quadratic")(ROW)
    half = 2.0**-0.5
    assert found.tolist()[0] == pytest.approx([1, 2, -1, 0, 3 * half, 0, 2, -1, -2])
    assert Basis("quadratic").groups(3).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert Basis("squares")(ROW).shape == (1, 6) and Basis("linear")(ROW).shape == (1, 3)


def test_curves_of_each_column_by_hand():
    basis = Basis("quadratic", curves=3)
    assert basis.places == [-1.0, 0.0, 1.0] and Basis(curves=1).places == [0.0]
    assert Basis(curves=2).places == [-1.0, 1.0] and not Basis().places
    found = basis(ROW)[0]
    assert found[:6].tolist() == Basis("squares")(ROW)[0].tolist()
    bent, steep = (
        [tanh(v) for v in (1, 2, -1)],
        [2 * (v - a) for a in (-1, 0, 1) for v in (1, 2, -1)],
    )
    products = [bent[0] * bent[1], bent[0] * bent[2], bent[1] * bent[2]]
    assert found[6:].tolist() == pytest.approx([*products, *map(tanh, steep)])
    assert basis.groups(3).tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 9
    assert sum(basis.counts(3)) == len(found)


def test_a_row_far_out_does_not_rule_products_beside_curves():
    assert bool((Basis("quadratic", curves=1)(1e6 * ROW)[0, 6:].abs() <= 1.0).all())


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (Basis, {"terms": "cubic"}, "terms must be one of linear, squares, quadratic, got 'cubic'"),
        (Basis, {"curves": -1}, "curves must be at least 0, got -1"),
        (OneShot, {"start": "top"}, "start must be one of none, middle, expert, got 'top'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(kind, settings, words):
    with pytest.raises(ConfigError, match=words):
        kind(**settings)


def test_sums_have_the_shapes_that_are_told():
    sums = sum_rows(torch.randn(8, 5), torch.randn(8))[1]
    assert {n: tuple(t.shape) for n, t in sums.items()} == sum_shapes(5)


def test_one_row_for_each_site_says_nothing():
    with pytest.raises(FedloreError, match="more rows than sites, 0 are left over"):
        solve(sum_rows(torch.randn(1, 2), torch.randn(1))[1], torch.zeros(2).long())


def test_sums_of_another_size_are_refused():
    sums = sum_rows(torch.randn(9, 3), torch.randn(9))[1]
    with pytest.raises(FedloreError, match="6 sums of products do not fit 4 features"):
        solve(sums, torch.zeros(4).long())


def test_noise_on_the_sums_breaks_nothing():
    """A matrix that noise has made indefinite is mended, not divided by."""
    g = torch.Generator().manual_seed(3)
    x = torch.randn(40, 6, generator=g)
    sums = sum_rows(x, x[:, 0] + 0.1 * torch.randn(40, generator=g))[1]
    noisy = sums | {"squares": sums["squares"] + 30 * torch.randn(21, generator=g)}
    found = solve(noisy, torch.zeros(6).long())
    assert found.mean.isfinite().all() and found.noise > 0
    assert (torch.linalg.eigvalsh(found.covariance) > 0).all()


def test_features_that_never_vary_change_nothing():
    g = torch.Generator().manual_seed(1)
    x = torch.randn(30, 3, generator=g)
    y = x[:, 0] + 0.1 * torch.randn(30, generator=g)
    groups = torch.zeros(3).long()
    plain = solve(sum_rows(x, y)[1], groups)
    wide = torch.cat([x, torch.full((30, 2), 7.0)], 1)
    found = solve(sum_rows(wide, y)[1], torch.cat([groups, torch.ones(2).long()]))
    torch.testing.assert_close(found.mean[:3], plain.mean, rtol=1e-6, atol=1e-8)
    assert (found.mean[3:] == 0).all()


def test_a_site_foresees_classes_from_what_it_hears():
    """The expert is always two classes too low; the model finds that and the class."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(200, 2, generator=g), torch.randint(2, 10, (200,), generator=g)
    prior = torch.nn.functional.one_hot(y - 2, 10).float()
    one_shot = OneShot(Basis("linear"))
    features, start, _ = one_shot.rows(x, prior, None, classes=10)
    rows = OneShotRows(features, y.double() - start, start)
    found = solve(rows.sums(), one_shot.basis.groups(one_shot.columns(2)))
    site = OneShotModel(one_shot, found, rows.home(found), 10)
    assert (site.logits(x, prior).argmax(1) == y).all()
    assert (site.out_of_fold_logits(rows).argmax(1) == y).all()
    assert (site.logits(x, prior).exp().sum(1) - 1).abs().max() < 1e-9
