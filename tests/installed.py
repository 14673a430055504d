"""A package of somebody else's, installed for one test: a folder on the path with entry points."""

import importlib
import sys
from pathlib import Path

WIDE = '''
"""A model and an algorithm of another package."""

from dataclasses import dataclass

import torch
from torch import nn

from fedlore import FedAvg


class Wide(nn.Module):
    def __init__(self, features, classes, width):
        super().__init__()
        self.first = nn.Linear(features, width)
        self.scale = nn.Parameter(torch.randn(width))
        self.last = nn.Linear(width, classes)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)) * self.scale)


@dataclass(frozen=True)
class WideKind:
    width: int = 5

    def make(self, features, classes, *, hears, seed):
        return Wide(features, classes, self.width)


@dataclass(frozen=True)
class Half(FedAvg):
    """FedAvg that goes half of the way."""

    way: float = 0.5

    def merge(self, state, mean, share):
        part = {k: {n: self.way * t for n, t in b.items()} for k, b in mean.items()}
        return super().merge(state, part, share)


NOT_A_KIND = 7
'''


def install(
    monkeypatch, folder: Path, *, package: str = "widenets", code: str = WIDE, **groups: str
) -> None:
    """Put a distribution on the path; groups as `models="wide = widenets:WideKind"`."""
    module = package.replace("-", "_")
    (folder / f"{module}.py").parent.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(code)
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"[fedlore.{group}]\n{entries}\n" for group, entries in groups.items()]
    (about / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, module, raising=False)
    importlib.invalidate_caches()


def forget(monkeypatch, package: str = "widenets") -> None:
    """Take the module out of memory, so that a test sees whether it is loaded."""
    monkeypatch.delitem(sys.modules, package, raising=False)
