"""The graph of a number says what Python says: number, interval, set and refusal."""

import pytest
import torch
from torch import nn

from fedlore import Bins, Knowledge, mlp
from fedlore.answers import HEARD
from fedlore.bundle.store import bundle_of
from fedlore.core.scaler import Scaler
from fedlore.errors import FedloreError
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.combine import AllOf, FirstOf
from fedlore.knowledge.conformal import ConformalInterval
from fedlore.knowledge.formulas import Formula
from fedlore.knowledge.intervals import Between
from fedlore.knowledge.tables.numbers import parse_numbers_table
from fedlore.knowledge.tables.sheets import parse_sheet
from fedlore.models.regressor import PersonalRegressor

from ...laws.versions import agree_on_bundle
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
LIMITS = rules("x,oven,then\n> 5,,>= 3\n< 7,n,<= 8\n< 3,,2\n", "range")
SAYS = rules("x,then\n> 8,7\n> 4,5.5\n", "predict")
FIRST = FirstOf((SAYS, formula("sqrt(x) + 1")))
AGREED = rules("x,oven,then\n> 8,,7\n> 7,n,5\n", "predict", "unique")


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


def test_a_calibrated_range_and_one_side_are_compiled():
    sides = Between(None, formula("log(x) + 3"))
    for limit in (ConformalInterval(formula("x"), 1.5, 0.1, 20), sides):
        known = Knowledge(FIRST, limit, 0.4, conflict="project", empty="all")
        agree_on_bundle(bundle(known), rows(60))


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("spread", [None, 0.8])
def test_an_ordinal_head_hears_the_number_or_its_bin(between, spread):
    known = Knowledge(FIRST, AllOf((BETWEEN, LIMITS)), 0.0, spread=spread, empty="all")
    net = ordinal(3, BINS.k, start="expert", reach=0.2, between=between)
    agree_on_bundle(bundle(known, seed=4, net=net), rows(60))


def test_rows_without_a_set_crossed_limits_and_conflicts_are_refused():
    empty = Knowledge(None, rules("x,then\n> 8,>= 12\n", "range"))
    assert agree_on_bundle(bundle(empty), rows())[0].any()
    crossed = Knowledge(None, Between(formula("x"), formula("5")), empty="all")
    assert agree_on_bundle(bundle(crossed), rows())[0].any()
    apart = AllOf((BETWEEN, rules("x,then\n> 8,<= 3\n", "range")))
    assert agree_on_bundle(bundle(Knowledge(None, apart)), rows())[0].any()
    assert not agree_on_bundle(bundle(Knowledge(None, apart, empty="all")), rows())[0].any()
    strict = Knowledge(formula("x"), Between(formula("x - 1"), formula("8")), 0.2, conflict="error",
                     empty="all")  # fmt: skip
    assert agree_on_bundle(bundle(strict), rows())[0].any()
    split = Knowledge(AGREED, None, 0.2, conflict="project")
    assert agree_on_bundle(bundle(split), rows())[0].any()


def test_what_is_no_table_or_formula_is_refused_by_name():
    known = Knowledge(None, Between(lambda x: x[:, 0], None), empty="all")
    model = PersonalRegressor(mlp(3, BINS.k, hidden=()), BINS, known)
    from fedlore.bundle.onnx.regressor import regressor_to_onnx

    with pytest.raises(FedloreError, match="is Python code and cannot be put into a graph"):
        regressor_to_onnx(model, SCHEMA)
