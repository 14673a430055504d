"""`own best` written once more with scikit-learn alone: the yardstick of fedlore's own.

Nothing of fedlore is imported here. Given a site's rows and what its expert says of them, each
function does what a careful analyst of that site would: cross-validate ridge, extra trees and
boosted trees with and without the expert's word, all behind the range, and keep the best.
`tests/studies/test_own_best.py` compares it with `fedlore.personal.own`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from studies.own_learners import Grid, class_grids, log_between, number_grids, ordinal_grid

Array = Any
FOLDS = 5
WIDTHS = np.array([0.6, 0.75, 0.9, 1.05, 1.25, 1.6])
SHARPNESS = np.logspace(-1.0, 0.5, 16)


@dataclass(frozen=True)
class Rows:
    """A part of a site's rows: features, the expert's columns, his number or place, the label."""

    x: Array  # (n, d)
    heard: Array  # (n, h)
    start: Array  # (n,)
    y: Array  # (n,)

    def inputs(self, hears: bool) -> Array:
        return np.hstack([self.x, self.heard]) if hears else self.x


@dataclass(frozen=True)
class Found:
    """One learner: its name, its cross-validated error, its outputs at the test rows."""

    name: str
    error: float
    test: Array


def best_number(train: Rows, test: Rows, ends: tuple[Array, ...], *, seed: int) -> Found:
    """The best number; `ends` are (low, high) of the range at training and at test rows."""
    low, high, low_test, high_test = ends

    def judge(held: Array) -> tuple[float, Array]:
        return float(np.mean((np.clip(held, low, high) - train.y) ** 2)), None

    every = []
    for name, grid in number_grids(seed).items():
        every += _modes(name, grid, train, test, seed, judge, over=True)
    best = min(every, key=lambda f: f.error)
    return Found(best.name, best.error, np.clip(best.test, low_test, high_test))


def best_order(
    train: Rows, test: Rows, allowed: Array, allowed_test: Array, *, classes: int, seed: int
) -> Found:
    """The best model of ordered classes: a place behind the range, with one width."""
    y = train.y.astype(int)

    def judge(held: Array) -> tuple[float, Array]:
        widths = WIDTHS * max(np.sqrt(np.mean((held - y) ** 2)), 0.3)
        rows = [_masses(held, w, allowed) for w in widths]
        return _judge_classes(rows, widths, y, by_errors=False)

    every = _modes("ordinal linear", ordinal_grid(classes), train, test, seed, judge, over=False)
    for name, grid in number_grids(seed).items():
        every += _modes(name, grid, train, test, seed, judge, over=True)
    best = min(every, key=lambda f: f.error)
    place, width = best.test
    return Found(best.name, best.error, _masses(place, width, allowed_test))


def best_classes(
    train: Rows, test: Rows, allowed: Array, allowed_test: Array, *, classes: int, seed: int
) -> Found:
    """The best model of classes without order."""
    y = train.y.astype(int)

    def judge(held: Array) -> tuple[float, Array]:
        rows = [_masked(s * held, allowed) for s in SHARPNESS]
        return _judge_classes(rows, SHARPNESS, y, by_errors=True)

    every = []
    for name, grid in class_grids(classes, seed).items():
        every += _modes(name, grid, train, test, seed, judge, over=False)
    best = min(every, key=lambda f: f.error)
    logits, sharp = best.test
    return Found(best.name, best.error, _masked(sharp * logits, allowed_test))


def _modes(
    name: str, grid: Grid, train: Rows, test: Rows, seed: int, judge: Any, *, over: bool
) -> list[Found]:
    """The grid hearing the expert, then over him and without him with what was near the best."""
    found, kept = [], grid
    for words, hears, above in (
        (", hearing the expert", True, False),
        (", over the expert", True, True),
        ("", False, False),
    ):
        if above and not over:
            continue
        inputs, target = train.inputs(hears), train.y - train.start * above
        scores = []
        for setting, fit, _ in kept:
            held = None
            for rest, out in KFold(FOLDS, shuffle=True, random_state=seed).split(inputs):
                said = fit(inputs[rest], target[rest], True)(inputs[out])
                held = np.empty((len(inputs), *said.shape[1:])) if held is None else held
                held[out] = said
            assert held is not None
            scores.append((*judge(held + _lift(train.start * above, held)), setting, fit))
        error, extra, setting, fit = min(scores, key=lambda s: s[0])
        if words == ", hearing the expert":
            shape = setting.split("/")[0]
            kept = [g for g in grid if g[2] or g[0] == setting or g[0].split("/")[0] == shape]
        outputs = fit(inputs, target, False)(test.inputs(hears))
        outputs = outputs + _lift(test.start * above, outputs)
        found.append(Found(name + words, error, outputs if extra is None else (outputs, extra)))
    return found


def _lift(start: Array, outputs: Array) -> Array:
    return start.reshape(-1, *[1] * (outputs.ndim - 1))


def _judge_classes(
    rows: list[Array], widths: Array, y: Array, *, by_errors: bool
) -> tuple[float, float]:
    """The likeliest width, and how bad it is: -log p, or the share of wrong classes."""
    costs = [-np.maximum(r[np.arange(len(y)), y], -20.0).mean() for r in rows]
    best = int(np.argmin(costs))
    wrong = float(np.mean(rows[best].argmax(1) != y))
    # between equal shares the likelihood decides
    error = wrong + 1e-3 * costs[best] if by_errors else float(costs[best])
    return error, float(widths[best])


def _masses(place: Array, width: float, allowed: Array) -> Array:
    k = allowed.shape[1]
    ends = np.concatenate([[-np.inf], np.arange(1, k) - 0.5, [np.inf]])
    z = (ends - place[:, None]) / width
    return _masked(log_between(z[:, :-1], z[:, 1:]), allowed)


def _masked(logits: Array, allowed: Array) -> Array:
    inside = np.where(allowed, logits, -np.inf)
    top = inside.max(1, keepdims=True)
    return inside - top - np.log(np.exp(inside - top).sum(1, keepdims=True))
