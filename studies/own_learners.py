"""The learners of the stand-alone `own best`, each with its settings, from scikit-learn alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

Array = Any
RIDGE = tuple(10.0 ** (i / 2) for i in range(-8, 3))
ORDINAL = tuple(10.0 ** (i / 2) for i in range(-6, 2))
LOGISTIC = tuple(10.0 ** (i / 2) for i in range(0, -7, -1))
LEAST = (1, 3)
BOOSTING = (
    ((0.08, 4, 5), (30, 60, 120, 200)),
    ((0.08, 8, 5), (30, 60, 120)),
    ((0.08, 16, 10), (30, 60, 100)),
)
CLASS_BOOSTING = (((0.15, 4, 5), (10, 20, 40, 60)), ((0.15, 12, 5), (10, 20, 30, 40)))
SMOOTH = 0.02

Fit = Callable[[Array, Array, bool], Callable[[Array], Array]]  # inputs, target, in CV -> predict
Grid = list[tuple[str, Fit, bool]]  # setting, how to fit it, whether to try it in every mode


def number_grids(seed: int) -> dict[str, Grid]:
    """Learners of a number."""

    def ridge(penalty: float, quadratic: bool) -> Fit:
        def fit(x: Array, t: Array, _: bool) -> Callable[[Array], Array]:
            steps = [StandardScaler()]
            if quadratic:
                steps += [PolynomialFeatures(2, include_bias=False), StandardScaler()]
            return make_pipeline(*steps, Ridge(penalty * len(x))).fit(x.astype(float), t).predict

        return fit

    def forest(least: int) -> Fit:
        def fit(x: Array, t: Array, trying: bool) -> Callable[[Array], Array]:
            trees = ExtraTreesRegressor(
                60 if trying else 300, min_samples_leaf=least, random_state=seed
            )
            return TransformedTargetRegressor(trees, transformer=StandardScaler()).fit(x, t).predict

        return fit

    def boosted(rate: float, leaves: int, least: int, steps: int) -> Fit:
        def fit(x: Array, t: Array, _: bool) -> Callable[[Array], Array]:
            machine = HistGradientBoostingRegressor(
                learning_rate=rate,
                max_leaf_nodes=leaves,
                min_samples_leaf=least,
                max_iter=steps,
                l2_regularization=1.0,
                early_stopping=False,
                random_state=seed,
            )
            whole = TransformedTargetRegressor(machine, transformer=StandardScaler())
            return whole.fit(x, t).predict

        return fit

    return {
        "ridge": [(f"{p}", ridge(p, False), True) for p in RIDGE],
        "quadratic ridge": [(f"{p}", ridge(p, True), True) for p in RIDGE],
        "extra trees": [(f"{n}", forest(n), False) for n in LEAST],
        "boosted trees": [
            (f"{shape}/{steps}", boosted(*shape, steps), False)
            for shape, looks in BOOSTING
            for steps in looks
        ],
    }


def ordinal_grid(classes: int) -> Grid:
    """A linear place and a width, by maximum likelihood."""

    def ordinal(penalty: float) -> Fit:
        def fit(x: Array, t: Array, _: bool) -> Callable[[Array], Array]:
            scaler = StandardScaler().fit(x.astype(float))
            z = np.hstack([scaler.transform(x.astype(float)), np.ones((len(x), 1))])
            low = np.where(t <= 0, -np.inf, t - 0.5)
            high = np.where(t >= classes - 1, np.inf, t + 0.5)

            def loss(at: Array) -> float:
                scale = np.exp(at[-1])  # 1 / width
                place = z @ at[:-1]
                fit = log_between(scale * low - place, scale * high - place).sum()
                return float(-fit / len(x) + 0.5 * penalty * np.sum(at[:-2] ** 2))

            begin = np.zeros(z.shape[1] + 1)
            begin[-2] = t.mean() / max(t.std(), 0.5)
            begin[-1] = -np.log(max(t.std(), 0.5))
            at = minimize(loss, begin, method="L-BFGS-B", options={"maxiter": 2000}).x
            weights = at[:-1] / np.exp(at[-1])

            def predict(rows: Array) -> Array:
                return scaler.transform(rows.astype(float)) @ weights[:-1] + weights[-1]

            return predict

        return fit

    return [(f"{p}", ordinal(p), True) for p in ORDINAL]


def class_grids(classes: int, seed: int) -> dict[str, Grid]:
    """Learners of classes without order, as logits."""

    def spread(shares: Array, present: Array, fill: float) -> Array:
        wide = np.full((len(shares), classes), fill)
        wide[:, present.astype(int)] = shares
        return wide

    def logistic(penalty: float) -> Fit:
        def fit(x: Array, t: Array, _: bool) -> Callable[[Array], Array]:
            model = make_pipeline(
                StandardScaler(), LogisticRegression(C=1 / (penalty * len(x)), max_iter=2000)
            ).fit(x.astype(float), t)
            return lambda rows: spread(model.predict_log_proba(rows), model.classes_, -30.0)

        return fit

    def forest(least: int) -> Fit:
        def fit(x: Array, t: Array, trying: bool) -> Callable[[Array], Array]:
            model = ExtraTreesClassifier(
                60 if trying else 300, min_samples_leaf=least, random_state=seed
            ).fit(x, t)

            def predict(rows: Array) -> Array:
                votes = spread(model.predict_proba(rows), model.classes_, 0.0)
                return np.log((1 - SMOOTH) * votes + SMOOTH / classes)

            return predict

        return fit

    def boosted(rate: float, leaves: int, least: int, steps: int) -> Fit:
        def fit(x: Array, t: Array, _: bool) -> Callable[[Array], Array]:
            model = HistGradientBoostingClassifier(
                learning_rate=rate,
                max_leaf_nodes=leaves,
                min_samples_leaf=least,
                max_iter=steps,
                l2_regularization=1.0,
                early_stopping=False,
                random_state=seed,
            ).fit(x, t)
            return lambda rows: spread(
                np.log(np.maximum(model.predict_proba(rows), 1e-13)), model.classes_, -30.0
            )

        return fit

    return {
        "logistic": [(f"{p}", logistic(p), True) for p in LOGISTIC],
        "extra trees": [(f"{n}", forest(n), False) for n in LEAST],
        "boosted trees": [
            (f"{shape}/{steps}", boosted(*shape, steps), False)
            for shape, looks in CLASS_BOOSTING
            for steps in looks
        ],
    }


def log_between(low: Array, high: Array) -> Array:
    """log[Φ(high) - Φ(low)]."""
    flip = low + high > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    upper = log_ndtr(b)
    with np.errstate(divide="ignore"):
        return upper + np.log(-np.expm1(log_ndtr(a) - upper))
