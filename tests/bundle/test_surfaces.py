"""Every kind of model on every surface: file, service, graph and checker say what it says.

A new kind of member or head joins `SITES`; kinds of knowledge are held to the same in `tests/laws`.
"""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from fedlore import Knowledge, Personal
from fedlore.bundle import answer_rows, bundle_of, read_bundle, reasons, write_bundle
from fedlore.bundle.certify import certify, write_certificate
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.onnx.builder import save_graph
from fedlore.bundle.serve.answer import Answerer, in_words
from fedlore.checker import check
from fedlore.core.one_shot import Link
from fedlore.knowledge.views import Recalibrated

from ..theory.test_shapes import random_site
from .making import SCHEMA, known, personal, regressor, rows
from .mixed import mixture, number_mixture, ordinal
from .test_row_trust import with_trust
from .test_soft import LIMITS
from .test_soft import known as soft

ort = pytest.importorskip("onnxruntime")
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


@cache
def site(name):
    model = SITES[name]()
    return bundle_of(model, "plant", schema=model.knowledge.schema or SCHEMA)


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


@pytest.mark.parametrize(
    ("name", "place"), [*((name, "plant.lore") for name in SITES), ("mixture", "folder")]
)
def test_a_file_says_the_same_to_the_last_bit(tmp_path, name, place):
    made = site(name)
    write_bundle(made, tmp_path / place)
    again, x = read_bundle(tmp_path / place), some_rows(made)
    one, two = answer_rows(made, x), answer_rows(again, x)
    assert torch.equal(one.predicted, two.predicted)
    assert torch.equal(one.probabilities, two.probabilities)
    assert again.fingerprint == made.fingerprint
    assert reasons(again, x[:20]) == reasons(made, x[:20])


@pytest.mark.parametrize("name", SITES)
def test_a_service_says_the_same(name):
    made = site(name)
    x = some_rows(made, 30)
    served, _ = Answerer.of(made)(x.double())
    found, why = answer_rows(made, x), reasons(made, x)
    assert [in_words(row)["reasons"] for row in served] == why
    classes = made.schema.classes
    wanted = found.predicted.tolist()
    wanted = wanted if made.task == "regression" else [classes[c] for c in wanted]
    assert [row["predicted"] for row in served] == pytest.approx(wanted)
    assert [row["trust"] for row in served] == pytest.approx(found.trust.tolist(), abs=1e-6)


@pytest.mark.parametrize("name", SITES)
def test_a_graph_says_the_same_and_the_checker_bears_it_out(tmp_path, name):
    made = site(name)
    x, graph = some_rows(made), bundle_to_onnx(made)
    session = ort.InferenceSession(graph.SerializeToString())
    got = session.run(None, {"rows": x.double().numpy()})[0]
    found = answer_rows(made, x)
    wanted = found.predicted if made.task == "regression" else found.probabilities
    np.testing.assert_allclose(got, wanted.numpy(), atol=2e-3, rtol=1e-3)
    write_certificate(certify(made), tmp_path / "c.json")
    write_bundle(made, tmp_path / "b.lore")
    save_graph(graph, tmp_path / "g.onnx")
    for subject in ("b.lore", "g.onnx"):
        lines = check(tmp_path / "c.json", tmp_path / subject)
        assert not [line for line in lines if not line.holds]
