"""Studies small enough for tests: real Covtype rows, few of them, and few rounds."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from fedlore.algorithms import Plan
from fedlore.data import covtype
from fedlore.data import public as sources
from fedlore_coke.coal import Cokes, MeasuredCokes
from fedlore_coke.demo import Demo
from fedlore_lab.paper import tasks
from fedlore_lab.paper.realcoke import RO, RO_MEASURED, VOLATILE, RealCase

TOML = """
about = "small"
[covtype]
ranges = ["oracle", "conformal90"]
train = 0.3
test_rows = 150
rounds = { 20 = 3, 50 = 2 }
plan = { epochs = 5, batch = 16, lr = 0.1, schedule = "cosine" }
expert = { sees = 16, plan = { epochs = 4, lr = 0.1, momentum = 0.0 } }
[fmnist]
ranges = ["oracle"]
rounds = { 1 = 1 }
plan = {}
expert = { sees = 2, plan = {} }
"""


@cache
def some_rows():
    """3,780 rows, 540 of each class: the validation block of the packaged file."""
    return covtype(Path(sources.__file__).parent / "files")[11340:15120]


def small_task() -> tasks.PaperTask:
    return replace(tasks.PAPER_TASKS["covtype"], load=lambda: (some_rows(), None))


def protocol(folder: Path, **changes: str) -> str:
    """The path of a protocol; `changes` replace words of its text."""
    text = TOML
    for old, new in changes.items():
        text = text.replace(old, new)
    path = folder / "small.toml"
    path.write_text(text)
    return str(path)


QUICK = Demo(rounds=1, hidden=(4,), test_rows=30, plan=Plan(epochs=1))
FEW = RealCase(rounds=1, folds=3, hidden=(4,), plan=Plan(epochs=1))


def coals(n: int, seed: int, *, reflectance: bool = True) -> MeasuredCokes:
    draw = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 16, generator=draw)
    x[:, VOLATILE] = 20 + 10 * x[:, VOLATILE]
    x[:, RO] = 0.8 + x[:, RO]
    x[:, RO_MEASURED] = float(reflectance)
    noise = torch.randn(n, generator=draw, dtype=torch.float64)
    return MeasuredCokes(x, 95 - 1.7 * x[:, VOLATILE].double() + 4 * noise)


def some_cokes() -> Cokes:
    """Two sites with coals that nobody measured."""
    return Cokes({"a": coals(20, 1), "b": coals(15, 2, reflectance=False)}, {})
