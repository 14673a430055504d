"""What fedlore answered before, it answers today: files, rows and values frozen in this folder.

A change that is meant is frozen anew: `python -m tests.golden.frozen NAME ...`, and its reason
stands in CHANGELOG. Sentences and digests are not frozen. `FEDLORE_GOLDEN=bits` asks for equal
bits of networks and trainings too, which hold on the machine that froze them.

Left out on purpose: an intersection of number ranges with `empty = "all"` that contradict each
other, and what follows from raw or encoded columns in a deployed search space (both were faults).
"""

import json

import numpy as np
import pytest

from .cases import read_cases
from .frozen import FROZEN, NETS, WITHIN, look, look_net
from .learned import LEARNED, TRAININGS, learn
from .learned import WITHIN as LEARNED_WITHIN
from .surface import deployed

pytestmark = pytest.mark.whole_forests

CASES = read_cases()


def differences(now: dict, before: dict) -> list[str]:
    """Which findings, columns and outputs changed, and in which blocks of rows."""
    found = []
    for part in ("answers", "graph"):
        for name in now[part].keys() | before[part].keys():
            mine, frozen = now[part].get(name), before[part].get(name)
            if mine is None or frozen is None:
                found.append(f"{part} {name}: {'new' if frozen is None else 'gone'}")
            elif mine != frozen:
                pairs = zip(mine.split(), frozen.split(), strict=True)
                blocks = [i for i, (a, b) in enumerate(pairs) if a != b]
                found.append(f"{part} {name}: blocks {blocks} of 100 rows")
    for part in ("findings", "data"):
        found += [f"{part} new: {one}" for one in now[part] if one not in before[part]]
        found += [f"{part} gone: {one}" for one in before[part] if one not in now[part]]
        if len(now[part]) != len(before[part]):
            found.append(f"{part}: {len(now[part])} in place of {len(before[part])}")
    if now["refused"] != before["refused"]:
        found.append(f"{now['refused']} rows refused in place of {before['refused']}")
    return found


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", CASES)
def test_answers_refusals_findings_and_graphs_are_the_frozen_ones(name, tmp_path):
    before = json.loads(FROZEN.read_text())[name]
    assert differences(look(name, CASES[name], tmp_path), before) == []


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", CASES)
def test_a_network_answers_through_knowledge_as_it_did(name, tmp_path):
    before = np.load(NETS)[name]
    now = look_net(name, CASES[name], tmp_path)
    np.testing.assert_allclose(now, before, rtol=WITHIN, atol=WITHIN)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAININGS)
def test_lore_scores_as_it_did(name, tmp_path):
    before = json.loads(LEARNED.read_text())[name]
    now = learn(name, tmp_path)
    assert [row["client"] for row in now] == [row["client"] for row in before]
    for mine, frozen in zip(now, before, strict=True):
        numbers = {key: value for key, value in frozen.items() if key != "client"}
        assert {key: mine[key] for key in numbers} == pytest.approx(numbers, abs=LEARNED_WITHIN)


@pytest.mark.slow
def test_a_deployed_training_gives_the_models_it_gave(tmp_path):
    before = json.loads(LEARNED.read_text())["deployed"]
    for name, found in deployed(tmp_path).items():
        assert found == pytest.approx(before[name], abs=LEARNED_WITHIN)
