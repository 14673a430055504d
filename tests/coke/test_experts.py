"""The experts compute the published equations and grade what comes out."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore_coke.experts import (
    COKE,
    GRADES,
    Bounds,
    Expert,
    ExpertVerdict,
    arch,
    grade,
    kobe,
    refit,
)


def row(*values: float) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float64)


def test_seventeen_features_twenty_grades_five_seen() -> None:
    assert len(COKE.features) == 17 and len(COKE.classes) == GRADES == 20
    assert COKE.classes[0] == "CSR30" and COKE.classes[-1] == "CSR68"
    seen_by = [equation.sees for equation in (kobe, refit, arch)]
    assert all(len(set(seen)) == 5 and set(seen) <= set(COKE.names) for seen in seen_by)
    assert all(math.isfinite(f.low) and math.isfinite(f.high) for f in COKE.features)


def test_equations_by_hand() -> None:
    # ash 10, Vdaf 30 -> VM 27 dry; MBI 1.46 -> BR 1.46 * 73 / 1000
    assert float(kobe(row(1.2, 3.0, 1.46, 10.0, 30.0))) == pytest.approx(
        70.9 * 1.2 + 7.8 * 3.0 - 89 * 0.10658 - 32
    )
    assert float(refit(row(1.2, 3.0, 2.0, 30.0, 0.1))) == pytest.approx(
        3.2 + 48.6 * 1.2 + 10.8 - 13.8
    )
    assert float(arch(row(1.0, 1.0, 100.0, 40.0, 0.25))) == pytest.approx(
        -116 + 253 - 88.6 + 8.26 - 6.9 - 3.0 - 1.5
    )


@given(st.floats(-50, 150), st.floats(0, 30))
def test_range_is_every_grade_touched(csr: float, bound: float) -> None:
    expert = Expert(lambda seen: seen[:, 0], 0.0)
    seen = row(csr, 0, 0, 0, 0)
    allowed = Bounds(expert, bound)(seen)[0]
    first, last = int(grade(row(csr - bound)[0])), int(grade(row(csr + bound)[0]))
    assert allowed.tolist() == [first <= i <= last for i in range(GRADES)]
    prior = ExpertVerdict(expert)(seen)[0]
    assert prior.sum() == 1 and allowed[int(prior.argmax())]


@given(st.floats(0.7, 1.6), st.floats(0, 4.5), st.floats(0.3, 5), st.floats(0, 6))
def test_blur_errs_by_no_more_than_it_says(
    ro: float, fluidity: float, mbi: float, blur: float
) -> None:
    seen, expert = row(ro, fluidity, mbi, 30.0, 0.2), Expert(refit, 0.0)
    told = ExpertVerdict(expert, blur)(seen)[0].argmax()
    assert bool(Bounds(expert, blur)(seen)[0, told])


def test_experts_take_no_rows_and_single_precision() -> None:
    expert = Expert(kobe, 1.0)
    empty = torch.zeros(0, 5)
    assert (
        ExpertVerdict(expert, 1.0)(empty).shape == Bounds(expert, 6.0)(empty).shape == (0, GRADES)
    )
    assert expert(torch.ones(3, 5)).dtype == torch.float64
