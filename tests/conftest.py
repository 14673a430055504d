"""One thread and one hypothesis profile for every test."""

import os
import zlib
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, settings

from fedlore.engine.lore import train
from fedlore.personal.own import best

torch.set_num_threads(1)
EXAMPLES = int(os.environ.get("FEDLORE_EXAMPLES", "10"))  # a sample; `make slow` tries 100
# a busy machine is no fault: what hangs is stopped by the limit on every test
settings.register_profile(
    "fedlore",
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fedlore")

collect_ignore = ["files"]  # kept files of older versions; their script needs that version


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Slow tests may take an hour each; the others have the limit of pyproject.toml.

    Of a test marked `sampled(n)` about one case in n is quick, by a hash of its name; the others
    are slow tests.
    """
    for item in items:
        share = item.get_closest_marker("sampled")
        if share and zlib.crc32(item.name.encode()) % share.args[0]:
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(3600))


@pytest.fixture
def short_recipe(monkeypatch):
    shorten_recipe(monkeypatch)


def shorten_recipe(monkeypatch):
    """A recipe that takes a moment: two candidates, two folds, own models without trees."""
    usual = train.menu_for

    def few(*args, **kinds):
        menu = usual(*args, **kinds)
        return replace(menu, candidates=menu.candidates[:2], folds=2, finishes=(0, 2))

    monkeypatch.setattr(train, "menu_for", few)
    monkeypatch.setattr(best, "has_trees", lambda: False)
