"""Bounds of random formulas against the points where rounding bites, in the precision that runs."""

import numpy as np
import pytest
import torch

from fedlore.kernel.expressions import parse, value
from fedlore.kernel.intervals import Boxes
from fedlore.kernel.schema import name_columns
from fedlore.knowledge.formulas.enclosure import enclose
from fedlore.knowledge.formulas.formula import Formula

NAMES = ("x", "y", "z")
SCHEMA = name_columns(NAMES, ("no", "yes"))
SINGLE = np.float32
NUMBERS = (0.0, 1.0, 2.0, 3.0, 0.5, 0.1, 12.1, 100.0, 1e-3, 1e-30, 1e20, 3e38, 1.2e-38, 200.0)
AWKWARD = [
    0.0,
    -0.0,
    2.0**-149,
    2.0**-126,
    2.0**-126 - 2.0**-149,
    3.4028234663852886e38,
    1e19,
    1e-20,
]


def draw_tree(draw, depth):
    """A formula as text, with every operator and awkward numbers."""
    if depth == 0 or draw.random() < 0.15:
        name = NAMES[draw.integers(3)]
        return name if draw.random() < 0.6 else repr(float(draw.choice(NUMBERS)))
    part = [draw_tree(draw, depth - 1) for _ in range(3)]
    kind = draw.integers(10)
    if kind < 5:
        op = ("+", "-", "*", "/", "**")[draw.integers(5)]
        if op == "**" and draw.random() < 0.7:
            part[1] = ("2", "3", "(-1)", "(-2)", "(-3)", "0.5", "(-0.5)", "1", "0")[
                draw.integers(9)
            ]
        return f"({part[0]} {op} {part[1]})"
    if kind < 8:
        op = ("-", "log", "log10", "exp", "sqrt", "abs")[draw.integers(6)]
        return f"(-{part[0]})" if op == "-" else f"{op}({part[0]})"
    if kind == 8:
        return f"{('min', 'max')[draw.integers(2)]}({part[0]}, {part[1]})"
    truth = f"{part[2]} {('<', '<=', '>', '>=', '==', '!=')[draw.integers(6)]} {draw_tree(draw, 1)}"
    if draw.random() < 0.3:
        other = f"{draw_tree(draw, 1)} > {draw_tree(draw, 0)}"
        truth = f"({truth}) {('and', 'or')[draw.integers(2)]} not ({other})"
    return f"where({truth}, {part[0]}, {part[1]})"


def near(numbers):
    """Numbers with their neighbours in single precision, either sign."""
    with np.errstate(over="ignore"):
        found = np.array([*numbers, *AWKWARD], SINGLE)
        found = np.concatenate([found, -found])
        ways = [np.nextafter(found, SINGLE(way)) for way in (-np.inf, np.inf)]
    found = np.concatenate([found, *ways])
    return found[np.isfinite(found)]


def check_formula(draw, count):
    """Bounds of one formula over some boxes, against points of each; those that were violated."""
    text = draw_tree(draw, draw.integers(1, 5))
    formula = Formula.parse(text, SCHEMA)
    tree = parse(text, SCHEMA.features)
    spots = near([step.value for step in formula.steps if step.op == "number"])
    ends = np.where(
        draw.random((2, count, 3)) < 0.7,
        draw.choice(spots, (2, count, 3)),
        draw.normal(0, 10.0 ** draw.integers(-3, 4), (2, count, 3)).astype(SINGLE),
    )
    low, high = ends.min(0), ends.max(0)  # (boxes, 3)
    share = draw.random((count, 24, 3))
    share[:, :8] = share[:, :8].round()
    with np.errstate(over="ignore"):
        wide = low[:, None].astype(float) * (1 - share) + high[:, None].astype(float) * share
    x = np.where(draw.random(wide.shape) < 0.4, draw.choice(spots, wide.shape), wide)
    x = x.astype(SINGLE).clip(low[:, None], high[:, None])  # (boxes, 24, 3)
    rows = x.reshape(-1, 3)
    corners = torch.from_numpy(low).double(), torch.from_numpy(high).double()
    theirs = Boxes(low.astype(float), high.astype(float)).bounds(tree)
    wrong = []
    for dtype in (torch.float32, torch.float64):
        found = enclose(formula.steps, *corners, dtype)
        computed = formula(torch.from_numpy(rows).to(dtype)).double().numpy().reshape(count, -1)
        known = np.isfinite(computed)
        ours = found.low.numpy()[:, None], found.high.numpy()[:, None]
        wrong += [_outside(text, f"issuer, {dtype}", computed, known, *ours)]
        if not (known | found.undefined.numpy()[:, None]).all():
            wrong.append(f"{text}: undefined where it should not be, {dtype}")
        if dtype == torch.float32:
            pair = theirs[0][:, None], theirs[1][:, None]
            wrong.append(_outside(text, "checker", computed, known, *pair))
            again = value(tree, rows).astype(float).reshape(count, -1)
            wrong.append(_outside(text, "checker's own", again, np.isfinite(again), *pair))
    return [one for one in wrong if one]


def _outside(text, who, computed, known, low, high):
    with np.errstate(invalid="ignore"):
        bad = known & ~((low <= computed) & (computed <= high))
    if not bad.any():
        return None
    box, row = np.argwhere(bad)[0]
    return f"{text} ({who}): {computed[box, row]!r} outside {low[box, 0]!r} to {high[box, 0]!r}"


def hunt(formulas, seed, boxes=6):
    wrong = []
    draw = np.random.default_rng(seed)
    for _ in range(formulas):
        wrong += check_formula(draw, boxes)
    return wrong


def test_no_bound_is_violated():
    assert hunt(250, seed=1) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_no_bound_of_twenty_thousand_formulas_is_violated(part):
    assert hunt(2_000, seed=100 + part) == []
