"""Whole answers at every door, and what slips in a file are answered with, as they were.

A change that is meant is frozen anew: `python -m tests.golden.doors NAME ...`. Unlike the other
frozen answers these hold sentences: a reworded one is frozen anew, too.
"""

import json

import pytest

from .cases import read_cases
from .doors import DOORS, DOORS_FROZEN, OPENED, SLIPPED, SLIPS_FROZEN, Door, look, slip_report

CASES = read_cases()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", OPENED)
def test_a_door_shows_what_it_showed(name, door):
    before = json.loads(DOORS_FROZEN.read_text())[name][door]
    assert look(Door(name, CASES[name]), door) == before


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SLIPPED)
def test_a_slip_is_answered_as_it_was(name):
    before = json.loads(SLIPS_FROZEN.read_text())[name]
    assert slip_report(CASES[name]) == before
