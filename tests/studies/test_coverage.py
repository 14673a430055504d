"""Whether sets hold: the shares that are counted, the band, and the table."""

import pytest
import torch

from fedlore.core.conformal import held_band
from fedlore.models.answers import Answers
from studies.coverage import _held, band, summary


def answers(probabilities):
    p = torch.tensor(probabilities)
    n, k = p.shape
    silent, no = torch.full((n,), -1), torch.zeros(n)
    every = torch.ones(n, k, dtype=torch.bool)
    return Answers(p.argmax(1), p, every, silent, no, no.byte(), every[:, 0])


def test_what_a_model_takes_for_nine_tenths_and_what_a_cut_takes():
    found = answers([[0.5, 0.3, 0.2], [0.95, 0.04, 0.01]])
    y = torch.tensor([2, 1])
    assert _held(found, y, None) == (0.5, 2.0)  # three classes, then one
    assert _held(found, y, 0.75) == (0.0, 1.5)
    assert _held(found, y, 0.97) == (1.0, 2.5)


def test_the_band_is_wider_than_without_the_noise_of_test_rows():
    low, high = band(60, 400)
    inner = held_band(60, 0.9)
    assert low < inner[0] and high > inner[1] - 0.01
    assert band(60, 10**6) == pytest.approx(inner, abs=0.01)


def test_the_table_has_a_line_for_each_way():
    rows = [
        {"set": "coke", "seed": seed, "site": "a", "how": how, "rows": 30, "tests": 400,
         "held": held, "size": 3.0}
        for seed in (1, 2) for how, held in (("own", 0.8), ("site", 0.9 + 0.01 * seed))
        for _ in range(1)
    ]  # fmt: skip
    lines = summary(rows)
    assert lines[2].startswith("| coke | own | 2 | 80.0 ± 0.0 %")
    assert lines[3].startswith("| coke | site | 2 | 91.5 ±") and lines[3].endswith("| 100 % |")
