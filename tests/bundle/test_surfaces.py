"""One law for every kind of site: file, service, graph and checker say what the model says.

A new kind of knowledge or member joins `SITES` and is held to all of it.
"""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from fedlore import Knowledge, Personal, mlp
from fedlore.answers import Bins
from fedlore.bundle import answer_rows, bundle_of, read_bundle, reasons, write_bundle
from fedlore.bundle.certify import certify, write_certificate
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.onnx.builder import save_graph
from fedlore.bundle.serve.answer import Answerer
from fedlore.checker import check
from fedlore.errors import FedloreError
from fedlore.knowledge.combine import AllOf, Average, FirstOf
from fedlore.knowledge.conformal import ConformalInterval, ConformalRange
from fedlore.knowledge.formulas import Formula, FormulaRange, GradedFormula, SoftFormula
from fedlore.knowledge.soft import SoftFormulas
from fedlore.knowledge.views import Recalibrated
from fedlore.personal.regressor import PersonalRegressor

from ..theory.test_shapes import random_site
from .making import SCHEMA, known, number_knowledge, personal, regressor, rows
from .mixed import mixture, number_mixture, ordinal
from .test_row_trust import KINDS, trusting
from .test_soft import EXPERT, LIMITS
from .test_soft import known as soft

ort = pytest.importorskip("onnxruntime")
EDGES = (10.0, 20.0)
ASH = Formula.parse("ash", SCHEMA)
SPREAD = SoftFormula(ASH, EDGES, 3.0)
SIDES = FormulaRange(Formula.parse("ash - 5", SCHEMA), Formula.parse("ash + 9", SCHEMA), EDGES)
CONFUSION = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.25, 0.75]]).double()


def graded(text):
    return GradedFormula(Formula.parse(text, SCHEMA), EDGES)


KNOWLEDGE = {
    "none": lambda: Knowledge(schema=SCHEMA),
    "tables": known,
    "formulas": lambda: Knowledge(graded("ash + s"), SIDES, 0.3, schema=SCHEMA),
    "spread": lambda: Knowledge(SPREAD, None, 0.7, 0.2, schema=SCHEMA),
    "several": lambda: Knowledge(
        FirstOf((known().prediction, graded("ash"))),
        AllOf((known().range, SIDES), "first"),
        0.4,
        schema=SCHEMA,
        conflict="restrict",
    ),
    "average": lambda: Knowledge(
        Average((known().prediction, graded("s")), (1.0, 2.0)), trust=1.0, schema=SCHEMA
    ),
    "conformal": lambda: Knowledge(
        None, ConformalRange(SPREAD, (0.9, 0.8, 0.9), 0.1), schema=SCHEMA
    ),
    "confusion": lambda: Knowledge(
        Recalibrated(known().prediction, CONFUSION),
        known().range,
        0.6,
        schema=SCHEMA,
        conflict="restrict",
    ),
    "soft": soft,
    "soft ranges alone": lambda: soft(None, None),
    "soft rules in a range": lambda: soft(None),
    "soft expert": lambda: soft(EXPERT, LIMITS, ()),
    "soft formula": lambda: soft(
        SoftFormulas(GradedFormula(Formula.parse("ash / 10", SCHEMA), (1.0, 3.0)), 0.8)
    ),
    "soft behind confusion": lambda: Knowledge(
        Recalibrated(soft(conflict="restrict").prediction, CONFUSION),
        LIMITS,
        0.5,
        schema=SCHEMA,
        conflict="restrict",
    ),
}
HEADS = [
    {},
    {"bell": "normal", "start": "expert"},
    {"start": "middle", "hears": False},
    {"linear": False, "hears": False},
]


def of_numbers():
    point, limits = number_knowledge()
    formula = Formula.parse("s * 10", SCHEMA)
    numbers = Knowledge(
        FirstOf((point, formula)),
        AllOf((limits, ConformalInterval(formula, 80.0, 0.1, 40))),
        0.5,
        0.25,
        spread=2.0,
        conflict="project",
        empty="all",
    )
    bins = Bins.at([0.0, 10.0, 50.0, 100.0])
    return PersonalRegressor(mlp(2, 3, hidden=(4,)), bins, numbers)


def heads_of(nets):
    return {f"head {i}": (lambda net=net: Personal(net, known())) for i, net in enumerate(nets)}


SITES = {
    **{name: (lambda make=make: personal(make())) for name, make in KNOWLEDGE.items()},
    **heads_of(ordinal(2, 3, **options) for options in HEADS),
    "own layers": lambda: Personal(
        nn.Sequential(nn.Linear(2, 4, bias=False), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 3)),
        known(),
    ),
    "mixture": lambda: mixture(known(), rows(), 3),
    "number": lambda: regressor(),
    "hearing number": lambda: regressor(True),
    "number tables": of_numbers,
    "number mixture": lambda: number_mixture(regressor(), rows()),
    "hearing number mixture": lambda: number_mixture(regressor(True), rows()),
    **{
        f"row trust{' of a number' * n}{' in a mixture' * m}": (lambda n=n, m=m: trusting(n, m))
        for n, m in KINDS
    },
    **{f"shapes of {t}": (lambda t=t: random_site(4, t)[0]) for t in ("classes", "number")},
}
#: Ranges that are only statistical are not certified.
NOT_CERTIFIED = {"conformal", "number tables"}


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
    assert [row["reasons"] for row in served] == why
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
    if name in NOT_CERTIFIED:
        with pytest.raises(FedloreError, match="certificate"):
            certify(made)
        return
    write_certificate(certify(made), tmp_path / "c.json")
    write_bundle(made, tmp_path / "b.lore")
    save_graph(graph, tmp_path / "g.onnx")
    for subject in ("b.lore", "g.onnx"):
        lines = check(tmp_path / "c.json", tmp_path / subject)
        assert not [line for line in lines if not line.holds]
