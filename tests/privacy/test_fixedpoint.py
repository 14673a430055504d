"""Uploads as whole numbers: exact sums, no silent overflow."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore import FedloreError
from fedlore.core import tree
from fedlore.core.rng import stream
from fedlore.privacy.secagg.fixedpoint import (
    LARGEST_WORD,
    FixedPoint,
    encode_words,
    read_summands,
    summands,
)


def upload(*path, size=50, scale=1.0, dtype=torch.float32):
    g = stream("fixed", *path)
    w = torch.randn(size, 2, generator=g, dtype=torch.float64) * scale
    return {"model": {"w": w.to(dtype), "b": torch.randn((), generator=g).to(dtype)}}


def summed(numbers, uploads, weights):
    total = sum(numbers.encode(u, w)[1] for u, w in zip(uploads, weights, strict=True))
    return numbers.decode(total, summands(uploads[0])[0])


def distance(a, b):
    return max(tree.norm(tree.sub(a[k], b[k])) / tree.norm(b[k]) for k in b)


@given(
    st.integers(3, 50),
    st.sampled_from([torch.float32, torch.float64]),
    st.floats(1e-4, 10.0),
    st.lists(st.integers(1, 10_000), min_size=50, max_size=50),
)
def test_the_mean_is_the_plain_one(sites, dtype, scale, weights):
    uploads = [upload(i, scale=scale, dtype=dtype) for i in range(sites)]
    wide = [{k: {n: t.double() for n, t in b.items()} for k, b in u.items()} for u in uploads]
    found, weight = summed(FixedPoint(sites), uploads, weights[:sites])
    plain = tree.mean(zip(wide, map(float, weights), strict=False))
    assert weight == sum(weights[:sites])
    assert all(t.dtype == dtype for t in found["model"].values())
    assert distance(found, plain) < 1e-6


@pytest.mark.parametrize("sites", [3, 4, 10, 50, 64])
def test_the_stated_error_at_the_stated_bound(sites):
    """Half a unit per site: 2^-(bits + 1) in the mean, at values up to the bound."""
    numbers = FixedPoint(sites)
    largest = float(torch.tensor(LARGEST_WORD).nextafter(torch.tensor(0.0)))
    uploads = [{"m": {"w": torch.tensor([largest, -largest, 0.1 / (i + 1)])}} for i in range(sites)]
    found, _ = summed(numbers, uploads, [1] * sites)
    exact = torch.stack([u["m"]["w"].double() for u in uploads]).mean(0)
    assert float(found["m"]["w"][0]) == largest == -float(found["m"]["w"][1])
    wide, _ = summed(numbers, [{"m": {"w": u["m"]["w"].double()}} for u in uploads], [1] * sites)
    assert (wide["m"]["w"] - exact).abs().max() < 1e-9
    assert numbers.bits == {3: 41, 4: 41, 10: 39, 50: 37, 64: 37}[sites]
    assert abs(float(found["m"]["w"][2]) - float(exact[2])) <= 2.0 ** -(numbers.bits + 1) + 1e-8


def test_sums_of_raw_features_keep_their_digits():
    """From 1e-9 to 1e15 in one upload, as squares of features in raw units may be."""
    values = torch.tensor([1e-9, 1e-3, 1.0, 12345.678, 1e15], dtype=torch.float64)
    uploads = [{"moments": {"squares": values * (1 + i)}} for i in range(50)]
    found, _ = summed(FixedPoint(50), uploads, [1] * 50)
    exact = values * 25.5
    assert ((found["moments"]["squares"] - exact).abs() / exact).max() < 1e-8


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_not_finite_is_refused(bad, dtype):
    with pytest.raises(FedloreError, match="not finite"):
        FixedPoint(5).encode({"m": {"w": torch.tensor([0.0, bad], dtype=dtype)}}, 1)


@pytest.mark.parametrize(
    ("value", "weight", "dtype"),
    [
        (LARGEST_WORD, 1, torch.float32),
        (-LARGEST_WORD, 1, torch.float32),
        (11.0, 100_000, torch.float32),
        (2.0**60, 1, torch.float64),
        (1e300, 1, torch.float64),
    ],
)
def test_a_value_beyond_the_range_is_an_error_and_never_a_clip(value, weight, dtype):
    with pytest.raises(FedloreError, match="beyond the fixed-point range") as found:
        FixedPoint(50).encode({"m": {"w": torch.tensor([value], dtype=dtype)}}, weight)
    assert f"{value:g}" not in str(found.value).split("below")[0]  # the value stays at home


@pytest.mark.parametrize("weight", [0, -1, 2**60])
def test_a_weight_must_be_positive_and_fit(weight):
    with pytest.raises(FedloreError, match="weight must lie"):
        FixedPoint(50).encode(upload(0), weight)


def test_layouts_travel_and_are_checked():
    layout = summands(upload(1) | {"control": {"c": torch.zeros(0, 3).double()}})[0]
    assert read_summands([[n, kind, list(s)] for n, kind, s in layout]) == layout
    assert [entry[0].split("/")[0] for entry in layout] == ["control", "model", "model"]
    assert encode_words(layout) == 1 + 0 + 1 + 100
    for bad in ([1], ["b", "object", []], ["b", "float32", [-1]], ["b", "float32"], 5):
        with pytest.raises(FedloreError, match="no such entry"):
            read_summands([bad])
    with pytest.raises(FedloreError, match="no such entry"):
        read_summands({"b": "float32"})
    with pytest.raises(FedloreError, match="'b' holds int64: only real numbers"):
        read_summands([["b", "int64", []]])
    with pytest.raises(FedloreError, match="'m/i' holds int64: only real numbers"):
        summands({"m": {"i": torch.zeros(2).long()}})


def test_words_of_another_length_are_refused():
    layout, _ = summands(upload(1))
    with pytest.raises(FedloreError, match="do not fit"):
        FixedPoint(3).decode(np.zeros(5, np.uint64), layout)
    with pytest.raises(FedloreError, match="weights add up to 0"):
        FixedPoint(3).decode(np.zeros(encode_words(layout), np.uint64), layout)


def test_nothing_to_upload_is_a_weight_alone():
    total = sum(FixedPoint(3).encode({}, 7)[1] for _ in range(3))
    assert FixedPoint(3).decode(total, []) == ({}, 21)
