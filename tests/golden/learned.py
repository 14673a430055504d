"""Small trainings whose rows are frozen: lore on coke and on four sets of numbers, one deployed."""

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from . import surface
from .cases import HERE, REPO

LEARNED = HERE / "learned.json"
#: Training adds up in an order that the processor chooses; bits are asked for by name.
WITHIN = 0.0 if os.environ.get("FEDLORE_GOLDEN") == "bits" else 0.02

RUN = """name = "golden"
rounds = 2
seed = 0
scale = true

[run]
sites = "sites"
approaches = ["lore"]

[model]
kind = "mlp"
hidden = [6]

[plan]
epochs = 1
batch = 16
lr = 0.05
"""
KNOWN = """trust = 0.2
outside = "widen"

[target]
name = "y"
lower = -10
upper = 10
bins = 12
"""
NUMBERS = {
    "plain": "",
    "formula": '\n[[predict.sources]]\nformula = "a + 0.5 * b"\n',
    "range": '\n[[range.sources]]\nlower = "a - 4"\nupper = "a + 5"\n',
    "both": '\n[[predict.sources]]\nformula = "a"\n\n[[range.sources]]\nlower = "a - 3.5"\n',
}


def number_sites(name: str, folder: Path) -> Path:
    """Two sites with rows of a line plus a bend, of different noise."""
    for place, noise in enumerate((0.5, 1.0)):
        home = folder / "sites" / f"site-{place}"
        home.mkdir(parents=True)
        features = "".join(
            f'\n[[features]]\nname = "{letter}"\nlow = -4\nhigh = 4\n' for letter in "abc"
        )
        (home / "knowledge.toml").write_text(KNOWN + NUMBERS[name] + features)
        draw = np.random.default_rng(100 * place + len(name))
        for file, count in (("train.csv", 40), ("test.csv", 30)):
            x = draw.uniform(-2, 2, (count, 3)).round(4)
            y = x[:, 0] + 0.5 * x[:, 1] + np.abs(x[:, 2]) + noise * draw.normal(size=count)
            lines = [",".join(map(repr, map(float, row))) for row in np.c_[x, y.round(4)]]
            (home / file).write_text("\n".join(["a,b,c,y", *lines]) + "\n")
    (folder / "federation.toml").write_text(RUN)
    return folder


def coke_sites(folder: Path) -> Path:
    text = RUN.replace('"sites"', json.dumps(str(REPO / "examples" / "coke")))
    (folder / "federation.toml").write_text(text)
    return folder


def learn(name: str, folder: Path) -> list[dict]:
    folder = coke_sites(folder) if name == "coke" else number_sites(name, folder)
    return surface.lore_rows(folder / "federation.toml", folder / "out")


TRAININGS = ("coke", *NUMBERS)


def freeze(only: list[str]) -> None:
    found = json.loads(LEARNED.read_text()) if only else {}
    for name in only or (*TRAININGS, "deployed"):
        with tempfile.TemporaryDirectory() as folder:
            made = surface.deployed if name == "deployed" else lambda f, n=name: learn(n, f)
            found[name] = made(Path(folder))
    LEARNED.write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    freeze(sys.argv[1:])
