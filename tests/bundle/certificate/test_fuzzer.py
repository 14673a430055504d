"""What a machine forges and the checker accepts answers as its knowledge says."""

import pytest

from .fuzzer import fuzz, summary

FEW = ("whole-first-intersect", "number-formulas", "falls")


@pytest.mark.parametrize(
    ("count", "names"), [(40, FEW), pytest.param(1000, None, marks=pytest.mark.slow)]
)
def test_nothing_that_is_accepted_answers_wrongly(tmp_path, count, names):
    fates = list(fuzz(count, f"{count}", tmp_path, names))
    assert not [fate for fate in fates if fate.wrong], summary(fates)
    assert sum(fate.parsed for fate in fates) > count // 2 and any(f.accepted for f in fates)
