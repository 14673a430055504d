"""Fedlore's own algorithms and engines under the laws that it ships in `fedlore.testing`."""

import pytest

from fedlore.testing.algorithm import ALGORITHM_LAWS
from fedlore.testing.clients import Postbox as Post
from fedlore.testing.clients import own_models as own
from fedlore.testing.clients import same_payloads as assert_close

from .lists import each_algorithm, each_engine, each_law

__all__ = ["Post", "assert_close", "own"]


@pytest.mark.sampled(3)
@each_law(ALGORITHM_LAWS)
@each_algorithm
@each_engine
def test_algorithms(engine, algorithm, law):
    law(algorithm, engine)
