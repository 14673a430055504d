"""Comparisons in tests make linear own models alone: trees take seconds at every site."""

import pytest

from fedlore.personal.own import best


@pytest.fixture(autouse=True)
def few_own_models(monkeypatch):
    monkeypatch.setattr(best, "has_trees", lambda: False)
