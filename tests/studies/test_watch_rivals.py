"""Control charts on faults and means that one can count by hand."""

import numpy as np
import pytest

pytest.importorskip("scipy")

from studies.watch_rivals import errors_off, page, rule_binomial, rule_faults, rule_three_sigma  # noqa: E402


def test_pages_sum_starts_anew_below_zero():
    values = np.array([-5.0, 1.0, 1.0, 1.0])  # less 0.5: 0, 0.5, 1, 1.5
    assert page(values, 0.5, 0.9).tolist() == [False, False, True, True]


def test_three_sigma_takes_the_first_fault_for_a_change_and_the_binomial_test_does_not():
    wrong = np.array([1.0, 0.0, 1.0, 1.0])  # by chance in 5 %, then 0.05 % of such four rows
    assert rule_three_sigma(wrong).tolist() == [True, False, True, True]
    assert rule_binomial(wrong).tolist() == [False, False, False, True]


def test_the_year_before_has_an_error_too():
    assert errors_off(np.full(250, 0.5))[-1] == pytest.approx(0.5 / np.sqrt(2 / 250))


def test_a_fault_is_a_grade_that_the_rule_does_not_say():
    x = np.array([[-2.0, -2.0], [2.0, 2.0]])
    rule, wrong = rule_faults(x, np.array([2, 2]))
    assert rule.tolist() == [0, 11] and wrong.tolist() == [0.0, 1.0]
