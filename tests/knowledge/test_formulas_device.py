"""Knowledge on another device says what it says on the CPU."""

import pytest
import torch

from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.combine import AllOf, AnyOf, Average, FirstOf
from fedlore.knowledge.conformal import ConformalRange
from fedlore.knowledge.estimators import from_torch
from fedlore.knowledge.formulas import Formula, FormulaRange, GradedFormula

DEVICES = ["cpu", *["cuda"] * torch.cuda.is_available()]  # on the CPU the checks themselves hold

SCHEMA = Schema(
    (Feature("ash", low=0, high=30), Feature("vm", low=10, high=40), Feature("ro", low=-2, high=2)),
    ("poor", "fair", "good"),
)
FORMULAS = (
    "ash * vm - ro / 2 + 1",
    "log(ash) + log10(vm) + exp(ro) + sqrt(ro) + abs(ro)",
    "vm ** ro + ro ** 2 + ash ** 0.5 + 2 ** ro + 3 ** 2",
    "where(ro > 0 and log(ro) < 0 or not ash >= 15, min(ash, vm, 3), max(1 / ro, 2))",
    "where(ash == 0, 1 / 0, where(ro != 0, 5, 6))",
    "7",
)
EDGES = (10.0, 20.0)


def rows(n: int) -> torch.Tensor:
    share = torch.rand(n, 3, generator=torch.Generator().manual_seed(n))
    x = torch.tensor([0.0, 10.0, -2.0]) + torch.tensor([30.0, 30.0, 4.0]) * share
    x[:3] = torch.tensor([[0.0, 10.0, 0.0], [1.0, torch.nan, 1.0], [torch.inf, 20.0, -1.0]])
    return x


def models():
    """Knowledge of every kind in these files, by name."""
    number = Formula.parse("ash / vm * 20", SCHEMA)
    pkm = GradedFormula(number, EDGES)
    band = FormulaRange(
        Formula.parse("ash / vm * 20 - 3", SCHEMA),
        Formula.parse("ash / vm * 20 + 3", SCHEMA),
        EDGES,
    )
    net = torch.nn.Linear(3, 3, dtype=torch.float64)
    soft = from_torch(net, soft=True)
    sets = ConformalRange(lambda x: soft(x.nan_to_num(0, 0, 0)), (0.7, 0.8, 0.9), 0.1)
    spread = ConformalRange(lambda x: soft(x.nan_to_num(0, 0, 0)), (0.7, 0.8, 0.9), 0.1, "aps")
    return {
        "graded": pkm,
        "band": band,
        "sets": sets,
        "spread": spread,
        "all": AllOf((band, sets), empty="first"),
        "any": AnyOf((band, sets)),
        "first": FirstOf((pkm, lambda x: soft(x.nan_to_num(0, 0, 0)))),
        "average": Average((pkm, lambda x: soft(x.nan_to_num(0, 0, 0))), (1, 2)),
    }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_computed_alike(text, device):
    formula = Formula.parse(text, SCHEMA)
    for dtype in (torch.float32, torch.float64):
        x = rows(5_000).to(dtype)
        here, there = formula(x), formula(x.to(device))
        assert there.device.type == device
        torch.testing.assert_close(there.cpu(), here, rtol=1e-5, atol=1e-5, equal_nan=True)
        parts = torch.cat([formula(part.to(device)) for part in (x[:1], x[1:70], x[70:])])
        torch.testing.assert_close(parts, there, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", models())
def test_models_answer_alike(name, device):
    model, x = models()[name], rows(5_000).double()
    there = model(x.to(device))
    assert there.device.type == device
    torch.testing.assert_close(there.cpu(), model(x), rtol=1e-9, atol=1e-9)
