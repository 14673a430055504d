"""What the checker says of every value of a bundle otherwise: as it said before, and to the point.

A change that is meant is frozen anew: `python -m tests.golden.checked`.
"""

import json

import pytest

from .checked import BASES, CHECKED, looked

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


SLOW = {"mixture": pytest.mark.slow}  # its many members take as long as all others


@pytest.mark.parametrize("name", [pytest.param(n, marks=SLOW.get(n, ())) for n in BASES])
def test_the_checker_says_of_each_change_what_it_said(name):
    before, now = json.loads(CHECKED.read_text())[name], looked(name)
    assert now.pop("faults") == before.pop("faults")
    assert now == before
