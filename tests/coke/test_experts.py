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
    strength,
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


#: One row where every term of the practice's equation is nought or said below.
LEVEL = {"Ro": 1.20, "logMF": 2.84, "MBI": 1.70, "inerts": 30.0, "Ro_sd": 0.18, "V9_V13": 70.0,
         "Vdaf": 28.0, "G": 80.0, "CSN": 7.4, "Y": 18.0, "X": 28.0, "b": 90.0, "St_d": 1.1,
         "P": 0.04, "Ad": 10.0, "Mt": 10.0, "coking_time": 20.0}  # fmt: skip


@pytest.mark.parametrize(
    ("moved", "gain"),
    [
        ({}, 0.0),
        ({"Ro": 1.30}, 4.86 - 0.886),
        ({"Ro": 1.10}, -4.86 - 0.886),
        ({"logMF": 3.84}, 3.6),
        ({"MBI": 2.70}, -6.9),
        ({"inerts": 24.0}, -0.4),
        ({"inerts": 35.0}, 0.0),
        ({"inerts": 37.0}, -1.2),
        ({"Ro_sd": 0.28}, -2.5),
        ({"V9_V13": 80.0}, 0.6),
        ({"Vdaf": 38.0}, -0.5),
        ({"G": 90.0}, 2 * math.tanh(1)),
        ({"CSN": 8.4}, 1.0),
        ({"Y": 28.0}, -4.0),
        ({"Y": 8.0}, -4.0),
        ({"X": 38.0}, -1.2),
        ({"b": 150.0}, math.tanh(1)),
        ({"St_d": 2.1}, -2.0),
        ({"P": 0.14}, -3.0),
        ({"Ad": 20.0}, -3.0),
        ({"Mt": 20.0}, -4.0),
        ({"coking_time": 30.0}, 7.0),
        ({"inerts": 32.0, "G": 90.0}, 2 * math.tanh(1) + 0.6),  # caking coal binds inerts
    ],
)
def test_strength_in_practice_term_by_term(moved: dict[str, float], gain: float) -> None:
    values = LEVEL | moved
    x = row(*(values[name] for name in COKE.names))
    assert float(strength(x)) == pytest.approx(60.7 + gain, abs=1e-9)


def test_blur_is_a_sine_over_what_the_expert_sees() -> None:
    expert = Expert(kobe, 1.5)
    seen = row(1.2, 3.0, 1.46, 10.0, 30.0)
    scope = [COKE.features[COKE.column(name)] for name in kobe.sees]
    angle = sum(12.0 * value / (f.high - f.low) for value, f in zip(seen[0], scope, strict=True))
    plain = float(ExpertVerdict(expert).csr(seen))
    assert plain == pytest.approx(float(kobe(seen)) + 1.5)
    wrong = float(ExpertVerdict(expert, 4.0).csr(seen)) - plain
    assert wrong == pytest.approx(4.0 * math.sin(float(angle)), abs=1e-6) and abs(wrong) > 0.1
