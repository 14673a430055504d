"""The example of a mechanism as knowledge: it runs, and it solves its equation."""

import doctest
import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from fedlore.core.examples import Examples
from fedlore.knowledge import Knowledge

PATH = Path(__file__).parents[2] / "examples" / "reactor.py"


@pytest.fixture(scope="module")
def reactor():
    pytest.importorskip("scipy")
    spec = importlib.util.spec_from_file_location("reactor_example", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reactor_example"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["reactor_example"]


def test_its_page_is_true(reactor):
    found = doctest.testmod(reactor)
    assert found.attempted >= 4 and found.failed == 0


def test_at_a_steady_temperature_the_solution_is_known(reactor):
    """1 - exp(-k t), if the charge starts at the temperature of the wall."""
    oven = reactor.Oven(start=1273.0)
    x = torch.tensor([[1000.0, hours, 5.0] for hours in (1.0, 5.0, 20.0)], dtype=torch.float64)
    speed = oven.rate * torch.exp(torch.tensor(-oven.barrier / (8.314e-3 * 1273.0)))
    assert torch.allclose(oven(x), 1 - torch.exp(-speed * x[:, 1]), atol=1e-7)


def test_hotter_longer_and_drier_coke_more(reactor):
    x = torch.tensor(
        [[1050, 18, 8], [1070, 18, 8], [1050, 19, 8], [1050, 18, 7]], dtype=torch.float64
    )
    base, *more = reactor.Oven()(x).tolist()
    assert all(value > base for value in more)


def test_rows_are_solved_alike_in_any_batch(reactor):
    x = reactor.pushes(40).x.double()
    oven = reactor.Oven()
    one_by_one = torch.cat([oven(x[i : i + 1]) for i in range(40)])
    assert torch.allclose(oven(x), one_by_one, atol=1e-6)
    assert oven(x[:0]).shape == (0,)


def test_the_mechanism_is_knowledge(reactor):
    data = reactor.pushes(300)
    known = Knowledge(prediction=reactor.knowledge(), trust=0.3).annotate(data)
    assert known.prior is not None and known.prior.dtype == torch.float32
    audit = Knowledge(prediction=reactor.knowledge()).audit(Examples(data.x, data.y))
    assert audit.hits is not None and audit.hits > 0.75


def test_the_script_prints_its_table(reactor, capsys):
    reactor.main()
    assert "the expert is right on" in capsys.readouterr().out
