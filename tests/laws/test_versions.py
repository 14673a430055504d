"""The law of versions: torch, kernel and onnxruntime say the same of generated sites."""

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from ..bundle.onnx.numberworlds import number_worlds
from ..bundle.onnx.worlds import HOLED, worlds
from .versions import agree_on_classes, agree_on_numbers

LAWS = {
    "classes": (worlds(), agree_on_classes),
    "classes with holes": (worlds(HOLED), agree_on_classes),
    "numbers": (number_worlds(), agree_on_numbers),
}


def hold(law, cases, **more):
    drawn, agree = LAWS[law]
    checks = list(HealthCheck)
    limits = settings(deadline=None, max_examples=cases, suppress_health_check=checks, **more)
    return limits(given(drawn)(lambda world: agree(world)))


@pytest.mark.parametrize("law", LAWS)
def test_a_sample_of_the_law(law):
    hold(law, 25)()


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", [0, 1, *(pytest.param(i, marks=pytest.mark.nightly) for i in range(2, 20))]
)
@pytest.mark.parametrize(
    ("law", "cases"), [("classes", 400), ("classes with holes", 400), ("numbers", 200)]
)
def test_twenty_thousand_sites(law, cases, part):
    run = hold(law, cases, database=None, phases=(Phase.generate,))
    hypothesis.seed(part)(run)()
