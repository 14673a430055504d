"""Trees of scikit-learn made plain tables, and what all that grow them need."""

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import FedloreError
from .trees import LEAF, Trees

#: A tree of a library: left, right, feature (below 0 at leaves), threshold, value, node by node.
Grown = tuple[Any, Any, Any, Any, Any]


def has_trees() -> bool:
    """Whether scikit-learn is there to grow trees."""
    return importlib.util.find_spec("sklearn") is not None


def ensembles() -> Any:
    """scikit-learn's trees, or an error that says what to install."""
    try:
        return importlib.import_module("sklearn.ensemble")
    except ImportError:
        raise FedloreError("trees need scikit-learn: pip install 'fedlore[sklearn]'") from None


def calmly() -> Any:
    """scikit-learn without the checks that cost as much as growing a small tree."""
    package = importlib.import_module("sklearn")
    return package.config_context(skip_parameter_validation=True, assume_finite=True)


def level_of(target: Tensor) -> tuple[float, float]:
    """Mean and spread of the numbers: trees learn them standardised, so float32 leaves do."""
    spread = float(target.double().std(correction=0))
    return float(target.double().mean()), spread if spread > 0 else 1.0


def labels(target: Tensor, classes: int | None) -> Any:
    """What scikit-learn is given to learn: classes, or standardised numbers."""
    if classes is not None:
        return target.numpy()
    middle, spread = level_of(target)
    return ((target.double().squeeze(1) - middle) / spread).numpy()


def bound_signs(signs: Sequence[float], inputs: int) -> list[int] | None:
    """Signs of inputs as scikit-learn takes them; what is withheld holds nothing to split by."""
    return [0 if s != s else int(s) for s in signs[:inputs]] if signs else None


def grow_tables(
    grown: Sequence[Grown],
    base: Sequence[float],
    scale: Sequence[float],
    outputs: Sequence[int] | None = None,
) -> Trees:
    """Trees of a library as one set of tables: siblings beside each other, leaves apart."""
    features, thresholds, children, values, roots = [], [], [], [], []
    nodes = leaves = depth = 0
    for left, right, feature, threshold, value in grown:
        order, levels = _bylevel(left, right, feature)
        place = np.empty(len(left), dtype=np.int64)
        place[order] = np.arange(len(order))
        is_leaf = feature[order] < 0
        below = np.where(is_leaf, 0, place[np.maximum(left[order].astype(np.int64), 0)]) + nodes
        below[is_leaf] = leaves + np.arange(int(is_leaf.sum()))
        roots.append(nodes)
        features.append(np.where(is_leaf, LEAF, feature[order]))
        thresholds.append(np.where(is_leaf, 0.0, threshold[order]))
        children.append(below)
        values.append(value[order][is_leaf].reshape(int(is_leaf.sum()), -1))
        nodes += len(order)
        leaves += int(is_leaf.sum())
        depth = max(depth, levels)
    return Trees(
        torch.from_numpy(np.concatenate(features).astype(np.int16)),
        torch.from_numpy(_rounded_down(np.concatenate(thresholds))),
        torch.from_numpy(np.concatenate(children).astype(np.int32)),
        torch.tensor(roots, dtype=torch.int32),
        torch.from_numpy(np.concatenate(values).astype(np.float32)),
        torch.tensor(outputs or [0] * len(roots), dtype=torch.int16),
        torch.tensor(base, dtype=torch.float64),
        torch.tensor(scale, dtype=torch.float64),
        depth,
    )


def _bylevel(left: Any, right: Any, feature: Any) -> tuple[Any, int]:
    """The nodes of a tree from the root down, siblings beside each other; and its depth."""
    row = np.zeros(1, dtype=np.int64)
    order, depth = [row], 0
    while True:
        inner = row[feature[row] >= 0]
        if len(inner) == 0:
            return np.concatenate(order), depth
        row = np.stack([left[inner], right[inner]], 1).astype(np.int64).ravel()
        order.append(row)
        depth += 1


def _rounded_down(threshold: Any) -> Any:
    """The largest float32 not above each number: a float32 lies below both or above both."""
    near = threshold.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf))
    return np.where(near.astype(np.float64) > threshold, below, near)
