"""Every kind of model on every surface: file, service, graph and checker say what it says.

A new kind of member or head joins `SITES`; kinds of knowledge are held to the same in `tests/laws`.
"""

import pytest
import torch
from torch import nn

from fedlore import Knowledge, Personal
from fedlore.bundle import bundle_of
from fedlore.core.one_shot import Link
from fedlore.knowledge.views import Recalibrated

from ..laws.test_surfaces import MODEL_LAWS, Site
from ..theory.test_shapes import random_site
from .making import SCHEMA, known, personal, regressor, rows
from .mixed import mixture, number_mixture, ordinal
from .test_row_trust import with_trust
from .test_soft import LIMITS
from .test_soft import known as soft

CONFUSION = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.25, 0.75]]).double()
HEADS = [
    {},
    {"start": "expert"},
    {"start": "middle", "hears": False},
    {"linear": False, "hears": False},
]


def confused(expert):
    return personal(
        Knowledge(Recalibrated(expert, CONFUSION), LIMITS, 0.6, schema=SCHEMA, conflict="restrict")
    )


SITES = {
    "nothing known": lambda: personal(Knowledge(schema=SCHEMA)),
    "hearing": lambda: personal(known(), hears=True),
    "confusion": lambda: confused(known().prediction),
    "soft behind confusion": lambda: confused(soft(conflict="restrict").prediction),
    **{
        f"head {i}": (lambda options=options: Personal(ordinal(2, 3, **options), known()))
        for i, options in enumerate(HEADS)
    },
    "own layers": lambda: Personal(
        nn.Sequential(nn.Linear(2, 4, bias=False), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 3)),
        known(),
    ),
    "mixture": lambda: mixture(known(), rows(), 3),
    "hearing number": lambda: regressor(True),
    "number mixture": lambda: number_mixture(regressor(), rows()),
    "hearing number mixture": lambda: number_mixture(
        regressor(True), rows(), link=Link("middle", 0.9)
    ),
    **{
        f"row trust in a mixture{' of numbers' * number}": (lambda n=number: with_trust(n, True))
        for number in (False, True)
    },
    **{f"shapes of {t}": (lambda t=t: random_site(4, t)[0]) for t in ("classes", "number")},
}


def some_rows(bundle, n=200):
    low = [0.0 if f.levels else max(f.low, -9.0) for f in bundle.schema.features]
    high = [len(f.levels) or min(f.high, 40.0) for f in bundle.schema.features]
    draw = torch.rand(n, len(low), generator=torch.Generator().manual_seed(1))
    x = torch.tensor(low) + draw * (torch.tensor(high) - torch.tensor(low))
    for column, feature in enumerate(bundle.schema.features):
        if feature.levels:
            x[:, column] = x[:, column].floor()
        if feature.may_miss:
            x[::7, column] = torch.nan
    return x


@pytest.mark.parametrize("name", SITES)
def test_all_surfaces_agree(name, tmp_path):
    model = SITES[name]()
    made = bundle_of(model, "plant", schema=model.knowledge.schema or SCHEMA)
    site = Site(made, some_rows(made), tmp_path)
    for law in MODEL_LAWS:
        law(site)
