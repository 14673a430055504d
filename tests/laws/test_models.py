"""Fedlore's own kinds of model under the laws that it ships."""

import pytest

from fedlore.core.models import Logistic, Mlp
from fedlore.testing.model import MODEL_LAWS

from .lists import each_law, names

KINDS = [Mlp(hidden=(5,)), Mlp(hidden=(6, 4)), Logistic()]


@each_law(MODEL_LAWS)
@pytest.mark.parametrize("hears", [False, True], ids=["deaf", "hears"])
@pytest.mark.parametrize("kind", KINDS, ids=names(KINDS))
def test_models(kind, hears, law):
    law(kind, hears)
