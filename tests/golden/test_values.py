"""Functions come to what they came to: `python -m tests.golden.values` writes it anew."""

import json

import pytest

for package in (
    "sklearn",
    "matplotlib",
    "scipy",
    "prometheus_client",
    "cryptography",
    "dp_accounting",
):
    pytest.importorskip(package)

from .values import VALUES, cases, differences, plain  # noqa: E402

CASES = cases()


@pytest.mark.whole_forests
@pytest.mark.parametrize("name", CASES)
def test_a_value_is_the_frozen_one(name):
    assert differences(plain(CASES[name]()), json.loads(VALUES.read_text())[name]) == []


def test_nothing_is_frozen_that_no_case_computes():
    assert list(json.loads(VALUES.read_text())) == list(CASES)
