"""The graph of a number says what Python says: number, interval, set and refusal."""

import numpy as np
import pytest
import torch
from torch import nn

from fedlore import Bins, Knowledge, mlp
from fedlore.answers import HEARD
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.predict import answer_rows
from fedlore.bundle.store import bundle_of
from fedlore.checker.rowwise import OPERATORS
from fedlore.core.scaler import Scaler
from fedlore.errors import FedloreError
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.combine import AllOf, AnyOf, FirstOf
from fedlore.knowledge.conformal import ConformalInterval
from fedlore.knowledge.formulas import Formula
from fedlore.knowledge.intervals import Between
from fedlore.knowledge.tables.numbers import parse_numbers_table
from fedlore.knowledge.tables.sheets import parse_sheet
from fedlore.personal.regressor import PersonalRegressor

from ..mixed import ordinal

ort = pytest.importorskip("onnxruntime")
BINS = Bins.at([0.0, 1.0, 2.5, 4.0, 6.0, 7.0, 10.0])
NAMES = tuple("abcdef")
SCHEMA = Schema(
    (
        Feature("x", low=-2, high=12),
        Feature("z", low=0, high=1),
        Feature("oven", levels=("o", "n")),
    ),
    NAMES,
    "y",
)


def formula(text: str) -> Formula:
    return Formula.parse(text, SCHEMA)


def rules(text: str, kind: str, policy: str | None = None):
    return parse_numbers_table(
        parse_sheet(text.encode(), "t.csv"), SCHEMA, kind=kind, policy=policy
    )


BETWEEN = Between(formula("x - 2"), formula("x + 2"))
GAPS = rules('x,oven,then\n> 4,,"in 1..2, 5..8"\n< 6,o,"in 0..1.5, 4..5, 9"\n', "range")
EITHER = rules("x,then\n> 4,[5..7]\n> 6,[6..9]\n> 8,1\n", "range", "union")
LIMITS = rules("x,oven,then\n> 5,,>= 3\n< 7,n,<= 8\n< 3,,2\n", "range")
SAYS = rules("x,then\n> 8,7\n> 4,5.5\n", "predict")
AGREED = rules("x,oven,then\n> 8,,7\n> 7,n,5\n", "predict", "unique")
RANGES = {
    "none": None,
    "between": BETWEEN,
    "one side": Between(None, formula("log(x) + 3")),
    "gaps": GAPS,
    "union": EITHER,
    "limits": LIMITS,
    "meet": AllOf((BETWEEN, LIMITS)),
    "meet of gaps": AllOf((GAPS, rules('z,then\n> 0.5,"in 0..4.5, 5.5..10"\n', "range"))),
    "join": AnyOf((BETWEEN, EITHER, LIMITS)),
    "conformal": ConformalInterval(formula("x"), 1.5, 0.1, 20),
}
POINTS = {
    "none": None,
    "formula": formula("x + z"),
    "table": SAYS,
    "unique": AGREED,
    "first": FirstOf((SAYS, formula("sqrt(x) + 1"))),
}


def rows(count: int = 80) -> torch.Tensor:
    draw = torch.Generator().manual_seed(3)
    x = torch.rand(count, 3, generator=draw) * torch.tensor([14.0, 1.0, 2.0]) - torch.tensor(
        [2.0, 0.0, 0.0]
    )
    x[:, 2] = x[:, 2].floor()
    x[:40, 0] = x[:40, 0].round()  # on thresholds and ends
    return x


def bundle(known: Knowledge, *, hears: bool = False, seed: int = 0, net: nn.Module | None = None):
    inputs = 3 + HEARD * hears
    draw = torch.Generator().manual_seed(seed)
    shift = torch.rand(inputs, generator=draw, dtype=torch.float64)
    model = PersonalRegressor(
        net or mlp(inputs, BINS.k, hidden=(5,), seed=seed),
        BINS,
        known,
        scaler=Scaler(shift, shift + 0.5),
        hears=hears,
    )
    return bundle_of(model, "site", schema=SCHEMA)


def _refuses(found, x: torch.Tensor) -> bool:
    try:
        answer_rows(found, x)
    except FedloreError:
        return True
    return False


