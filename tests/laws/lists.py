"""The two lists: an algorithm or an engine passes the laws by standing here."""

import pytest

from fedlore.testing.algorithm import ENGINES
from fedlore.testing.clients import EXAMPLES

ALGORITHMS = list(EXAMPLES)


def names(values):
    return [getattr(v, "__name__", None) or repr(v) for v in values]


def each_law(laws):
    return pytest.mark.parametrize("law", laws, ids=names(laws))


each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=names(ALGORITHMS))
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=names(ENGINES))
