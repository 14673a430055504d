"""Comparisons in tests choose between few models: the usual recipe takes seconds at every site."""

import pytest


@pytest.fixture(autouse=True)
def quick(short_recipe):
    """Every comparison of this folder."""
