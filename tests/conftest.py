"""One thread and one hypothesis profile for every test."""

import os
import sys
import zlib
from dataclasses import replace
from inspect import Parameter, signature

import pytest
import torch
from hypothesis import HealthCheck, settings

from fedlore.engine.lore import train
from fedlore.models.own import baseline, trees

from .programs import WATCH, find

torch.set_num_threads(1)
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")  # or scikit-learn starts lscpu to count cores
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

sys.addaudithook(WATCH)


def pytest_xdist_auto_num_workers():
    """`-n auto`: a worker per core, and 1.5 GB for each."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return max(1, min(cores or 1, int(memory / 1.5)))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Slow tests may take an hour each; the others have the limit of pyproject.toml.

    A test that wants a program which a person installs is a slow one.

    Of a test marked `sampled(n)` about one case in n is quick, by a hash of its name; the others
    are slow tests.
    """
    for item in items:
        share = item.get_closest_marker("sampled")
        if share and zlib.crc32(item.name.encode()) % share.args[0]:
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("program") or item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(3600))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Tests of the default selection start nothing that a person had to install.

    They grow small forests as well, fixtures of whole modules included, if not marked otherwise.
    """
    bare = not item.get_closest_marker("slow")
    whole = item.get_closest_marker("whole_forests") or not isinstance(item, pytest.Function)
    WATCH.test, WATCH.started[:] = (item.nodeid if bare else None), []
    with pytest.MonkeyPatch.context() as patch:
        if bare and not whole:
            grow_small_forests(patch)
        try:
            return (yield)
        finally:
            WATCH.test = None


def grow_small_forests(patch):
    """A tenth of the trees: they are most of what learning on a few rows costs."""
    usual = signature(trees.ExtraTrees.__init__).parameters.values()
    few = {"trees": 30, "fewer": 8}
    defaults = [few.get(p.name, p.default) for p in usual if p.default is not Parameter.empty]
    patch.setattr(trees.ExtraTrees.__init__, "__defaults__", tuple(defaults))
    patch.setattr(trees, "_NUMBERS", (((0.3, 4, 5), (5, 15)), ((0.3, 8, 5), (5, 15))))
    patch.setattr(trees, "CLASSES", (((0.4, 4, 5), (4, 8)), ((0.4, 12, 5), (4, 8))))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    for mark in item.iter_markers("program"):
        find(mark.args[0])


def pytest_runtest_teardown(item):
    assert not WATCH.started, f"{item.nodeid} started {WATCH.started}"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from .browser import browsing  # not on Windows

    with browsing(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture
def short_recipe(monkeypatch):
    shorten_recipe(monkeypatch)


def shorten_recipe(monkeypatch):
    """A recipe that takes a moment: two candidates, two folds, own models without trees."""
    usual = train.default_space

    def few(*args, **kinds):
        search_space = usual(*args, **kinds)
        return replace(
            search_space, candidates=search_space.candidates[:2], folds=2, finishes=(0, 2)
        )

    monkeypatch.setattr(train, "default_space", few)
    monkeypatch.setattr(baseline, "has_trees", lambda: False)
