"""The drawing of the recipe in docs/explain/lore.md names functions that exist."""

import re
from pathlib import Path

import pytest

from fedlore.core import conformal
from fedlore.core import one_shot as sums
from fedlore.engine import loop, one_shot
from fedlore.engine.lore import client, report, server, space, stacking, temperature

PAGE = Path(__file__).parents[3] / "docs" / "explain" / "lore.md"
DRAWING = re.search(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
NAMED = sorted(set(re.findall(r"(\w+)\(\)", DRAWING.group(1) if DRAWING else "")))
ROOMS = (server, client, stacking, space, report, temperature, one_shot, sums, loop, conformal)


@pytest.mark.parametrize("name", NAMED)
def test_a_box_of_the_drawing_is_a_function(name):
    assert any(callable(getattr(room, name, None)) for room in ROOMS)


def test_the_drawing_has_both_halves():
    assert {"conduct", "LoreClient", "vote", "fit_ensemble", "choose_members"} <= set(NAMED)


def test_both_halves_fit_in_four_hundred_lines():
    lines = [len(Path(room.__file__).read_text().splitlines()) for room in (server, client)]
    assert sum(lines) <= 400