def compared(found, x: torch.Tensor) -> np.ndarray:
    """Which rows the graph refuses; the others are answered as Python answers them."""
    graph = bundle_to_onnx(found)
    assert {node.op_type for node in graph.graph.node} <= OPERATORS
    session = ort.InferenceSession(graph.SerializeToString())
    names = [value.name for value in session.get_outputs()]
    got = dict(zip(names, session.run(None, {"rows": x.double().numpy()}), strict=True))
    refused = np.zeros(len(x), bool)
    if _refuses(found, x):
        refused = np.array([_refuses(found, x[i : i + 1]) for i in range(len(x))])
    assert (got["refused"] == refused).all()
    assert np.isnan(got["number"][refused]).all()
    kept = torch.from_numpy(~refused)
    if not kept.any():
        return refused
    told = answer_rows(found, x[kept])
    np.testing.assert_allclose(got["number"][~refused], told.predicted, atol=2e-5)
    np.testing.assert_allclose(got["interval"][~refused], told.interval, atol=2e-5)
    low, high = np.nanmin(got["lower"][~refused], 1), np.nanmax(got["upper"][~refused], 1)
    np.testing.assert_allclose(low, told.low, atol=1e-6)
    np.testing.assert_allclose(high, told.high, atol=1e-6)
    for values in (got["number"], *got["interval"].T):  # without tolerance
        inside = (got["lower"] <= values[:, None]) & (values[:, None] <= got["upper"])
        assert inside.any(1)[~refused].all()
    return refused


#: Every range once with some expert; all pairs take a minute.
SOME = list(zip([*POINTS] * 2, RANGES, strict=True))
ALL = [(point, limit) for point in POINTS for limit in RANGES if (point, limit) not in SOME]


@pytest.mark.parametrize(
    ("point", "limit"), [*SOME, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in ALL)]
)
def test_every_source_is_compiled(point, limit):
    known = Knowledge(POINTS[point], RANGES[limit], 0.4, conflict="project", empty="all")
    compared(bundle(known), rows(60))


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("spread", [None, 0.8])
def test_an_ordinal_head_hears_the_number_or_its_bin(between, spread):
    known = Knowledge(POINTS["first"], RANGES["meet"], 0.0, spread=spread, empty="all")
    net = ordinal(3, BINS.k, start="expert", reach=0.2, between=between)
    compared(bundle(known, seed=4, net=net), rows(60))


@pytest.mark.parametrize(
    ("trust", "hears", "spread", "conflict"),
    [
        (0.0, True, None, "abstain"),
        (0.3, False, None, "project"),
        (0.3, True, 0.8, "abstain"),
        (1.0, False, None, "abstain"),
        (1.0, True, 0.8, "project"),
    ],
)
def test_trust_hearing_and_a_soft_expert(trust, hears, spread, conflict):
    known = Knowledge(
        POINTS["first"], RANGES["meet"], trust, spread=spread, conflict=conflict, empty="all"
    )
    compared(bundle(known, hears=hears, seed=4), rows(60))


def test_rows_without_a_set_crossed_limits_and_conflicts_are_refused():
    empty = Knowledge(None, rules("x,then\n> 8,>= 12\n", "range"))
    assert compared(bundle(empty), rows()).any()
    crossed = Knowledge(None, Between(formula("x"), formula("5")), empty="all")
    assert compared(bundle(crossed), rows()).any()
    apart = AllOf((BETWEEN, rules("x,then\n> 8,<= 3\n", "range")))
    assert compared(bundle(Knowledge(None, apart)), rows()).any()
    assert not compared(bundle(Knowledge(None, apart, empty="all")), rows()).any()
    strict = Knowledge(formula("x"), Between(formula("x - 1"), formula("8")), 0.2, conflict="error",
                     empty="all")  # fmt: skip
    assert compared(bundle(strict), rows()).any()
    split = Knowledge(AGREED, None, 0.2, conflict="project")
    assert compared(bundle(split), rows()).any()


def test_what_is_no_table_or_formula_is_refused_by_name():
    known = Knowledge(None, Between(lambda x: x[:, 0], None), empty="all")
    model = PersonalRegressor(mlp(3, BINS.k, hidden=()), BINS, known)
    from fedlore.bundle.onnx.regressor import regressor_to_onnx

    with pytest.raises(FedloreError, match="is Python code and cannot be put into a graph"):
        regressor_to_onnx(model, SCHEMA)
